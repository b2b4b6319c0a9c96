#pragma once

#include <memory>
#include <optional>

#include "ramet/kernel/cpu/convolution_plan.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// A node `convolution` or `convolution_transposed`, prepared to run. Threads take blocks of positions (and, where
/// those are few, of panels of channels) until none is left. Tiles read the activations where they are; nothing is
/// copied, unless they are not as StagedActivations says.
class DenseConvolution : public Kernel {
 public:
  DenseConvolution(const NodeSignature& node, int threads);
  ~DenseConvolution() override;
  int64_t scratch_bytes() const;
  /// How the filter is blocked.
  const BlockedFilter& filter() const;
  void run(const KernelContext& context) const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Least bytes of a result in f32 that is written around the caches: half of the last level, which keeps too little of
/// the result, beside what it is computed from, until the next node reads it.
int64_t streamed_bytes();

}  // namespace ramet::kernel
