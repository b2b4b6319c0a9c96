#include "ramet/kernel/aliases.h"

namespace ramet::kernel {

std::vector<std::pair<int, int>> fitting_aliases(const std::vector<std::pair<int, int>>& aliases,
                                                 const NodeSignature& node) {
  std::vector<std::pair<int, int>> fitting;
  for (const auto& [input, output] : aliases) {
    if (static_cast<size_t>(input) >= node.inputs.size() || static_cast<size_t>(output) >= node.outputs.size())
      continue;
    const TensorType &from = node.inputs[static_cast<size_t>(input)], &to = node.outputs[static_cast<size_t>(output)];
    if (from.shape == to.shape && size_of(from.dtype) == size_of(to.dtype)) fitting.emplace_back(input, output);
  }
  return fitting;
}

}  // namespace ramet::kernel
