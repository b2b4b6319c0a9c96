#pragma once

#include <string>

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// What an NVIDIA GPU of class sm_90 (Hopper) computes, on the processors of this machine: products and attention of
/// 16-bit types by the model of the tensor cores (product.h), everything else by the CPU's kernels, whose order of sums
/// such a GPU can follow. Products of f32 are chains of fused multiply-adds in order of k. There is no oneDNN and no
/// AMX in it, and weights are not blocked.
///
/// Refused are convolutions, recurrent layers, f64 and products whose results are 8-bit floats.
const Backend& hopper_backend();

/// "hopper", the class of bits; "hopper-avx2" and "hopper-baseline" on processors without AVX-512, where sums over rows
/// of attention have another order.
std::string hopper_kernel_class();

}  // namespace ramet::kernel
