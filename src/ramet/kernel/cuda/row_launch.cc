#include "ramet/kernel/cuda/row_launch.h"

#include <algorithm>

#include "ramet/kernel/cuda/print_map.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel::cuda {

static_assert(ramet_device::kReduceRows == ops::kReduceRows);

bool is_row_type(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

std::string refuse_row_type(const TensorType& rows) {
  if (!is_row_type(rows.dtype)) return "rows are neither f32, bf16 nor f16";
  const int64_t width = rows.shape.dim(-1);
  if (width == 0) return "rows of no elements";
  return width > INT32_MAX / 2 ? "rows of too many elements" : "";
}

int64_t kept_width(const TensorType& rows, int64_t width, int64_t most) {
  constexpr int64_t kFewElements = int64_t{1} << 16;
  return width <= most && rows.elements() >= kFewElements ? width : 0;
}

CudaGrid grid_of_rows(int64_t rows) {
  // Blocks of fewer warps where there are few rows, so that all processors have some.
  int threads = 256;
  while (threads > 32 && rows * 32 < threads * kProcessors * 2) threads /= 2;
  const int64_t of_block = threads / 32;
  return {.x = std::clamp<int64_t>(ceil_divide(rows, of_block), 1, kProcessors * 64), .threads = threads};
}

CudaFunction load_combine(const std::string& join, DType out) {
  return load_cuda_function(cuda_device_source("combine.cu", {"kJoin=" + join, "kOutType=" + storage_of(out)}),
                            "combine");
}

std::string refuse_combine(int64_t chunks, int64_t blocks) {
  // Of a tree in registers, and of the leaves that it takes at once.
  constexpr int64_t kMost = (int64_t{1} << ramet_device::kTreeLevels) - 1;
  return chunks > kMost || blocks > kMost * ramet_device::kLeavesAtOnce ? "too many blocks of rows" : "";
}

void launch_combine(CudaStream& stream, const CudaFunction& function, const ramet_device::CombineArguments& call) {
  int threads = 32;
  while (threads < 256 && threads / 32 < call.blocks) threads *= 2;
  stream.launch(function, {.x = ceil_divide(call.outer * call.inner, 32), .threads = threads}, call);
}

}  // namespace ramet::kernel::cuda
