#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <string>

#include "ramet/base/host_tensor.h"
#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// The elements of a tensor whose bytes stand in another file. The location is a relative path without ".."; the file
/// that it leads to, through links too, lies beneath `folder`, or beneath the parent of the folder of the model's own
/// file where that one is a link (as in the cache of Hugging Face). Offset and length must lie in the file, and the
/// length must be that of the type. Throws FormatError for others.
HostTensor read_external(const OnnxTensor& tensor, const TensorType& type, const std::filesystem::path& folder,
                         const std::string& where);

}  // namespace ramet::front
