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
    const bool answers = last && !task.per_graph && task.tasks.empty();
    const int64_t out = answers ? task.answers() : config.hidden, heads = last ? 1 : config.heads;
    x = net.drop(x, config.dropout, name + ".drop");
    switch (config.family) {
      case GraphFamily::kGcn: x = gcn_layer(net, x, name, out); break;
      case GraphFamily::kSage: x = sage_layer(net, x, name, out); break;
      case GraphFamily::kClusterGcn: x = cluster_gcn_layer(net, x, name, out); break;
      case GraphFamily::kGat: x = gat_layer(net, x, name, out, heads); break;
      case GraphFamily::kGatV2: x = gatv2_layer(net, x, name, out, heads); break;
      case GraphFamily::kGine:
        x = gine_layer(net, x, name, out);
        if (!answers) x = net.batch_norm_of_nodes(x, "norms." + std::to_string(i) + ".module");
        break;
      case GraphFamily::kPna: x = pna_layer(net, x, name, out); break;
      default: x = edge_conv_layer(net, x, name, out);
    }
    const bool attention = config.family == GraphFamily::kGat || config.family == GraphFamily::kGatV2;
    if (!answers) x = attention ? elu(x) : relu(x);
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
    case GraphFamily::kGps: return gps_answers(net, gps_nodes(net));
    default: return net.task().per_graph ? dense_answers(net, layers(net)) : layers(net);
  }
}

/// What the heads of several tasks read: the nodes behind the last layer.
Tensor shared_nodes(GraphNetBuilder& net) {
  switch (net.config().family) {
    case GraphFamily::kGps: return gps_nodes(net);
    case GraphFamily::kMpnn: return mpnn_nodes(net);
    default: return layers(net);
  }
}

[[noreturn]] void fail(const std::string& what, const std::string& found = "", const std::string& remedy = "") {
  throw Error({.what = what, .where = "model (graphs)", .found = found, .remedy = remedy});
}

void check_target(const GraphTarget& target) {
  if (target.answers() < 1) fail("a task has no answers", "'" + target.name + "'");
  if (target.mean.size() != target.deviation.size()) fail("a target has no deviation", "'" + target.name + "'");
  for (const double deviation : target.deviation)
    if (!(deviation > 0)) fail("all known targets of a task have one value", "'" + target.name + "'");
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
  if (task.corrected && !info.correctable)
    fail("samples are corrected where nodes sum neighbours with weights, or take their mean", info.kind,
         "Use gcn or sage, or leave the counted packs out of the batch");
  if (task.corrected && (task.per_graph || !task.tasks.empty()))
    fail("samples are corrected for one label of nodes", task.per_graph ? "a label of graphs" : "several tasks");
  if (!info.positions && !task.positions.empty())
    fail(info.kind + " reads no positions of nodes", task.positions[0].key, "Name the field in data.graphs.features");
  for (const GraphFeature& field : task.positions)
    if (field.categories > 0) fail("positions of nodes are floats", field.key);
  if (info.pairs && (task.features.size() != 1 || task.features[0].categories == 0))
    fail(info.kind + " reads one category of each node", std::to_string(task.features.size()) + " features",
         "Name one field of nodes that holds whole numbers, such as node.z");
  for (const GraphTarget& target : task.tasks) check_target(target);
  if (!task.tasks.empty() && !info.shares_nodes) fail(info.kind + " has no features that several tasks could share");
  if (task.cut && !task.tasks.empty())
    fail("a graph that is cut has one label", std::to_string(task.tasks.size()) + " tasks");
  if (task.places > 0 && !info.positions) fail(info.kind + " reads no distances of nodes");
  if (task.targets() > 0 && !task.per_graph) fail("numbers can be learned of graphs, not of nodes");
  if (task.target_deviation.size() != task.target_mean.size()) fail("a target has no deviation");
  for (const double deviation : task.target_deviation)
    if (!(deviation > 0)) fail("all graphs have one value of the target", "deviation " + std::to_string(deviation));
}

/// Every masked input must be there, in one group.
void check_masks(const GraphNetConfig& config, const GraphTask& task) {
  std::vector<std::string> inputs, masked;
  for (const auto* fields : {&task.features, &task.edge_features, &task.positions})
    for (const GraphFeature& each : *fields) inputs.push_back(each.key);
  if (task.hops > 0) inputs.emplace_back("hops");
  if (task.distances) inputs.emplace_back("distances");
  double sum = 0;
  for (const InputMask& mask : config.input_masks) {
    sum += mask.rate;
    for (const std::string& input : mask.inputs) {
      if (std::find(inputs.begin(), inputs.end(), input) == inputs.end())
        fail("a mask is of an input that the model does not read", "'" + input + "'", "Name one of " + joined(inputs));
      if (std::find(masked.begin(), masked.end(), input) != masked.end())
        fail("an input is in two masks", "'" + input + "'");
      masked.push_back(input);
    }
  }
  if (sum > 1)
    fail("the rates of masks are shares of the graphs", "a sum of " + std::to_string(sum), "At most 1 in all");
}

void check_gps(const GraphNetConfig& config, const GraphTask& task) {
  check_sizes("model (gps)", config.layers, config.hidden, config.heads, 1);
  if (!task.positions.empty() && (config.position_size < 1 || config.position_size >= config.hidden))
    fail("positions take a part of a node's features",
         std::to_string(config.position_size) + " of " + std::to_string(config.hidden),
         "Set model.graph.position_size to 1 or more, and below model.graph.hidden");
  if (task.distances && (!(config.cutoff > 0) || config.gaussians < 2))
    fail("distances need a positive cutoff and two or more Gaussians",
         std::to_string(config.cutoff) + " and " + std::to_string(config.gaussians));
  const auto has_category = [](const std::vector<GraphFeature>& fields) {
    return std::any_of(fields.begin(), fields.end(), [](const GraphFeature& each) { return each.categories > 0; });
  };
  if (config.node_noise > 0 && !has_category(task.features)) fail("noise changes categories of nodes", "none is read");
  if (config.edge_noise > 0 && !has_category(task.edge_features))
    fail("noise changes categories of edges", "none is read");
  check_masks(config, task);
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
  if (config.family == GraphFamily::kGps)
    check_gps(config, task);
  else if (config.node_noise > 0 || config.edge_noise > 0 || config.drop_path > 0 || !config.input_masks.empty())
    fail(info_of(config.family).kind + " has no noise, no masks of inputs and no stochastic depth", "", "Use gps");
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
      {.family = GraphFamily::kGcn, .kind = "gcn", .edge_weights = true, .sparse_features = true, .correctable = true},
      {.family = GraphFamily::kSage, .kind = "sage", .sparse_features = true, .correctable = true},
      {.family = GraphFamily::kGat, .kind = "gat", .sparse_features = true},
      {.family = GraphFamily::kGatV2, .kind = "gatv2", .sparse_features = true},
      {.family = GraphFamily::kGin, .kind = "gin", .shares_nodes = false},
      {.family = GraphFamily::kGine, .kind = "gine", .edge_features = true},
      {.family = GraphFamily::kPna, .kind = "pna", .degrees = true},
      {.family = GraphFamily::kEdgeConv, .kind = "edge_conv"},
      {.family = GraphFamily::kMpnn, .kind = "mpnn", .edge_features = true},
      {.family = GraphFamily::kClusterGcn, .kind = "cluster_gcn"},
      {.family = GraphFamily::kSchNet, .kind = "schnet", .pairs = true, .shares_nodes = false},
      {.family = GraphFamily::kGps, .kind = "gps", .edge_features = true, .positions = true}};
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

namespace {

/// The metrics of the only target, or of one of several, whose names begin with its name.
void add_target(Model& model, const GraphTask& task, const GraphTarget& target, const std::string& loss) {
  const auto named = [&](const std::string& name) { return target.name.empty() ? name : target.name + '_' + name; };
  const std::string count = named("count");
  const int64_t rows = target.per == Per::kGraph  ? task.room.graphs
                       : target.per == Per::kNode ? task.room.nodes
                                                  : task.room.edges;
  const int64_t items = task.corrected ? task.micro_batch : task.micro_batch * rows;
  model.metrics.push_back(mean_metric(loss, count));
  model.limit_items(loss, target.loss == "classes" ? items : items * target.answers());
  if (target.loss == "classes") {
    limit_input(model, target.name.empty() ? "labels" : "labels." + target.name, -1,
                static_cast<double>(target.classes - 1));
    model.metrics.push_back(share_metric(named("accuracy"), named("correct"), task.corrected ? "labelled" : count));
  } else if (target.loss == "binary") {
    model.metrics.push_back(share_metric(named("accuracy"), named("correct"), count));
  } else {
    for (const char* metric : {"absolute", "squared"}) {
      model.metrics.push_back(mean_metric(named(metric), count));
      model.limit_items(named(metric), items * target.answers());
    }
  }
}

void add_metrics(Model& model, const GraphNetConfig& config, const GraphTask& task) {
  const bool noise = config.node_noise > 0 || config.edge_noise > 0;
  const GraphTarget only = only_target(config, task);
  if (task.tasks.empty() && !noise) return add_target(model, task, only, "loss");
  Metric whole{.name = "loss", .numerator = "loss", .how = Metric::How::kMean};
  if (task.tasks.empty()) whole.parts.emplace_back("answer_loss");
  for (const GraphTarget& target : task.tasks) whole.parts.push_back(target.name + "_loss");
  if (noise) whole.parts.emplace_back("noise_loss");
  model.metrics.push_back(whole);
  if (task.tasks.empty()) add_target(model, task, only, "answer_loss");
  for (const GraphTarget& target : task.tasks) add_target(model, task, target, target.name + "_loss");
  if (!noise) return;
  model.metrics.push_back(mean_metric("noise_loss", "noise_count"));
  model.limit_items("noise_loss", task.micro_batch * (task.room.nodes * std::ssize(task.features) +
                                                      task.room.edges * std::ssize(task.edge_features)));
}

}  // namespace

Model build_graph_net(const GraphNetConfig& config, const GraphTask& task) {
  check(config, task);
  Model model;
  model.name = info_of(config.family).kind;
  const auto write = [&](Graph& graph, bool first, GraphNetBuilder::Use use) {
    GraphNetBuilder net(config, task, graph, first ? &model.weights : nullptr, first ? &model.states : nullptr, use);
    if (task.tasks.empty())
      net.finish(answers(net));
    else
      net.finish_tasks(shared_nodes(net));
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
  add_metrics(model, config, task);
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
