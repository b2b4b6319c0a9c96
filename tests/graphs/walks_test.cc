#include "ramet/graphs/walks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "ramet/base/rng.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/transform.h"
#include "ramet/model/node2vec.h"
#include "ramet/recipe/link_evaluator.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using graphs::WalkGraph;
using graphs::WalkOptions;
using graphs::WalkSource;
using testing::HasSubstr;
using Settings = std::vector<std::string>;

/// A graph of these edges, each in both directions, of relation "to".
GraphSet graph_of(const std::vector<std::pair<int, int>>& edges) {
  std::string text;
  for (const auto& [a, b] : edges) {
    text += "n" + std::to_string(a) + "\tto\tn" + std::to_string(b) + "\n";
    if (a != b) text += "n" + std::to_string(b) + "\tto\tn" + std::to_string(a) + "\n";
  }
  return {graphs::parse_triples({{"train", text, "edges.txt"}}), "edges"};
}

/// Two triangles that share a node, with a tail of two nodes and a chord.
GraphSet small_graph() { return graph_of({{0, 1}, {1, 2}, {2, 0}, {2, 3}, {3, 4}, {4, 2}, {4, 5}, {5, 6}, {1, 3}}); }

std::vector<int32_t> walks_of(const WalkSource& source, int64_t first, int64_t count,
                              const std::string& name = "walks") {
  const Batch batch = source.make(first, count);
  const NamedTensor& tensor = batch.at(name);
  const auto* data = reinterpret_cast<const int32_t*>(tensor.bytes.data());
  return {data, data + tensor.type.elements()};
}

/// Steps from v, for walks that came from t, go to x as often as their weights say: chi-square for each (t, v), with a
/// bound that a right sampler exceeds once in about 10^5 draws of all.
TEST(Walks, GoOnAsTheirWeightsSay) {
  const GraphSet set = small_graph();
  for (const auto& [p, q] : {std::pair(1.0, 1.0), {0.25, 4.0}, {4.0, 0.5}}) {
    SCOPED_TRACE(std::to_string(p) + " " + std::to_string(q));
    constexpr int64_t kLength = 6, kGroup = 50, kSamples = 200;
    const WalkSource source(set, {.length = kLength, .per_node = 5, .group = kGroup, .p = p, .q = q, .seed = 11});
    const WalkGraph& graph = source.graph();
    std::map<std::array<int32_t, 3>, double> seen;
    const std::vector<int32_t> nodes = walks_of(source, 0, kSamples);
    for (int64_t walk = 0; walk < kSamples * kGroup; ++walk)
      for (int64_t i = 2; i < kLength; ++i) {
        const int32_t* at = nodes.data() + walk * kLength + i;
        ASSERT_TRUE(graph.has_edge(at[-1], at[0]));
        ++seen[{at[-2], at[-1], at[0]}];
      }
    for (int32_t t = 0; t < graph.nodes(); ++t)
      for (const int32_t v : graph.next(t)) {
        std::map<int32_t, double> weights;
        double sum = 0, count = 0, squares = 0;
        for (const int32_t x : graph.next(v)) {
          weights[x] = x == t ? 1 / p : graph.has_edge(t, x) ? 1 : 1 / q;
          sum += weights[x], count += seen[{t, v, x}];
        }
        ASSERT_GT(count, 100);
        for (const auto& [x, weight] : weights) {
          const double expected = count * weight / sum, difference = seen[{t, v, x}] - expected;
          squares += difference * difference / expected;
        }
        const auto freedom = static_cast<double>(weights.size()) - 1;
        EXPECT_LT(squares, freedom + 6 * std::sqrt(2 * freedom) + 15) << t << " " << v;
      }
  }
}

TEST(Walks, AreFunctionsOfTheirNumbers) {
  const GraphSet set = small_graph();
  const WalkOptions options{.length = 5, .per_node = 3, .group = 7, .negatives = 4, .p = 0.5, .q = 2, .seed = 2};
  const WalkSource source(set, options);
  EXPECT_EQ(source.walks(), 21);
  EXPECT_EQ(source.epoch_samples(0), 3);
  const std::vector<int32_t> all = walks_of(source, 0, 6), later = walks_of(source, 4, 2);
  EXPECT_TRUE(std::equal(later.begin(), later.end(), all.begin() + 4 * 7 * 5));
  // Each node begins as many walks of an epoch as any other.
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::multiset<int32_t> starts;
    for (int walk = epoch * 21; walk < (epoch + 1) * 21; ++walk) starts.insert(all[static_cast<size_t>(walk * 5)]);
    for (int32_t node = 0; node < 7; ++node) EXPECT_EQ(starts.count(node), 3u);
  }
  for (const int32_t node : walks_of(source, 0, 6, "negatives")) EXPECT_TRUE(node >= 0 && node < 7);
  WalkOptions other = options;
  other.seed = 3;
  EXPECT_NE(walks_of(WalkSource(set, other), 0, 6), all);
}

TEST(Walks, StayWhereNoEdgeLeads) {
  const GraphSet set(graphs::parse_triples({{"train", "a\tto\tb\n", "one.txt"}}), "one");
  const WalkSource source(set, {.length = 4, .group = 2, .shuffle = false});
  EXPECT_THAT(walks_of(source, 0, 1), testing::ElementsAre(0, 1, 1, 1, 1, 1, 1, 1));
}

TEST(Walks, BadOptionsAreNamed) {
  EXPECT_THAT(error_of([] { WalkSource(small_graph(), {.p = 0}); }), HasSubstr("p and q above 0"));
  EXPECT_THAT(error_of([] { WalkSource(small_graph(), {.length = 1}); }), HasSubstr("walks have two nodes or more"));
  EXPECT_THAT(error_of([] { build_node2vec(4, {.length = 3, .context = 4}); }),
              HasSubstr("a window of a walk does not fit the walk"));
}

// --- recipes ---

/// The model is one table: it has no layers to cut, and no chunks for tensor shards.
const std::vector<std::string> kLayouts = {"threads=2",
                                           "r=2",
                                           "r=4",
                                           "phases=1",
                                           "phases=1 offload=optimizer",
                                           "recompute=cheap",
                                           "recompute=layer",
                                           "recompute=all",
                                           "offload=optimizer",
                                           "offload=weights",
                                           "offload=grads",
                                           "offload=activations",
                                           "r=2 rts=weights",
                                           "r=2 rts=grads",
                                           "r=2 rts=optimizer",
                                           "r=2 rts=weights,grads,optimizer",
                                           "r=4 rts=weights",
                                           "r=4 rts=grads",
                                           "r=4 rts=optimizer",
                                           "r=4 rts=weights,grads,optimizer",
                                           "r=2 recompute=all",
                                           "r=4 recompute=cheap",
                                           "r=2 offload=optimizer",
                                           "r=2 rts=optimizer offload=optimizer",
                                           "r=4 rts=weights,grads,optimizer offload=optimizer",
                                           "r=2 rts=weights,optimizer recompute=all",
                                           "r=4 rts=weights:2,grads:4,optimizer:4"};

class Node2Vec : public testing::Test {
 protected:
  /// Two cliques of eight nodes, which one edge joins.
  void SetUp() override {
    std::vector<std::pair<int, int>> edges{{0, 8}};
    for (int clique = 0; clique < 16; clique += 8)
      for (int a = clique; a < clique + 8; ++a)
        for (int b = a + 1; b < clique + 8; ++b) edges.emplace_back(a, b);
    graph_of(edges).save(folder_ / "cliques.safetensors");
  }
  Recipe recipe(const Settings& more = {}) const {
    return adam_recipe(
        "walks.toml",
        {"model.kind=node2vec", "model.walks.width=8", "data.kind=walks",
         "data.walks.set=" + (folder_ / "cliques.safetensors").string(), "data.walks.length=6", "data.walks.context=3",
         "data.walks.group=8", "data.walks.p=2", "data.walks.q=0.5", "train.micro_batch=2", "train.accumulation=2",
         "train.lanes=2", "train.steps=20", "train.clip_norm=0", "train.schedule.learning_rate=0.05"},
        more);
  }
  static Numbers train_steps_of(const Recipe& recipe) {
    Training training = make_training(prepare(recipe), {.threads = 1});
    training.initialize();
    losses(training, 60);
    return training.evaluate();
  }
  static std::vector<double> losses(Training& training, int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(number_of(training.step(), "loss"));
    return losses;
  }
  TemporaryFolder folder_;
};

/// An epoch has 20 samples, so the seventh step of eight ends in the middle of one.
TEST_F(Node2Vec, LearnsWithTheSameBitsOnEveryLayout) {
  const Settings four{"train.lanes=4", "train.accumulation=4"};
  Training training = make_training(prepare(recipe(four)), {.threads = 1});
  training.initialize();
  const std::vector<double> expected = losses(training, 30);
  EXPECT_LT(expected.back(), 0.9 * expected.front());
  const std::string hash = training.weights_hash();
  for (const std::string& layout : kLayouts) {
    SCOPED_TRACE(layout);
    Recipe own = recipe(four);
    set_layout(own, layout);
    Training other = make_training(prepare(own), {.threads = 2});
    other.initialize();
    EXPECT_EQ(losses(other, 7), std::vector(expected.begin(), expected.begin() + 7));
    const std::filesystem::path checkpoint = other.save(folder_.path(), 7);
    Training rest = make_training(prepare(recipe(four)), {.threads = 1});
    rest.restore(Checkpoint(checkpoint));
    EXPECT_EQ(losses(rest, 23), std::vector(expected.begin() + 7, expected.end()));
    EXPECT_EQ(rest.weights_hash(), hash);
  }
}

TEST(SplitLinks, KeepTheRestConnectedAndLinksWhole) {
  GraphTables tables = small_graph().tables();
  std::erase_if(tables.fields, [](const graphs::FieldTable& each) { return each.field.name == "split"; });
  const GraphTables plain = tables;
  graphs::apply_transform(tables, "split-links=67:12:21:3", "edge");
  const GraphSet set(tables, "split");
  const size_t at = set.field("edge.split");
  std::map<std::pair<int, int>, std::set<double>> parts;
  std::map<double, int> links;
  std::vector<int> group{0, 1, 2, 3, 4, 5, 6};
  for (size_t e = 0; e < set.sources(0).size(); ++e) {
    const int a = set.sources(0)[e], b = set.targets(0)[e];
    const double part = field_number(set.fields()[at], set.bytes(at), static_cast<int64_t>(e));
    parts[{std::min(a, b), std::max(a, b)}].insert(part);
    if (part != 0) continue;
    const int from = group[static_cast<size_t>(a)], to = group[static_cast<size_t>(b)];
    for (int& each : group) each = each == from ? to : each;
  }
  EXPECT_EQ(std::set<int>(group.begin(), group.end()).size(), 1u);
  for (const auto& [link, of] : parts) {
    EXPECT_EQ(of.size(), 1u) << "both directions are in one part";
    ++links[*of.begin()];
  }
  // Of nine links six join the seven nodes.
  GraphTables more = plain;
  EXPECT_THAT(
      error_of([&] { graphs::apply_transform(more, "split-links=50:25:25:3", "edge"); }),
      HasSubstr("so many links cannot be held out without taking the graph apart; found 5 of 9 links; expected at "
                "most 3"));
  EXPECT_EQ(links, (std::map<double, int>{{0, 6}, {1, 1}, {2, 2}}));
}

TEST(LinkScores, DrawnPairsAreNoLinksAndEvenlySpread) {
  const GraphSet set = small_graph();
  std::map<std::pair<int, int>, int> seen;
  std::set<std::pair<int, int>> edges;
  for (size_t e = 0; e < set.sources(0).size(); ++e) edges.insert({set.sources(0)[e], set.targets(0)[e]});
  constexpr int kDraws = 24000;  // of 7 x 6 - 18 pairs
  for (const auto& [a, b] : recipe::drawn_no_links(set, kDraws, 3, 0)) {
    EXPECT_NE(a, b);
    EXPECT_FALSE(edges.contains({a, b}) || edges.contains({b, a}));
    ++seen[{a, b}];
  }
  EXPECT_EQ(seen.size(), 24u);
  for (const auto& [pair, count] : seen) EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000.0));
  EXPECT_THAT(error_of([] { recipe::drawn_no_links(graph_of({{0, 1}}), 1, 3, 0); }), HasSubstr("join all pairs"));
}

TEST(LinkScores, ARegressionLearnsWhichProductsCount) {
  // Nodes of one kind are linked; the second feature is noise of a greater size.
  std::vector<float> rows;
  const RandomStream random(4, RandomPurpose::kTest, 0, 0);
  for (uint64_t i = 0; i < 60; ++i) {
    rows.push_back(i % 2 == 0 ? 0.5f : -0.5f);
    rows.push_back(static_cast<float>(3 * random.normal(i)));
  }
  std::vector<recipe::Link> right, wrong;
  for (int32_t i = 0; i + 3 < 60; ++i) right.emplace_back(i, i + 2), wrong.emplace_back(i, i + 3);
  EXPECT_GT(recipe::roc_auc(recipe::learned_link_scores(rows, 2, right, wrong, right, wrong)), 0.95);
  EXPECT_LT(recipe::roc_auc(recipe::product_link_scores(rows, 2, right, wrong)), 0.9);
}

TEST_F(Node2Vec, PredictsHeldOutLinks) {
  GraphTables tables = GraphSet::open(folder_ / "cliques.safetensors").tables();
  std::erase_if(tables.fields, [](const graphs::FieldTable& each) { return each.field.name == "split"; });
  graphs::apply_transform(tables, "split-links=60:20:20:3", "edge");
  GraphSet(std::move(tables), "links").save(folder_ / "links.safetensors");
  const auto with_links = [&](const std::string& layout) {
    Recipe own = recipe({"data.walks.set=" + (folder_ / "links.safetensors").string()});
    if (!layout.empty()) set_layout(own, layout);
    return train_steps_of(own);
  };
  const Numbers found = with_links("");
  EXPECT_EQ(found[0].first, "roc_auc");
  EXPECT_GT(number_of(found, "roc_auc"), 0.9);  // links are within cliques
  EXPECT_GT(number_of(found, "test_roc_auc"), 0.9);
  EXPECT_GT(number_of(found, "test_product_roc_auc"), 0.8);
  EXPECT_EQ(with_links("r=2"), found);
  // Walks never use a link that is held out.
  const GraphSet set = GraphSet::open(folder_ / "links.safetensors");
  const WalkGraph walked(set);
  const size_t at = set.field("edge.split");
  for (size_t e = 0; e < set.sources(0).size(); ++e)
    EXPECT_EQ(walked.has_edge(set.sources(0)[e], set.targets(0)[e]),
              field_number(set.fields()[at], set.bytes(at), static_cast<int64_t>(e)) == 0);
}

TEST_F(Node2Vec, BadRecipesAreNamed) {
  EXPECT_THAT(error_of([&] { prepare(recipe({"data.walks.context=7"})); }), HasSubstr("data.walks.context"));
  EXPECT_THAT(error_of([&] { prepare(recipe({"data.walks.set="})); }), HasSubstr("walks need a graph set"));
}

}  // namespace
}  // namespace ramet::tests
