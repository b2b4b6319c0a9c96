#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <map>
#include <string>

#include "ramet/base/host_tensor.h"

namespace ramet::front {

/// Writes `to`, a copy of the ONNX file `from` in which these initializers have new values. All other bytes stay as
/// they are, those of files of external data too, which are copied beside `to`. Returns how many initializers changed.
/// Throws Error where a tensor has another type than its initializer, and for external data when both files are in one
/// folder.
int64_t update_onnx_weights(const std::filesystem::path& from, const std::filesystem::path& to,
                            const std::map<std::string, HostTensor>& tensors);

}  // namespace ramet::front
