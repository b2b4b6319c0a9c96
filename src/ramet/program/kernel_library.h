#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::program {

struct Call;

/// How a node will be computed, as far as the compiler must know.
struct KernelChoice {
  std::string name;           ///< of the kernel, as in "onednn:brg:avx512_core_bf16"
  int64_t scratch_bytes = 0;  ///< placed like any buffer, live during the node only
  /// (input, output) pairs that may share bytes: the kernel reads each element of the input before it writes
  /// the same element of the output.
  std::vector<std::pair<int, int>> may_alias;
  std::vector<std::string> skipped;  ///< better kernels that were refused, each with why
  /// Share of the device's memories that hold a part of the outputs, where it has many (an IPU's tiles).
  double spread = 1;
};

/// A blocked layout of an operand, which one kernel family reads faster than row-major: bytes that only this family
/// understands.
struct BlockedLayout {
  std::string format;  ///< tells the blocking kernel everything about the layout
  int64_t bytes = 0;
};

/// The compiler's view of a backend: it decides kernels, scratch and blocked layouts, and knows no graph.
/// Implemented in kernel/; `program/` sees only this.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  /// Best kernel for the node on a team of `threads`; throws Error naming the node when none takes it.
  virtual KernelChoice choose(const NodeSignature& node, int threads) const = 0;
  /// The blocked layout in which input `index` of the node is read fastest, if any. The compiler asks for operands that
  /// are computed from weights alone, and so can be blocked once an update (op "block").
  virtual std::optional<BlockedLayout> blocking(const NodeSignature& node, int index) const = 0;
  /// The kernel class: equal bits are promised within one class. As in "cpu-avx512_bf16".
  virtual std::string kernel_class() const = 0;
  /// Bytes of device memory that a buffer takes when the share `spread` of the device's memories holds a part of it
  /// (KernelChoice): more than `bytes` where a device has many memories, which no mapping fills evenly.
  virtual int64_t stored_bytes(int64_t bytes, double /*spread*/) const { return bytes; }
  /// The same library with kernels that take less scratch and more time; null when there is none.
  virtual std::shared_ptr<const KernelLibrary> tighter() const { return nullptr; }
  /// Bytes of device memory that the code of so many instructions takes.
  virtual int64_t program_bytes(std::span<const Call> /*calls*/, int64_t /*instructions*/) const { return 0; }
};

}  // namespace ramet::program
