#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <optional>
#include <string>

#include "ramet/base/host_tensor.h"
#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// float8e8m0: powers of two alone, without a sign.
constexpr int32_t kOnnxPowersOfTwo = 24;

/// A type that no DType is: one of 2 or 4 bits, or a float of 8 bits that processors lack. Its values stand in elements
/// of `carrier`, which has all of them.
struct OnnxSmallType {
  int32_t type;
  int bits;
  double least, greatest;
  DType carrier;
  int mantissa = 0, bias = 0;  ///< of floats
  int nan = -1;                ///< the code that is NaN; -1: none

  /// The value of one code.
  double value_of(int code) const;
};
/// Null for a type that a DType is.
const OnnxSmallType* onnx_small_type(int32_t type);
/// The bytes in which a file has values of a small type, the first value in the lowest bits.
std::string pack_onnx(const HostTensor& tensor, const OnnxSmallType& type);

/// The element type of a TensorProto.DataType, of a small type its carrier; nothing for one that Ramet lacks.
std::optional<DType> onnx_dtype(int32_t type);
/// And back.
int32_t onnx_type_of(DType dtype);
/// "float8e4m3fnuz", "string", ... as ONNX names a type.
std::string onnx_type_name(int32_t type);
/// The same as onnx_dtype; throws UnsupportedOp for a type that Ramet lacks.
DType checked_onnx_dtype(int32_t type, const std::string& where);

/// The shape of a tensor; throws FormatError for extents below 0 and for more than 2^47 elements.
Shape onnx_shape(const OnnxTensor& tensor, const std::string& source);

/// The elements of a tensor. External data are read from a file beneath `folder` (front/onnx_external.h). Throws
/// FormatError where the data do not fit the type and the shape.
HostTensor read_onnx_tensor(const OnnxTensor& tensor, const std::filesystem::path& folder, const std::string& source);

}  // namespace ramet::front
