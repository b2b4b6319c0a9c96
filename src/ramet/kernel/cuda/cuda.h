#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// NVIDIA GPUs of class sm_90 (H100, H200). It promises the bits of `hopper_backend`, whose kernel class it names: for
/// an op it has the card's kernels, and behind them the host's ("host:NAME"), whose operands are copied to the host and
/// back. Choosing kernels needs no card; making them does. RAMET_KERNELS=host forces the host's.
const Backend& cuda_backend();

}  // namespace ramet::kernel
