// What a plan says of memory is what a run takes, for every way to make batches of graphs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>

#include "graphs/made_graphs.h"
#include "ramet/base/rng.h"
#include "ramet/graphs/events.h"
#include "ramet/graphs/graph_source.h"
#include "ramet/graphs/pack_text.h"
#include "ramet/graphs/path_queries.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/triple_shards.h"
#include "ramet/graphs/walks.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/feeds.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using graphs::make_packs;
using graphs::Triple;

/// Devices and feeders of a recipe's run use the bytes that were planned for them.
void expect_planned(const Recipe& asked, const std::string& layout) {
  Recipe recipe = asked;
  if (!layout.empty()) set_layout(recipe, layout);
  Training training = make_training(prepare(recipe), {.threads = 1});
  training.initialize();
  training.step();
  const Cluster& cluster = training.cluster();
  for (size_t device = 0; device < cluster.arena_bytes().size(); ++device) {
    const int stage = cluster.mesh().position(static_cast<int>(device)).stage;
    EXPECT_EQ(cluster.arena_bytes()[device], cluster.stages()[static_cast<size_t>(stage)].planned_bytes()) << device;
  }
  EXPECT_EQ(cluster.local_planned_bytes(), training.planned_bytes());
  int64_t used = training.feeder()->ring().used_bytes();
  const Workload& workload = training.workload();
  if (evaluation_batches(workload, training.options()) > 0)
    used += Feeder(workload.held_out, cluster, evaluation_feed(workload, training.options())).ring().used_bytes();
  EXPECT_EQ(used, training.host_memory().batches);
}

class PlannedBytes : public GraphNets {
 protected:
  void SetUp() override {
    GraphNets::SetUp();
    GraphTables parted = GraphSet::open(folder_ / "one.safetensors").tables();
    apply_transform(parted, "contiguous=4", "edge");
    GraphSet(std::move(parted), "parted").save(folder_ / "parted.safetensors");
    std::string triples, events;
    for (int i = 0; i < 40; ++i) {
      triples += "e" + std::to_string(i) + "\tto\te" + std::to_string((i * 7 + 1) % 40) + "\n";
      events += "n" + std::to_string(i % 9) + " n" + std::to_string(i * 5 % 11) + " " + std::to_string(i) + "\n";
    }
    GraphSet(graphs::parse_triples({{"train", triples, "a"}, {"validation", "e0\tto\te5\n", "b"}}), "t")
        .save(folder_ / "triples.safetensors");
    GraphTables times = graphs::parse_events(events, "events.txt");
    apply_transform(times, "split-by-time=60:20:20", "edge");
    GraphSet(std::move(times), "events").save(folder_ / "events.safetensors");
  }
  std::string path(const std::string& name) const { return (folder_ / (name + ".safetensors")).string(); }
  Recipe of_set(const std::string& kind, const std::string& name, const Settings& more) const {
    Settings settings = {"model.kind=" + kind, "train.lanes=1", "train.epochs=2"};
    settings.push_back(name + "=" + path(name == "data.events.set" ? "events" : "triples"));
    settings.insert(settings.end(), more.begin(), more.end());
    return adam_recipe("planned.toml", settings, {});
  }
};

TEST_F(PlannedBytes, AreUsedWithEveryLoader) {
  std::vector<std::pair<std::string, Recipe>> runs;
  for (const char* batch : {"count:5", "pad:5", "stream:40", "stream:40:90", "histogram:40:8"})
    runs.emplace_back(batch, recipe("gin", true, {std::string("data.graphs.batch=") + batch}));
  for (const char* batch : {"neighbors:16:3,3", "walks:10:2", "walks:10:2:20", "clusters:2"})
    runs.emplace_back(
        batch, recipe("sage", false, {std::string("data.graphs.batch=") + batch, "data.graphs.set=" + path("parted")}));
  runs.emplace_back("cut", recipe("sage", false,
                                  {"data.graphs.batch=cut", "data.graphs.set=" + path("parted"), "train.micro_batch=4",
                                   "train.accumulation=1", "train.lanes=1"}));
  runs.emplace_back("sparse", recipe("gcn", false, {"data.graphs.features=node.x:sparse"}));
  runs.emplace_back("pairs", recipe("schnet", true));
  const Settings triples{"data.kind=triples", "data.triples.group=4", "data.triples.negatives=8"};
  runs.emplace_back("triples", of_set("rotate", "data.triples.set", triples));
  Settings sharded = triples;
  sharded.insert(sharded.end(), {"model.knowledge.shards=2", "train.micro_batch=2"});
  runs.emplace_back("shards", of_set("rotate", "data.triples.set", sharded));
  Settings paths = triples;
  paths.insert(paths.end(), {"model.paths.layers=2", "model.knowledge.width=4"});
  runs.emplace_back("paths", of_set("nbfnet", "data.triples.set", paths));
  runs.emplace_back("events", of_set("tgn", "data.events.set",
                                     {"data.kind=events", "data.events.batch=5", "model.tgn.memory=4",
                                      "model.tgn.time=4", "model.tgn.embedding=4"}));
  Recipe walks = of_set("node2vec", "data.walks.set",
                        {"data.kind=walks", "data.walks.length=4", "data.walks.context=3", "data.walks.group=8"});
  runs.emplace_back("node2vec", walks);
  for (const auto& [name, run] : runs) {
    SCOPED_TRACE(name);
    expect_planned(run, "");
    if (name == "count:5" || name == "neighbors:16:3,3") expect_planned(run, "r=2");
    if (name == "count:5" || name == "pairs") expect_planned(run, "p=2");
  }
}

// --- tables of sources ---

int64_t in_use() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

/// A source's tables take what it says, but for what malloc adds.
void expect_tables(const std::string& name, const std::function<std::shared_ptr<const Source>()>& make) {
  const int64_t before = in_use();
  const std::shared_ptr<const Source> source = make();
  const auto used = static_cast<double>(in_use() - before), said = static_cast<double>(source->host_bytes());
  EXPECT_LT(used, 1.05 * said + 65536) << name;
  EXPECT_GT(used, 0.95 * said - 65536) << name;
}

TEST(PlannedTables, AreUsedByEverySource) {
  if (const auto probe = std::make_unique<char[]>(1 << 20); in_use() < 1 << 20) GTEST_SKIP() << "malloc does not tell";
  constexpr int64_t kNodes = 40000, kEdges = 200000;
  TemporaryFolder folder;
  const RandomStream random(5, RandomPurpose::kTest, 0, 0);
  const auto draw = [&](int64_t i, int64_t bound) {
    return random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(bound));
  };
  for (const bool one : {false, true}) {
    GraphTables tables = homogeneous_tables();
    tables.graphs = one ? 1 : kNodes / 8;
    std::vector<float> x(kNodes);
    std::vector<int32_t> part;
    for (int64_t i = 0; i < kNodes; ++i)
      part.push_back(static_cast<int32_t>(i % 20)), x[static_cast<size_t>(i)] = i % 3;
    for (int64_t e = 0; e < kEdges; ++e) {
      tables.edges[0].source.push_back(static_cast<int32_t>(draw(2 * e, one ? kNodes : 8)));
      tables.edges[0].target.push_back(static_cast<int32_t>(draw(2 * e + 1, one ? kNodes : 8)));
    }
    for (int64_t g = 1; g <= tables.graphs; ++g) {
      tables.nodes[0].ptr.push_back(g * kNodes / tables.graphs);
      tables.edges[0].ptr.push_back(g * kEdges / tables.graphs);
    }
    if (one) tables.nodes[0].ptr = {0, kNodes}, tables.edges[0].ptr = {0, kEdges};
    tables.set_field({.name = "x", .of = "node", .shape = Shape{1}}, x);
    tables.set_field({.name = "part", .of = "node", .dtype = DType::kI32}, part);
    GraphSet(std::move(tables), "large").save(folder / (one ? "one" : "many"));
  }
  const auto many = std::make_shared<const GraphSet>(GraphSet::open(folder / "many")),
             one = std::make_shared<const GraphSet>(GraphSet::open(folder / "one"));
  EXPECT_EQ(many->host_bytes(), 0);
  const auto graphs_by = [&](const std::string& batch, bool of_one, const std::string& sparse = "") {
    expect_tables(batch, [&]() -> std::shared_ptr<const Source> {
      const auto& set = of_one ? one : many;
      return std::make_shared<const graphs::GraphSource>(
          set, make_packs(set, batch, {.epochs = 1, .seed = 3}),
          graphs::GraphSourceOptions{.sparse = sparse, .means = batch == "walks:500:2:4"});
    });
  };
  for (const char* batch : {"count:16", "pad:16", "stream:100", "histogram:100:16"}) graphs_by(batch, false);
  for (const char* batch : {"neighbors:512:3,3", "clusters:2", "walks:500:2", "walks:500:2:4", "cut"})
    graphs_by(batch, true);
  graphs_by("count:1", true, "node.x");

  std::vector<Triple> triples;
  for (int64_t e = 0; e < kEdges; ++e)
    triples.push_back({static_cast<int32_t>(draw(3 * e, kNodes)), static_cast<int32_t>(draw(3 * e + 1, 20)),
                       static_cast<int32_t>(draw(3 * e + 2, kNodes))});
  const graphs::TripleOptions options{.group = 16, .negatives = 16, .entities = kNodes, .relations = 20};
  expect_tables("triples", [&] { return std::make_shared<const graphs::TripleSource>(triples, triples, "", options); });
  expect_tables("shards", [&] {
    return std::make_shared<const graphs::ShardedTripleSource>(triples, triples, graphs::EntityShards{kNodes, 4}, "",
                                                               options);
  });
  expect_tables("paths", [&] {
    const auto facts = std::make_shared<const graphs::FactGraph>(triples, kNodes, 20);
    return std::make_shared<const graphs::PathQuerySource>(triples, triples, facts, "", graphs::PathQueryOptions{});
  });
  expect_tables("walks", [&] { return std::make_shared<const graphs::WalkSource>(*one, graphs::WalkOptions{}); });
}

TEST(PlannedTables, AreUsedByEvents) {
  if (const auto probe = std::make_unique<char[]>(1 << 20); in_use() < 1 << 20) GTEST_SKIP() << "malloc does not tell";
  const RandomStream random(6, RandomPurpose::kTest, 0, 0);
  std::string text;
  for (uint64_t i = 0; i < 40000; ++i)
    text += std::to_string(random.below(2 * i, 3000)) + " " + std::to_string(random.below(2 * i + 1, 3000)) + " " +
            std::to_string(i) + " 0.5\n";
  GraphTables tables = graphs::parse_events(text, "events.txt");
  TemporaryFolder folder;
  apply_transform(tables, "split-by-time=70:15:15", "edge");
  GraphSet(std::move(tables), "events").save(folder / "events");
  const auto set = std::make_shared<const GraphSet>(GraphSet::open(folder / "events"));
  expect_tables("events", [&]() -> std::shared_ptr<const Source> {
    const auto graph = std::make_shared<const graphs::EventGraph>(set, "edge.split");
    const graphs::EventOptions options{};
    return std::make_shared<const graphs::EventSource>(graph, options, graphs::EventUse::kTrain, "validation",
                                                       graphs::EventSource::most_room(*graph, options));
  });
}

}  // namespace
}  // namespace ramet::tests
