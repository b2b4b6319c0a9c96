#include "ramet/model/tgn.h"

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/model/graph_net_builder.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_recurrent.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

constexpr const char *kMemory = "memory.memory", *kContinued = "memory.continued";

class Tgn {
 public:
  enum class Use { kTrain, kEvaluate, kScore };

  /// `states` collects the memory, where it is not null.
  Tgn(const TgnConfig& config, const TgnTask& task, Graph& graph, std::vector<StateTensor>* weights,
      std::vector<StateTensor>* states, Use use)
      : config_(config),
        task_(task),
        use_(use),
        model_(graph, weights, 0.1, use == Use::kTrain, task.seed),
        build_(model_.build()),
        states_(states) {}

  void write() {
    const Tensor memories = updated_memories();
    Tensor nodes;
    {
      PartScope part(build_, "layer", 0);
      nodes = attention_over_neighbors(memories);
    }
    const auto [event, negative] = scores(nodes);
    if (use_ == Use::kScore) {
      build_.output("event_score", event);
      build_.output("negative_score", negative);
    } else {
      write_loss(event, negative);
    }
    if (use_ != Use::kEvaluate) keep(memories);
  }

 private:
  Tensor input(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    dims.insert(dims.begin(), 1);
    std::vector<std::string> axes(dims.size());
    axes[0] = "batch";
    return build_.input(name, dtype, Shape(std::move(dims)), std::move(axes));
  }
  /// 1 or 0 for each node: [1, N, 1].
  Tensor flags(const std::string& name) { return flags_of(input(name, DType::kU8, {task_.room.nodes()})); }
  /// 1 or 0 for each row: [1, n, 1] of [1, n].
  Tensor flags_of(Tensor holds) { return reshape(cast(holds, DType::kF32), {1, holds.dim(1), 1}); }
  /// x W^T + b.
  Tensor dense(Tensor x, const std::string& name, int64_t out, const LogicalAxis& out_axis = {},
               const LogicalAxis& in_axis = {}) {
    const Tensor weight = model_.matrix(name + ".weight", {out, x.dim(-1)}, {out_axis, in_axis}, of_linear(x.dim(-1)));
    return linear(x, weight, model_.vector(name + ".bias", out, out_axis, 0));
  }
  Tensor memory(const std::string& name, StateKind kind) {
    const TensorType type{DType::kF32, {task_.nodes + 1, config_.memory}};
    if (states_) states_->push_back({name, type, kind, {}, ""});
    return build_.state(name, type.dtype, type.shape);
  }

  /// cos(w t + b) of times [1, n]: [1, n, time].
  Tensor encoded(Tensor times) {
    const int64_t n = times.dim(1);
    const double deviation = of_linear(1);
    const Tensor factor = model_.matrix("memory.time_enc.lin.weight", {config_.time, 1}, {{}, {}}, deviation);
    const Tensor shift = model_.matrix("memory.time_enc.lin.bias", {config_.time}, {{}}, deviation);
    // Matrices, whose sums over rows maps make by themselves.
    const Tensor angles = multiply(reshape(times, {n, 1}), reshape(factor, {1, config_.time}));
    return reshape(map_unary("cos", add(angles, shift)), {1, n, config_.time});
  }

  /// Rows of the memory: of an evaluation, those that it has written itself where there are some.
  Tensor rows_of(Tensor nodes, const std::string& continued) {
    const Tensor trained = gather(memory_, nodes);
    if (use_ != Use::kScore) return trained;
    const Tensor flag = equal(flags(continued), full(build_, DType::kF32, {}, 1));
    return select(broadcast_to(flag, trained.shape()), gather(continued_, nodes), trained);
  }

  /// The memories of all nodes of the sample with their last event in them: [1, N, memory].
  Tensor updated_memories() {
    Scope scope(build_, "memory");
    memory_ = memory(kMemory, StateKind::kChained);
    if (use_ == Use::kScore) continued_ = memory(kContinued, StateKind::kKept);
    const int64_t n = task_.room.nodes();
    nodes_ = input("node", DType::kI32, {n});
    const Tensor partner = input("partner", DType::kI32, {n});
    const Tensor times = input("message_time", DType::kF32, {n});
    const Tensor there = flags("has_message");
    const Tensor own = multiply(rows_of(nodes_, "continued"), there);
    // No gradient flows to memories, so what they add to the gates is a product apart from that of times.
    std::vector<Tensor> parts{own, multiply(rows_of(partner, "partner_continued"), there)};
    if (task_.message_width > 0) parts.push_back(input("message", DType::kF32, {n, task_.message_width}));
    const Tensor given = concat(parts, 2), time = multiply(encoded(times), there);
    const int64_t size = config_.memory, gates = 3 * size, width = given.dim(2);
    const double deviation = of_linear(size);
    const Tensor weight = model_.matrix("memory.gru.weight_ih", {gates, width + config_.time}, {{}, {}}, deviation);
    const Tensor hidden = model_.matrix("memory.gru.weight_hh", {gates, size}, {{}, {}}, deviation);
    // The reset gate multiplies the hidden product of the last gate, and its bias. Hidden weights and biases of the
    // other gates join those of the input, whose first features are the hidden state, too.
    const Tensor bias = model_.vector("memory.gru.bias_hh", gates, {}, 0);
    const Tensor outside = pad(slice_axis(bias, 0, 0, 2 * size), {0}, {size});
    const Tensor hidden_outside = pad(slice_axis(hidden, 0, 0, 2 * size), {0, 0}, {size, width - size});
    const Tensor of_given = linear(given, add(slice_axis(weight, 1, 0, width), hidden_outside),
                                   add(model_.vector("memory.gru.bias_ih", gates, {}, 0), outside));
    const Tensor of_time = matmul(time, slice_axis(weight, 1, width, width + config_.time), false, true);
    // The one step of a recurrent layer: its first dimension is time.
    return gru_steps(add(of_given, of_time), slice_axis(hidden, 0, 2 * size, gates), reshape(own, {n, size}),
                     slice_axis(bias, 0, 2 * size, gates), {.only_n = true})
        .output;
  }

  /// What each of the nodes that are asked about makes of its last neighbours: [1, T, embedding].
  Tensor attention_over_neighbors(Tensor memories) {
    Scope scope(build_, "attention");
    const graphs::EventRoom& room = task_.room;
    const int64_t edges = room.edges, heads = config_.heads, size = config_.embedding / heads;
    const NeighborLists lists{.source = input("source", DType::kI32, {edges}),
                              .ptr = input("ptr", DType::kI32, {room.targets() + 1}),
                              .target = input("target_of", DType::kI32, {edges}),
                              .by_source = input("by_source", DType::kI32, {edges}),
                              .source_ptr = input("source_ptr", DType::kI32, {room.nodes() + 1})};
    Tensor of_events = encoded(input("edge_time", DType::kF32, {edges}));
    if (task_.message_width > 0)
      of_events = concat({of_events, input("edge_message", DType::kF32, {edges, task_.message_width})}, 2);
    const auto part = [&](Tensor x, const std::string& name) {
      return dense(x, "gnn.conv." + name, config_.embedding, kHeads);
    };
    // Zeros in rows without a node: products leave them out.
    const Tensor is_node = less(nodes_, full(build_, DType::kI32, {}, static_cast<double>(task_.nodes)));
    const Tensor sources = multiply(memories, flags_of(is_node));
    const Tensor targets = slice_axis(sources, 1, 0, room.targets());
    const Tensor query = part(targets, "lin_query"), key = part(sources, "lin_key"), value = part(sources, "lin_value");
    // An event's part of a key and of a value is W x, of which q . (W x) = (W^T q) . x and sum w (W x) = W (sum w x)
    // are all that counts: products of targets, of which there are fewer than of events.
    const int64_t width = of_events.dim(2);
    const Tensor weight =
        reshape(model_.matrix("gnn.conv.lin_edge.weight", {config_.embedding, width}, {kHeads, {}}, of_linear(width)),
                {heads, size, width});
    const Tensor asked = matmul(by_head(query), weight);
    const Tensor logits = add(neighbor_dot(query, key, lists, heads),
                              segment_dot(reshape(asked, {1, heads, room.targets(), width}), of_events, lists.ptr));
    const Tensor weights =
        model_.drop(segment_softmax(scale(logits, 1 / std::sqrt(static_cast<double>(size))), lists.ptr),
                    config_.dropout, "gnn.conv.drop");
    const Tensor found = reshape(segment_combine(of_events, weights, lists.ptr), {heads, room.targets(), width});
    const Tensor sum = add(neighbor_sum(value, lists, weights), joined(matmul(found, weight, false, true)));
    return add(sum, part(targets, "lin_skip"));
  }

  /// [1, n, features] as [heads, n, features of a head], and back.
  Tensor by_head(Tensor x) {
    return transpose(reshape(x, {x.dim(1), config_.heads, x.dim(2) / config_.heads}), {1, 0, 2});
  }
  Tensor joined(Tensor x) { return reshape(transpose(x, {1, 0, 2}), {1, x.dim(1), x.dim(0) * x.dim(2)}); }

  /// Of each event of the sample, and of its negative: [1, batch].
  std::pair<Tensor, Tensor> scores(Tensor nodes) {
    Scope scope(build_, "scores");
    const int64_t batch = task_.batch;
    const Tensor source = input("event_source", DType::kI32, {batch}),
                 target = input("event_target", DType::kI32, {batch}),
                 negative = input("event_negative", DType::kI32, {batch});
    const auto part = [&](Tensor x, const std::string& name) {
      return dense(x, "link_pred." + name, config_.embedding, {}, kHeads);
    };
    const Tensor of_source = part(gather_rows(nodes, source), "lin_src");
    const Tensor of_target = part(gather_rows(nodes, concat({target, negative}, 1)), "lin_dst");
    const Tensor hidden = relu(add(concat({of_source, of_source}, 1), of_target));
    const Tensor all = reshape(dense(hidden, "link_pred.lin_final", 1), {1, 2 * batch});
    return {slice_axis(all, 1, 0, batch), slice_axis(all, 1, batch, 2 * batch)};
  }

  void write_loss(Tensor event, Tensor negative) {
    Scope scope(build_, "loss");
    const Tensor real = cast(input("real", DType::kU8, {task_.batch}), DType::kF32);
    const Tensor count = reduce_sum(real);
    const auto of = [&](Tensor scores, double answer) {
      const Tensor wanted = full(build_, DType::kF32, scores.shape(), answer);
      return binary_cross_entropy_with_logits(scores, wanted, real, {}, LossReduction::kSum);
    };
    build_.output("loss", divide(add(of(event, 1), of(negative, 0)), count));
    build_.output("count", count);
  }

  /// The memories of the nodes of events, for the next sample.
  void keep(Tensor memories) {
    Scope scope(build_, "memory");
    const int64_t members = task_.room.members;
    const Tensor rows = reshape(slice_axis(memories, 1, 0, members), {members, config_.memory});
    const Tensor nodes = reshape(slice_axis(nodes_, 1, 0, members), {members});
    const bool trains = use_ == Use::kTrain;
    build_.output(trains ? kMemory : kContinued,
                  put(trains ? memory_ : continued_, rows, {nodes}, {.axes = {0}}, {.by = "set"}), OutputRole::kState);
  }

  const TgnConfig& config_;
  const TgnTask& task_;
  const Use use_;
  ModelBuilder model_;
  GraphBuilder& build_;
  std::vector<StateTensor>* const states_;
  Tensor memory_, continued_, nodes_;
};

void check(const TgnConfig& config, const TgnTask& task) {
  if (config.memory < 1 || config.time < 1 || config.embedding < 1 || config.heads < 1 || task.nodes < 1 ||
      task.batch < 1)
    throw Error({.what = "sizes of the model must be positive", .where = "model (tgn)"});
  if (config.embedding % config.heads != 0)
    throw Error({.what = "the heads of the attention do not divide its features",
                 .where = "model (tgn)",
                 .found = std::to_string(config.heads) + " heads, " + std::to_string(config.embedding) + " features"});
}

}  // namespace

Model build_tgn(const TgnConfig& config, const TgnTask& task) {
  check(config, task);
  Model model;
  model.name = "tgn";
  Tgn(config, task, model.forward, &model.weights, &model.states, Tgn::Use::kTrain).write();
  Tgn(config, task, model.evaluate, nullptr, nullptr, Tgn::Use::kEvaluate).write();
  model.programs.push_back({.name = "score", .graph = Graph("score")});
  std::vector<StateTensor> kept;
  Tgn(config, task, model.programs.back().graph, nullptr, &kept, Tgn::Use::kScore).write();
  model.states.push_back(kept.back());
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
  }
  for (const char* const name : {"node", "partner"}) limit_input(model, name, 0, static_cast<double>(task.nodes));
  for (const char* const name : {"event_source", "event_target", "event_negative"})
    limit_input(model, name, 0, static_cast<double>(task.room.targets() - 1));
  model.units_of_axes = {{"heads", config.heads}};
  model.metrics = {mean_metric("loss", "count")};
  model.limit_items("loss", task.batch);
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
