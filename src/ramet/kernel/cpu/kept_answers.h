#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ramet/kernel/kernel.h"

namespace ramet::kernel::cpu {

/// What the compiler asks of a kernel that is prepared for a node.
struct KernelAnswer {
  std::string refused{};  ///< why the kernel does not take the node, or ""
  int64_t scratch_bytes = 0;
  std::optional<BlockedLayout> blocking{};  ///< that the kernel wants of an operand
};

/// The answer of `kernel` for a node, whatever the node's name. A model has few distinct nodes and the compiler asks
/// often, so answers are kept: `find` is called once for each. Any thread may call it; `find` must not.
KernelAnswer kept_answer(const std::string& kernel, const NodeSignature& node, int threads,
                         const std::function<KernelAnswer()>& find);

}  // namespace ramet::kernel::cpu
