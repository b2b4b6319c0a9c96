#include "layout/lockstep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/collective.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/program/executable.h"

namespace ramet::tests {
namespace {

HostTensor counter_of(int64_t step, int64_t micro) {
  return HostTensor::of(DType::kI64, Shape{2}, {static_cast<double>(step), static_cast<double>(micro)});
}

HostTensor sum_of(const HostTensor& a, const HostTensor& b) {
  HostTensor sum = a;
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (a.type.dtype == DType::kI64) {
      int64_t x, y;
      std::memcpy(&x, a.data.data() + i * 8, 8), std::memcpy(&y, b.data.data() + i * 8, 8);
      x += y;
      std::memcpy(sum.data.data() + i * 8, &x, 8);
    } else {
      sum.set(i, static_cast<float>(a.get(i)) + static_cast<float>(b.get(i)));
    }
  }
  return sum;
}

/// Lanes of micro-batches meet in the balanced tree.
class LaneSums {
 public:
  explicit LaneSums(int64_t lanes) : combines_(lane_combines(lanes)), slot_of_(lane_slot_of(lanes)) {}
  int slot(int64_t lane) const { return slot_of_[static_cast<size_t>(lane)]; }
  const std::vector<std::pair<int, int>>& combines(int64_t lane) const { return combines_[static_cast<size_t>(lane)]; }

 private:
  std::vector<std::vector<std::pair<int, int>>> combines_;
  std::vector<int> slot_of_;
};

Tensors feeds_of(const Graph& graph, const Tensors& states, const Tensors& data, const Tensors& boundaries = {}) {
  Tensors feeds;
  for (const GraphInput& input : graph.inputs()) {
    const std::string& name = graph.value(input.value).name;
    for (const Tensors* from : {&states, &data, &boundaries})
      if (const auto found = from->find(name); found != from->end()) feeds.emplace(name, found->second);
  }
  return feeds;
}

}  // namespace

PlainMachine::PlainMachine(const StepGraph& step, Tensors weights) : step_(step), states_(std::move(weights)) {
  for (const StateTensor& state : step.states)
    if (!states_.count(state.name)) states_.emplace(state.name, HostTensor(state.type));
}

void PlainMachine::derive() {
  const auto outputs = interpret(step_.derive, cpu_backend(), feeds_of(step_.derive, states_, {}));
  for (size_t i = 0; i < outputs.size(); ++i) states_[step_.derive.outputs()[i].name] = outputs[i];
}

void PlainMachine::run_step(int64_t number, const FeedOf& feed, const Tensors& scalars) {
  const LaneSums sums(step_.lanes);
  std::map<int, Tensors> slots;
  for (int64_t lane = 0, index = 0; lane < step_.lanes; ++lane) {
    Tensors& slot = slots[sums.slot(lane)];
    for (const StateTensor& state : step_.states)
      if (state.kind == StateKind::kAccumulator) slot[state.name] = HostTensor(state.type);
    for (int64_t micro = 0; micro < step_.micro_batches_per_lane; ++micro, ++index) {
      Tensors data = feed(index);
      data["counter"] = counter_of(number, index);
      Tensors states = states_;
      for (const auto& [name, tensor] : slot) states[name] = tensor;
      const auto outputs = interpret(step_.micro, cpu_backend(), feeds_of(step_.micro, states, data));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const GraphOutput& output = step_.micro.outputs()[i];
        if (output.role == OutputRole::kState)
          slot[output.name] = outputs[i];
        else
          results_[output.name + std::to_string(index)] = outputs[i];
      }
    }
    for (const auto& [into, from] : sums.combines(lane))
      for (auto& [name, tensor] : slots[into]) tensor = sum_of(tensor, slots[from].at(name));
  }
  for (const auto& [name, tensor] : slots[0]) states_[name] = tensor;
  const auto outputs = interpret(step_.update, cpu_backend(), feeds_of(step_.update, states_, scalars));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const GraphOutput& output = step_.update.outputs()[i];
    (output.role == OutputRole::kState ? states_ : results_)[output.name] = outputs[i];
  }
  derive();
}

LockstepMachine::LockstepMachine(const DeviceGraphs& graphs, const Tensors& weights) : graphs_(graphs) {
  for (int device = 0; device < graphs.mesh.devices(); ++device) {
    Device made{graphs.mesh.position(device), {}, {}};
    for (const LocalState& state : graphs.stages[static_cast<size_t>(made.position.stage)].states) {
      HostTensor local(state.tensor.type);
      if (const auto whole = weights.find(state.tensor.name); whole != weights.end()) {
        const size_t size = size_of(local.type.dtype);
        for_each_run(state.sharding, made.position, [&](const ShardRun& run) {
          std::memcpy(local.data.data() + static_cast<size_t>(run.local) * size,
                      whole->second.data.data() + static_cast<size_t>(run.logical) * size,
                      static_cast<size_t>(run.count) * size);
        });
      }
      made.states.emplace(state.tensor.name, std::move(local));
    }
    devices_.push_back(std::move(made));
  }
}

Tensors LockstepMachine::states() const {
  Tensors whole;
  for (const Device& device : devices_)
    for (const LocalState& state : graphs_.stages[static_cast<size_t>(device.position.stage)].states) {
      if (state.tensor.kind != StateKind::kWeight && state.tensor.kind != StateKind::kOptimizer) continue;
      const auto [at, fresh] = whole.emplace(state.tensor.name, HostTensor(state.sharding.logical));
      const HostTensor& local = device.states.at(state.tensor.name);
      const size_t size = size_of(local.type.dtype);
      for_each_run(state.sharding, device.position, [&](const ShardRun& run) {
        std::memcpy(at->second.data.data() + static_cast<size_t>(run.logical) * size,
                    local.data.data() + static_cast<size_t>(run.local) * size, static_cast<size_t>(run.count) * size);
      });
    }
  // Now every device must agree with what was put together.
  for (const Device& device : devices_)
    for (const LocalState& state : graphs_.stages[static_cast<size_t>(device.position.stage)].states) {
      if (state.tensor.kind != StateKind::kWeight && state.tensor.kind != StateKind::kOptimizer) continue;
      const HostTensor &local = device.states.at(state.tensor.name), &all = whole.at(state.tensor.name);
      const size_t size = size_of(local.type.dtype);
      for_each_run(state.sharding, device.position, [&](const ShardRun& run) {
        EXPECT_EQ(0, std::memcmp(all.data.data() + static_cast<size_t>(run.logical) * size,
                                 local.data.data() + static_cast<size_t>(run.local) * size,
                                 static_cast<size_t>(run.count) * size))
            << "replicas disagree on " << state.tensor.name;
      });
    }
  return whole;
}

const Piece* LockstepMachine::find(int stage, PieceKind kind, int part) const {
  for (const Piece& piece : graphs_.stages[static_cast<size_t>(stage)].pieces)
    if (piece.kind == kind && piece.part == part) return &piece;
  return nullptr;
}

std::vector<HostTensor> LockstepMachine::exchange(const NodeSignature& node, const std::vector<size_t>& members,
                                                  const std::vector<HostTensor>& inputs) const {
  const CollectiveForm form = collective_form(node);
  const size_t size = size_of(form.input.dtype);
  const auto reduced = [&] {
    return tree_combine<HostTensor>(
        0, form.parts, [&](int64_t k) { return inputs[members[static_cast<size_t>(k)]]; },
        [](const HostTensor& a, const HostTensor& b) { return sum_of(a, b); });
  };
  std::vector<HostTensor> outputs;
  for (int64_t k = 0; k < form.parts; ++k) {
    HostTensor output(form.output);
    if (form.exchange == Exchange::kAllReduce) {
      EXPECT_EQ(form.kind, "sum");
      output = reduced();
    } else if (form.exchange == Exchange::kAllGather) {
      for (int64_t o = 0; o < form.outer; ++o)
        for (int64_t m = 0; m < form.parts; ++m)
          std::memcpy(output.data.data() + static_cast<size_t>((o * form.parts + m) * form.run) * size,
                      inputs[members[static_cast<size_t>(m)]].data.data() + static_cast<size_t>(o * form.run) * size,
                      static_cast<size_t>(form.run) * size);
    } else if (form.exchange == Exchange::kReduceScatter) {
      const HostTensor sum = reduced();
      for (int64_t o = 0; o < form.outer; ++o)
        std::memcpy(output.data.data() + static_cast<size_t>(o * form.run) * size,
                    sum.data.data() + static_cast<size_t>((o * form.parts + k) * form.run) * size,
                    static_cast<size_t>(form.run) * size);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

void LockstepMachine::run_piece(const Piece& piece, int stage, const std::function<Tensors(const Device&)>& feeds) {
  Run run = begin(piece, stage, feeds);
  ASSERT_TRUE(advance(run)) << "a collective among stages outside of the update";
  finish(run);
}

LockstepMachine::Run LockstepMachine::begin(const Piece& piece, int stage,
                                            const std::function<Tensors(const Device&)>& feeds) const {
  Run run{&piece, {}, std::vector<std::vector<HostTensor>>(devices_.size()), 0};
  const Graph& graph = piece.graph;
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (devices_[d].position.stage != stage) continue;
    run.devices.push_back(d);
    run.values[d].resize(graph.values().size());
    const Tensors in = feeds_of(graph, devices_[d].states, feeds(devices_[d]), devices_[d].boundaries);
    for (const GraphInput& input : graph.inputs()) {
      const std::string& name = graph.value(input.value).name;
      if (!in.count(name)) throw Error({.what = "nothing feeds an input", .where = graph.name(), .found = name});
      run.values[d][static_cast<size_t>(input.value)] = in.at(name);
      EXPECT_EQ(in.at(name).type, graph.type(input.value)) << name;
    }
  }
  return run;
}

bool LockstepMachine::advance(Run& run) {
  const Graph& graph = run.piece->graph;
  for (; run.next < static_cast<NodeId>(graph.nodes().size()); ++run.next) {
    const Node& node = graph.node(run.next);
    if (node.op->exchange != Exchange::kNone && node.attributes.get_int("axis") == 0) return false;
    run_node(run, run.next);
  }
  return true;
}

void LockstepMachine::run_node(Run& run, NodeId id) {
  const Graph& graph = run.piece->graph;
  const Node& node = graph.node(id);
  const NodeSignature signature = graph.signature(id);
  if (node.op->exchange != Exchange::kNone) {
    const CollectiveForm form = collective_form(signature);
    std::vector<HostTensor> inputs(devices_.size());
    for (size_t d : run.devices) inputs[d] = run.values[d][static_cast<size_t>(node.inputs[0])];
    for (size_t d : run.devices) {
      const auto group = graphs_.mesh.group(static_cast<int>(d), static_cast<MeshAxis>(form.axis),
                                            static_cast<int>(form.stride), static_cast<int>(form.parts));
      if (group[0] != static_cast<int>(d)) continue;
      const std::vector<size_t> members(group.begin(), group.end());
      const auto outputs = exchange(signature, members, inputs);
      for (size_t k = 0; k < members.size(); ++k)
        run.values[members[k]][static_cast<size_t>(node.outputs[0])] = outputs[k];
    }
    return;
  }
  for (size_t d : run.devices) {
    NodeSignature local = signature;
    if (local.attributes.has("cuts")) {
      const auto cuts = local.attributes.get_ints("cuts");
      std::vector<int64_t> position;
      for (size_t c = 0; c < cuts.size(); c += 5)
        position.push_back(graphs_.mesh.index_in_group(static_cast<int>(d), static_cast<MeshAxis>(cuts[c + 1]),
                                                       static_cast<int>(cuts[c + 4]), static_cast<int>(cuts[c + 2])));
      local.attributes.set("position", position);
    }
    std::vector<HostTensor> inputs;
    for (ValueId input : node.inputs) inputs.push_back(run.values[d][static_cast<size_t>(input)]);
    const auto outputs = interpret_node(local, cpu_backend(), inputs);
    for (size_t o = 0; o < outputs.size(); ++o) run.values[d][static_cast<size_t>(node.outputs[o])] = outputs[o];
  }
}

void LockstepMachine::finish(Run& run) {
  const Graph& graph = run.piece->graph;
  for (size_t d : run.devices)
    for (const GraphOutput& output : graph.outputs()) {
      const HostTensor& value = run.values[d][static_cast<size_t>(output.value)];
      if (output.role == OutputRole::kState) devices_[d].states[output.name] = value;
      if (output.role == OutputRole::kResult) devices_[d].boundaries["result." + output.name] = value;
      if (output.role != OutputRole::kBoundary) continue;
      const auto boundary = std::find_if(graphs_.boundaries.begin(), graphs_.boundaries.end(),
                                         [&](const Boundary& each) { return each.name == output.name; });
      for (int reader : boundary->readers) {
        Mesh::Position at = devices_[d].position;
        at.stage = reader;
        devices_[static_cast<size_t>(graphs_.mesh.device(at))].boundaries[output.name] = value;
      }
    }
}

void LockstepMachine::exchange_stages(std::vector<Run>& runs) {
  const NodeSignature signature = runs[0].piece->graph.signature(runs[0].next);
  std::vector<HostTensor> inputs(devices_.size());
  for (Run& run : runs) {
    const Node& node = run.piece->graph.node(run.next);
    EXPECT_EQ(node.op, signature.op);
    EXPECT_EQ(node.attributes, signature.attributes);
    for (size_t d : run.devices) inputs[d] = run.values[d][static_cast<size_t>(node.inputs[0])];
  }
  for (size_t d : runs[0].devices) {
    const auto group = graphs_.mesh.group(static_cast<int>(d), MeshAxis::kStage, 1, graphs_.mesh.p);
    const std::vector<size_t> members(group.begin(), group.end());
    const auto outputs = exchange(signature, members, inputs);
    for (size_t k = 0; k < members.size(); ++k)
      runs[k].values[members[k]][static_cast<size_t>(runs[k].piece->graph.node(runs[k].next).outputs[0])] = outputs[k];
  }
  for (Run& run : runs) ++run.next;
}

void LockstepMachine::run_updates(const Tensors& scalars) {
  const size_t stages = static_cast<size_t>(graphs_.mesh.p);
  std::vector<int> part(stages, 0);
  const auto feeds = [&](const Device&) { return scalars; };
  std::vector<Run> runs(stages);
  std::vector<bool> ended(stages, false);
  const auto start = [&](size_t stage) {
    const Piece* piece = find(static_cast<int>(stage), PieceKind::kUpdate, part[stage]++);
    ended[stage] = piece == nullptr;
    if (piece) runs[stage] = begin(*piece, static_cast<int>(stage), feeds);
  };
  for (size_t stage = 0; stage < stages; ++stage) start(stage);
  while (std::find(ended.begin(), ended.end(), false) != ended.end()) {
    for (size_t stage = 0; stage < stages; ++stage)
      while (!ended[stage] && advance(runs[stage])) {
        finish(runs[stage]);
        start(stage);
      }
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) return;
    ASSERT_EQ(std::find(ended.begin(), ended.end(), true), ended.end()) << "stages disagree on their collectives";
    exchange_stages(runs);
  }
}

void LockstepMachine::prepare() {
  for (int stage = 0; stage < graphs_.mesh.p; ++stage)
    for (const Piece& piece : graphs_.stages[static_cast<size_t>(stage)].pieces)
      if (piece.kind == PieceKind::kPrepare) run_piece(piece, stage, [](const Device&) { return Tensors{}; });
}

void LockstepMachine::run_step(int64_t number, const FeedOf& feed, const Tensors& scalars) {
  const LaneSums sums(graphs_.lanes);
  const int64_t of_replica = graphs_.lanes * graphs_.micro_batches_per_lane;
  std::vector<std::map<int, Tensors>> slots(devices_.size());
  const auto is_accumulator = [&](const Device& device, const std::string& name) {
    for (const LocalState& state : graphs_.stages[static_cast<size_t>(device.position.stage)].states)
      if (state.tensor.name == name) return state.tensor.kind == StateKind::kAccumulator;
    return false;
  };
  for (int64_t lane = 0, index = 0; lane < graphs_.lanes; ++lane) {
    const int slot = sums.slot(lane);
    for (Device& device : devices_)
      for (auto& [name, tensor] : device.states)
        if (is_accumulator(device, name)) tensor = HostTensor(tensor.type);
    for (int64_t micro = 0; micro < graphs_.micro_batches_per_lane; ++micro, ++index) {
      const auto feeds = [&](const Device& device) {
        const int64_t global = device.position.replica * of_replica + index;
        Tensors data = feed(global);
        data["counter"] = counter_of(number, global);
        return data;
      };
      for (PieceKind kind : {PieceKind::kForward, PieceKind::kBackward, PieceKind::kWeightGradient})
        for (int i = 0; i < graphs_.parts; ++i) {
          const int part = kind == PieceKind::kForward ? i : graphs_.parts - 1 - i,
                    stage = graphs_.stage_of_part[static_cast<size_t>(part)];
          if (const Piece* piece = find(stage, kind, part)) run_piece(*piece, stage, feeds);
        }
      for (Device& device : devices_)
        std::erase_if(device.boundaries, [&](const auto& item) {
          if (!item.first.starts_with("result.")) return false;
          results_[item.first.substr(7) + std::to_string(device.position.replica * of_replica + index)] = item.second;
          return true;
        });
    }
    for (size_t d = 0; d < devices_.size(); ++d) {
      for (const auto& [name, tensor] : devices_[d].states)
        if (is_accumulator(devices_[d], name)) slots[d][slot][name] = tensor;
      for (const auto& [into, from] : sums.combines(lane))
        for (auto& [name, tensor] : slots[d][into]) tensor = sum_of(tensor, slots[d][from].at(name));
    }
  }
  for (size_t d = 0; d < devices_.size(); ++d)
    for (const auto& [name, tensor] : slots[d][0]) devices_[d].states[name] = tensor;
  run_updates(scalars);
  for (Device& device : devices_)
    std::erase_if(device.boundaries, [&](const auto& item) {
      if (!item.first.starts_with("result.")) return false;
      results_[item.first.substr(7)] = item.second;
      return true;
    });
  prepare();
}

}  // namespace ramet::tests
