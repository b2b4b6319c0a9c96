#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ramet/layout/device_graphs.h"
#include "ramet/ops/reduce_order.h"
#include "support/toy.h"

namespace ramet::tests::toy {

/// A chain of layers of toy ops, whole and cut by hand over stages and replicas, as a partitioner would. Layer l reads
/// weight w<l> forward, the derived state d<l> backward, and keeps its input for the weight's gradient.
struct Chain {
  Layout layout{};
  int layers_per_part = 2;
  int64_t lanes = 1, micro_batches_per_lane = 2;  ///< of the whole step
  HomeMemory optimizer = HomeMemory::kDevice, weights = HomeMemory::kDevice, gradients = HomeMemory::kDevice,
             stash = HomeMemory::kDevice;
  TensorType vector{DType::kF32, {96}};
  int64_t width = 1;  ///< of the program "evaluate"

  int parts() const { return layout.layer_parts(); }
  int layers() const { return parts() * layers_per_part; }
  int stage_of_layer(int layer) const { return layout.stage_of(layer / layers_per_part); }
  bool split() const { return layout.schedule == PipelineSchedule::kZeroBubble; }

  StepGraph whole() const;
  DeviceGraphs cut() const;
};

namespace chain_detail {

inline ValueId add_op(Graph& graph, const OpDef& op, std::vector<ValueId> inputs, NodeInfo info, int64_t salt = 0,
                      int output = 0) {
  Attributes attributes;
  if (&op == &blend()) attributes.set("salt", salt);
  return graph.node(graph.add_node(op, std::move(inputs), attributes, std::move(info)))
      .outputs[static_cast<size_t>(output)];
}

inline std::string name_of(const char* what, int layer) { return what + std::to_string(layer); }

inline ValueId state(Graph& graph, const std::string& name, const TensorType& type) {
  const ValueId known = graph.find_input(name);
  return known != kNoValue ? known : graph.add_input(name, type, InputRole::kState);
}

inline ValueId forward_layer(Graph& graph, ValueId x, int layer, const TensorType& type) {
  const ValueId y = add_op(graph, blend(), {x, state(graph, name_of("w", layer), type)}, in_layer(layer));
  return add_op(graph, mirror(), {y}, in_layer(layer, "/mirror"));
}

inline ValueId backward_layer(Graph& graph, ValueId gradient, int layer, const TensorType& type) {
  const ValueId g = add_op(graph, blend(), {gradient, state(graph, name_of("d", layer), type)},
                           in_layer(layer, "/backward", NodePass::kBackward), 2);
  return add_op(graph, mirror(), {g}, in_layer(layer, "/backward/mirror", NodePass::kBackward));
}

inline void accumulate(Graph& graph, ValueId gradient, ValueId x, int layer, const TensorType& type) {
  const ValueId wg = add_op(graph, blend(), {gradient, x}, in_layer(layer, "/weight"), 1);
  const std::string name = name_of("grad.", layer);
  graph.add_output(name, add_op(graph, add(), {state(graph, name, type), wg}, "accumulate"), OutputRole::kState);
}

/// Loss of the last layer's output and its gradient.
inline ValueId loss(Graph& graph, ValueId x, const TensorType& type, const std::string& result) {
  const ValueId mixed = add_op(graph, blend(), {x, graph.add_input("target", type, InputRole::kData)}, "loss/mix", 7);
  const NodeId node = graph.add_node(halve_and_sum(), {mixed}, {}, "loss");
  graph.add_output(result, graph.node(node).outputs[1]);
  return graph.node(node).outputs[0];
}

inline ValueId sum_of(Graph& graph, const std::vector<ValueId>& gradients) {
  ValueId total = kNoValue;
  for (ValueId gradient : gradients) {
    const ValueId sum = add_op(graph, halve_and_sum(), {gradient}, "norm", 0, 1);
    total = total == kNoValue ? sum : add_op(graph, plain_add(), {total, sum}, "norm/add");
  }
  return total;
}

inline ValueId tree_of(Graph& graph, const std::vector<ValueId>& terms, size_t first, size_t count) {
  if (count == 1) return terms[first];
  const auto left = static_cast<size_t>(tree_split(static_cast<int64_t>(count)));
  return add_op(graph, plain_add(),
                {tree_of(graph, terms, first, left), tree_of(graph, terms, first + left, count - left)}, "norm/tree");
}

inline void update_layer(Graph& graph, int layer, ValueId gradient, ValueId extra, const TensorType& type) {
  std::vector<ValueId> inputs = {state(graph, name_of("m", layer), type), gradient};
  if (extra != kNoValue) inputs.push_back(extra);
  const ValueId w = state(graph, name_of("w", layer), type);
  const ValueId moment = add_op(graph, blend(), std::move(inputs), name_of("moment", layer), 3);
  graph.add_output(name_of("m", layer), moment, OutputRole::kState);
  graph.add_output(name_of("w", layer), add_op(graph, blend(), {w, moment}, name_of("update", layer), 4),
                   OutputRole::kState);
}

inline std::vector<StateTensor> states_of_layer(int layer, const TensorType& type) {
  return {{name_of("w", layer), type, StateKind::kWeight, {}, ""},
          {name_of("m", layer), type, StateKind::kOptimizer, {}, ""},
          {name_of("grad.", layer), type, StateKind::kAccumulator, {}, ""},
          {name_of("d", layer), type, StateKind::kDerived, {}, ""}};
}

/// Cuts a chain.
class Cutter {
 public:
  explicit Cutter(const Chain& chain) : chain_(chain), type_(chain.vector) {}

  DeviceGraphs run() {
    const Layout& layout = chain_.layout;
    graphs_.layout = layout;
    graphs_.mesh = layout.mesh();
    graphs_.lanes = chain_.lanes / layout.r;
    graphs_.micro_batches_per_lane = chain_.micro_batches_per_lane;
    graphs_.parts = chain_.parts();
    graphs_.stages.resize(static_cast<size_t>(layout.p));
    graphs_.guards = {"loss", "norm"};
    graphs_.programs = {{.name = "evaluate", .when = When::on_request(), .width = chain_.width, .reads_data = true}};
    graphs_.table = make_schedule(layout, graphs_.lanes * graphs_.micro_batches_per_lane);
    for (int part = 0; part < chain_.parts(); ++part) {
      graphs_.stage_of_part.push_back(layout.stage_of(part));
      stage_ = layout.stage_of(part);
      add_states(part);
      forward(part, PieceKind::kForward);
      backward(part);
      prepare(part);
      forward(part, PieceKind::kProgram);
    }
    for (stage_ = 0; stage_ < layout.p; ++stage_) norm();
    for (int part = 0; part < chain_.parts(); ++part) {
      stage_ = layout.stage_of(part);
      update(part);
    }
    for (const std::string& name : order_) {
      const Ends& ends = ends_.at(name);
      const bool waits = name.rfind("x", 0) == 0 || name.rfind("g.", 0) == 0;
      graphs_.boundaries.push_back({name,
                                    ends.type,
                                    ends.writer,
                                    {ends.readers.begin(), ends.readers.end()},
                                    waits ? chain_.stash : HomeMemory::kDevice});
    }
    return std::move(graphs_);
  }

 private:
  struct Ends {
    TensorType type;
    int writer = -1;
    std::set<int> readers;
  };

  Graph& piece(PieceKind kind, int part) {
    auto& pieces = graphs_.stages[static_cast<size_t>(stage_)].pieces;
    const bool evaluates = kind == PieceKind::kProgram;
    pieces.push_back(
        {.graph = Graph((evaluates ? "evaluate" : std::string(layout::name_of(kind))) + " " + std::to_string(part)),
         .kind = kind,
         .part = part,
         .program = evaluates ? 0 : -1,
         .place = evaluates ? part : 0});
    return pieces.back().graph;
  }

  Ends& ends(const std::string& name) {
    if (!ends_.count(name)) order_.push_back(name);
    return ends_[name];
  }
  ValueId take(Graph& graph, const std::string& name, const TensorType& type) {
    ends(name).readers.insert(stage_);
    return graph.add_input(name, type, InputRole::kBoundary);
  }
  void give(Graph& graph, const std::string& name, ValueId value) {
    ends(name).writer = stage_;
    ends(name).type = graph.type(value);
    graph.add_output(name, value, OutputRole::kBoundary);
  }

  int first(int part) const { return part * chain_.layers_per_part; }
  int last(int part) const { return first(part) + chain_.layers_per_part - 1; }

  void add_states(int part) {
    for (int layer = first(part); layer <= last(part); ++layer)
      for (StateTensor& tensor : states_of_layer(layer, type_)) {
        const HomeMemory home = tensor.kind == StateKind::kWeight        ? chain_.weights
                                : tensor.kind == StateKind::kOptimizer   ? chain_.optimizer
                                : tensor.kind == StateKind::kAccumulator ? chain_.gradients
                                                                         : HomeMemory::kDevice;
        Sharding sharding;
        sharding.logical = tensor.type;
        graphs_.stages[static_cast<size_t>(stage_)].states.push_back({std::move(tensor), sharding, home});
      }
  }

  void forward(int part, PieceKind kind) {
    Graph& graph = piece(kind, part);
    const bool trains = kind == PieceKind::kForward;
    const std::string between = trains ? "act" : "eval";
    ValueId x = part == 0 ? graph.add_input("x", type_, InputRole::kData)
                          : take(graph, between + std::to_string(part - 1), type_);
    for (int layer = first(part); layer <= last(part); ++layer) {
      // What a layer reads is kept; the first one's input came as a boundary itself.
      if (trains && !(layer == first(part) && part > 0)) give(graph, name_of("x", layer), x);
      x = forward_layer(graph, x, layer, type_);
    }
    if (part + 1 < chain_.parts()) return give(graph, between + std::to_string(part), x);
    const ValueId gradient = loss(graph, x, type_, "loss");
    if (trains) give(graph, "seed", gradient);
  }

  ValueId input_of(Graph& graph, int part, int layer) {
    return take(graph, layer == first(part) && part > 0 ? "act" + std::to_string(part - 1) : name_of("x", layer),
                type_);
  }

  void backward(int part) {
    Graph& graph = piece(PieceKind::kBackward, part);
    ValueId gradient = take(graph, part + 1 == chain_.parts() ? "seed" : "back" + std::to_string(part + 1), type_);
    for (int layer = last(part); layer >= first(part); --layer) {
      if (chain_.split())
        give(graph, name_of("g.", layer), gradient);
      else
        accumulate(graph, gradient, input_of(graph, part, layer), layer, type_);
      if (layer > 0) gradient = backward_layer(graph, gradient, layer, type_);
    }
    if (part > 0) give(graph, "back" + std::to_string(part), gradient);
    if (!chain_.split()) return;
    Graph& weights = piece(PieceKind::kWeightGradient, part);
    for (int layer = last(part); layer >= first(part); --layer) {
      const ValueId g = take(weights, name_of("g.", layer), type_);
      accumulate(weights, g, input_of(weights, part, layer), layer, type_);
    }
  }

  void prepare(int part) {
    Graph& graph = piece(PieceKind::kPrepare, part);
    for (int layer = first(part); layer <= last(part); ++layer) {
      const ValueId w = state(graph, name_of("w", layer), type_);
      graph.add_output(name_of("d", layer), add_op(graph, blend(), {w, w}, name_of("derive", layer), 5),
                       OutputRole::kState);
    }
  }

  ValueId all_reduce(Graph& graph, ValueId value, int axis, int parts) const {
    const NodeId node = graph.add_node(OpRegistry::instance().get("all_reduce"), {value},
                                       {{"axis", int64_t{axis}}, {"parts", int64_t{parts}}}, "meet");
    return graph.node(node).outputs[0];
  }
  ValueId gradient_of(Graph& graph, int layer) const {
    return all_reduce(graph, state(graph, name_of("grad.", layer), type_), 1, chain_.layout.r);
  }

  void norm() {
    Graph& graph = piece(PieceKind::kUpdate, 0);
    std::vector<ValueId> gradients;
    for (int layer = 0; layer < chain_.layers(); ++layer)
      if (chain_.stage_of_layer(layer) == stage_) gradients.push_back(gradient_of(graph, layer));
    const ValueId total = all_reduce(graph, sum_of(graph, gradients), 0, chain_.layout.p);
    graph.add_output("norm", total);
    give(graph, "total" + std::to_string(stage_), total);
    if (stage_ == 0) give(graph, "hello", add_op(graph, mirror(), {gradients[0]}, "hello"));
  }

  void update(int part) {
    Graph& graph = piece(PieceKind::kUpdate, 1 + part);
    for (int layer = first(part); layer <= last(part); ++layer)
      update_layer(graph, layer, gradient_of(graph, layer),
                   layer + 1 == chain_.layers() ? take(graph, "hello", type_) : kNoValue, type_);
    if (part + chain_.layout.p >= chain_.parts())
      graph.add_output("after", add_op(graph, mirror(),
                                       {take(graph, "total" + std::to_string(stage_), {DType::kF32, {}})}, "after"));
  }

  const Chain& chain_;
  const TensorType type_;
  DeviceGraphs graphs_;
  int stage_ = 0;
  std::vector<std::string> order_;
  std::map<std::string, Ends> ends_;
};

}  // namespace chain_detail

inline DeviceGraphs Chain::cut() const { return chain_detail::Cutter(*this).run(); }

inline StepGraph Chain::whole() const {
  using namespace chain_detail;
  StepGraph step;
  step.lanes = lanes;
  step.micro_batches_per_lane = micro_batches_per_lane;
  std::vector<ValueId> inputs;
  Graph evaluate("evaluate");
  ValueId x = step.micro.add_input("x", vector, InputRole::kData),
          e = evaluate.add_input("x", vector, InputRole::kData);
  for (int layer = 0; layer < layers(); ++layer) {
    for (StateTensor& tensor : states_of_layer(layer, vector)) step.states.push_back(std::move(tensor));
    inputs.push_back(x);
    x = forward_layer(step.micro, x, layer, vector);
    e = forward_layer(evaluate, e, layer, vector);
    const ValueId w = state(step.derive, name_of("w", layer), vector);
    step.derive.add_output(name_of("d", layer), add_op(step.derive, blend(), {w, w}, name_of("derive", layer), 5),
                           OutputRole::kState);
  }
  loss(evaluate, e, vector, "loss");
  step.programs.push_back({"evaluate", std::move(evaluate), When::on_request()});
  step.guards = {"loss", "norm"};
  ValueId gradient = loss(step.micro, x, vector, "loss");
  for (int layer = layers() - 1; layer >= 0; --layer) {
    accumulate(step.micro, gradient, inputs[static_cast<size_t>(layer)], layer, vector);
    if (layer > 0) gradient = backward_layer(step.micro, gradient, layer, vector);
  }
  Graph& update = step.update;
  std::vector<ValueId> gradients, sums;
  for (int layer = 0; layer < layers(); ++layer) gradients.push_back(state(update, name_of("grad.", layer), vector));
  for (int stage = 0; stage < layout.p; ++stage) {
    std::vector<ValueId> here;
    for (int layer = 0; layer < layers(); ++layer)
      if (stage_of_layer(layer) == stage) here.push_back(gradients[static_cast<size_t>(layer)]);
    sums.push_back(sum_of(update, here));
  }
  const ValueId total = tree_of(update, sums, 0, sums.size()),
                hello = add_op(update, mirror(), {gradients[0]}, "hello");
  update.add_output("norm", total);
  for (int layer = 0; layer < layers(); ++layer)
    update_layer(update, layer, gradients[static_cast<size_t>(layer)], layer + 1 == layers() ? hello : kNoValue,
                 vector);
  update.add_output("after", add_op(update, mirror(), {total}, "after"));
  return step;
}

}  // namespace ramet::tests::toy
