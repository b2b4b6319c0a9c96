#pragma once

#include <span>
#include <string_view>

namespace ramet::device {

/// A file of device code that is built into the library (kernel/cuda/device/ and queue.cu; cmake/assets.cmake). The
/// files include each other by name.
struct CudaDeviceFile {
  std::string_view name;  ///< "rows.cu"
  std::string_view text;
};

std::span<const CudaDeviceFile> cuda_device_files();

}  // namespace ramet::device
