#pragma once

#include <span>

#include "ramet/base/thread_team.h"

namespace ramet::device {

/// The bytes that a kernel works on, in the order of its node's inputs and outputs. Dense, row-major, aligned to
/// 64 bytes. An output may be the same address as an input only where the entry's `may_alias` said so.
struct KernelContext {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* scratch = nullptr;
  ThreadTeam& team;
};

/// A kernel made for one node: shapes, types and attributes are known, all preparation is done. `run` allocates
/// nothing and is called from the team's owner thread.
///
/// Kernels of an accelerator derive from this class too: their device (device/device.h)
/// knows the class that its backend makes, and hands the operands to that class in `Queue::launch`. Their `run` is
/// never called.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelContext& context) const = 0;
  /// Whether a queue can record it for replays (Queue::begin_capture).
  virtual bool recordable() const { return true; }
};

}  // namespace ramet::device
