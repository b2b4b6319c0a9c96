#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::program {

struct Task;

/// How a node will be computed, as far as the compiler must know.
struct KernelChoice {
  std::string name;           ///< of the kernel, as in "onednn:brg:avx512_core_bf16"
  int64_t scratch_bytes = 0;  ///< placed like any buffer, alive during the node only
  /// (input, output) pairs that may share bytes: the kernel reads each element of the input before it writes
  /// the same element of the output.
  std::vector<std::pair<int, int>> may_alias;
  std::vector<std::string> skipped;  ///< better kernels that were refused, each with why
  /// Share of the device's memories that hold a part of the outputs, where it has many (an IPU's tiles).
  double spread = 1;
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
  /// Bytes of device memory that a buffer takes of which `spread` (KernelChoice) hold a part: more than its own where
  /// device memory is many memories, which no mapping fills evenly.
  virtual int64_t stored_bytes(int64_t bytes, double /*spread*/) const { return bytes; }
  /// The same library with kernels that take less scratch and more time; null when there is none.
  virtual std::shared_ptr<const KernelLibrary> tighter() const { return nullptr; }
  /// Bytes of device memory that a program of so many instructions takes itself.
  virtual int64_t program_bytes(std::span<const Task> /*tasks*/, int64_t /*instructions*/) const { return 0; }
};

}  // namespace ramet::program
