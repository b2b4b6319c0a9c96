#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/graphs/graph_set.h"
#include "ramet/graphs/transform.h"
#include "ramet/recipe/recipe.h"
#include "support/temporary.h"

namespace ramet::tests {

using Settings = std::vector<std::string>;

/// `count` graphs of 2 to 7 nodes with random edges; the category of a node follows from its features, that of a graph
/// from its size.
inline GraphTables made_graphs(int64_t count) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = count;
  const RandomStream random(11, RandomPurpose::kTest, 0, 0);
  uint64_t next = 0;
  const auto below = [&](uint32_t bound) { return static_cast<int32_t>(random.below(next++, bound)); };
  std::vector<float> x;
  std::vector<int32_t> kind, y;
  std::vector<uint8_t> of_node, of_graph;
  for (int64_t g = 0; g < count; ++g) {
    const int32_t nodes = 2 + below(6);
    for (int32_t i = 0; i < nodes; ++i) {
      kind.push_back(below(3));
      for (int32_t k = 0; k < 5; ++k)
        x.push_back(static_cast<float>(k == kind.back() ? 1 : 0) + 0.1f * static_cast<float>(below(5)));
      of_node.push_back(static_cast<uint8_t>(below(3)));
    }
    for (int32_t e = 0; e < 2 * nodes; ++e) {
      tables.edges[0].source.push_back(below(static_cast<uint32_t>(nodes)));
      tables.edges[0].target.push_back(below(static_cast<uint32_t>(nodes)));
    }
    y.push_back(nodes > 4);
    of_graph.push_back(static_cast<uint8_t>(g % 3 == 2));
    tables.nodes[0].ptr.push_back(std::ssize(kind));
    tables.edges[0].ptr.push_back(std::ssize(tables.edges[0].source));
  }
  std::vector<float> pos, bond, size, tasks;
  for (size_t i = 0; i < 3 * kind.size(); ++i) pos.push_back(0.1f * static_cast<float>(below(40)));
  for (size_t e = 0; e < 2 * tables.edges[0].source.size(); ++e) bond.push_back(0.1f * static_cast<float>(below(10)));
  for (size_t g = 0; g < y.size(); ++g)
    size.push_back(3 + 0.25f * static_cast<float>(tables.nodes[0].ptr[g + 1] - tables.nodes[0].ptr[g]));
  // Two tasks of yes or no. Some answers are not known, and of some graphs none is.
  for (size_t g = 0; g < y.size(); ++g) {
    const float of_size = static_cast<float>(y[g]);
    tasks.push_back(g % 4 == 0 ? NAN : of_size);
    tasks.push_back(g % 5 == 1 || g % 8 == 0 ? NAN : 1 - of_size);
  }
  const std::vector<std::string> parts{"train", "validation", "test"};
  tables.set_field({.name = "x", .of = "node", .shape = Shape{5}}, x);
  tables.set_field({.name = "kind", .of = "node", .dtype = DType::kI32, .values = {"a", "b", "c"}}, kind);
  tables.set_field({.name = "split", .of = "node", .dtype = DType::kU8, .values = parts}, of_node);
  tables.set_field(Field{.name = "y", .per = Per::kGraph, .dtype = DType::kI32, .values = {"small", "large"}}, y);
  tables.set_field(Field{.name = "split", .per = Per::kGraph, .dtype = DType::kU8, .values = parts}, of_graph);
  tables.set_field({.name = "pos", .of = "node", .shape = Shape{3}}, pos);
  std::vector<int32_t> order;
  for (size_t e = 0; e < tables.edges[0].source.size(); ++e) order.push_back(below(2));
  tables.set_field(
      Field{.name = "order", .per = Per::kEdge, .of = "edge", .dtype = DType::kI32, .values = {"one", "two"}}, order);
  tables.set_field(Field{.name = "bond", .per = Per::kEdge, .of = "edge", .shape = Shape{2}}, bond);
  tables.set_field(Field{.name = "size", .per = Per::kGraph}, size);
  tables.set_field(Field{.name = "tasks", .per = Per::kGraph, .shape = Shape{2}, .missing = true}, tasks);
  apply_transform(tables, "self-loops", "edge");
  apply_transform(tables, "gcn", "edge");
  apply_transform(tables, "returns=3", "edge");
  GraphTables both = tables;
  apply_transform(both, "undirected", "edge");
  apply_transform(both, "laplacian=2", "edge");
  tables.fields.push_back(*both.find("node.laplacian"));
  return tables;
}

/// The same nodes, with edges between those that are near.
inline GraphTables made_points(int64_t count) {
  GraphTables tables = made_graphs(count);
  apply_transform(tables, "radius=3", "edge");
  return tables;
}

/// Layouts for networks of two layers and four lanes.
inline const std::vector<std::string> kTwoLayerLayouts = {"threads=2",
                                                          "r=2",
                                                          "r=4",
                                                          "p=2",
                                                          "p=2 r=2",
                                                          "p=2 schedule=gpipe",
                                                          "p=2 head=first",
                                                          "phases=2",
                                                          "recompute=cheap",
                                                          "recompute=layer",
                                                          "recompute=all",
                                                          "recompute=layer:1",
                                                          "offload=optimizer",
                                                          "offload=weights phases=2",
                                                          "offload=activations",
                                                          "phases=2 offload=optimizer",
                                                          "r=2 rts=weights",
                                                          "r=2 rts=grads",
                                                          "r=2 rts=optimizer",
                                                          "r=4 rts=weights,grads,optimizer",
                                                          "r=2 phases=2 recompute=layer",
                                                          "p=2 r=2 rts=optimizer recompute=layer"};

class GraphNets : public testing::Test {
 protected:
  void SetUp() override {
    GraphSet(made_graphs(40), "many").save(folder_ / "many.safetensors");
    GraphSet(made_points(40), "points").save(folder_ / "points.safetensors");
    GraphTables one = made_graphs(40);
    one.graphs = 1;  // the same nodes and edges as one graph
    for (size_t g = 0; g + 1 < one.edges[0].ptr.size(); ++g)
      for (auto e = static_cast<size_t>(one.edges[0].ptr[g]); e < static_cast<size_t>(one.edges[0].ptr[g + 1]); ++e) {
        one.edges[0].source[e] += static_cast<int32_t>(one.nodes[0].ptr[g]);
        one.edges[0].target[e] += static_cast<int32_t>(one.nodes[0].ptr[g]);
      }
    one.nodes[0].ptr = {0, one.nodes[0].ptr.back()};
    one.edges[0].ptr = {0, one.edges[0].ptr.back()};
    std::erase_if(one.fields, [](const FieldTable& table) { return table.field.per == Per::kGraph; });
    GraphSet(std::move(one), "one").save(folder_ / "one.safetensors");
  }

  /// A recipe of nodes (on one graph) or of graphs.
  Recipe recipe(const std::string& kind, bool of_graphs, Settings more = {}) const {
    Settings settings = {"model.kind=" + kind,
                         "model.graph.hidden=8",
                         "model.graph.heads=2",
                         "model.graph.dropout=0.2",
                         "data.kind=graphs",
                         "train.micro_batch=1",
                         "train.accumulation=4",
                         "train.lanes=4",
                         "train.steps=6",
                         "train.clip_norm=0.5",
                         "train.schedule.kind=constant",
                         "train.schedule.learning_rate=0.02",
                         "train.evaluation.batches=1",
                         "train.seed=3"};
    if (of_graphs)
      for (const char* each : {"data.graphs.features=node.x,node.kind", "data.graphs.label=graph.y",
                               "data.graphs.split=graph.split", "data.graphs.batch=count:5"})
        settings.emplace_back(each);
    else
      for (const char* each :
           {"data.graphs.features=node.x", "data.graphs.label=node.kind", "data.graphs.split=node.split"})
        settings.emplace_back(each);
    settings.push_back("data.graphs.set=" + (folder_ / (of_graphs ? "many.safetensors" : "one.safetensors")).string());
    if (kind == "gine" || kind == "mpnn") settings.emplace_back("data.graphs.edge_features=edge.bond");
    if (kind == "gps")
      for (const char* each :
           {"data.graphs.edge_features=edge.bond,edge.weight", "data.graphs.positions=node.returns,node.laplacian",
            "model.graph.position_size=3", "model.graph.attention_dropout=0.1", "model.graph.drop_path=0.1"})
        settings.emplace_back(each);
    if (kind == "schnet")
      for (const std::string& each :
           {std::string("data.graphs.features=node.kind"), std::string("data.graphs.label=graph.size"),
            std::string("model.graph.cutoff=3"), std::string("model.graph.gaussians=7"),
            "data.graphs.set=" + (folder_ / "points.safetensors").string()})
        settings.push_back(each);
    settings.insert(settings.end(), more.begin(), more.end());
    return parse_recipe("", "graphs.toml", ".", settings);
  }

  TemporaryFolder folder_;
};

}  // namespace ramet::tests
