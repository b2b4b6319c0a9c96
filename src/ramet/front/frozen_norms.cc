#include "ramet/front/frozen_norms.h"

#include <algorithm>
#include <vector>

namespace ramet::front {
namespace {

/// How many channel norms have a mean that no data decide: those of batch norms that are not in training.
int64_t frozen_norms(const Graph& forward) {
  std::vector<bool> fixed(forward.values().size(), false);
  for (const GraphInput& input : forward.inputs())
    fixed[static_cast<size_t>(input.value)] = input.role == InputRole::kState;
  int64_t count = 0;
  for (const Node& node : forward.nodes()) {
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return fixed[static_cast<size_t>(input)]; });
    for (const ValueId output : node.outputs) fixed[static_cast<size_t>(output)] = all;
    if (node.op->name == "normalize_channels") count += !all && fixed[static_cast<size_t>(node.inputs[1])];
  }
  return count;
}

}  // namespace

std::string frozen_norms_remark(const model::Model& model) {
  if (model.metrics.empty()) return "";
  const int64_t count = frozen_norms(model.forward);
  if (count == 0) return "";
  return std::to_string(count) + (count == 1 ? " batch norm keeps" : " batch norms keep") +
         " the mean and variance of the file while the model trains: the file has no training statistics (in ONNX, "
         "training_mode = 1)";
}

}  // namespace ramet::front
