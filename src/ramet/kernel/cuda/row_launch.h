#pragma once

#include <cstdint>
#include <string>

#include "ramet/kernel/cuda/device/reduce_arguments.h"
#include "ramet/kernel/cuda/families.h"

namespace ramet::kernel::cuda {

// What kernels over rows share: which types they take, how they are cut among a card's processors, and the trees over
// partial results.

inline int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Types that kernels over rows take.
bool is_row_type(DType dtype);
/// Why kernels over the last dimension do not take `rows`; "": they do.
std::string refuse_row_type(const TensorType& rows);
/// The width to compile a kernel for, so that it keeps rows in registers; 0 where it is above `most`, or the rows too
/// few to be worth it.
int64_t kept_width(const TensorType& rows, int64_t width, int64_t most = 2048);
/// A warp a row.
CudaGrid grid_of_rows(int64_t rows);

/// Trees over partial results (device/combine.cu), stored as `out`; `join` is a struct of device/joins.cuh.
CudaFunction load_combine(const std::string& join, DType out);
/// Why there are no such trees of this size; "": there are.
std::string refuse_combine(int64_t chunks, int64_t blocks);
void launch_combine(CudaStream& stream, const CudaFunction& function, const ramet_device::CombineArguments& call);

}  // namespace ramet::kernel::cuda
