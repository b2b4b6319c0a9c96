#include "ramet/model/graph_net.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/model/graph_layers.h"
#include "ramet/ops/build_elementwise.h"

namespace ramet::model {
namespace {

/// The layers that follow one another, with dropout in front of each; of a task of graphs a dense layer on what
/// `readout` makes of the nodes.
Tensor layers(GraphNetBuilder& net) {
  const GraphNetConfig& config = net.config();
  const GraphTask& task = net.task();
  Tensor x = net.node_features();
  for (int64_t i = 0; i < config.layers; ++i) {
    PartScope part(net.build(), "layer", i);
    const std::string name = "convs." + std::to_string(i);
    const bool last = i + 1 == config.layers;
    const int64_t out = last && !task.per_graph ? task.answers() : config.hidden, heads = last ? 1 : config.heads;
    x = net.drop(x, config.dropout, name + ".drop");
    switch (config.family) {
      case GraphFamily::kGcn: x = gcn_layer(net, x, name, out); break;
      case GraphFamily::kSage: x = sage_layer(net, x, name, out); break;
      case GraphFamily::kClusterGcn: x = cluster_gcn_layer(net, x, name, out); break;
      case GraphFamily::kGat: x = gat_layer(net, x, name, out, heads); break;
      case GraphFamily::kGatV2: x = gatv2_layer(net, x, name, out, heads); break;
      case GraphFamily::kGine: x = gine_layer(net, x, name, out); break;
      case GraphFamily::kPna: x = pna_layer(net, x, name, out); break;
      default: x = edge_conv_layer(net, x, name, out);
    }
    const bool attention = config.family == GraphFamily::kGat || config.family == GraphFamily::kGatV2;
    if (!last || task.per_graph) x = attention ? elu(x) : relu(x);
  }
  return x;
}

/// A dense layer on the nodes, or on what `readout` makes of them.
Tensor dense_answers(GraphNetBuilder& net, Tensor x) {
  Scope scope(net.build(), "head");
  const Tensor pooled = net.task().per_graph ? net.of_graphs(x) : x;
  return net.dense(net.drop(pooled, net.config().dropout, "lin.drop"), "lin", net.task().answers());
}

/// GIN's answers for the features and for each layer, added up.
Tensor isomorphism_answers(GraphNetBuilder& net) {
  const auto answer = [&](Tensor x, int64_t layer) {
    const std::string name = "linears." + std::to_string(layer);
    const Tensor pooled = net.task().per_graph ? net.of_graphs(x) : x;
    return net.drop(net.dense(pooled, name, net.task().answers()), net.config().dropout, name + ".drop");
  };
  Tensor x = net.node_features();
  Tensor sum = answer(x, 0);
  for (int64_t i = 0; i < net.config().layers; ++i) {
    PartScope part(net.build(), "layer", i);
    x = gin_layer(net, x, "convs." + std::to_string(i), net.config().hidden);
    sum = add(sum, answer(x, i + 1));
  }
  return sum;
}

Tensor answers(GraphNetBuilder& net) {
  switch (net.config().family) {
    case GraphFamily::kGin: return isomorphism_answers(net);
    case GraphFamily::kMpnn: return dense_answers(net, mpnn_nodes(net));
    case GraphFamily::kSchNet: {
      const Tensor of_nodes = schnet_nodes(net);
      return net.task().per_graph ? net.of_graphs(of_nodes) : of_nodes;
    }
    default: return net.task().per_graph ? dense_answers(net, layers(net)) : layers(net);
  }
}

[[noreturn]] void fail(const std::string& what, const std::string& found = "", const std::string& remedy = "") {
  throw Error({.what = what, .where = "model (graphs)", .found = found, .remedy = remedy});
}

void check_task(const GraphFamilyInfo& info, const GraphTask& task) {
  if (task.room.graphs < 1 || task.room.nodes < 1) fail("a batch has no room for a graph");
  if (task.cut && task.per_graph)
    fail("a graph that is cut has labels of nodes alone", "a label of graphs", "Make batches in another way");
  if (task.cut && task.micro_batch != task.cut->clusters)
    fail("a micro-batch of a graph that is cut has all of its clusters", std::to_string(task.micro_batch),
         "Set train.micro_batch = " + std::to_string(task.cut->clusters));
  if (task.features.empty())
    fail("the nodes have no features to read", "", "Name a field of nodes, or make one with `--apply degree`");
  if (info.edge_weights && !task.edge_weights)
    fail(info.kind + " reads weights of edges, which the graphs do not have", "no field edge.weight",
         "Prepare the set with `--apply self-loops,gcn`");
  if (info.edge_features && task.edge_features.empty())
    fail(info.kind + " reads features of edges", "none", "Name fields of edges in data.graphs.edge_features");
  if (!info.edge_features && !task.edge_features.empty())
    fail(info.kind + " reads no features of edges", task.edge_features[0].key);
  for (const GraphFeature& feature : task.features)
    if (feature.sparse && (!info.sparse_features || task.features.size() > 1))
      fail(info.sparse_features ? "sparse features must be the only ones" : info.kind + " reads no sparse features",
           feature.key);
  if (info.pairs && (task.features.size() != 1 || task.features[0].categories == 0))
    fail(info.kind + " reads one category of each node", std::to_string(task.features.size()) + " features",
         "Name one field of nodes that holds whole numbers, such as node.z");
  if (task.targets() > 0 && !task.per_graph) fail("numbers can be learned of graphs, not of nodes");
  if (task.target_deviation.size() != task.target_mean.size()) fail("a target has no deviation");
  for (const double deviation : task.target_deviation)
    if (!(deviation > 0)) fail("all graphs have one value of the target", "deviation " + std::to_string(deviation));
}

void check(const GraphNetConfig& config, const GraphTask& task) {
  if (config.layers < 1 || config.hidden < 1 || config.heads < 1 || task.micro_batch < 1 || task.classes < 2)
    fail("sizes of the model must be positive, and there must be two classes");
  check_task(info_of(config.family), task);
  const std::vector<std::string> readouts{"sum", "mean", "max"}, losses{"squared", "absolute", "binary"};
  if (std::find(readouts.begin(), readouts.end(), config.readout) == readouts.end())
    fail("unknown readout", "'" + config.readout + "'");
  if (std::find(losses.begin(), losses.end(), config.loss) == losses.end())
    fail("unknown loss", "'" + config.loss + "'");
  if (config.loss == "binary" && task.targets() == 0)
    fail("tasks of yes or no have a label of numbers, 1 or 0", "a category", "Leave model.graph.loss out");
  if (config.family != GraphFamily::kSchNet) return;
  if (!(config.cutoff > 0) || config.gaussians < 2)
    fail("SchNet needs a positive cutoff and two or more Gaussians",
         std::to_string(config.cutoff) + " and " + std::to_string(config.gaussians));
  if (config.filter_points != 0 && config.filter_points < 4)
    fail("a table of filters needs four or more distances", std::to_string(config.filter_points),
         "0 is without a table");
}

}  // namespace

const std::vector<GraphFamilyInfo>& graph_families() {
  static const std::vector<GraphFamilyInfo> all = {
      {.family = GraphFamily::kGcn, .kind = "gcn", .edge_weights = true, .sparse_features = true},
      {.family = GraphFamily::kSage, .kind = "sage", .sparse_features = true},
      {.family = GraphFamily::kGat, .kind = "gat", .sparse_features = true},
      {.family = GraphFamily::kGatV2, .kind = "gatv2", .sparse_features = true},
      {.family = GraphFamily::kGin, .kind = "gin"},
      {.family = GraphFamily::kGine, .kind = "gine", .edge_features = true},
      {.family = GraphFamily::kPna, .kind = "pna", .degrees = true},
      {.family = GraphFamily::kEdgeConv, .kind = "edge_conv"},
      {.family = GraphFamily::kMpnn, .kind = "mpnn", .edge_features = true},
      {.family = GraphFamily::kClusterGcn, .kind = "cluster_gcn"},
      {.family = GraphFamily::kSchNet, .kind = "schnet", .pairs = true}};
  return all;
}

const GraphFamilyInfo& info_of(GraphFamily family) {
  for (const GraphFamilyInfo& each : graph_families())
    if (each.family == family) return each;
  throw Error({.what = "unknown family of networks for graphs", .where = "model (graphs)"});
}

std::optional<GraphFamily> graph_family(const std::string& kind) {
  for (const GraphFamilyInfo& each : graph_families())
    if (each.kind == kind) return each.family;
  return {};
}

std::vector<std::string> graph_kinds() {
  std::vector<std::string> names;
  for (const GraphFamilyInfo& each : graph_families()) names.push_back(each.kind);
  return names;
}

Model build_graph_net(const GraphNetConfig& config, const GraphTask& task) {
  check(config, task);
  Model model;
  model.name = info_of(config.family).kind;
  const auto write = [&](Graph& graph, bool first, GraphNetBuilder::Use use) {
    GraphNetBuilder net(config, task, graph, first ? &model.weights : nullptr, first ? &model.states : nullptr, use);
    net.finish(answers(net));
  };
  write(model.forward, true, GraphNetBuilder::Use::kTrain);
  write(model.evaluate, false, GraphNetBuilder::Use::kEvaluate);
  model.programs.push_back({.name = "predict", .graph = Graph("predict")});
  write(model.programs.back().graph, false, GraphNetBuilder::Use::kPredict);
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
  }
  const int64_t items = task.micro_batch * (task.per_graph ? task.room.graphs : task.room.nodes);
  if (task.targets() > 0 && config.loss == "binary") {
    model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count")};
    model.limit_items("loss", items * task.targets());
  } else if (task.targets() > 0) {
    model.metrics = {mean_metric("loss", "count"), mean_metric("absolute", "count"), mean_metric("squared", "count")};
    for (const char* metric : {"loss", "absolute", "squared"}) model.limit_items(metric, items * task.targets());
  } else {
    limit_input(model, "labels", -1, static_cast<double>(task.classes - 1));
    model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count")};
    model.limit_items("loss", items);
  }
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
