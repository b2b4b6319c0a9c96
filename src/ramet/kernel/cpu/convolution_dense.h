#pragma once

#include <memory>
#include <optional>

#include "ramet/kernel/cpu/convolution_plan.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// A node `convolution` or `convolution_transposed`, prepared to run. Threads own positions (or, where those are few,
/// panels of channels); a tile is one kernel call that reads the activations where they are; nothing is copied, unless
/// they are not as StagedActivations says.
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

}  // namespace ramet::kernel
