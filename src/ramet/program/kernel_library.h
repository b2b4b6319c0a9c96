#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet {

/// How a node will be computed, as far as the compiler must know.
struct KernelChoice {
  std::string name;           ///< of the kernel, as in "onednn:brg:avx512_core_bf16"
  int64_t scratch_bytes = 0;  ///< placed like any buffer, alive during the node only
  /// (input, output) pairs that may share bytes: the kernel reads each element of the input before it writes
  /// the same element of the output.
  std::vector<std::pair<int, int>> may_alias;
  std::vector<std::string> skipped;  ///< better kernels that were refused, each with why
};

/// An operand in a layout that one kernel family likes better than row-major: bytes that only it reads.
struct PackedLayout {
  std::string format;  ///< says all that the packing kernel must know
  int64_t bytes = 0;
};

/// What a backend offers to the compiler: it decides kernels, scratch and packings, and knows no graph.
/// Implemented in kernel/; `program/` sees only this.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  /// Best kernel for the node on a team of `threads`; throws Error naming the node when none takes it.
  virtual KernelChoice choose(const NodeSignature& node, int threads) const = 0;
  /// Layout in which input `index` of the node had better be kept, if any. Asked for operands that are computed from
  /// weights alone, and so can be packed once per update (op "pack").
  virtual std::optional<PackedLayout> packing(const NodeSignature& node, int index) const = 0;
  /// The kernel class within which bits are promised (DESIGN, exact bits rule 7), as in "cpu-avx512_bf16".
  virtual std::string kernel_class() const = 0;
};

}  // namespace ramet
