#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/device/cuda/cuda_kernel.h"

namespace ramet::device {

/// A file of device code that is built into the library (kernel/cuda/device/ and queue.cu; cmake/assets.cmake). The
/// files include each other by name.
struct CudaDeviceFile {
  std::string_view name;  ///< "rows.cu"
  std::string_view text;
};

std::span<const CudaDeviceFile> cuda_device_files();
/// The file of that name, to be compiled with these definitions. An internal error where there is no such file.
CudaSource cuda_device_source(std::string_view name, std::vector<std::string> definitions = {});

}  // namespace ramet::device
