#include "ramet/kernel/cuda/families.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/device/cuda/device_files.h"

namespace ramet::kernel::cuda {
namespace {

/// The pairs of `aliases` whose operands the node has, with one shape and element size.
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

}  // namespace

std::string_view device_text(std::string_view file) {
  for (const device::CudaDeviceFile& each : device::cuda_device_files())
    if (each.name == file) return each.text;
  internal_error("device_text", "there is no device code '" + std::string(file) + "'");
}

CudaSource device_source(const std::string& file, std::vector<std::string> definitions) {
  return {file, std::string(device_text(file)), std::move(definitions)};
}

void add_card(Backend& backend, CardKernel kernel) {
  KernelEntry entry;
  entry.op = std::move(kernel.op);
  entry.name = "cuda";
  entry.any_type = kernel.any_type;
  entry.refuse = std::move(kernel.refuse);
  entry.make = [make = std::move(kernel.make), scratch = kernel.scratch](const NodeSignature& node,
                                                                         int) -> std::unique_ptr<Kernel> {
    std::unique_ptr<CudaKernel> made = make(node);
    CudaKernel::OperandBytes bytes;
    for (const TensorType& type : node.inputs) bytes.inputs.push_back(type.bytes());
    for (const TensorType& type : node.outputs) bytes.outputs.push_back(type.bytes());
    if (scratch) bytes.scratch = scratch(node);
    made->set_operand_bytes(std::move(bytes));
    return made;
  };
  if (kernel.scratch)
    entry.scratch = [scratch = std::move(kernel.scratch)](const NodeSignature& node, int) { return scratch(node); };
  if (kernel.may_alias)
    entry.may_alias = std::move(kernel.may_alias);
  else if (!kernel.aliases.empty())
    entry.may_alias = [aliases = std::move(kernel.aliases)](const NodeSignature& node) {
      return fitting_aliases(aliases, node);
    };
  backend.add(std::move(entry));
}

CudaGrid grid_for(int64_t count, int threads) {
  // A card of 132 processors is full at 8 blocks of 256 threads each.
  constexpr int64_t kMost = int64_t{132} * 8;
  return {.x = std::clamp<int64_t>((count + threads - 1) / threads, 1, kMost), .threads = threads};
}

CudaGrid grid_of_groups(int64_t elements) {
  constexpr int64_t kThreads = 256, kFull = int64_t{132} * 8 * kThreads;
  const int64_t groups = (elements + 3) / 4, each = std::clamp<int64_t>(groups / (4 * kFull), 1, 4);
  const int64_t blocks = (groups + each * kThreads - 1) / (each * kThreads);
  return {.x = std::clamp<int64_t>(blocks, 1, 1 << 30), .threads = kThreads};
}

}  // namespace ramet::kernel::cuda
