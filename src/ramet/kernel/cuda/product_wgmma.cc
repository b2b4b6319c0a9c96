#include "ramet/kernel/cuda/product_wgmma.h"

#include <cstdlib>
#include <string_view>

#include "ramet/device/cuda/tensor_map.h"
#include "ramet/kernel/cuda/device/product_wgmma_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::ProductArguments;
using ramet_device::TensorMap;
using ramet_device::WgmmaArguments;

constexpr int kBox = 64, kDepth = 64, kThreads = 384;  // of product_wgmma.cu

bool allowed() {
  const char* chosen = std::getenv("RAMET_CUDA_WGMMA");
  return !(chosen && std::string_view(chosen) == "0") && device::has_tensor_maps();
}

bool fits(const MatmulForm& form) {
  const bool types = form.a.dtype == form.b.dtype && size_of(form.a.dtype) == 2 && !form.in_order;
  // Copies of 64 k neither cross a run nor leave a part, unless they leave the matrix, where they read zeros.
  const bool whole = form.chunks == 1 || form.run() % kDepth == 0;
  const int64_t stride_a = form.transpose_a ? form.m : form.k, stride_b = form.transpose_b ? form.k : form.n;
  return types && whole && form.output.elements() > 0 && form.k > 0 && stride_a % 8 == 0 && stride_b % 8 == 0;
}

}  // namespace

std::optional<WgmmaProduct> WgmmaProduct::make(const MatmulForm& form, DType bias) {
  if (!fits(form) || !allowed()) return std::nullopt;
  return WgmmaProduct(form, bias);
}

WgmmaProduct::WgmmaProduct(const MatmulForm& form, DType bias)
    : transpose_a_(form.transpose_a),
      transpose_b_(form.transpose_b),
      matrices_a_(form.a.shape.elements() / (form.m * form.k)),
      matrices_b_(form.b.shape.elements() / (form.n * form.k)),
      m_(form.m),
      n_(form.n),
      k_(form.k),
      plan_(plan_product(form.m, form.n, form.k / form.chunks, form.batch * form.chunks)) {
  const bool parts = form.chunks > 1;  // product_parts adds and rounds
  const int extra = parts ? 0 : form.has_bias ? 1 : form.accumulate ? 2 : 0;
  CudaSource source =
      device_source("product_wgmma.cu",
                    {"kTileColumns=" + std::to_string(plan_.columns), "kStages=" + std::to_string(plan_.stages),
                     "kCluster=" + std::to_string(plan_.cluster), "kTransposeA=" + std::to_string(form.transpose_a),
                     "kTransposeB=" + std::to_string(form.transpose_b),
                     "TypeOut=" + storage_of(parts ? DType::kF32 : form.output.dtype),
                     "TypeExtra=" + storage_of(extra == 1 ? bias : DType::kF32), "kExtra=" + std::to_string(extra)});
  source.text = multiply_tile_text(plan_.columns, form.transpose_a, form.transpose_b, form.a.dtype) + source.text;
  function_ = load_cuda_function(source, "product_wgmma", plan_.shared_bytes);
}

bool WgmmaProduct::takes(const ProductArguments& arguments) {
  return arguments.a.whole_vectors && arguments.b.whole_vectors;
}

void WgmmaProduct::launch(CudaStream& stream, ProductArguments arguments) const {
  ramet_device::ProductResult& result = arguments.result;
  const bool narrow = result.out_type != static_cast<int>(DType::kF32);
  if (narrow) result.aligned = n_ % 8 == 0 && reinterpret_cast<uintptr_t>(result.out) % 16 == 0;
  const auto map = [this](const void* data, int64_t matrices, bool along_k, int64_t others, TensorMap* to) {
    device::make_tensor_map({.data = data,
                             .matrices = matrices,
                             .rows = along_k ? others : k_,
                             .columns = along_k ? k_ : others,
                             .box_rows = kBox,
                             .box_columns = kBox},
                            to);
  };
  WgmmaArguments all{};
  map(arguments.a.data, matrices_a_, !transpose_a_, m_, &all.map_a);
  map(arguments.b.data, matrices_b_, transpose_b_, n_, &all.map_b);
  all.product = arguments;
  stream.launch(function_, {.x = plan_.blocks, .threads = kThreads, .dynamic_shared_bytes = plan_.shared_bytes}, all);
}

}  // namespace ramet::kernel::cuda
