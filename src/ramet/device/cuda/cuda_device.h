#pragma once

#include <memory>

#include "ramet/device/device.h"

namespace ramet::device {

/// The NVIDIA GPU that `cuda_card` chooses. Several devices of a process share the card and its memory. `threads`
/// threads of the host run the kernels that the card does not take.
std::unique_ptr<Device> make_cuda_device(int threads);

/// Bytes of the card's memory that are free.
int64_t available_cuda_memory();

}  // namespace ramet::device
