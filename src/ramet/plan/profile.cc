#include "ramet/plan/profile.h"

#include <algorithm>
#include <map>
#include <string>

#include "ramet/layout/partition.h"

namespace ramet::plan {
namespace {

double bytes_of(const TensorType& type) { return static_cast<double>(type.bytes()); }

/// Seconds of a node's matrix products at their types' peak rates.
double at_peak(const NodeSignature& node, const Machine& machine) {
  double seconds = 0;
  if (!node.op->products) return 0;
  for (const MatrixProduct& product : node.op->products(node))
    seconds += 2.0 * static_cast<double>(product.batch) * static_cast<double>(product.m) *
               static_cast<double>(product.k) * static_cast<double>(product.n) /
               std::max(machine.device.peak(product.operands), 1.0);
  return seconds;
}

/// The weight of each state; for a derived state, the first weight that it is computed from.
std::map<std::string, std::string> weights_of(const StepGraph& step) {
  std::map<std::string, std::string> result;
  for (const StateTensor& state : step.states)
    if (!state.weight().empty()) result.emplace(state.name, state.weight());
  std::vector<std::string> source(step.derive.values().size());
  for (size_t v = 0; v < source.size(); ++v)
    if (const Value& value = step.derive.values()[v]; value.producer == kNoNode) source[v] = value.name;
  for (const Node& node : step.derive.nodes())
    for (ValueId input : node.inputs)
      for (ValueId output : node.outputs)
        if (source[static_cast<size_t>(output)].empty())
          source[static_cast<size_t>(output)] = source[static_cast<size_t>(input)];
  for (const GraphOutput& output : step.derive.outputs())
    result.emplace(output.name, source[static_cast<size_t>(output.value)]);
  return result;
}

/// Nodes of the backward pass and all that depends on one, as sums of gradients.
std::vector<bool> late_nodes(const Graph& micro) {
  std::vector<bool> late;
  for (const Node& node : micro.nodes()) {
    bool is_late = node.pass == NodePass::kBackward;
    for (ValueId input : node.inputs)
      if (const NodeId producer = micro.value(input).producer; producer != kNoNode)
        is_late = is_late || late[static_cast<size_t>(producer)];
    late.push_back(is_late);
  }
  return late;
}

}  // namespace

ModelProfile::ModelProfile(const StepGraph& step, const Machine& machine)
    : model_parts_(step.micro), axes_(step.axes), costs_(layer_costs(step.micro, model_parts_)) {
  parts_.resize(costs_.layers.size() + 2);
  late_ = late_nodes(step.micro);
  place_nodes(step.micro);
  measure(step.micro, machine);
  find_kept(step.micro);
  place_states(step);
  for (NodeId id = 0; id < static_cast<NodeId>(step.update.nodes().size()); ++id) {
    const NodeSignature signature = step.update.signature(id);
    update_seconds_ += call_seconds(machine, signature, "", signature.op->cost(signature));
  }
}

void ModelProfile::place_nodes(const Graph& micro) {
  const int last = layers() - 1;
  std::map<int32_t, size_t> of_forward;  // by serial number
  for (const Node& node : micro.nodes()) {
    const int layer = model_parts_.index_of(node.part);
    const bool backward = node.pass == NodePass::kBackward;
    size_t part = before();
    if (layer >= 0) {
      part = static_cast<size_t>(layer);
    } else if (const auto forward = of_forward.find(node.forward_of); backward && forward != of_forward.end()) {
      part = forward->second;
    } else {
      const bool late = late_[part_of_node_.size()];
      for (ValueId input : node.inputs)
        if (const NodeId producer = micro.value(input).producer; producer != kNoNode) {
          const size_t from = part_of_node_[static_cast<size_t>(producer)];
          if (late && late_[static_cast<size_t>(producer)])
            part = from;  // a sum belongs to its weight
          else if (from == behind() || static_cast<int>(from) == last)
            part = behind();
        }
    }
    if (!backward && node.serial != 0) of_forward.emplace(node.serial, part);
    part_of_node_.push_back(part);
  }
}

void ModelProfile::measure(const Graph& micro, const Machine& machine) {
  std::map<std::string, double> known;  // layers are alike
  std::vector<bool> states(micro.values().size(), false);
  for (size_t v = 0; v < states.size(); ++v) states[v] = micro.values()[v].producer == kNoNode;
  for (const GraphOutput& output : micro.outputs())
    if (output.role == OutputRole::kState) states[static_cast<size_t>(output.value)] = true;
  for (NodeId id = 0; id < static_cast<NodeId>(micro.nodes().size()); ++id) {
    const Node& node = micro.node(id);
    const NodeSignature signature = micro.signature(id);
    const Cost cost = node.op->cost(signature);
    PartWork& part = parts_[part_of_node_[static_cast<size_t>(id)]];
    const auto [at, fresh] = known.emplace(timing_key(signature, ""), 0);
    if (fresh) at->second = call_seconds(machine, signature, "", cost);
    const double seconds = at->second;
    const bool late = late_[static_cast<size_t>(id)];
    (late ? part.backward : part.forward) += seconds;
    if (!late && node.op->cheap) part.cheap += seconds;
    part.products += at_peak(signature, machine);
    double bytes = 0;
    for (const auto* values : {&node.inputs, &node.outputs})
      for (ValueId value : *values)
        if (!states[static_cast<size_t>(value)]) bytes += bytes_of(micro.type(value));
    part.largest_node = std::max(part.largest_node, bytes);
  }
}

void ModelProfile::find_kept(const Graph& micro) {
  std::vector<bool> kept(micro.values().size(), false), entering(micro.values().size(), false);
  for (size_t n = 0; n < micro.nodes().size(); ++n) {
    const Node& node = micro.node(static_cast<NodeId>(n));
    for (ValueId input : node.inputs) {
      const Value& value = micro.value(input);
      if (value.producer == kNoNode) continue;
      const auto producer = static_cast<size_t>(value.producer), at = static_cast<size_t>(input);
      const bool forward = !late_[producer];
      if (late_[n] && forward && !kept[at]) {
        kept[at] = true;
        PartWork& part = parts_[part_of_node_[producer]];
        part.kept += bytes_of(value.type);
        if (!micro.node(value.producer).op->cheap) part.kept_cheap += bytes_of(value.type);
      }
      if (!late_[n] && part_of_node_[n] != part_of_node_[producer] && !entering[at]) {
        entering[at] = true;
        parts_[part_of_node_[n]].entering += bytes_of(value.type);
      }
    }
  }
}

void ModelProfile::place_states(const StepGraph& step) {
  const std::map<std::string, std::string> weights = weights_of(step);
  std::map<std::string, size_t> part;
  for (size_t n = 0; n < step.micro.nodes().size(); ++n)
    for (ValueId input : step.micro.node(static_cast<NodeId>(n)).inputs)
      if (const Value& value = step.micro.value(input); value.producer == kNoNode)
        if (const auto weight = weights.find(value.name); weight != weights.end())
          part.emplace(weight->second, part_of_node_[n]);
  for (const StateTensor& state : step.states) {
    const auto weight = weights.find(state.name);
    const std::string name = weight == weights.end() ? "" : weight->second;
    const auto found = part.find(name);
    states_.push_back({state, step.placed_as(state), name, found == part.end() ? before() : found->second});
  }
}

double ModelProfile::products() const {
  double sum = 0;
  for (const PartWork& part : parts_) sum += part.products;
  return sum;
}

std::vector<StateBytes> ModelProfile::states(const Mesh& mesh) const {
  std::vector<StateBytes> result(parts_.size(), StateBytes{});
  std::map<std::string, double> share;  // of a weight that a device holds
  for (const State& state : states_) {
    double parts = 1;
    for (const Cut& cut : cuts_of_state(state.tensor, mesh, axes_)) parts *= static_cast<double>(cut.parts);
    if (state.tensor.kind == StateKind::kWeight) share[state.tensor.name] = 1 / parts;
    double held = bytes_of(state.tensor.type) / parts;
    if (state.tensor.kind == StateKind::kDerived)
      if (const auto known = share.find(state.weight); known != share.end())
        held = bytes_of(state.tensor.type) * known->second;
    result[state.part][static_cast<size_t>(state.kind)] += held;
  }
  return result;
}

}  // namespace ramet::plan
