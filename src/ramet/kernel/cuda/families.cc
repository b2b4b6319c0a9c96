#include "ramet/kernel/cuda/families.h"

#include <algorithm>

#include "ramet/kernel/aliases.h"

namespace ramet::kernel::cuda {
namespace {

// A card is full at 8 blocks of 256 threads a processor.
constexpr int64_t kFullBlocks = kProcessors * 8;

}  // namespace

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
  return {.x = std::clamp<int64_t>((count + threads - 1) / threads, 1, kFullBlocks), .threads = threads};
}

CudaGrid grid_of_groups(int64_t elements) {
  constexpr int64_t kThreads = 256, kFull = kFullBlocks * kThreads;
  const int64_t groups = (elements + 3) / 4, each = std::clamp<int64_t>(groups / (4 * kFull), 1, 4);
  const int64_t blocks = (groups + each * kThreads - 1) / (each * kThreads);
  return {.x = std::clamp<int64_t>(blocks, 1, 1 << 30), .threads = kThreads};
}

}  // namespace ramet::kernel::cuda
