#include "ramet/front/known_values.h"

#include <vector>

#include "ramet/kernel/interpret.h"

namespace ramet::front {
namespace {

/// The most bytes that one value has which is computed before the program runs.
constexpr int64_t kMostKnownBytes = int64_t{64} << 20;

}  // namespace

const TensorData* KnownValues::find(ValueId wanted) {
  std::vector<ValueId> stack = {wanted};
  while (!stack.empty()) {
    const ValueId id = stack.back();
    if (known_.count(id)) {
      stack.pop_back();
      continue;
    }
    const NodeId producer = graph_.value(id).producer;
    if (producer == kNoNode || graph_.type(id).bytes() > kMostKnownBytes) {
      forget(id), stack.pop_back();
      continue;
    }
    bool ready = true, possible = true;
    for (const ValueId input : graph_.node(producer).inputs) {
      const auto found = known_.find(input);
      if (found == known_.end()) {
        stack.push_back(input), ready = false;
        break;
      }
      possible = possible && found->second.has_value();
    }
    if (!possible)
      forget(id), stack.pop_back();
    else if (ready)
      evaluate(producer), stack.pop_back();
  }
  const auto& found = known_.at(wanted);
  return found ? &*found : nullptr;
}

void KnownValues::evaluate(NodeId id) {
  const Node& node = graph_.node(id);
  for (const ValueId output : node.outputs)
    if (graph_.type(output).bytes() > kMostKnownBytes) return void(known_[output] = std::nullopt);
  std::vector<HostTensor> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(known_.at(input)->tensor());
  std::vector<HostTensor> outputs = kernel::interpret_node(graph_.signature(id), reference_backend(), inputs);
  for (size_t i = 0; i < outputs.size(); ++i) known_[node.outputs[i]] = TensorData(std::move(outputs[i]));
}

}  // namespace ramet::front
