#pragma once

#include <optional>

#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/kernel/cuda/device/product_arguments.h"
#include "ramet/kernel/cuda/product_plan.h"
#include "ramet/ops/matmul.h"

namespace ramet::kernel::cuda {

/// product_mma of one pair of types and transposes, by which others are measured.
struct MmaTiles {
  CudaFunction function;
  int64_t shared_bytes = 0;
  void launch(CudaStream& stream, const ramet_device::ProductArguments& arguments) const;
};

/// The tiles of a product by wgmma, the fast way, with the same bits as product_mma.
class WgmmaProduct {
 public:
  /// Nothing where the form is not for it, or where it must not be used: with RAMET_CUDA_WGMMA=0, on a card that has no
  /// such copies and products, and where a trial on the card gives other bits than product_mma.
  static std::optional<WgmmaProduct> make(const MatmulForm& form, DType bias, const MmaTiles& mma);
  /// Whether it reads operands that lie so: 16-bit numbers in rows that begin at multiples of 16 bytes.
  static bool takes(const ramet_device::ProductArguments& arguments);
  /// The arguments are those of product_mma.
  void launch(CudaStream& stream, ramet_device::ProductArguments arguments) const;

 private:
  WgmmaProduct(const MatmulForm& form, DType bias, const ProductPlan& plan);
  /// Whether the same kernel gives a small product, of edges and several tiles a block, the bits of product_mma.
  bool agrees(const MatmulForm& form, DType bias, const MmaTiles& mma) const;

  bool transpose_a_, transpose_b_;
  int64_t matrices_a_, matrices_b_, m_, n_, k_;
  ProductPlan plan_;
  CudaFunction function_;
};

}  // namespace ramet::kernel::cuda
