#include "ramet/train/scales.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/kernel/interpret.h"
#include "ramet/train/initialize.h"
#include "ramet/train/step.h"
#include "ramet/transform/simplify.h"

namespace ramet::train {
namespace {

/// The values to look at, which become outputs of the graph. After simplification factors are `scale` nodes.
class Watcher {
 public:
  explicit Watcher(const Graph& graph) : graph_(graph), uses_(graph.uses()) {}

  std::vector<ValueId> run() const {
    std::vector<ValueId> watched;
    for (const Node& node : graph_.nodes()) {
      const ValueId value = node.outputs[0];
      const TensorType& type = graph_.type(value);
      if (!is_floating(type.dtype) || type.elements() <= 1 || node.op->name == "full") continue;
      if (is_statistic(node) || is_part(value) || is_vector_weight(node)) continue;
      watched.push_back(value);
    }
    return watched;
  }

 private:
  static bool is_backward(const Node& node) { return node.pass == NodePass::kBackward; }

  static bool is_statistic(const Node& node) {
    return node.op->name.find("statistics") != std::string::npos || node.op->name.find("cross_entropy") == 0;
  }

  /// A bias with its factor: it starts at zero.
  bool is_vector_weight(const Node& node) const {
    return node.op->name == "scale" && graph_.value(node.inputs[0]).producer == kNoNode;
  }

  bool is_part(ValueId value) const {
    const auto& readers = uses_[static_cast<size_t>(value)];
    if (readers.empty()) return false;
    const bool scaled = std::any_of(readers.begin(), readers.end(),
                                    [&](NodeId reader) { return graph_.node(reader).op->name == "scale"; });
    return std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      // What an op keeps of its own result, before the factor, for its gradient.
      if (scaled && is_backward(node) && !is_backward(graph_.node(graph_.value(value).producer))) return true;
      return node.op->name == "scale" || node.op->name == "cast" || node.op->is_view || node.op->scaling.sum;
    });
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
};

TensorScale look_at(const HostTensor& tensor, TensorScale::Kind kind, const std::string& name) {
  TensorScale scale{kind, name, tensor.type};
  double sum = 0, squares = 0;
  const int64_t count = tensor.elements();
  for (int64_t i = 0; i < count; ++i) {
    const double value = tensor.get(i);
    sum += value, squares += value * value;
    scale.most = std::max(scale.most, std::fabs(value));
  }
  const double n = static_cast<double>(std::max<int64_t>(1, count));
  const bool centred = kind == TensorScale::Kind::kActivation || kind == TensorScale::Kind::kWeight;
  scale.deviation = std::sqrt(std::max(0.0, squares / n - (centred ? sum / n * sum / n : 0)));
  return scale;
}

HostTensor initial(const StateTensor& state, int64_t seed) {
  HostTensor tensor(state.type);
  ThreadTeam team(1);
  if (state.kind == StateKind::kWeight) initialize_state(state, static_cast<uint64_t>(seed), tensor.data, team);
  return tensor;
}

}  // namespace

std::string_view name_of(TensorScale::Kind kind) {
  switch (kind) {
    case TensorScale::Kind::kWeight: return "weight";
    case TensorScale::Kind::kActivation: return "activation";
    case TensorScale::Kind::kGradient: return "gradient";
    case TensorScale::Kind::kWeightGradient: return "weight gradient";
  }
  internal_error("name_of", "unknown kind of tensor");
}

std::vector<TensorScale> measure_scales(const Workload& workload, const TrainOptions& options) {
  StepGraph step = make_training_step(workload.model, options);
  Graph micro = simplify(step.micro);
  const std::vector<ValueId> watched = Watcher(micro).run();
  for (ValueId value : watched) micro.add_output("watched." + std::to_string(value), value);

  std::vector<TensorScale> scales;
  std::map<std::string, HostTensor> feeds;
  const Batch batch = workload.train->make(0, options.micro_batch);
  for (const NamedTensor& tensor : batch.tensors) {
    HostTensor fed(tensor.type);
    fed.data = tensor.bytes;
    feeds.emplace(tensor.name, std::move(fed));
  }
  for (const GraphInput& input : micro.inputs()) {
    const std::string& name = micro.value(input.value).name;
    if (input.role == InputRole::kScalar) feeds.emplace(name, HostTensor(micro.type(input.value)));
    if (input.role == InputRole::kState) feeds.emplace(name, initial(step.state(name), options.seed));
  }
  for (const StateTensor& weight : workload.model.weights)
    if (weight.init.kind != StateInit::Kind::kZeros && weight.init.kind != StateInit::Kind::kConstant)
      scales.push_back(look_at(feeds.at(weight.name), TensorScale::Kind::kWeight, weight.name));

  const std::vector<HostTensor> results = interpret(micro, find_device().backend(), feeds);
  for (size_t i = 0; i < results.size(); ++i) {
    const GraphOutput& output = micro.outputs()[i];
    if (output.role == OutputRole::kState) {
      const StateTensor& sum = step.state(output.name);
      const std::string name = sum.weight() + (sum.part.empty() ? "" : " (" + sum.part + ")");
      scales.push_back(look_at(results[i], TensorScale::Kind::kWeightGradient, name));
    }
    if (!output.name.starts_with("watched.")) continue;
    const Node& node = micro.node(micro.value(output.value).producer);
    const bool backward = node.pass == NodePass::kBackward;
    if (node.pass == NodePass::kAccumulate) continue;  // sums of weights' gradients, which have rows of their own
    scales.push_back(look_at(results[i], backward ? TensorScale::Kind::kGradient : TensorScale::Kind::kActivation,
                             node.name + " (" + node.op->name + ")"));
  }
  return scales;
}

}  // namespace ramet::train
