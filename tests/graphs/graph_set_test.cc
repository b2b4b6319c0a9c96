#include "ramet/graphs/graph_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/file.h"
#include "ramet/weights/safetensors.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two graphs: nodes 0, 1, 2 with four edges, of which two are equal; one node without edges.
GraphTables two_graphs() {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 2;
  tables.nodes[0].ptr = {0, 3, 4};
  tables.edges[0].ptr = {0, 4, 4};
  tables.edges[0].source = {2, 0, 1, 0};
  tables.edges[0].target = {1, 1, 0, 1};
  tables.set_field<float>({.name = "x", .of = "node", .shape = Shape{2}}, {1, 2, 3, 4, 5, 6, 7, 8});
  tables.set_field<int32_t>({.name = "kind", .per = Per::kEdge, .of = "edge", .dtype = DType::kI32}, {10, 11, 12, 13});
  tables.set_field<double>({.name = "y", .per = Per::kGraph, .dtype = DType::kF64}, {0.5, 1.5});
  return tables;
}

TEST(GraphSet, SortsEdgesStably) {
  const GraphSet set(two_graphs(), "two");
  EXPECT_THAT(set.sources(0), ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(set.targets(0), ElementsAre(0, 1, 1, 1));
  const size_t kind = set.field("edge.kind");
  EXPECT_THAT(field_floats(set.fields()[kind], set.bytes(kind)), ElementsAre(12, 11, 13, 10));
}

TEST(GraphSet, IsEqualAfterAFile) {
  const TemporaryFolder folder;
  const GraphSet set(two_graphs(), "two");
  set.save(folder / "two.safetensors");
  const GraphSet read = GraphSet::open(folder / "two.safetensors");
  EXPECT_EQ(read.contents(), set.contents());
  EXPECT_EQ(read.host_bytes(), 0);
  GraphSet(read.tables(), "again").save(folder / "again.safetensors");
  EXPECT_EQ(read_file(folder / "again.safetensors"), read_file(folder / "two.safetensors"));
  // What others read: plain tensors under plain names.
  const weights::SafetensorsReader reader(folder / "two.safetensors");
  EXPECT_EQ(reader.get("edge.index").type.text(), "i32[2,4]");
  EXPECT_EQ(reader.get("node.ptr").type.text(), "i64[3]");
  EXPECT_EQ(reader.get("node.x").type.text(), "f32[4,2]");
}

TEST(GraphSet, HoldsSeveralTypes) {
  GraphTables tables{.graphs = 1, .nodes = {{"author", {0, 2}}, {"paper", {0, 3}}}, .edges = {}, .fields = {}};
  tables.edges.push_back({{"author", "writes", "paper"}, {0, 2}, {1, 0}, {2, 0}});
  tables.set_field<int32_t>({.name = "year", .of = "paper", .dtype = DType::kI32}, {1, 2, 3});
  const TemporaryFolder folder;
  GraphSet(tables, "library").save(folder / "l.safetensors");
  const GraphSet set = GraphSet::open(folder / "l.safetensors");
  EXPECT_FALSE(set.homogeneous());
  EXPECT_EQ(set.edge_types()[0].key(), "author/writes/paper");
  EXPECT_THAT(set.sources(0), ElementsAre(0, 1));
  // A source must be an author.
  tables.edges[0].source = {2, 0};
  EXPECT_THAT(error_of([&] { GraphSet(tables, "library"); }),
              HasSubstr("library: author/writes/paper 2 -> 2 of graph 0: an edge names a node that its graph does not "
                        "have; found 2; expected a number below 2"));
}

TEST(GraphSet, NamesWhatIsWrong) {
  const auto error = [](const auto& spoil) {
    GraphTables tables = two_graphs();
    spoil(tables);
    return error_of([&] { GraphSet(std::move(tables), "bad"); });
  };
  EXPECT_THAT(error([](GraphTables& t) { t.edges[0].target[0] = 3; }),
              HasSubstr("2 -> 3 of graph 0: an edge names a node that its graph does not have"));
  EXPECT_THAT(error([](GraphTables& t) { t.edges[0].source[1] = -1; }), HasSubstr("found -1"));
  EXPECT_THAT(error([](GraphTables& t) { t.set_field<float>({.name = "x", .of = "node"}, {0, 1, NAN, 2}); }),
              HasSubstr("bad: node.x, node 2: a field has a value that is not finite; found nan"));
  EXPECT_THAT(error([](GraphTables& t) { t.set_field<float>({.name = "x", .of = "node"}, {0, 1, INFINITY, 2}); }),
              HasSubstr("found inf"));
  EXPECT_THAT(
      error([](GraphTables& t) { t.set_field<float>({.name = "x", .of = "node", .missing = true}, {0, 1, NAN, 2}); }),
      HasSubstr("no error"));
  EXPECT_THAT(error([](GraphTables& t) { t.set_field<float>({.name = "x", .of = "node"}, {0, 1}); }),
              HasSubstr("another number of values"));
  EXPECT_THAT(error([](GraphTables& t) { t.nodes[0].ptr = {0, 5, 4}; }), HasSubstr("a table of graphs descends"));
  EXPECT_THAT(error([](GraphTables& t) {
                t.set_field<int32_t>({.name = "k", .of = "node", .dtype = DType::kI32, .values = {"a"}}, {0, 0, 1, 0});
              }),
              HasSubstr("node.k, node 2: a category has no name; found 1; expected a number below 1"));
  EXPECT_THAT(error([](GraphTables& t) { t.graphs = 0; }), HasSubstr("another length than there are graphs"));
  EXPECT_THAT(error_of([] { GraphSet(homogeneous_tables(), "none"); }), HasSubstr("the set has no graph"));
}

TEST(GraphSet, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "x.safetensors";
  weights::SafetensorsWriter writer(path, {{"a", {DType::kF32, Shape{1}}}});
  const float one = 1;
  writer.write(&one, 4);
  writer.close();
  EXPECT_THAT(error_of([&] { GraphSet::open(path); }), HasSubstr("the file is no graph set"));
  GraphSet(two_graphs(), "two").save(path);
  std::string bytes = read_file(path);
  const weights::SafetensorsHeader header = weights::parse_safetensors_header(bytes, "x");
  for (const auto& tensor : header.tensors)
    if (tensor.name == "edge.index") bytes[header.data_offset + tensor.begin + 2] = 1;  // source 0 is now 65537
  write_file_atomic(path, bytes);
  EXPECT_THAT(error_of([&] { GraphSet::open(path); }), HasSubstr("an edge names a node that its graph does not have"));
  write_file_atomic(path, bytes.substr(0, bytes.size() - 4));
  EXPECT_THAT(error_of([&] { GraphSet::open(path); }), HasSubstr("ends before the tensor does"));
}

}  // namespace
}  // namespace ramet::tests
