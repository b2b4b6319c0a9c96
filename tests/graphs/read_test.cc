#include "ramet/graphs/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ramet/base/file.h"
#include "ramet/graphs/summary.h"
#include "ramet/graphs/transform.h"
#include "support/errors.h"
#include "support/npy_file.h"
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

/// Files of NumPy in a folder of their own, read as one graph.
class ReadNpzFiles : public testing::Test {
 protected:
  using Arrays = std::vector<std::pair<std::string, std::string>>;
  GraphTables tables(const Arrays& arrays) {
    write_file_atomic(folder_ / "g.npz", npz_file(arrays));
    return graphs::read_npz(folder_ / "g.npz");
  }
  GraphSet set(const Arrays& arrays) { return GraphSet(tables(arrays), "g"); }
  std::string error(const Arrays& arrays) {
    return error_of([&] { set(arrays); });
  }
  /// Nodes 0, 1, 2 with x, and edges 0 > 1, 2 > 1 and 1 > 0; `more` joins them, or takes the place of one of them.
  static Arrays with(const Arrays& more) {
    Arrays all{{"edge_index", npy_of<int64_t>("<i8", "(2, 3)", {0, 2, 1, 1, 1, 0})},
               {"x", npy_of<float>("<f4", "(3, 1)", {5, 6, 7})}};
    for (const auto& each : more) {
      std::erase_if(all, [&](const auto& other) { return other.first == each.first; });
      all.push_back(each);
    }
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(ReadNpzFiles, TakesEdgesTheirFieldsAndMasks) {
  const GraphSet read = set(with({{"y", npy_of<int32_t>("<i4", "(3,)", {4, 4, 9})},
                                  {"edge_attr", npy_of<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6})},
                                  {"edge_weight", npy_of<double>("<f8", "(3,)", {0.5, 0.25, 2})},
                                  {"train_mask", npy_of<uint8_t>("|b1", "(3,)", {1, 0, 0})},
                                  {"test_mask", npy_of<uint8_t>("|b1", "(3,)", {0, 0, 1})}}));
  EXPECT_THAT(edges_of(read), ElementsAre("1>0", "0>1", "2>1"));
  EXPECT_THAT(floats(read, "node.x"), ElementsAre(5, 6, 7));
  EXPECT_THAT(floats(read, "node.y"), ElementsAre(0, 0, 1));
  EXPECT_THAT(floats(read, "edge.attributes"), ElementsAre(5, 6, 1, 2, 3, 4));  // as the edges moved
  EXPECT_THAT(floats(read, "edge.weight"), ElementsAre(2, 0.5f, 0.25f));
  EXPECT_THAT(floats(read, "node.split"), ElementsAre(0, 3, 2));
  EXPECT_THAT(read.fields()[read.field("node.split")].values, ElementsAre("train", "validation", "test", "none"));
}

TEST_F(ReadNpzFiles, TakesWeightsOfAnAdjacencyMatrix) {
  const auto matrix = [](const std::vector<float>& values) {
    return Arrays{{"adj_data", npy_of<float>("<f4", "(2,)", values)},
                  {"adj_indices", npy_of<int32_t>("<i4", "(2,)", {1, 0})},
                  {"adj_indptr", npy_of<int32_t>("<i4", "(3,)", {0, 1, 2})},
                  {"adj_shape", npy_of<int64_t>("<i8", "(2,)", {2, 2})}};
  };
  EXPECT_THAT(floats(set(matrix({0.5f, 3})), "edge.weight"), ElementsAre(3, 0.5f));
  EXPECT_FALSE(set(matrix({1, 1})).has("edge.weight"));
}

TEST_F(ReadNpzFiles, NamesWhatItDoesNotRead) {
  const std::string mask = npy_of<uint8_t>("|b1", "(3, 2)", {1, 0, 0, 1, 0, 0});
  const std::vector<std::string> notes =
      tables(with({{"train_mask", mask}, {"names", npy_of<int8_t>("|i1", "(1,)", {1})}})).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], testing::EndsWith("g.npz: entries that are not read: train_mask, names"));
  EXPECT_THAT(tables(with({})).notes, ElementsAre());
}

TEST_F(ReadNpzFiles, NamesWhatIsWrong) {
  using namespace std::string_literals;
  EXPECT_THAT(error(with({{"edge_index", npy_of<int64_t>("<i8", "(2, 1)", {3, 0})}})),
              HasSubstr("edge 3 -> 0 of graph 0: an edge names a node that its graph does not have; found 3"));
  EXPECT_THAT(error(with({{"edge_index", npy_of<int64_t>("<i8", "(2, 1)", {int64_t{1} << 33, 0})}})),
              HasSubstr("edges: an edge names a node that there is not; found 8589934592 -> 0"));
  EXPECT_THAT(error(with({{"edge_index", npy_of<int64_t>("<i8", "(2, 1)", {0, -1})}})), HasSubstr("found 0 -> -1"));
  EXPECT_THAT(error(with({{"edge_index", npy_of<float>("<f4", "(2, 1)", {0, 1})}})),
              HasSubstr("edge_index: the array is no list of edges; found f32[2,1]; expected integers [2, edges]"));
  EXPECT_THAT(error(with({{"x", npy_of<float>("<f4", "(3, 1)", {5, NAN, 7})}})),
              HasSubstr("node.x, node 1: a field has a value that is not finite"));
  EXPECT_THAT(error(with({{"y", npy_of<float>("<f4", "(3,)", {1, 2, 3})}})),
              HasSubstr("y: there is not one whole number a node; found f32[3]; expected integers [3]"));
  EXPECT_THAT(error(with({{"edge_attr", npy_of<float>("<f4", "(2,)", {1, 2})}})),
              HasSubstr("edge_attr: there is not one row an edge; found f32[2]; expected [3]"));
  const std::string some = npy_of<uint8_t>("|b1", "(3,)", {0, 1, 1});
  EXPECT_THAT(error(with({{"train_mask", some}, {"val_mask", some}})),
              HasSubstr("val_mask: a node is in two parts of the split; found node 1"));
  const std::string evil = npy_file("|O", "()",
                                    "\x80\x02"
                                    "cos\nsystem\nX\x09\0\0\0touch /tm\x85R."s);
  for (const char* entry : {"adj_matrix", "x", "node_label"}) {
    Arrays arrays = entry == std::string("adj_matrix") ? Arrays{{entry, evil}} : with({{entry, evil}});
    EXPECT_THAT(error(arrays), AllOf(HasSubstr(std::string("g.npz: ") + entry), HasSubstr("'os.system'"),
                                     HasSubstr("nothing of it was run")));
  }
}

/// A folder of QM9's arrays: water and helium, without edges.
class ReadQm9 : public testing::Test {
 protected:
  void SetUp() override {
    put("z", npy_of<uint8_t>("|u1", "(4,)", {8, 1, 1, 2}));
    put("pos", npy_of<float>("<f4", "(4, 3)", {0, 0, 0, 1, 0, 0, 0, 1, 0, 5, 5, 5}));
    put("ptr", npy_of<int64_t>("<i8", "(3,)", {0, 3, 4}));
    put("y", npy_of<double>("<f8", "(2, 2)", {0.5, -1, 2, 3}));
    put("index", npy_of<int32_t>("<i4", "(2,)", {7, 9}));
  }
  void put(const std::string& name, const std::string& file) { write_file_atomic(folder_ / (name + ".npy"), file); }
  GraphSet set() { return GraphSet(graphs::read_qm9(folder_.path()), "qm9"); }
  /// What a reader says of one other file.
  std::string error(const std::string& name, const std::string& file) {
    const std::string good = read_file(folder_ / (name + ".npy"));
    put(name, file);
    const std::string message = error_of([&] { set(); });
    put(name, good);
    return message;
  }
  TemporaryFolder folder_;
};

TEST_F(ReadQm9, ReadsMolecules) {
  const GraphSet read = set();
  EXPECT_THAT(read.node_ptr(0), ElementsAre(0, 3, 4));
  EXPECT_THAT(read.edge_ptr(0), ElementsAre(0, 0, 0));
  EXPECT_THAT(floats(read, "node.z"), ElementsAre(8, 1, 1, 2));
  EXPECT_EQ(floats(read, "node.pos")[3], 1);
  EXPECT_THAT(floats(read, "graph.y"), ElementsAre(0.5f, -1, 2, 3));
  EXPECT_EQ(read.fields()[read.field("graph.y")].dtype, DType::kF64);
  EXPECT_THAT(floats(read, "graph.index"), ElementsAre(7, 9));
  // Pointers may be floats, as long as they are whole.
  put("ptr", npy_of<double>("<f8", "(3,)", {0, 3, 4}));
  EXPECT_EQ(set().contents(), read.contents());
}

TEST_F(ReadQm9, NamesWhatIsWrong) {
  const auto pointers = [&](const std::vector<double>& values) {
    return error("ptr", npy_of<double>("<f8", "(3,)", values));
  };
  EXPECT_THAT(pointers({0, 3, 3}),
              HasSubstr("ptr.npy: the molecules do not end with the last atom; found 3; expected 4"));
  EXPECT_THAT(pointers({0, 1.5, 4}), HasSubstr("ptr.npy, element 1: a number is none, or out of range; found 1.5"));
  EXPECT_THAT(pointers({0, 1e30, 4}), HasSubstr("ptr.npy, element 1: a number is none, or out of range"));
  EXPECT_THAT(pointers({0, -1, 4}), HasSubstr("expected a whole number from 0 to 4"));
  EXPECT_THAT(pointers({0, NAN, 4}), HasSubstr("ptr.npy, element 1"));
  EXPECT_THAT(pointers({4, 3, 4}), HasSubstr("does not begin at 0"));
  EXPECT_THAT(error("index", npy_of<float>("<f4", "(2,)", {1e30f, 0})), HasSubstr("index.npy, element 0"));
  EXPECT_THAT(error("index", npy_of<int32_t>("<i4", "(1,)", {7})), HasSubstr("there is not one number a molecule"));
  EXPECT_THAT(error("z", npy_of<uint8_t>("|u1", "(4,)", {8, 1, 0, 2})),
              HasSubstr("z.npy, atom 2: an atom is of an unknown element; found 0; expected 1 to 118"));
  EXPECT_THAT(error("z", npy_of<uint8_t>("|u1", "(4,)", {8, 119, 1, 2})), HasSubstr("found 119"));
  EXPECT_THAT(error("z", npy_of<int64_t>("<i8", "(4,)", {8, 1, 1, 2})),
              HasSubstr("found i64[4] and f32[4,3]; expected z u8 [atoms] and pos f32 [atoms,3]"));
  EXPECT_THAT(error("pos", npy_of<float>("<f4", "(4, 3)", {0, 0, 0, 1, NAN, 0, 0, 1, 0, 5, 5, 5})),
              HasSubstr("node.pos, node 1, element 1: a field has a value that is not finite"));
  EXPECT_THAT(error("y", npy_of<double>("<f8", "(2, 2)", {0.5, -1, 2, NAN})), HasSubstr("graph.y, graph 1, element 1"));
  EXPECT_THAT(error("y", npy_of<float>("<f4", "(2, 2)", {0.5f, -1, 2, 3})), HasSubstr("and f32[2,2]; expected ptr"));
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
