#include "ramet/model/graph_net_builder.h"

#include <cmath>

#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

constexpr double kEpsilon = 1e-5;  // of batch norms

}  // namespace

double glorot(int64_t in, int64_t out) { return std::sqrt(2.0 / static_cast<double>(in + out)); }
double of_linear(int64_t in) { return 1 / std::sqrt(3.0 * static_cast<double>(in)); }

GraphNetBuilder::GraphNetBuilder(const GraphNetConfig& config, const GraphTask& task, Graph& graph,
                                 std::vector<StateTensor>* weights, std::vector<StateTensor>* states, Use use)
    : config_(config),
      task_(task),
      use_(use),
      model_(graph, weights, 0.02, use == Use::kTrain, task.seed),
      build_(model_.build()),
      states_(states) {}

Tensor GraphNetBuilder::input(const std::string& name, DType dtype, std::vector<int64_t> dims) {
  dims.insert(dims.begin(), task_.micro_batch);
  std::vector<std::string> axes(dims.size());
  axes[0] = task_.cut ? "clusters" : "batch";
  return build_.input(name, dtype, Shape(std::move(dims)), std::move(axes));
}

const NeighborLists& GraphNetBuilder::lists() {
  if (lists_.source.valid()) return lists_;
  const graphs::GraphBudget& room = task_.room;
  Scope scope(build_, "graph");
  lists_ = {.source = input("source", DType::kI32, {room.edges}),
            .ptr = input("ptr", DType::kI32, {room.nodes + 1}),
            .target = input("target_of", DType::kI32, {room.edges}),
            .by_source = input("by_source", DType::kI32, {room.edges}),
            .source_ptr = input("source_ptr", DType::kI32, {room.nodes + 1})};
  return lists_;
}

const HaloGraph& GraphNetBuilder::halo() {
  if (halo_.index.valid()) return halo_;
  const graphs::GraphCut& cut = *task_.cut;
  Scope scope(build_, "graph");
  halo_ = {.index = input("index", DType::kI32, {cut.in.edges}),
           .ptr = input("ptr", DType::kI32, {cut.rows + 1}),
           .back_index = input("back_index", DType::kI32, {cut.out.edges}),
           .back_ptr = input("back_ptr", DType::kI32, {cut.rows + 1}),
           .rows = TensorData(cut.in.far),
           .back_rows = TensorData(cut.out.far),
           .edges = TensorData(cut.in.other),
           .back_edges = TensorData(cut.out.other)};
  return halo_;
}

const PairLists& GraphNetBuilder::pairs() {
  if (pairs_.ptr.valid()) return pairs_;
  const graphs::GraphBudget& room = task_.room;
  Scope scope(build_, "graph");
  pairs_ = {.distance = input("pair.distance", DType::kF32, {room.edges / 2}),
            .ptr = input("pair_ptr", DType::kI32, {room.nodes + 1}),
            .second = input("pair_second", DType::kI32, {room.edges / 2})};
  return pairs_;
}

Tensor GraphNetBuilder::edge_weights() {
  if (!edge_weights_.valid()) edge_weights_ = input("edge.weight", DType::kF32, {task_.room.edges});
  return edge_weights_;
}

Tensor GraphNetBuilder::graph_ptr() {
  if (!graph_ptr_.valid()) graph_ptr_ = input("graph_ptr", DType::kI32, {task_.room.graphs + 1});
  return graph_ptr_;
}

Tensor GraphNetBuilder::side_by_side(const std::vector<GraphFeature>& fields, int64_t rows, Per per) {
  std::vector<Tensor> parts;
  for (const GraphFeature& field : fields) {
    parts.push_back(field.categories > 0 ? one_hot(categories(field, rows, per), field.categories)
                    : field.scalar       ? reshape(input(field.key, DType::kF32, {rows}), {task_.micro_batch, rows, 1})
                                         : input(field.key, DType::kF32, {rows, field.width}));
    const Tensor kept = kept_by(field.key);
    if (kept.valid())
      parts.back() = multiply(parts.back(), per == Per::kNode ? to_nodes(kept) : of_targets(to_nodes(kept)));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 2);
}

Tensor GraphNetBuilder::node_features() {
  if (!task_.features[0].sparse) return side_by_side(task_.features, task_.room.nodes, Per::kNode);
  const int64_t room = task_.features[0].room;
  Scope scope(build_, "features");
  feature_values_ = input("feature.value", DType::kF32, {room});
  features_ = {.source = input("feature.source", DType::kI32, {room}),
               .ptr = input("feature.ptr", DType::kI32, {task_.room.nodes + 1}),
               .target = input("feature.target_of", DType::kI32, {room}),
               .by_source = input("feature.by_source", DType::kI32, {room}),
               .source_ptr = input("feature.source_ptr", DType::kI32, {task_.features[0].width + 1})};
  return {};
}

Tensor GraphNetBuilder::edge_features() {
  if (!edge_features_.valid()) edge_features_ = side_by_side(task_.edge_features, task_.room.edges, Per::kEdge);
  return edge_features_;
}

Tensor GraphNetBuilder::positions() {
  return task_.positions.empty() ? Tensor() : side_by_side(task_.positions, task_.room.nodes, Per::kNode);
}

Tensor GraphNetBuilder::drop(Tensor x, double rate, const std::string& name) {
  if (x.valid()) return model_.drop(x, rate, name);
  feature_values_ = model_.drop(feature_values_, rate, name);
  return {};
}

Tensor GraphNetBuilder::drop_graphs(Tensor x, const std::string& name) {
  if (use_ != Use::kTrain || config_.drop_path == 0) return x;
  const Tensor ones = full(build_, DType::kF32, {task_.micro_batch, task_.room.graphs, 1}, 1);
  return multiply(x, to_nodes(model_.drop(ones, config_.drop_path, name)));
}

/// A node sums the columns of a weight [out, in] that its features name.
Tensor GraphNetBuilder::sparse_product(Tensor weight) {
  const Tensor rows = reshape(transpose(weight, {1, 0}), {1, weight.dim(1), weight.dim(0)});
  return neighbor_sum(tile(rows, {task_.micro_batch, 1, 1}), features_, feature_values_);
}

Tensor GraphNetBuilder::node_categories() { return input(task_.features[0].key, DType::kI32, {task_.room.nodes}); }

Tensor GraphNetBuilder::weight_of(Tensor x, const std::string& name, int64_t out, double deviation) {
  return model_.matrix(name, {out, width(x)}, {{}, {}}, deviation);
}
Tensor GraphNetBuilder::product(Tensor x, const std::string& name, int64_t out, double deviation) {
  const Tensor weight = weight_of(x, name, out, deviation);
  return x.valid() ? matmul(x, weight, false, true) : sparse_product(weight);
}
Tensor GraphNetBuilder::bias(Tensor x, const std::string& name) {
  return add(x, model_.vector(name, x.dim(-1), {}, 0));
}
Tensor GraphNetBuilder::dense(Tensor x, const std::string& name, int64_t out, double deviation) {
  if (!x.valid()) return bias(product(x, name + ".weight", out, deviation), name + ".bias");
  const Tensor weight = weight_of(x, name + ".weight", out, deviation);
  return linear(x, weight, model_.vector(name + ".bias", out, {}, 0));
}
Tensor GraphNetBuilder::dense(Tensor x, const std::string& name, int64_t out) {
  return dense(x, name, out, of_linear(width(x)));
}
Tensor GraphNetBuilder::number(double value) { return full(build_, DType::kF32, {}, value); }

Tensor GraphNetBuilder::of_sources(Tensor x) {
  if (!task_.cut) return gather_rows(x, lists().source);
  return halo_edges(segment_expand(x, halo().back_ptr, task_.cut->out.edges), halo());
}
Tensor GraphNetBuilder::of_targets(Tensor x) { return segment_expand(x, pointers(), task_.room.edges); }

Tensor GraphNetBuilder::degrees() {
  return reshape(cast(difference(pointers(), 1), DType::kF32), {task_.micro_batch, task_.room.nodes, 1});
}
Tensor GraphNetBuilder::inverse_degree() { return divide(number(1), maximum(degrees(), number(1))); }
Tensor GraphNetBuilder::neighbor_mean(Tensor x) {
  if (task_.corrected) return sum_of_neighbors(x, edge_weights());
  return multiply(sum_of_neighbors(x), inverse_degree());
}

Tensor GraphNetBuilder::of_graphs(Tensor x) {
  if (config_.readout == "mean") return segment_mean(x, graph_ptr());
  if (config_.readout == "max") return segment_max(x, graph_ptr());
  return segment_sum(x, graph_ptr());
}

Tensor GraphNetBuilder::attention_within_graphs(Tensor qkv, const std::string& name) {
  if (task_.places > 0) return attention_by_distance(qkv, name);
  if (!graph_numbers_.valid()) {
    const Tensor numbers = iota(build_, DType::kF32, {task_.micro_batch, task_.room.graphs, 1}, 1);
    const Tensor of_nodes = to_nodes(add_scalar(numbers, 1));
    graph_numbers_ = cast(reshape(of_nodes, {task_.micro_batch, task_.room.nodes}), DType::kI32);
  }
  return model_.self_attention(qkv, graph_numbers_, config_.heads, config_.attention_dropout, false, name, true);
}

/// How many nodes there are: i32 [B].
Tensor GraphNetBuilder::nodes_in_use() {
  const int64_t graphs = task_.room.graphs;
  return reshape(slice_axis(graph_ptr(), 1, graphs, graphs + 1), {task_.micro_batch});
}

/// 1 for nodes, 0 for places without one: [B, N, 1].
Tensor GraphNetBuilder::node_mask() { return ops::use_mask(nodes_in_use(), task_.room.nodes); }

/// Statistics of all nodes of a micro-batch: [1, 1, F].
GraphNetBuilder::NodeMoments GraphNetBuilder::moments_of_nodes(Tensor x) {
  const auto sum = [](Tensor of, const std::vector<int64_t>& axes) { return reduce_sum(of, axes, true); };
  if (task_.sums_in_order) {
    const Tensor mask = node_mask(), count = maximum(sum(mask, {0, 1, 2}), number(1));
    const Tensor mean = divide(sum(multiply(x, mask), {0, 1}), count);
    const Tensor apart = multiply(subtract(x, reshape(mean, {x.dim(-1)})), mask);
    return {mean, divide(sum(multiply(apart, apart), {0, 1}), count), count};
  }
  auto [mean, variance] = ops::used_channel_moments(x, nodes_in_use());
  if (task_.micro_batch == 1) return {mean, variance, ops::rows_in_use(nodes_in_use(), task_.room.nodes)};
  const Tensor nodes = reshape(cast(nodes_in_use(), DType::kF32), {task_.micro_batch, 1, 1});
  const Tensor count = maximum(sum(nodes, {0}), number(1));
  const auto average = [&](Tensor of_packs) { return divide(sum(multiply(of_packs, nodes), {0}), count); };
  const Tensor middle = average(mean), apart = subtract(mean, middle);
  return {middle, average(add(variance, multiply(apart, apart))), count};
}

/// Batch norm (Ioffe and Szegedy, arXiv 1502.03167) over the nodes that there are; 0 in places without one.
Tensor GraphNetBuilder::batch_norm_of_nodes(Tensor x, const std::string& name) {
  const int64_t size = x.dim(-1);
  const Tensor gain = model_.vector(name + ".weight", size, {}, 1), shift = model_.vector(name + ".bias", size, {}, 0);
  const std::string mean_name = name + ".running_mean", variance_name = name + ".running_var";
  Tensor mean, variance;
  if (use_ == Use::kTrain) {
    const NodeMoments found = moments_of_nodes(x);
    mean = reshape(found.mean, {size}), variance = reshape(found.variance, {size});
    const Tensor one = number(1), count = reshape(found.count, {1});
    const Tensor unbiased = multiply(variance, divide(count, maximum(subtract(count, one), one)));
    declare(mean_name, size, 0), declare(variance_name, size, 1);
    build_.output(mean_name, mean, OutputRole::kState);
    build_.output(variance_name, unbiased, OutputRole::kState);
  } else {
    mean = build_.state(mean_name, DType::kF32, {size});
    variance = build_.state(variance_name, DType::kF32, {size});
  }
  const Tensor scale = multiply(rsqrt(add_scalar(variance, kEpsilon)), gain);
  return multiply(add(multiply(subtract(x, mean), scale), shift), node_mask());
}

void GraphNetBuilder::declare(const std::string& name, int64_t size, double first) {
  StateTensor state{name, {DType::kF32, {size}}, StateKind::kDeferred, {StateInit::Kind::kConstant, first, 0}, ""};
  state.axes = {LogicalAxis{}};
  state.fold = {.by = "average", .momentum = config_.momentum};
  states_->push_back(std::move(state));
}

}  // namespace ramet::model
