#include "ramet/graphs/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/rng.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One graph with edges source > target, in this order.
GraphTables graph(int64_t nodes, const std::vector<std::pair<int32_t, int32_t>>& edges) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 1;
  tables.nodes[0].ptr = {0, nodes};
  tables.edges[0].ptr = {0, std::ssize(edges)};
  for (const auto& [source, target] : edges) {
    tables.edges[0].source.push_back(source);
    tables.edges[0].target.push_back(target);
  }
  return tables;
}

std::vector<std::string> edges_of(const GraphTables& tables) {
  const GraphSet set(tables, "graph");
  std::vector<std::string> edges;
  for (size_t e = 0; e < set.sources(0).size(); ++e)
    edges.push_back(std::to_string(set.sources(0)[e]) + ">" + std::to_string(set.targets(0)[e]));
  return edges;
}

std::vector<float> values_of(const GraphTables& tables, const std::string& key) {
  const GraphSet set(tables, "graph");
  const size_t field = set.field(key);
  return field_floats(set.fields()[field], set.bytes(field));
}

TEST(Transform, NamesTheTransformOfANumberThatIsNone) {
  GraphTables tables = graph(2, {{0, 1}});
  for (const char* text : {"nearest=0", "radius=x", "metis=-1"})
    EXPECT_THAT(error_of([&] { apply_transform(tables, text, "edge"); }),
                testing::StartsWith("transform " + std::string(text).substr(0, std::string(text).find('=')) +
                                    ": a number is none, "));
}

TEST(Transform, ChangesEdges) {
  GraphTables tables = graph(3, {{0, 1}, {0, 1}, {1, 1}, {2, 0}});
  tables.set_field<float>({.name = "weight", .per = Per::kEdge, .of = "edge"}, {1, 2, 3, 4});
  GraphTables one = tables;
  apply_transform(one, "undirected", "edge");
  EXPECT_THAT(edges_of(one), ElementsAre("1>0", "1>0", "2>0", "0>1", "0>1", "1>1", "0>2"));
  EXPECT_THAT(values_of(one, "edge.weight"), ElementsAre(1, 2, 4, 1, 2, 3, 4));
  apply_transform(one, "no-duplicates", "edge");
  EXPECT_THAT(edges_of(one), ElementsAre("1>0", "2>0", "0>1", "1>1", "0>2"));
  apply_transform(one, "self-loops", "edge");
  EXPECT_THAT(edges_of(one), ElementsAre("0>0", "1>0", "2>0", "0>1", "1>1", "0>2", "2>2"));
  EXPECT_THAT(values_of(one, "edge.weight"), ElementsAre(1, 1, 4, 1, 3, 4, 1));
  apply_transform(one, "no-loops", "edge");
  EXPECT_THAT(edges_of(one), ElementsAre("1>0", "2>0", "0>1", "0>2"));
  apply_transform(one, "degree", "edge");
  EXPECT_THAT(values_of(one, "node.degree"), ElementsAre(2, 1, 1));
}

TEST(Transform, NormalisesAsGcn) {
  GraphTables tables = graph(3, {{0, 1}, {1, 0}});
  apply_transform(tables, "self-loops", "edge");
  apply_transform(tables, "gcn", "edge");
  EXPECT_THAT(edges_of(tables), ElementsAre("0>0", "1>0", "0>1", "1>1", "2>2"));
  EXPECT_THAT(values_of(tables, "edge.weight"), ElementsAre(0.5f, 0.5f, 0.5f, 0.5f, 1));
  tables.set_field<float>({.name = "weight", .per = Per::kEdge, .of = "edge"}, {-1, 0, 0, 0, 0});
  EXPECT_THAT(error_of([&] { gcn_normalise(tables, "edge"); }), HasSubstr("negative weights"));
}

TEST(Transform, NormalisesRows) {
  GraphTables tables = graph(3, {});
  tables.set_field<float>({.name = "x", .of = "node", .shape = Shape{2}}, {1, 3, 0, 0, -2, 2});
  apply_transform(tables, "normalise=x", "edge");
  EXPECT_THAT(values_of(tables, "node.x"), ElementsAre(0.25f, 0.75f, 0, 0, -0.5f, 0.5f));
}

/// Points in a cube, some of them equal.
GraphTables cloud(int64_t nodes) {
  GraphTables tables = graph(nodes, {});
  std::vector<float> pos;
  const RandomStream random(1, RandomPurpose::kTest, 0, 0);
  for (int64_t i = 0; i < nodes * 3; ++i) pos.push_back(std::floor(random.uniform(static_cast<uint64_t>(i)) * 16) / 4);
  tables.set_field({.name = "pos", .of = "node", .shape = Shape{3}}, pos);
  return tables;
}

double squared(const std::vector<float>& pos, int64_t a, int64_t b) {
  double sum = 0;
  for (int64_t k = 0; k < 3; ++k)
    sum += std::pow(double{pos[static_cast<size_t>(a * 3 + k)]} - double{pos[static_cast<size_t>(b * 3 + k)]}, 2);
  return sum;
}

TEST(Transform, RadiusIsExactWithAndWithoutCells) {
  for (const int64_t nodes : {40, 300}) {
    GraphTables tables = cloud(nodes);
    const std::vector<float> pos = values_of(tables, "node.pos");
    std::vector<std::string> expected;
    for (int64_t target = 0; target < nodes; ++target)
      for (int64_t source = 0; source < nodes; ++source)
        if (source != target && squared(pos, source, target) <= 1.25 * 1.25)
          expected.push_back(std::to_string(source) + ">" + std::to_string(target));
    apply_transform(tables, "radius=1.25", "edge");
    EXPECT_EQ(edges_of(tables), expected) << nodes;
    EXPECT_GT(expected.size(), 50u);
    EXPECT_FLOAT_EQ(values_of(tables, "edge.distance")[0],
                    static_cast<float>(std::sqrt(squared(pos, tables.edges[0].source[0], tables.edges[0].target[0]))));
  }
}

TEST(Transform, NearestBreaksTiesByNumber) {
  GraphTables tables = cloud(50);
  const std::vector<float> pos = values_of(tables, "node.pos");
  std::vector<std::string> expected;
  for (int64_t target = 0; target < 50; ++target) {
    std::vector<std::pair<double, int64_t>> others;
    for (int64_t source = 0; source < 50; ++source)
      if (source != target) others.emplace_back(squared(pos, source, target), source);
    std::sort(others.begin(), others.end());
    std::set<int64_t> nearest;
    for (size_t i = 0; i < 6; ++i) nearest.insert(others[i].second);
    for (const int64_t source : nearest) expected.push_back(std::to_string(source) + ">" + std::to_string(target));
  }
  apply_transform(tables, "nearest=6", "edge");
  EXPECT_EQ(edges_of(tables), expected);
  // Fewer nodes than neighbours: all of them.
  GraphTables few = cloud(3);
  nearest_edges(few, "edge", 5);
  EXPECT_EQ(few.edges[0].source.size(), 6u);
}

/// Two cliques of `size` nodes that one edge joins.
GraphTables two_cliques(int32_t size) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const int32_t first : {0, size})
    for (int32_t a = 0; a < size; ++a)
      for (int32_t b = 0; b < size; ++b)
        if (a != b) edges.emplace_back(first + a, first + b);
  edges.emplace_back(0, size);
  return graph(2 * size, edges);
}

TEST(Transform, Partitions) {
  GraphTables tables = two_cliques(8);
  apply_transform(tables, "contiguous=4", "edge");
  EXPECT_THAT(values_of(tables, "node.part"), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
  apply_transform(tables, "random=4", "edge");
  std::vector<float> part = values_of(tables, "node.part");
  for (const float k : {0, 1, 2, 3}) EXPECT_EQ(std::count(part.begin(), part.end(), k), 4);
  if (has_metis()) {
    apply_transform(tables, "metis=2", "edge");
    part = values_of(tables, "node.part");
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(part[i], i < 8 ? part[0] : 1 - part[0]) << i;
  } else {
    EXPECT_THAT(error_of([&] { apply_transform(tables, "metis=2", "edge"); }), HasSubstr("has no METIS"));
  }
  read_partition(tables, "edge", "0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n", "graph.part.2");
  EXPECT_EQ(values_of(tables, "node.part")[3], 1);
  EXPECT_THAT(error_of([&] { read_partition(tables, "edge", "0\n", "p"); }), HasSubstr("one part for each node"));
  EXPECT_THAT(error_of([&] { partition_nodes(tables, "edge", Partition::kRandom, 17); }), HasSubstr("so many parts"));
}

TEST(Transform, SamplesGraphs) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 20;
  std::vector<float> x, y;
  for (int32_t g = 0; g < 20; ++g) {
    for (int32_t i = 0; i <= g % 3; ++i) {
      x.push_back(static_cast<float>(10 * g + i));
      tables.edges[0].source.push_back(i), tables.edges[0].target.push_back(0);
    }
    y.push_back(static_cast<float>(g));
    tables.nodes[0].ptr.push_back(std::ssize(x));
    tables.edges[0].ptr.push_back(std::ssize(x));
  }
  tables.set_field({.name = "x", .of = "node"}, x);
  tables.set_field(Field{.name = "e", .per = Per::kEdge, .of = "edge"}, x);
  tables.set_field(Field{.name = "y", .per = Per::kGraph}, y);
  apply_transform(tables, "sample=7:3", "edge");
  const GraphSet set(tables, "sample");
  EXPECT_EQ(set.graphs(), 7);
  const std::vector<float> kept = values_of(tables, "graph.y"), of_nodes = values_of(tables, "node.x");
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(std::set<float>(kept.begin(), kept.end()).size(), 7u);
  std::vector<float> expected;
  for (const float g : kept)
    for (int32_t i = 0; i <= static_cast<int32_t>(g) % 3; ++i) expected.push_back(10 * g + static_cast<float>(i));
  EXPECT_EQ(of_nodes, expected);
  EXPECT_EQ(values_of(tables, "edge.e"), expected);
  EXPECT_THAT(error_of([&] { apply_transform(tables, "sample=8:3", "edge"); }), HasSubstr("expected at most 7"));
}

TEST(Transform, DrawsSplits) {
  GraphTables tables = graph(10, {{0, 1}});
  apply_transform(tables, "split=4:3:2:7", "edge");
  const std::vector<float> first = values_of(tables, "node.split");
  EXPECT_EQ(std::count(first.begin(), first.end(), 0), 4);
  EXPECT_EQ(std::count(first.begin(), first.end(), 1), 3);
  EXPECT_EQ(std::count(first.begin(), first.end(), 3), 1);
  apply_transform(tables, "split=4:3:2:7", "edge");
  EXPECT_EQ(values_of(tables, "node.split"), first);
  apply_transform(tables, "split=4:3:2:8", "edge");
  EXPECT_NE(values_of(tables, "node.split"), first);
  EXPECT_THAT(error_of([&] { apply_transform(tables, "split=4:3:4:7", "edge"); }),
              HasSubstr("a split has more members than the data; found 11; expected at most 10"));
  EXPECT_THAT(error_of([&] { apply_transform(tables, "split=4:3", "edge"); }),
              HasSubstr("found '4:3'; expected TRAIN:VALIDATION:TEST:SEED"));
  EXPECT_THAT(error_of([&] { apply_transform(tables, "split=4:3:x:7", "edge"); }), HasSubstr("'x'"));
}

TEST(Transform, NamesWhatIsWrong) {
  GraphTables tables = graph(2, {{0, 1}});
  EXPECT_THAT(error_of([&] { apply_transform(tables, "loops", "edge"); }),
              HasSubstr("unknown transform; found 'loops'; expected one of no-loops, "));
  EXPECT_THAT(error_of([&] { apply_transform(tables, "radius", "edge"); }), HasSubstr("expected radius=R"));
  EXPECT_THAT(error_of([&] { apply_transform(tables, "radius=-1", "edge"); }), HasSubstr("positive"));
  EXPECT_THAT(error_of([&] { apply_transform(tables, "radius=2", "edge"); }), HasSubstr("have no positions"));
  EXPECT_THAT(error_of([&] { apply_transform(tables, "gcn", "edges"); }), HasSubstr("found 'edges'; expected one of"));
}

/// An undirected graph of these pairs.
GraphTables both_ways(int64_t nodes, const std::vector<std::pair<int32_t, int32_t>>& pairs) {
  GraphTables tables = graph(nodes, pairs);
  apply_transform(tables, "undirected", "edge");
  return tables;
}

TEST(Positions, LaplacianOfAPathOfThree) {
  GraphTables tables = both_ways(3, {{0, 1}, {1, 2}});
  apply_transform(tables, "laplacian=4", "edge");
  const std::vector<float> values = values_of(tables, "node.laplacian");
  // Eigenvalues 0, 1 and 2: (1, 0, -1) and (1, -sqrt 2, 1), each of length 1.
  const float half = 0.5f, root = std::sqrt(0.5f);
  const std::vector<float> expected{root, half, 0, 0, 0, -root, 0, 0, -root, half, 0, 0};
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-7) << i;
}

TEST(Positions, LaplacianEigenvectorsOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const RandomStream random(seed, RandomPurpose::kSampling, 0, 1);
    const auto nodes = static_cast<int32_t>(2 + random.below(0, 30));
    std::set<std::pair<int32_t, int32_t>> pairs;
    for (uint64_t e = 0; e < 2 * static_cast<uint64_t>(nodes); ++e) {
      const auto a = static_cast<int32_t>(random.below(2 * e + 1, static_cast<uint32_t>(nodes)));
      const auto b = static_cast<int32_t>(random.below(2 * e + 2, static_cast<uint32_t>(nodes)));
      if (a != b) pairs.emplace(std::min(a, b), std::max(a, b));
    }
    GraphTables tables = both_ways(nodes, {pairs.begin(), pairs.end()});
    const int64_t count = nodes - 1;
    apply_transform(tables, "laplacian=" + std::to_string(count), "edge");
    const std::vector<float> values = values_of(tables, "node.laplacian");
    std::vector<double> degree(static_cast<size_t>(nodes));
    for (const auto& [a, b] : pairs) ++degree[static_cast<size_t>(a)], ++degree[static_cast<size_t>(b)];
    double before = 0;
    for (int64_t k = 0; k < count; ++k) {
      const auto at = [&](int32_t i) { return static_cast<double>(values[static_cast<size_t>(i * count + k)]); };
      std::vector<double> image(static_cast<size_t>(nodes));
      for (int32_t i = 0; i < nodes; ++i)
        image[static_cast<size_t>(i)] = degree[static_cast<size_t>(i)] > 0 ? at(i) : 0;
      for (const auto& [a, b] : pairs) {
        const double weight = 1 / std::sqrt(degree[static_cast<size_t>(a)] * degree[static_cast<size_t>(b)]);
        image[static_cast<size_t>(a)] -= weight * at(b);
        image[static_cast<size_t>(b)] -= weight * at(a);
      }
      double eigenvalue = 0, length = 0;
      for (int32_t i = 0; i < nodes; ++i) eigenvalue += image[static_cast<size_t>(i)] * at(i), length += at(i) * at(i);
      EXPECT_NEAR(length, 1, 1e-6);
      EXPECT_GE(eigenvalue, before - 1e-6);
      for (int32_t i = 0; i < nodes; ++i) EXPECT_NEAR(image[static_cast<size_t>(i)], eigenvalue * at(i), 1e-6);
      for (int32_t i = 0; i < nodes; ++i)
        if (std::abs(at(i)) > 2e-6) {
          EXPECT_GT(at(i), 0);
          break;
        }
      before = eigenvalue;
    }
  }
}

TEST(Positions, ReturnsOfARingAndOfATriangle) {
  GraphTables ring = both_ways(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
  apply_transform(ring, "returns=4", "edge");
  EXPECT_THAT(values_of(ring, "node.returns"),
              ElementsAre(0, .5f, 0, .5f, 0, .5f, 0, .5f, 0, .5f, 0, .5f, 0, .5f, 0, .5f));
  GraphTables triangle = both_ways(4, {{0, 1}, {1, 2}, {2, 0}});  // and a node alone
  apply_transform(triangle, "returns=3", "edge");
  EXPECT_THAT(values_of(triangle, "node.returns"), ElementsAre(0, .5f, .25f, 0, .5f, .25f, 0, .5f, .25f, 0, 0, 0));
}

TEST(Positions, BadGraphsAreRefused) {
  GraphTables directed = graph(3, {{0, 1}});
  EXPECT_THAT(error_of([&] { apply_transform(directed, "laplacian=2", "edge"); }), HasSubstr("both directions"));
  GraphTables large = both_ways(1001, {{0, 1}});
  EXPECT_THAT(error_of([&] { apply_transform(large, "laplacian=2", "edge"); }), HasSubstr("too many nodes"));
  EXPECT_THAT(error_of([&] { apply_transform(large, "returns=2", "edge"); }), HasSubstr("too many nodes"));
  EXPECT_THAT(error_of([&] { apply_transform(large, "returns=0", "edge"); }), HasSubstr("out of range"));
}

}  // namespace
}  // namespace ramet::tests
