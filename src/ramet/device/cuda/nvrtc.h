#pragma once

#include <string>

#include "ramet/device/cuda/cuda_kernel.h"

// NVIDIA's compiler for text that is made while a program runs (NVRTC), a library of the CUDA toolkit. It needs no
// card.

namespace ramet::device {

/// The library's version, file, size and time of change: what was compiled by another one is compiled anew. Throws
/// Error (kFailure) with what to do where there is no such library. RAMET_NVRTC names another one.
const std::string& nvrtc_identity();

/// The options of every compilation, for the same purpose.
std::string nvrtc_options();

/// A cubin for sm_90a of `source`, which may include the files of `cuda_device_files`. An internal error with the
/// compiler's text where the code is wrong.
std::string compile_cubin(const CudaSource& source);

}  // namespace ramet::device
