#include "ramet/graphs/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ramet/base/file.h"
#include "ramet/graphs/summary.h"
#include "ramet/graphs/transform.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kSamples = std::filesystem::path(RAMET_SOURCE_DIR) / "tests/samples/graphs";

std::vector<float> floats(const GraphSet& set, const std::string& key) {
  const size_t field = set.field(key);
  return field_floats(set.fields()[field], set.bytes(field));
}

std::vector<std::string> edges_of(const GraphSet& set) {
  std::vector<std::string> edges;
  for (size_t e = 0; e < set.sources(0).size(); ++e)
    edges.push_back(std::to_string(set.sources(0)[e]) + ">" + std::to_string(set.targets(0)[e]));
  return edges;
}

TEST(ReadPlanetoid, FollowsThePublicSplit) {
  const GraphSet set(read_planetoid(kSamples, "tiny"), "tiny");
  EXPECT_EQ(set.graphs(), 1);
  EXPECT_THAT(set.node_ptr(0), ElementsAre(0, 5));
  // Rows of test nodes stand in the order of test.index; node 3 is in no file.
  EXPECT_THAT(floats(set, "node.x"), ElementsAre(1, 0, 2, 0, 3, 0, 5, 0, 0, 0, 0, 0, 0, 0, 4));
  EXPECT_THAT(floats(set, "node.y"), ElementsAre(1, 0, 1, -1, 0));
  EXPECT_THAT(floats(set, "node.split"), ElementsAre(0, 1, 2, 3, 2));
  // By target, then by source; the loop and the duplicate are gone.
  EXPECT_THAT(edges_of(set), ElementsAre("1>0", "0>1", "4>1", "1>4"));
}

TEST(ReadPlanetoid, RefusesAMaliciousPickleByName) {
  using namespace std::string_literals;
  const std::string good = read_file(kSamples / "ind.tiny.tx"), index = "4\n2\n";
  const std::string evil =
      "\x80\x02"
      "cos\nsystem\nX\x09\0\0\0touch /tm\x85R."s;
  const std::string message =
      error_of([&] { parse_planetoid({good, evil, good, good, good, good, index}, "ind.evil"); });
  EXPECT_THAT(message, HasSubstr("ind.evil.allx"));
  EXPECT_THAT(message, HasSubstr("'os.system'"));
  EXPECT_THAT(message, HasSubstr("nothing of it was run"));
}

TEST(ReadNpz, ReadsPickledMatricesAndTheirParts) {
  for (const char* name : {"objects.npz", "parts.npz"}) {
    const GraphSet set(read_npz(kSamples / name), name);
    EXPECT_THAT(edges_of(set), ElementsAre("1>0", "0>1", "2>1", "1>2")) << name;
    EXPECT_THAT(floats(set, "node.x"), ElementsAre(1, 0, 0, 2, 3, 0)) << name;
    EXPECT_THAT(floats(set, "node.y"), ElementsAre(0, 1, 0)) << name;
    EXPECT_THAT(set.fields()[set.field("node.y")].values, ElementsAre("2", "5")) << name;
  }
}

TEST(ReadTu, ReadsAllFiles) {
  const TuFiles files{.edges = "4, 3\r\n1, 2\r\n2, 1\r\n3, 4\r\n",
                      .graph_indicator = "1\n1\n3\n3\n",
                      .graph_labels = "1\n-1\n1\n",
                      .graph_attributes = {},
                      .node_labels = "7\n3\n3\n7\n",
                      .node_attributes = "1, 2\n3, 4\n5, 6\n7, 8\n",
                      .edge_labels = "0\n1\n2\n3\n",
                      .edge_attributes = {}};
  const GraphSet set(parse_tu(files, "MINI"), "MINI");
  EXPECT_EQ(set.graphs(), 3);  // the second has no nodes
  EXPECT_THAT(set.node_ptr(0), ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(set.edge_ptr(0), ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(edges_of(set), ElementsAre("1>0", "0>1", "1>0", "0>1"));
  EXPECT_THAT(floats(set, "edge.label"), ElementsAre(2, 1, 0, 3));  // as the edges moved
  EXPECT_THAT(floats(set, "node.label"), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(floats(set, "graph.y"), ElementsAre(1, 0, 1));
  EXPECT_THAT(set.fields()[set.field("graph.y")].values, ElementsAre("-1", "1"));
  EXPECT_EQ(summarise(set).empty, 1);
}

TEST(ReadTu, NamesWhatIsWrong) {
  const auto error = [](TuFiles files) { return error_of([&] { parse_tu(files, "X"); }); };
  const TuFiles good{.edges = "1, 2\n",
                     .graph_indicator = "1\n1\n2\n",
                     .graph_labels = "0\n1\n",
                     .graph_attributes = {},
                     .node_labels = {},
                     .node_attributes = {},
                     .edge_labels = {},
                     .edge_attributes = {}};
  TuFiles bad = good;
  bad.edges = "1, 2\n1, 3\n";
  EXPECT_THAT(error(bad), HasSubstr("X_A.txt:2: an edge joins nodes of different graphs"));
  bad.edges = "1, 4\n";
  EXPECT_THAT(error(bad), HasSubstr("X_A.txt:1: a number is none, or out of range; found '4'; expected a whole number "
                                    "from 1 to 3"));
  bad = good;
  bad.graph_indicator = "1\n2\n1\n";
  EXPECT_THAT(error(bad), HasSubstr("not in the order of their graphs"));
  bad = good;
  bad.graph_labels = "0\n";
  EXPECT_THAT(error(bad), HasSubstr("a node is of a graph that has no label"));
  bad = good;
  bad.node_attributes = "1\nnan\n2\n";
  EXPECT_THAT(error(bad), HasSubstr("X_node_attributes.txt:2: a number is none, or not finite; found 'nan'"));
}

TEST(ReadTu, AddsFolds) {
  GraphTables tables = parse_tu({.edges = "",
                                 .graph_indicator = "1\n2\n3\n",
                                 .graph_labels = "0\n0\n1\n",
                                 .graph_attributes = {},
                                 .node_labels = {},
                                 .node_attributes = {},
                                 .edge_labels = {},
                                 .edge_attributes = {}},
                                "X");
  add_folds(tables, R"([{"test": [2], "model_selection": [{"train": [0], "validation": [1]}]}])", "folds.json");
  EXPECT_THAT(floats(GraphSet(tables, "X"), "graph.split_0"), ElementsAre(0, 1, 2));
  EXPECT_THAT(error_of([&] {
                add_folds(tables, R"([{"test": [3], "model_selection": [{"train": [], "validation": []}]}])", "f");
              }),
              HasSubstr("f, fold 0, test: a graph has a number that there is not; found 3"));
  EXPECT_THAT(error_of([&] { add_folds(tables, "{", "f"); }), HasSubstr("no list of folds"));
}

TEST(ReadTriples, NumbersByFirstAppearance) {
  const GraphSet set(
      parse_triples({{"train", "b\tlikes\ta\r\na\tlikes\tb\r\n", "train.txt"}, {"test", "c\tknows\tb\n", "test.txt"}}),
      "kg");
  EXPECT_THAT(set.names().at("node"), ElementsAre("b", "a", "c"));
  EXPECT_THAT(edges_of(set), ElementsAre("1>0", "2>0", "0>1"));
  EXPECT_THAT(floats(set, "edge.relation"), ElementsAre(0, 1, 0));
  EXPECT_THAT(floats(set, "edge.split"), ElementsAre(0, 2, 0));
  EXPECT_THAT(error_of([] { parse_triples({{"train", "a\tb\n", "t.txt"}}); }),
              HasSubstr("t.txt:1: a line is no triple"));
}

TEST(ReadXyz, ReadsMolecules) {
  const GraphSet set(parse_xyz("2\nany text\nO 0 0 0\nH 0.96 0 -1e-1\n1\n\nHe 1 2 3\n", "m.xyz"), "m.xyz");
  EXPECT_THAT(set.node_ptr(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(floats(set, "node.z"), ElementsAre(8, 1, 2));
  EXPECT_THAT(floats(set, "node.pos"), ElementsAre(0, 0, 0, 0.96f, 0, -0.1f, 1, 2, 3));
  EXPECT_THAT(error_of([] { parse_xyz("2\n\nO 0 0 0\n", "m.xyz"); }), HasSubstr("m.xyz:3: a molecule is not whole"));
  EXPECT_THAT(error_of([] { parse_xyz("1\n\nXx 0 0 0\n", "m.xyz"); }), HasSubstr("unknown element; found 'Xx'"));
  EXPECT_THAT(error_of([] { parse_xyz("1\n\nO 0 nan 0\n", "m.xyz"); }), HasSubstr("not finite; found 'nan'"));
}

TEST(ReadSdf, ReadsBondsChargesAndItems) {
  const GraphSet set(parse_sdf(read_file(kSamples / "two.sdf"), "two.sdf"), "two.sdf");
  EXPECT_THAT(set.node_ptr(0), ElementsAre(0, 3, 5));
  EXPECT_THAT(floats(set, "node.z"), ElementsAre(8, 1, 1, 6, 7));
  EXPECT_THAT(floats(set, "node.charge"), ElementsAre(0, 0, 0, -1, 0));
  EXPECT_THAT(edges_of(set), ElementsAre("1>0", "2>0", "0>1", "0>2", "1>0", "0>1"));
  EXPECT_THAT(floats(set, "edge.bond"), ElementsAre(1, 1, 1, 1, 3, 3));
  EXPECT_THAT(floats(set, "graph.gap__eV_"), ElementsAre(9.5f, 7.25f));
  EXPECT_FALSE(set.has("graph.name"));
  EXPECT_THAT(error_of([] { parse_sdf("a\n\n\n  1  0  0     V3000\n", "v3.sdf"); }), HasSubstr("V3000 are not read"));
  EXPECT_THAT(error_of([] { parse_sdf("a\n\n\n  1  0  0     V2000\n", "cut.sdf"); }),
              HasSubstr("a molecule is not whole"));
}

TEST(ReadCsv, ReadsTablesOfGraphs) {
  const GraphSet set(
      parse_csv_graphs({"graph,source,target,w\nB,x,y,1\nA,u,v,0.5\nB,y,x,\n",
                        "graph,node,kind,size\nA,u,\"a, b\",1\nB,x,c,2\nB,y,,3\nA,v,c,4\n", "graph,y\nA,1.5\nB,2.5\n"},
                       "t"),
      "t");
  EXPECT_THAT(set.node_ptr(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(edges_of(set), ElementsAre("0>1", "1>0", "0>1"));
  EXPECT_THAT(floats(set, "node.size"), ElementsAre(1, 4, 2, 3));
  EXPECT_THAT(floats(set, "node.kind"), ElementsAre(0, 1, 1, -1));
  EXPECT_THAT(set.fields()[set.field("node.kind")].values, ElementsAre("a, b", "c"));
  EXPECT_TRUE(set.fields()[set.field("edge.w")].missing);
  EXPECT_THAT(floats(set, "graph.y"), ElementsAre(1.5f, 2.5f));
  EXPECT_THAT(error_of([] { parse_csv_graphs({"source,target\n0,1\n", "node\n0\n", ""}, "t"); }),
              HasSubstr("an edge names a node that the table of nodes does not have; found '1'"));
  EXPECT_THAT(error_of([] { parse_csv_graphs({"from,target\n0,1\n", "", ""}, "t"); }),
              HasSubstr("no such column; found 'source'; expected one of from or target"));
  EXPECT_THAT(error_of([] { parse_csv_graphs({"source,target\n0,1,2\n", "", ""}, "t"); }), HasSubstr("t (edges):2"));
}

TEST(ReadCsv, RefusesAColumnOfNumbersAndWords) {
  const auto error = [](const std::string& graphs, std::vector<std::string> categories = {}) {
    return error_of([&] {
      const std::string edges = "graph,source,target\nA,0,1\nB,0,1\nC,1,0\n";
      GraphSet(parse_csv_graphs({edges, "", graphs, std::move(categories)}, "t"), "t");
    });
  };
  const std::string typo = "graph,y\nA,1.5\nB,2.5O\nC,x\n";
  EXPECT_THAT(error(typo),
              HasSubstr("t (graphs):3: column 'y' has both numbers and other words; found '2.5O'; expected a "
                        "number, as in line 2, or an empty cell"));
  EXPECT_THAT(error(typo), HasSubstr("--categories"));
  EXPECT_THAT(error(typo, {"y"}), HasSubstr("no error"));
  for (const char* word : {"nan", "NaN", "inf", "-Infinity", "1e999"})
    for (const char* other : {"1", "a"})
      EXPECT_THAT(
          error("graph,y\nA," + std::string(other) + "\nB," + word + "\nC,\n"),
          HasSubstr("t (graphs):3: column 'y' has a value that is not finite; found '" + std::string(word) + "'"));
  EXPECT_THAT(error("graph,y\nA, +1\nB,-2 \nC,\n"), HasSubstr("no error"));
  EXPECT_THAT(error(typo, {"z"}), HasSubstr("no table has a column of this name"));
}

TEST(ReadCsv, MakesCategoriesOfNumbersWhereItIsTold) {
  const std::string edges = "graph,source,target\nA,0,1\nB,0,1\nC,1,0\n";
  const GraphSet set(parse_csv_graphs({edges, "", "graph,y\nA,7\nB,3\nC,\n", {"y"}}, "t"), "t");
  const graphs::Field& field = set.fields()[set.field("graph.y")];
  EXPECT_THAT(field.values, ElementsAre("7", "3"));
  EXPECT_THAT(floats(set, "graph.y"), ElementsAre(0, 1, -1));
}

// --- real data ---

class RealGraphs : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("RAMET_DATA");
    if (!data || !std::filesystem::exists(std::filesystem::path(data) / "planetoid"))
      GTEST_SKIP() << "RAMET_DATA has no graphs";
    data_ = data;
  }
  std::filesystem::path data_;
};

TEST_F(RealGraphs, HaveThePublishedCounts) {
  const auto counts = [](const GraphSet& set) {
    const GraphSummary summary = summarise(set);
    return std::vector<int64_t>{summary.graphs, summary.nodes[0].sizes.total, summary.edges[0].sizes.total,
                                summary.nodes[0].isolated};
  };
  EXPECT_THAT(counts(GraphSet(read_planetoid(data_ / "planetoid", "cora"), "cora")), ElementsAre(1, 2708, 10556, 0));
  EXPECT_THAT(counts(GraphSet(read_planetoid(data_ / "planetoid", "citeseer"), "citeseer")),
              ElementsAre(1, 3327, 9104, 48));
  EXPECT_THAT(counts(GraphSet(read_npz(data_ / "planetoid/dblp.npz"), "dblp")), ElementsAre(1, 17716, 105734, 0));
  EXPECT_THAT(counts(GraphSet(read_tu(data_ / "tudatasets/MUTAG", "MUTAG"), "MUTAG")), ElementsAre(188, 3371, 7442, 0));
  EXPECT_THAT(counts(GraphSet(read_tu(data_ / "tudatasets/PROTEINS", "PROTEINS"), "PROTEINS")),
              ElementsAre(1113, 43471, 162088, 5));
}

}  // namespace
}  // namespace ramet::tests
