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

/// out[i * out_step + j] = the elements at rows first[i] and second[i] (null: zeros) of `count` channels j: units of
/// pairs of bf16, or f32 (of the first rows alone). Lanes up to the next multiple of 16 become zero.
void interleave_rows(DType compute, const char* first, const char* second, int64_t count, uint32_t* out);

}  // namespace ramet::kernel
