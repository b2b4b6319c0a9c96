#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <string>

#include "ramet/base/host_tensor.h"
#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// The elements of a tensor whose bytes stand in another file. The location is a relative path without ".."; the file
/// that it leads to, through links too, lies beneath `folder`; where that is a snapshot in a cache of Hugging Face,
/// also beneath the folder blobs of the same repository. Offset and length must lie in the file, and the length must be
/// that of the type. Throws FormatError for others.
HostTensor read_external(const OnnxTensor& tensor, const TensorType& type, const std::filesystem::path& folder,
                         const std::string& where);

/// The checked location and offset of external data.
std::string external_location(const OnnxTensor& tensor, const std::string& where);
uint64_t external_offset(const OnnxTensor& tensor, const std::string& where);

}  // namespace ramet::front
