#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// A kernel "product" of `convolution` or `convolution_transposed`: a convolution of one tap, a step of 1 and no
/// padding is a matrix product of all positions where channels are last, and is computed as one
/// (kernel/cpu/prepared_matmul.h).
KernelEntry convolution_product_entry(const std::string& op);
/// A kernel of `block` for filters of such convolutions.
KernelEntry product_filter_entry();

}  // namespace ramet::kernel
