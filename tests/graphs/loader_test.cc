#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "ramet/base/rng.h"
#include "ramet/graphs/graph_source.h"
#include "ramet/graphs/pack_text.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using graphs::GraphBudget;
using graphs::GraphSource;
using graphs::GraphSourceOptions;
using graphs::make_packs;
using graphs::PackContents;
using graphs::PackRequest;
using graphs::Packs;
using testing::ElementsAre;
using testing::HasSubstr;

/// `count` graphs of 1 to 9 nodes, each a ring in both directions, with x = the node's number in the set.
std::shared_ptr<const GraphSet> rings(int64_t count) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = count;
  const RandomStream random(3, RandomPurpose::kTest, 0, 0);
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t g = 0; g < count; ++g) {
    const auto nodes = static_cast<int32_t>(1 + random.below(static_cast<uint64_t>(g), 9));
    for (int32_t i = 0; i < nodes; ++i) {
      x.push_back(static_cast<float>(x.size()));
      if (nodes < 2) continue;
      for (const int32_t other : {(i + 1) % nodes, (i + nodes - 1) % nodes}) {
        tables.edges[0].source.push_back(other);
        tables.edges[0].target.push_back(i);
      }
    }
    y.push_back(static_cast<int32_t>(g % 3));
    tables.nodes[0].ptr.push_back(std::ssize(x));
    tables.edges[0].ptr.push_back(std::ssize(tables.edges[0].source));
  }
  tables.set_field({.name = "x", .of = "node"}, x);
  tables.set_field(Field{.name = "y", .per = Per::kGraph, .dtype = DType::kI32}, y);
  return std::make_shared<const GraphSet>(std::move(tables), "rings");
}

/// One graph of `nodes` nodes: node i hears from i + 1, i + 3, ... ; node 0 is a hub.
std::shared_ptr<const GraphSet> web(int64_t nodes) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 1;
  tables.nodes[0].ptr = {0, nodes};
  std::vector<int32_t> y, part, split;
  for (int32_t i = 0; i < nodes; ++i) {
    for (const int32_t step : {1, 3, 7})
      tables.edges[0].source.push_back(static_cast<int32_t>((i + step) % nodes)), tables.edges[0].target.push_back(i);
    tables.edges[0].source.push_back(i), tables.edges[0].target.push_back(0);
    y.push_back(i % 5), part.push_back(i % 4), split.push_back(i % 2);
  }
  tables.edges[0].ptr = {0, std::ssize(tables.edges[0].source)};
  for (const auto& [name, values] : {std::pair("y", y), std::pair("part", part), std::pair("split", split)})
    tables.set_field({.name = name, .of = "node", .dtype = DType::kI32}, values);
  return std::make_shared<const GraphSet>(std::move(tables), "web");
}

bool equal(const PackContents& a, const PackContents& b) {
  return a.graphs == b.graphs && a.nodes == b.nodes && a.edges == b.edges && a.source == b.source &&
         a.target == b.target && a.graph_ptr == b.graph_ptr && a.seeds == b.seeds && a.trimmed == b.trimmed;
}

/// Every pack of some epochs fits, is sorted, and is the same when it is asked for first, and from another thread.
void check_packs(const std::function<std::shared_ptr<const Packs>()>& make, int64_t epochs) {
  const auto packs = make();
  std::vector<PackContents> all;
  for (int64_t index = 0; packs->epoch_of(index) < epochs; ++index) all.push_back(packs->contents(index));
  GraphBudget most;
  for (size_t i = 0; i < all.size(); ++i) {
    const PackContents& pack = all[i];
    EXPECT_TRUE(std::is_sorted(pack.target.begin(), pack.target.end())) << i;
    EXPECT_EQ(pack.graph_ptr.back(), std::ssize(pack.nodes));
    EXPECT_EQ(packs->sizes(static_cast<int64_t>(i)),
              (GraphBudget{std::ssize(pack.graphs), std::ssize(pack.nodes), std::ssize(pack.edges)}));
    most = {std::max(most.graphs, std::ssize(pack.graphs)), std::max(most.nodes, std::ssize(pack.nodes)),
            std::max(most.edges, std::ssize(pack.edges))};
  }
  EXPECT_LE(most.graphs, packs->budget().graphs);
  EXPECT_LE(most.nodes, packs->budget().nodes);
  EXPECT_LE(most.edges, packs->budget().edges);
  const auto other = make();
  std::vector<std::thread> threads;
  std::vector<int> same(all.size(), 0);
  for (size_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (size_t i = all.size(); i-- > 0;)
        if (i % 4 == thread) same[i] = equal(other->contents(static_cast<int64_t>(i)), all[i]);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(same.begin(), same.end(), 1), std::ssize(all));
}

TEST(GraphLoader, PacksArePureAndWithinTheirRoom) {
  const auto set = rings(57);
  for (const char* text : {"count:8", "pad:8", "stream:30:50", "stream:24", "histogram:20:4", "histogram:20:0",
                           "stream:30:50:3", "stream:30:0:3", "histogram:20:4:40", "histogram:20:0:25"})
    for (const int64_t epochs : {0, 3}) {
      SCOPED_TRACE(std::string(text) + " " + std::to_string(epochs));
      check_packs([&] { return make_packs(set, text, {.epochs = epochs, .seed = 5}); }, 3);
    }
}

TEST(GraphLoader, AnEpochHasEveryGraphOnce) {
  const auto set = rings(57);
  for (const char* text : {"count:8", "pad:8", "histogram:20:4"}) {
    const auto packs = make_packs(set, text, {.seed = 5});
    for (const int64_t epoch : {0, 1}) {
      std::multiset<int64_t> graphs;
      for (int64_t i = 0; i < packs->epoch_packs(epoch); ++i)
        for (const int64_t graph : packs->contents(epoch * packs->epoch_packs(0) + i).graphs) graphs.insert(graph);
      EXPECT_EQ(graphs.size(), 57u) << text;
      EXPECT_EQ(std::set<int64_t>(graphs.begin(), graphs.end()).size(), 57u) << text;
    }
    EXPECT_FALSE(equal(packs->contents(0), packs->contents(packs->epoch_packs(0)))) << text;
  }
  // A stream leaves nothing out at the end of an epoch: graphs follow one another over its packs.
  const auto stream = make_packs(set, "stream:30:50", {.seed = 5});
  std::vector<int64_t> graphs;
  for (int64_t i = 0; graphs.size() < 2 * 57; ++i)
    for (const int64_t graph : stream->contents(i).graphs) graphs.push_back(graph);
  for (const size_t begin : {0, 57})
    EXPECT_EQ(std::set<int64_t>(graphs.begin() + static_cast<int64_t>(begin),
                                graphs.begin() + static_cast<int64_t>(begin) + 57)
                  .size(),
              57u);
}

TEST(GraphLoader, TheMaximumIsThatOfTheRun) {
  const auto set = rings(57);
  const auto packs = make_packs(set, "count:8", {.epochs = 4, .seed = 1});
  GraphBudget most;
  for (int64_t i = 0; i < 4 * packs->epoch_packs(0); ++i) {
    const GraphBudget sizes = packs->sizes(i);
    most = {std::max(most.graphs, sizes.graphs), std::max(most.nodes, sizes.nodes), std::max(most.edges, sizes.edges)};
  }
  EXPECT_EQ(packs->budget(), most);
  const auto bound = make_packs(set, "count:8", {.seed = 1});
  EXPECT_GE(bound->budget().nodes, most.nodes);
  const graphs::PackReport report = graphs::report_of(*packs, *set);
  EXPECT_EQ(report.packs, 8);
  EXPECT_GT(report.node_share, 0.5);
  EXPECT_LE(report.node_share, 1);
  EXPECT_EQ(packs->sizes(report.most_nodes_pack).nodes, report.most_nodes);
  EXPECT_THAT(report.text(), HasSubstr("room for 8 graphs, "));
}

TEST(GraphLoader, RefusesOrLeavesOutWhatIsTooLarge) {
  const auto set = rings(57);
  EXPECT_THAT(error_of([&] { make_packs(set, "stream:6", {}); }), HasSubstr("a graph does not fit the budget"));
  const auto packs = make_packs(set, "stream:6", {.oversize = graphs::Oversize::kTrim});
  EXPECT_GT(packs->skipped(), 0);
  EXPECT_THAT(graphs::report_of(*packs, *set).text(), HasSubstr("graphs do not fit and are left out"));
  EXPECT_THAT(error_of([&] { make_packs(set, "counts:6", {}); }), HasSubstr("unknown way to make batches of graphs"));
  EXPECT_THAT(error_of([&] { make_packs(set, "count:0", {}); }),
              HasSubstr("'count:0': a number is none, or out of range; found '0'"));
  EXPECT_THAT(error_of([&] { make_packs(set, "neighbors:4:2", {}); }), HasSubstr("a set of one homogeneous graph"));
}

TEST(GraphLoader, KeepsTheBoundsOfTheTextAndTheRoom) {
  const auto set = rings(57);
  const auto check = [&](const std::string& text, const PackRequest& request, const GraphBudget& most) {
    SCOPED_TRACE(text);
    const auto packs = make_packs(set, text, request);
    EXPECT_EQ(packs->skipped(), 0);
    const auto at_most = [](int64_t size, int64_t bound) {
      if (bound > 0) {
        EXPECT_LE(size, bound);
      }
    };
    for (int64_t i = 0; i < 3 * packs->epoch_packs(0); ++i) {
      const GraphBudget sizes = packs->sizes(i);
      at_most(sizes.graphs, most.graphs);
      at_most(sizes.nodes, most.nodes);
      at_most(sizes.edges, most.edges);
    }
    at_most(packs->budget().graphs, most.graphs);
    at_most(packs->budget().nodes, most.nodes);
    at_most(packs->budget().edges, most.edges);
  };
  check("stream:40:0:3", {.seed = 5}, {3, 40, 0});
  check("stream:40:60:3", {.seed = 5}, {3, 40, 60});
  check("histogram:40:0:30", {.seed = 5}, {0, 40, 30});
  check("histogram:40:0", {.budget = {.graphs = 3, .nodes = 40, .edges = 30}, .seed = 5}, {3, 40, 30});
  check("stream:40", {.budget = {.graphs = 3, .edges = 60}, .seed = 5}, {3, 40, 60});
  const auto refused = [&](const std::string& text, const PackRequest& request) {
    return error_of([&] { make_packs(set, text, request)->contents(0); });
  };
  EXPECT_THAT(refused("histogram:50:1", {.budget = {1, 50, 10}}), HasSubstr("a graph does not fit the budget"));
  EXPECT_THAT(refused("histogram:50:1", {.budget = {2, 50, 0}}),
              HasSubstr("'histogram:50:1': two bounds of graphs for a batch; found 1, and room for 2"));
  EXPECT_THAT(refused("stream:50:60", {.budget = {.nodes = 40}}), HasSubstr("two bounds of nodes"));
  EXPECT_THAT(refused("stream:6", {}), HasSubstr("expected at most 6 nodes. Raise"));
  EXPECT_THAT(refused("stream:6:50", {}), HasSubstr("expected at most 6 nodes and 50 edges. Raise"));
  EXPECT_THAT(refused("count:8", {.budget = {.nodes = 12}}),
              HasSubstr("pack 0: graphs of a pack do not fit the budget together; found 8 graphs, "));
  const auto one = web(60);
  const auto clusters = [&](const std::string& text, const PackRequest& request) {
    return error_of([&] { make_packs(one, text, request)->contents(0); });
  };
  EXPECT_EQ(make_packs(one, "clusters:2", {.budget = {2, 40, 200}})->budget(), (GraphBudget{2, 40, 200}));
  EXPECT_THAT(clusters("clusters:2", {.budget = {1, 10, 0}}),
              HasSubstr("pack 0: a sample of the graph does not fit the budget; found 30 nodes and"));
  EXPECT_THAT(clusters("clusters:1", {.budget = {1, 10, 0}}), HasSubstr("expected at most 10 nodes. Raise"));
}

TEST(GraphLoader, RefusesWhatWouldDoNothing) {
  const auto many = rings(57), one = web(60);
  const PackRequest trim{.oversize = graphs::Oversize::kTrim}, members{.members = {1, 2}};
  for (const char* text : {"count:8", "pad:8"})
    EXPECT_THAT(error_of([&] { make_packs(many, text, trim); }),
                HasSubstr("'" + std::string(text) + "': nothing is left out of batches whose room is made for them"));
  for (const char* text : {"clusters:2", "cut"})
    EXPECT_THAT(error_of([&] { make_packs(one, text, trim); }), HasSubstr("clusters are whole"));
  for (const char* text : {"clusters:2", "walks:3:2", "cut"})
    EXPECT_THAT(error_of([&] { make_packs(one, text, members); }), HasSubstr("take no numbers of graphs or nodes"));
  EXPECT_THAT(error_of([&] { make_packs(one, "cut", {.budget = {1, 60, 0}}); }),
              HasSubstr("'cut': the clusters of a cut graph have the room of the largest"));
}

TEST(GraphLoader, NeighboursArePureAndUniform) {
  const auto set = web(60);
  check_packs([&] { return make_packs(set, "neighbors:16:2,2", {.epochs = 2, .seed = 9}); }, 2);
  const auto packs = make_packs(set, "neighbors:60:2", {.epochs = 1, .shuffle = false, .seed = 9});
  // Node 0 hears from all 60 nodes and from 1, 3, 7 again: each of its 63 edges is drawn alike.
  std::map<int64_t, int64_t> counts;
  constexpr int64_t kDraws = 4000;
  for (int64_t i = 0; i < kDraws; ++i) {
    const PackContents pack = packs->contents(i);
    for (size_t e = 0; e < 2; ++e) {
      EXPECT_EQ(pack.target[e], 0);
      ++counts[pack.edges[e]];
    }
    EXPECT_LT(pack.edges[0], pack.edges[1]);
  }
  EXPECT_EQ(counts.size(), 63u);
  double chi_square = 0;
  const double expected = 2.0 * kDraws / 63;
  for (const auto& [edge, count] : counts) chi_square += std::pow(static_cast<double>(count) - expected, 2) / expected;
  EXPECT_LT(chi_square, 110);  // 62 degrees of freedom: P < 2e-4
}

TEST(GraphLoader, NeighboursTrimTheLastEdges) {
  const auto set = web(60);
  const PackRequest small{.budget = {.nodes = 20, .edges = 30}, .oversize = graphs::Oversize::kTrim, .seed = 2};
  const auto packs = make_packs(set, "neighbors:8:3,3", small);
  const auto full = make_packs(set, "neighbors:8:3,3", {.epochs = 1, .seed = 2});
  const PackContents cut = packs->contents(0), whole = full->contents(0);
  EXPECT_GT(cut.trimmed, 0);
  EXPECT_EQ(cut.seeds, 8);
  EXPECT_LE(std::ssize(cut.nodes), 20);
  EXPECT_EQ(std::vector<int64_t>(whole.nodes.begin(), whole.nodes.begin() + 20),
            std::vector<int64_t>(cut.nodes.begin(), cut.nodes.begin() + 20));
  PackRequest refuse = small;
  refuse.oversize = graphs::Oversize::kRefuse;
  EXPECT_THAT(error_of([&] { make_packs(set, "neighbors:8:3,3", refuse)->contents(0); }),
              HasSubstr("a sample of the graph does not fit the budget"));
}

TEST(GraphLoader, ClustersAndWalksAreInducedSubgraphs) {
  const auto set = web(60);
  check_packs([&] { return make_packs(set, "clusters:2", {.seed = 4}); }, 3);
  check_packs([&] { return make_packs(set, "walks:6:3", {.epochs = 2, .seed = 4}); }, 2);
  for (const char* text : {"clusters:2", "walks:6:3"}) {
    const PackContents pack = make_packs(set, text, {.epochs = 1, .seed = 4})->contents(0);
    const std::set<int64_t> nodes(pack.nodes.begin(), pack.nodes.end());
    std::vector<int64_t> expected;
    for (int64_t e = 0; e < set->edge_ptr(0)[1]; ++e)
      if (nodes.contains(set->sources(0)[static_cast<size_t>(e)]) &&
          nodes.contains(set->targets(0)[static_cast<size_t>(e)]))
        expected.push_back(e);
    EXPECT_EQ(pack.edges, expected) << text;
  }
}

/// What packs give for the sum over all nodes, as a mean with its standard error.
struct Estimate {
  double sum = 0, squares = 0, count = 0;
  void add(double value) { sum += value, squares += value * value, ++count; }
  double mean() const { return sum / count; }
  double error() const { return std::sqrt(std::max(0.0, squares / count - mean() * mean()) / count); }
};

TEST(GraphLoader, CountedWalksEstimateTheWholeGraph) {
  const auto set = web(60);
  constexpr int64_t kCounted = 4000, kOthers = 4000;
  const auto packs = make_packs(set, "walks:6:3:" + std::to_string(kCounted), {.epochs = 1, .seed = 4});
  const auto counts = packs->counts();
  ASSERT_TRUE(counts);
  EXPECT_EQ(make_packs(set, "walks:6:3", {.epochs = 1, .seed = 4})->counts(), nullptr);
  const auto of_node = [](int64_t node) { return std::cos(static_cast<double>(node)) + 2; };
  double whole = 0, of_zero = 0;
  for (int64_t node = 0; node < 60; ++node) whole += of_node(node) / 60;
  for (int64_t e = 0; e < set->edge_ptr(0)[1]; ++e)
    if (set->targets(0)[static_cast<size_t>(e)] == 0) of_zero += of_node(set->sources(0)[static_cast<size_t>(e)]);
  // Node 0 is a hub: most packs have it, and few have the edges into it.
  const auto estimate = [&](int64_t first, int64_t last) {
    Estimate loss, sum;
    for (int64_t index = first; index < last; ++index) {
      const PackContents pack = packs->contents(index);
      double value = 0, sum_of_zero = 0;
      for (const int64_t node : pack.nodes) value += of_node(node) * counts->of_node(node) / 60;
      for (size_t e = 0; e < pack.edges.size(); ++e)
        if (pack.nodes[static_cast<size_t>(pack.target[e])] == 0)
          sum_of_zero += of_node(pack.nodes[static_cast<size_t>(pack.source[e])]) * counts->of_edge(pack.edges[e], 0);
      loss.add(value);
      if (pack.nodes[0] == 0) sum.add(sum_of_zero);
    }
    return std::pair(loss, sum);
  };
  // Over the counted packs the mean is exact; over others, within the errors of both.
  const auto [loss, sum] = estimate(0, kCounted);
  EXPECT_NEAR(loss.mean(), whole, 1e-9);
  EXPECT_NEAR(sum.mean(), of_zero, 1e-9 * of_zero);
  const auto [other_loss, other_sum] = estimate(kCounted, kCounted + kOthers);
  EXPECT_GT(other_loss.error(), 0);
  EXPECT_LT(std::abs(other_loss.mean() - whole), 4 * std::hypot(other_loss.error(), loss.error()));
  EXPECT_LT(std::abs(other_sum.mean() - of_zero), 4 * std::hypot(other_sum.error(), sum.error()));
  // Without the correction the sum is biased by many errors.
  Estimate plain;
  for (int64_t index = 0; index < kOthers; ++index) {
    const PackContents pack = packs->contents(index);
    double value = 0;
    for (size_t e = 0; e < pack.edges.size(); ++e)
      if (pack.nodes[static_cast<size_t>(pack.target[e])] == 0)
        value += of_node(pack.nodes[static_cast<size_t>(pack.source[e])]);
    if (pack.nodes[0] == 0) plain.add(value);
  }
  EXPECT_LT(plain.mean() + 20 * plain.error(), of_zero);
}

std::vector<int32_t> numbers(const Batch& batch, const std::string& name) {
  const NamedTensor& tensor = batch.at(name);
  std::vector<int32_t> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<float> floats(const Batch& batch, const std::string& name) {
  const NamedTensor& tensor = batch.at(name);
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(GraphSource, WritesListsFieldsAndLabels) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 2;
  tables.nodes[0].ptr = {0, 2, 3};
  tables.edges[0].ptr = {0, 3, 4};
  tables.edges[0].source = {1, 1, 0, 0};
  tables.edges[0].target = {0, 0, 1, 0};
  tables.set_field<float>({.name = "x", .of = "node"}, {5, 6, 7});
  tables.set_field<double>({.name = "t", .per = Per::kGraph, .dtype = DType::kF64}, {0.5, 1.5});
  tables.set_field<int8_t>(Field{.name = "y", .per = Per::kGraph, .dtype = DType::kI8}, {2, 4});
  const auto set = std::make_shared<const GraphSet>(tables, "two");
  const auto packs = make_packs(set, "count:2", {.budget = {.graphs = 3, .nodes = 4, .edges = 5}, .shuffle = false});
  const GraphSource source(set, packs, {.fields = {"node.x"}, .label = "graph.y"});
  const Batch batch = source.make(0, 1);
  EXPECT_THAT(numbers(batch, "source"), ElementsAre(1, 1, 0, 2, 0));
  EXPECT_THAT(numbers(batch, "ptr"), ElementsAre(0, 2, 3, 4, 4));
  EXPECT_THAT(numbers(batch, "source_ptr"), ElementsAre(0, 1, 3, 4, 4));
  EXPECT_THAT(numbers(batch, "by_source"), ElementsAre(2, 0, 1, 3, 0));
  EXPECT_THAT(numbers(batch, "target_of"), ElementsAre(1, 0, 0, 2, 0));
  EXPECT_THAT(numbers(batch, "graph_ptr"), ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(numbers(batch, "graphs"), ElementsAre(2));
  EXPECT_THAT(numbers(batch, "labels"), ElementsAre(2, 4, -1));
  float x[4];
  std::memcpy(x, batch.at("node.x").bytes.data(), sizeof x);
  EXPECT_THAT(x, ElementsAre(5, 6, 7, 0));
  const Batch targets = GraphSource(set, packs, {.label = "graph.t"}).make(0, 2);
  EXPECT_THAT(floats(targets, "targets"), ElementsAre(0.5f, 1.5f, 0, 0.5f, 1.5f, 0));
  EXPECT_THAT(floats(targets, "known"), ElementsAre(1, 1, 0, 1, 1, 0));
  EXPECT_THAT(error_of([&] { GraphSource(set, packs, {.label = "node.x"}); }), HasSubstr("a label must be"));
  EXPECT_THAT(error_of([&] { GraphSource(set, packs, {.fields = {"node.y"}}); }), HasSubstr("no such field"));
}

TEST(GraphSource, LabelsOfOtherPartsAndOfNeighboursDoNotCount) {
  const auto set = web(20);
  const auto whole = make_packs(set, "count:1", {});
  const GraphSource part(set, whole, {.label = "node.y", .split = "node.split", .part = 1});
  const std::vector<int32_t> labels = numbers(part.make(0, 1), "labels");
  for (int32_t i = 0; i < 20; ++i) EXPECT_EQ(labels[static_cast<size_t>(i)], i % 2 == 1 ? i % 5 : -1) << i;
  const auto sampled =
      make_packs(set, "neighbors:3:2", {.members = graphs::members_of(*set, "node.split", 1), .epochs = 1});
  const std::vector<int32_t> of_seeds = numbers(GraphSource(set, sampled, {.label = "node.y"}).make(0, 1), "labels");
  EXPECT_EQ(std::count(of_seeds.begin(), of_seeds.end(), -1), std::ssize(of_seeds) - 3);
  EXPECT_NE(part.identity(), GraphSource(set, whole, {.label = "node.y", .split = "node.split", .part = 0}).identity());
}

/// Two graphs whose edges (source, target) have the distances `distance`.
std::shared_ptr<const GraphSet> with_distances(const std::vector<std::pair<int32_t, int32_t>>& first,
                                               const std::vector<std::pair<int32_t, int32_t>>& second,
                                               const std::vector<float>& distance) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 2;
  tables.nodes[0].ptr = {0, 3, 5};
  for (const auto& edges : {first, second}) {
    for (const auto& [source, target] : edges)
      tables.edges[0].source.push_back(source), tables.edges[0].target.push_back(target);
    tables.edges[0].ptr.push_back(std::ssize(tables.edges[0].source));
  }
  tables.set_field(Field{.name = "distance", .per = Per::kEdge, .of = "edge"}, distance);
  return std::make_shared<const GraphSet>(tables, "distances");
}

TEST(GraphSource, CorrectsWeightsOfEdgesAndLabels) {
  const auto set = web(60);
  const auto packs = make_packs(set, "walks:6:3:50", {.epochs = 2, .seed = 4});
  const auto plain = make_packs(set, "walks:6:3", {.epochs = 2, .seed = 4});
  const GraphSource source(set, packs, {.label = "node.y", .split = "node.split", .part = 1, .means = true});
  const GraphSource other(set, plain, {.label = "node.y", .split = "node.split", .part = 1});
  EXPECT_NE(source.identity(), other.identity());
  EXPECT_EQ(source.host_bytes(), other.host_bytes() + 4 * (60 + set->edge_ptr(0)[1]) + 4 * 60);
  const Batch batch = source.make(3, 1);
  const PackContents pack = packs->contents(3);
  const std::vector<float> weight = floats(batch, "edge.weight"), of_label = floats(batch, "label_weight");
  const std::vector<int32_t> labels = numbers(batch, "labels");
  for (size_t e = 0; e < weight.size(); ++e) {
    double expected = 0;
    if (e < pack.edges.size()) {
      const int64_t target = pack.nodes[static_cast<size_t>(pack.target[e])];
      expected = packs->counts()->of_edge(pack.edges[e], target) / (target == 0 ? 63 : 3);
    }
    EXPECT_EQ(weight[e], static_cast<float>(expected)) << e;
  }
  for (size_t i = 0; i < labels.size(); ++i)
    EXPECT_EQ(of_label[i], labels[i] < 0 ? 0.0f : static_cast<float>(packs->counts()->of_node(pack.nodes[i]) / 30));
  EXPECT_THAT(error_of([&] { GraphSource(set, packs, {.label = "node.y"}); }), HasSubstr("edge.weight"));
}

TEST(GraphSource, JoinsEdgesOfBothDirectionsToPairs) {
  const GraphBudget room{.graphs = 2, .nodes = 6, .edges = 11};
  const auto batch = [&](const std::shared_ptr<const GraphSet>& set) {
    const auto packs = make_packs(set, "count:2", {.budget = room, .shuffle = false});
    return GraphSource(set, packs, {.pairs = "edge.distance"}).make(0, 1);
  };
  // An edge that is there twice makes two pairs, in the order in which the data give them.
  const Batch found = batch(
      with_distances({{2, 0}, {0, 2}, {1, 0}, {0, 1}, {2, 0}, {0, 2}}, {{0, 1}, {1, 0}}, {2, 2, 1, 1, 3, 3, 4, 4}));
  EXPECT_THAT(floats(found, "pair.distance"), ElementsAre(1, 2, 3, 4, 0));
  EXPECT_THAT(numbers(found, "pair_second"), ElementsAre(1, 2, 2, 4, 0));
  EXPECT_THAT(numbers(found, "pair_ptr"), ElementsAre(0, 3, 3, 3, 4, 4, 4));
  EXPECT_THAT(error_of([&] { (void)found.at("source"); }), HasSubstr("source"))
      << "lists of edges, which nothing reads";
  const std::string lone = error_of([&] { batch(with_distances({{0, 1}}, {}, {1})); });
  EXPECT_THAT(lone, HasSubstr("an edge is there without its reverse"));
  EXPECT_THAT(lone, HasSubstr("the edge from node 0 to node 1"));
  EXPECT_THAT(error_of([&] { batch(with_distances({{2, 1}}, {}, {1})); }), HasSubstr("without its reverse"));
  EXPECT_THAT(error_of([&] { batch(with_distances({{1, 1}}, {}, {1})); }), HasSubstr("one node twice"));
  EXPECT_THAT(error_of([&] { batch(with_distances({{0, 1}, {1, 0}}, {}, {1, 2})); }), HasSubstr("different values"));
}

TEST(GraphSource, ScalesTargetsAndLeavesOutUnknownOnes) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 2;
  tables.nodes[0].ptr = {0, 1, 2};
  tables.edges[0].ptr = {0, 0, 0};
  tables.set_field<double>({.name = "t", .per = Per::kGraph, .dtype = DType::kF64, .shape = Shape{3}, .missing = true},
                           {1, 10, 1e9 + 1, 2, NAN, 1e9 + 3});
  const auto set = std::make_shared<const GraphSet>(tables, "targets");
  const auto packs = make_packs(set, "count:2", {.shuffle = false});
  const GraphSource source(set, packs,
                           {.label = "graph.t", .targets = {.columns = {2, 1}, .mean = {1e9, 8}, .deviation = {2, 4}}});
  EXPECT_THAT(floats(source.make(0, 1), "targets"), ElementsAre(0.5f, 0.5f, 1.5f, 0));
  EXPECT_THAT(floats(source.make(0, 1), "known"), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(error_of([&] { GraphSource(set, packs, {.label = "graph.t", .targets = {.columns = {3}}}); }),
              HasSubstr("the label has no such column; found 3; expected 0 to 2"));
}

}  // namespace
}  // namespace ramet::tests
