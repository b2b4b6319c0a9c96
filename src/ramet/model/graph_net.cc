#include "ramet/model/graph_net.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

const std::vector<std::pair<std::string, GraphFamily>>& families() {
  static const std::vector<std::pair<std::string, GraphFamily>> all = {
      {"gcn", GraphFamily::kGcn}, {"sage", GraphFamily::kSage}, {"gat", GraphFamily::kGat}, {"gin", GraphFamily::kGin}};
  return all;
}

constexpr double kEpsilon = 1e-5;        // of batch norms
constexpr double kAttentionSlope = 0.2;  // of GAT's LeakyReLU

/// Deviation of Glorot and Bengio's uniform distribution (2010), and of that of PyTorch's linear layers.
double glorot(int64_t in, int64_t out) { return std::sqrt(2.0 / static_cast<double>(in + out)); }
double of_linear(int64_t in) { return 1 / std::sqrt(3.0 * static_cast<double>(in)); }

enum class Use { kTrain, kEvaluate, kPredict };

class GraphNet {
 public:
  GraphNet(const GraphNetConfig& config, const GraphTask& task, Graph& graph, std::vector<StateTensor>* weights,
           std::vector<StateTensor>* states, Use use)
      : config_(config),
        task_(task),
        room_(task.room),
        use_(use),
        model_(graph, weights, 0.02, use == Use::kTrain, task.seed),
        build_(model_.build()),
        states_(states) {}

  void write() {
    read_lists();
    const Tensor logits = config_.family == GraphFamily::kGin ? isomorphism() : layers();
    const Tensor rows = reshape(logits, {-1, task_.classes});
    if (use_ == Use::kPredict) {
      build_.output("classes", argmax(rows, 1));
      build_.output("probabilities", softmax(rows, 1));
      return;
    }
    Scope scope(build_, "loss");
    const int64_t items = task_.per_graph ? room_.graphs : room_.nodes;
    const Tensor labels = input("labels", DType::kI32, {items});
    const CrossEntropy found = cross_entropy(rows, reshape(labels, {-1}));
    build_.output("loss", found.loss);
    build_.output("correct", found.correct);
    build_.output("count", found.count);
  }

 private:
  Tensor input(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    dims.insert(dims.begin(), task_.micro_batch);
    std::vector<std::string> axes(dims.size());
    axes[0] = task_.cut ? "clusters" : "batch";
    return build_.input(name, dtype, Shape(std::move(dims)), std::move(axes));
  }

  void read_lists() {
    Scope scope(build_, "graph");
    if (task_.cut)
      read_cut(*task_.cut);
    else
      lists_ = {.source = input("source", DType::kI32, {room_.edges}),
                .ptr = input("ptr", DType::kI32, {room_.nodes + 1}),
                .target = input("target_of", DType::kI32, {room_.edges}),
                .by_source = input("by_source", DType::kI32, {room_.edges}),
                .source_ptr = input("source_ptr", DType::kI32, {room_.nodes + 1})};
    if (task_.edge_weights) edge_weight_ = input("edge.weight", DType::kF32, {room_.edges});
    if (task_.per_graph || config_.family == GraphFamily::kGin)
      graph_ptr_ = input("graph_ptr", DType::kI32, {room_.graphs + 1});
  }

  void read_cut(const graphs::GraphCut& cut) {
    halo_ = {.index = input("index", DType::kI32, {cut.in.edges}),
             .ptr = input("ptr", DType::kI32, {cut.rows + 1}),
             .back_index = input("back_index", DType::kI32, {cut.out.edges}),
             .back_ptr = input("back_ptr", DType::kI32, {cut.rows + 1}),
             .rows = TensorData(cut.in.far),
             .back_rows = TensorData(cut.out.far),
             .edges = TensorData(cut.in.other),
             .back_edges = TensorData(cut.out.other)};
  }

  /// Which edges end in each node.
  Tensor pointers() const { return task_.cut ? halo_.ptr : lists_.ptr; }
  Tensor sum_of_neighbors(Tensor x, Tensor weight = {}) {
    return task_.cut ? halo_sum(x, halo_, weight) : neighbor_sum(x, lists_, weight);
  }
  /// Each node's row for all edges that come from the node.
  Tensor of_sources(Tensor rows) {
    if (!task_.cut) return gather_rows(rows, lists_.source);
    return halo_edges(segment_expand(rows, halo_.back_ptr, task_.cut->out.edges), halo_);
  }

  /// All features of the nodes side by side: [B, N, F].
  Tensor features() {
    std::vector<Tensor> parts;
    for (const NodeFeature& feature : task_.features)
      parts.push_back(feature.categories > 0
                          ? one_hot(input(feature.key, DType::kI32, {room_.nodes}), feature.categories)
                          : input(feature.key, DType::kF32, {room_.nodes, feature.width}));
    return parts.size() == 1 ? parts[0] : concat(parts, 2);
  }

  Tensor weight(const std::string& name, int64_t out, int64_t in, double deviation) {
    return model_.matrix(name, {out, in}, {{}, {}}, deviation);
  }
  /// x W^T, with W [out, in].
  Tensor product(Tensor x, const std::string& name, int64_t out, double deviation) {
    return matmul(x, weight(name, out, x.dim(-1), deviation), false, true);
  }
  Tensor bias(Tensor x, const std::string& name) { return add(x, model_.vector(name, x.dim(-1), {}, 0)); }

  /// 1 / the number of edges that end in a node, [B, N, 1]; 1 for a node without edges.
  Tensor inverse_degree() {
    const Tensor counts = cast(difference(pointers(), 1), DType::kF32);
    return reshape(divide(full(build_, DType::kF32, {}, 1), maximum(counts, full(build_, DType::kF32, {}, 1))),
                   {task_.micro_batch, room_.nodes, 1});
  }

  /// The layers of GCN, SAGE and GAT; of a task of graphs a classifier of what `readout` gives of the nodes.
  Tensor layers() {
    Tensor x = features();
    for (int64_t i = 0; i < config_.layers; ++i) {
      PartScope part(build_, "layer", i);
      const std::string name = "convs." + std::to_string(i);
      const bool last = i + 1 == config_.layers;
      x = model_.drop(x, config_.dropout, name + ".drop");
      const int64_t out = last && !task_.per_graph ? task_.classes : config_.hidden;
      x = config_.family == GraphFamily::kGat ? attention_layer(x, name, out, last) : plain_layer(x, name, out);
      if (!last || task_.per_graph) x = config_.family == GraphFamily::kGat ? elu(x) : relu(x);
    }
    if (!task_.per_graph) return x;
    Scope scope(build_, "head");
    x = model_.drop(of_graphs(x), config_.dropout, "lin.drop");
    return bias(product(x, "lin.weight", task_.classes, of_linear(x.dim(-1))), "lin.bias");
  }

  Tensor plain_layer(Tensor x, const std::string& name, int64_t out) {
    const int64_t in = x.dim(-1);
    if (config_.family == GraphFamily::kGcn) {
      const Tensor moved = product(x, name + ".lin.weight", out, glorot(in, out));
      return bias(sum_of_neighbors(moved, edge_weight_), name + ".bias");
    }
    const Tensor mean = multiply(sum_of_neighbors(x), inverse_degree());
    const Tensor around = bias(product(mean, name + ".lin_l.weight", out, of_linear(in)), name + ".lin_l.bias");
    return add(around, product(x, name + ".lin_r.weight", out, of_linear(in)));
  }

  Tensor attention_layer(Tensor x, const std::string& name, int64_t size, bool last) {
    const int64_t heads = last ? 1 : config_.heads, width = heads * size;
    const Tensor moved = product(x, name + ".lin.weight", width, glorot(x.dim(-1), width));
    const Tensor apart = reshape(moved, {task_.micro_batch, room_.nodes, heads, size});
    const auto score = [&](const std::string& side) {
      const Tensor vector = model_.matrix(name + side, {heads, size}, {{}, {}}, glorot(heads, size));
      return reduce_sum(multiply(apart, vector), {3});  // [B, N, heads]
    };
    const Tensor of_source = of_sources(score(".att_src"));
    const Tensor of_target = segment_expand(score(".att_dst"), pointers(), room_.edges);
    const Tensor weights = segment_softmax(leaky_relu(add(of_source, of_target), kAttentionSlope), pointers());
    const Tensor dropped = model_.drop(weights, config_.attention_dropout, name + ".attention.drop");
    return bias(sum_of_neighbors(moved, dropped), name + ".bias");
  }

  /// GIN: the classifiers' answers for the features and for each layer, added up.
  Tensor isomorphism() {
    Tensor x = features();
    Tensor answer = answer_of(x, 0);
    for (int64_t i = 0; i < config_.layers; ++i) {
      PartScope part(build_, "layer", i);
      const std::string name = "convs." + std::to_string(i);
      const Tensor own = add(model_.vector(name + ".eps", 1, {}, 0), full(build_, DType::kF32, {1}, 1));
      x = add(multiply(x, own), sum_of_neighbors(x));
      for (int64_t k = 0; k < 2; ++k) {
        const std::string at = name + ".nn." + std::to_string(3 * k);
        x = bias(product(x, at + ".weight", config_.hidden, of_linear(x.dim(-1))), at + ".bias");
        x = relu(batch_norm_of_nodes(x, name + ".nn." + std::to_string(3 * k + 1)));
      }
      answer = add(answer, answer_of(x, i + 1));
    }
    return answer;
  }

  Tensor answer_of(Tensor x, int64_t layer) {
    const std::string name = "linears." + std::to_string(layer);
    const Tensor pooled = task_.per_graph ? of_graphs(x) : x;
    const Tensor answer = bias(product(pooled, name + ".weight", task_.classes, of_linear(x.dim(-1))), name + ".bias");
    return model_.drop(answer, config_.dropout, name + ".drop");
  }

  /// [B, N, F] -> [B, G, F]
  Tensor of_graphs(Tensor x) {
    if (config_.readout == "mean") return segment_mean(x, graph_ptr_);
    if (config_.readout == "max") return segment_max(x, graph_ptr_);
    return segment_sum(x, graph_ptr_);
  }

  /// 1 for nodes, 0 for places without one: [B, N, 1].
  Tensor node_mask() {
    const Tensor number = iota(build_, DType::kI32, {task_.micro_batch, room_.nodes}, 1);
    const Tensor nodes = slice_axis(graph_ptr_, 1, room_.graphs, room_.graphs + 1);
    return reshape(cast(less(number, nodes), DType::kF32), {task_.micro_batch, room_.nodes, 1});
  }

  /// Batch norm (Ioffe and Szegedy, arXiv 1502.03167) over the nodes that there are.
  Tensor batch_norm_of_nodes(Tensor x, const std::string& name) {
    const int64_t size = x.dim(-1);
    const Tensor gain = model_.vector(name + ".weight", size, {}, 1),
                 shift = model_.vector(name + ".bias", size, {}, 0);
    const std::string mean_name = name + ".running_mean", variance_name = name + ".running_var";
    Tensor mean, variance;
    if (use_ == Use::kTrain) {
      const Tensor mask = node_mask(), one = full(build_, DType::kF32, {}, 1);
      const Tensor count = maximum(reduce_sum(mask), one);
      mean = divide(reduce_sum(multiply(x, mask), {0, 1}), count);
      const Tensor apart = multiply(subtract(x, mean), mask);
      variance = divide(reduce_sum(multiply(apart, apart), {0, 1}), count);
      const Tensor unbiased = multiply(variance, divide(count, maximum(subtract(count, one), one)));
      declare(mean_name, size, 0), declare(variance_name, size, 1);
      build_.output(mean_name, mean, OutputRole::kState);
      build_.output(variance_name, unbiased, OutputRole::kState);
    } else {
      mean = build_.state(mean_name, DType::kF32, {size});
      variance = build_.state(variance_name, DType::kF32, {size});
    }
    const Tensor normal = multiply(subtract(x, mean), rsqrt(add_scalar(variance, kEpsilon)));
    return add(multiply(normal, gain), shift);
  }

  void declare(const std::string& name, int64_t size, double first) {
    StateTensor state{name, {DType::kF32, {size}}, StateKind::kDeferred, {StateInit::Kind::kConstant, first, 0}, ""};
    state.axes = {LogicalAxis{}};
    state.fold = {.by = "average", .momentum = config_.momentum};
    states_->push_back(std::move(state));
  }

  const GraphNetConfig& config_;
  const GraphTask& task_;
  const graphs::GraphBudget room_;
  const Use use_;
  ModelBuilder model_;
  GraphBuilder& build_;
  std::vector<StateTensor>* const states_;
  NeighborLists lists_;
  HaloGraph halo_;  // of a graph that is cut
  Tensor edge_weight_, graph_ptr_;
};

void check(const GraphNetConfig& config, const GraphTask& task) {
  const auto fail = [](const std::string& what, const std::string& found = "", const std::string& remedy = "") {
    throw Error({.what = what, .where = "model (graphs)", .found = found, .remedy = remedy});
  };
  if (config.layers < 1 || config.hidden < 1 || config.heads < 1 || task.micro_batch < 1 || task.classes < 2)
    fail("sizes of the model must be positive, and there must be two classes");
  if (task.room.graphs < 1 || task.room.nodes < 1) fail("a batch has no room for a graph");
  if (task.cut && task.per_graph)
    fail("a graph that is cut has labels of nodes alone", "a label of graphs", "Make batches in another way");
  if (task.cut && task.micro_batch != task.cut->clusters)
    fail("a micro-batch of a graph that is cut has all of its clusters", std::to_string(task.micro_batch),
         "Set train.micro_batch = " + std::to_string(task.cut->clusters));
  if (task.features.empty())
    fail("the nodes have no features to read", "", "Name a field of nodes, or make one with `--apply degree`");
  if (config.family == GraphFamily::kGcn && !task.edge_weights)
    fail("gcn reads weights of edges, which the graphs do not have", "no field edge.weight",
         "Prepare the set with `--apply self-loops,gcn`");
  if (config.readout != "sum" && config.readout != "mean" && config.readout != "max")
    fail("unknown readout", "'" + config.readout + "'");
}

}  // namespace

std::optional<GraphFamily> graph_family(const std::string& kind) {
  for (const auto& [name, family] : families())
    if (name == kind) return family;
  return {};
}

std::vector<std::string> graph_kinds() {
  std::vector<std::string> names;
  for (const auto& [name, family] : families()) names.push_back(name);
  return names;
}

Model build_graph_net(const GraphNetConfig& config, const GraphTask& task) {
  check(config, task);
  Model model;
  for (const auto& [name, family] : families())
    if (family == config.family) model.name = name;
  GraphNet(config, task, model.forward, &model.weights, &model.states, Use::kTrain).write();
  GraphNet(config, task, model.evaluate, nullptr, nullptr, Use::kEvaluate).write();
  model.programs.push_back({.name = "predict", .graph = Graph("predict")});
  GraphNet(config, task, model.programs.back().graph, nullptr, nullptr, Use::kPredict).write();
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
  }
  limit_input(model, "labels", -1, static_cast<double>(task.classes - 1));
  model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count")};
  model.limit_items("loss", task.micro_batch * (task.per_graph ? task.room.graphs : task.room.nodes));
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
