#pragma once

#include <memory>

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// A node `convolution_filter_grad`, prepared to run. Each element is one chain of multiply-adds over samples and
/// positions in order, in each row of positions by pairs where bf16 are multiplied. Threads own panels of channels, or
/// filters.
class FilterGradient : public Kernel {
 public:
  FilterGradient(const NodeSignature& node, int threads);
  ~FilterGradient() override;
  int64_t scratch_bytes() const;
  void run(const KernelContext& context) const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Units of rows of `count` channels: out[i * out_step + j] is channel j of the row at first + i * step and, where bf16
/// are multiplied, that of the row `second` bytes behind it, as a pair. A null `first` gives zeros, and so does
/// `second` = 0 for the second half. Lanes up to the next multiple of 16 become zero.
void interleave_rows(DType compute, const char* first, int64_t second, int64_t step, int64_t units, int64_t count,
                     uint32_t* out, int64_t out_step);

}  // namespace ramet::kernel
