#include "ramet/graphs/graph_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/rng.h"
#include "ramet/graphs/transform.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

/// One graph of `nodes` nodes with random edges (some twice, some to the node itself, some nodes without any), 5
/// features that tell a node's kind, and 8 parts of different sizes.
GraphTables drawn_graph(int64_t nodes, uint64_t seed) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 1;
  const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
  uint64_t next = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int32_t>(random.below(next++, static_cast<uint32_t>(bound)));
  };
  std::vector<float> x;
  std::vector<int32_t> kind, part;
  std::vector<uint8_t> split;
  for (int64_t i = 0; i < nodes; ++i) {
    kind.push_back(below(3));
    for (int32_t k = 0; k < 5; ++k)
      x.push_back(static_cast<float>(k == kind.back() ? 1 : 0) + 0.1f * static_cast<float>(below(5)));
    split.push_back(static_cast<uint8_t>(below(3)));
    part.push_back(i < 8 ? static_cast<int32_t>(i) : std::min(below(8), below(8)));
  }
  for (int64_t e = 0; e < 3 * nodes; ++e) {
    tables.edges[0].source.push_back(below(nodes));
    tables.edges[0].target.push_back(below(2) ? below(nodes) : below(nodes / 4 + 1));
  }
  tables.nodes[0].ptr = {0, nodes};
  tables.edges[0].ptr = {0, std::ssize(tables.edges[0].source)};
  tables.set_field({.name = "x", .of = "node", .shape = Shape{5}}, x);
  tables.set_field({.name = "kind", .of = "node", .dtype = DType::kI32, .values = {"a", "b", "c"}}, kind);
  tables.set_field({.name = "part", .of = "node", .dtype = DType::kI32}, part);
  tables.set_field({.name = "split", .of = "node", .dtype = DType::kU8, .values = {"train", "validation", "test"}},
                   split);
  return tables;
}

const int32_t* numbers(const HostTensor& tensor) { return reinterpret_cast<const int32_t*>(tensor.data.data()); }

TEST(GraphCut, ListsEveryEdgeTwiceInGlobalOrder) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const GraphSet set(drawn_graph(20 + static_cast<int64_t>(seed) * 7, seed), "drawn");
    const auto cut = cut_graph(set);
    ASSERT_EQ(cut->clusters, 8);
    const auto node_of = [&](size_t k, const GraphCut::List& list, int32_t row) {
      const int64_t number =
          row < cut->rows ? static_cast<int64_t>(k) * cut->rows + row
                          : numbers(list.far)[static_cast<int64_t>(k) * list.far.type.shape[1] + row - cut->rows];
      return cut->nodes[static_cast<size_t>(number / cut->rows)][static_cast<size_t>(number % cut->rows)];
    };
    // The edges of each node by its list, with the places of the same edges in the other list.
    const auto walk = [&](const GraphCut::List& list, const auto& visit) {
      for (size_t k = 0; k < 8; ++k)
        for (size_t i = 0; i < cut->nodes[k].size(); ++i)
          for (int32_t e = list.ptr[k][i]; e < list.ptr[k][i + 1]; ++e)
            visit(cut->nodes[k][i], node_of(k, list, list.index[k][static_cast<size_t>(e)]),
                  static_cast<int64_t>(k) * list.edges + e,
                  numbers(list.other)[static_cast<int64_t>(k) * list.edges + e]);
    };
    std::map<int64_t, std::vector<int64_t>> into, out_of;
    std::map<int64_t, int64_t> there, back;
    std::map<int64_t, std::pair<int64_t, int64_t>> ends;
    walk(cut->in, [&](int64_t target, int64_t source, int64_t number, int64_t other) {
      into[target].push_back(source), there[number] = other, ends[number] = {source, target};
    });
    walk(cut->out, [&](int64_t source, int64_t target, int64_t number, int64_t other) {
      out_of[source].push_back(target), back[number] = other;
      EXPECT_EQ(ends.at(other), std::pair(source, target));
    });
    std::map<int64_t, std::vector<int64_t>> expected_into, expected_out;
    for (size_t e = 0; e < set.sources(0).size(); ++e) {
      expected_into[set.targets(0)[e]].push_back(set.sources(0)[e]);
      expected_out[set.sources(0)[e]].push_back(set.targets(0)[e]);
    }
    EXPECT_EQ(into, expected_into);
    EXPECT_EQ(out_of, expected_out);
    for (const auto& [number, other] : there) EXPECT_EQ(back.at(other), number);
  }
}

TEST(GraphCut, RefusesWhatIsNoCut) {
  GraphTables many = drawn_graph(20, 1);
  EXPECT_THAT(error_of([&] { cut_graph(GraphSet(many, "drawn"), "node.x"); }),
              HasSubstr("drawn: node.x: clusters must be whole numbers, one a node"));
  many.set_field({.name = "part", .of = "node", .dtype = DType::kI32}, std::vector<int32_t>(20, 1));
  EXPECT_THAT(error_of([&] { cut_graph(GraphSet(many, "drawn")); }),
              HasSubstr("a cluster has no nodes; found cluster 0 of 2"));
  many.set_field({.name = "part", .of = "node", .dtype = DType::kI32}, std::vector<int32_t>(20, 20));
  EXPECT_THAT(error_of([&] { cut_graph(GraphSet(many, "drawn")); }),
              HasSubstr("node.part, node 0: a node is in a cluster that cannot be; found 20"));
  EXPECT_THAT(error_of([&] { cut_graph(GraphSet(many, "drawn"), "node.cluster"); }), HasSubstr("'node.cluster'"));
}

class CutGraphs : public testing::Test {
 protected:
  void SetUp() override {
    GraphTables tables = drawn_graph(61, 5);
    apply_transform(tables, "self-loops", "edge");
    apply_transform(tables, "gcn", "edge");
    GraphSet(std::move(tables), "drawn").save(folder_ / "drawn.safetensors");
  }

  Recipe recipe(const std::string& kind, const Settings& more = {}) const {
    Settings settings = {"model.kind=" + kind,
                         "model.graph.hidden=8",
                         "model.graph.heads=2",
                         "model.graph.dropout=0.3",
                         "model.graph.attention_dropout=0.2",
                         "data.kind=graphs",
                         "data.graphs.features=node.x",
                         "data.graphs.label=node.kind",
                         "data.graphs.split=node.split",
                         "data.graphs.batch=cut",
                         "train.steps=6",
                         "train.clip_norm=0.5",
                         "train.accumulation=1",
                         "train.lanes=1",
                         "train.schedule.kind=constant",
                         "train.schedule.learning_rate=0.02",
                         "train.evaluation.batches=1",
                         "train.seed=3",
                         "data.graphs.set=" + (folder_ / "drawn.safetensors").string()};
    settings.insert(settings.end(), more.begin(), more.end());
    return parse_recipe("", "graphs.toml", ".", settings);
  }

  TemporaryFolder folder_;
};

TEST_F(CutGraphs, HaveTheSameBitsOnAnyNumberOfDevices) {
  for (const char* kind : {"gcn", "sage", "gat", "gin"}) {
    const Trained expected = train(recipe(kind));
    EXPECT_TRUE(std::isfinite(expected.losses.back()));
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    Settings layouts{"g=2", "g=4 deal=random:2", "g=8 deal=near", "p=2 g=2 deal=random:4"};
    if (kind == std::string("gat"))
      for (const char* more :
           {"threads=2", "g=4", "g=8", "g=2 deal=random:1", "g=8 deal=random:3", "g=2 deal=near", "g=4 deal=near",
            "g=4 deal=5+0+7+2+1+4+3+6", "g=2 phases=2 offload=optimizer", "g=4 recompute=layer deal=near"})
        layouts.emplace_back(more);
    for (const std::string& layout : layouts) {
      SCOPED_TRACE(std::string(kind) + " " + layout);
      expect_same(train(recipe(kind), layout, 3, 2), expected);
    }
  }
}

TEST_F(CutGraphs, HaveTheSameBitsWithReplicas) {
  const Settings more{"train.accumulation=4", "train.lanes=4"};
  const Trained expected = train(recipe("gat", more));
  for (const std::string layout : {"r=2 g=2", "r=4 g=2 deal=random:1 rts=optimizer", "g=4 deal=near"}) {
    SCOPED_TRACE(layout);
    expect_same(train(recipe("gat", more), layout, 3, 2), expected);
  }
}

TEST_F(CutGraphs, LearnAsTheWholeGraph) {
  for (const char* kind : {"gcn", "sage", "gat", "gin"}) {
    Settings plain{"model.graph.dropout=0", "model.graph.attention_dropout=0"};
    // Behind a batch norm whose sums are made in another order, some numbers round to another bf16.
    if (kind == std::string("gin")) plain.emplace_back("train.precision=f32");
    Settings whole = plain;
    for (const char* each : {"data.graphs.batch=count:1", "train.micro_batch=1"}) whole.emplace_back(each);
    const Trained cut = train(recipe(kind, plain), "", 20), expected = train(recipe(kind, whole), "", 20);
    for (size_t step = 0; step < 20; ++step)
      EXPECT_NEAR(cut.losses[step], expected.losses[step], (step == 0 ? 1e-6 : 1e-4) * std::abs(expected.losses[step]))
          << kind << ", step " << step;
    EXPECT_NEAR(number_of(cut.evaluation, "loss"), number_of(expected.evaluation, "loss"), 1e-3);
  }
}

TEST_F(CutGraphs, ContinueOnOtherDevices) {
  const Trained expected = train(recipe("gat"), "", 6);
  Recipe first = recipe("gat");
  set_layout(first, "g=4 deal=random:1");
  Training before = make_training(prepare(first), {.threads = 1});
  before.initialize();
  for (int i = 0; i < 3; ++i) before.step();
  const std::filesystem::path checkpoint = before.save(folder_.path(), 3);
  Recipe second = recipe("gat");
  set_layout(second, "g=2 deal=near");
  Training after = make_training(prepare(second), {.threads = 1});
  after.restore(Checkpoint(checkpoint));
  const Trained rest = train_steps(after, 3);
  EXPECT_EQ(rest.hash, expected.hash);
  EXPECT_EQ(rest.evaluation, expected.evaluation);
}

TEST_F(CutGraphs, SayWhichLayoutsCannotBe) {
  const auto error = [&](const std::string& layout, const Settings& more = {}) {
    return error_of([&] { train(recipe("gcn", more), layout, 1); });
  };
  EXPECT_THAT(error("g=3"), HasSubstr("layout g: every device must get equally many clusters; found g=3 of 8 clusters. "
                                      "With 8 clusters, g may be 1, 2, 4 or 8"));
  EXPECT_THAT(error("g=2 t=2"), HasSubstr("g: the clusters of a graph are dealt where tensor shards would be"));
  EXPECT_THAT(error("g=2 deal=0+1"), HasSubstr("not the number of every cluster once"));
  EXPECT_THAT(error("g=2", {"data.graphs.batch=count:1", "train.micro_batch=1"}),
              HasSubstr("g: the model reads no graph in clusters"));
  EXPECT_THAT(error_of([&] { prepare(recipe("gcn", {"train.micro_batch=4"})); }),
              HasSubstr("a micro-batch of a graph that is cut has all of its clusters; found 4; expected 8"));
  EXPECT_THAT(error_of([&] { prepare(recipe("gcn", {"train.sums=in-order", "train.precision=f32"})); }),
              HasSubstr("train.sums: a graph that is cut sums by a tree over its clusters, and has no sums in order"));
}

}  // namespace
}  // namespace ramet::tests
