#include "ramet/front/onnx_tensor.h"

#include <cstring>

#include "ramet/base/error_types.h"
#include "ramet/front/onnx_external.h"

namespace ramet::front {
namespace {

struct TypeName {
  int32_t type;
  const char* name;
  std::optional<DType> dtype;
};

constexpr int64_t kMostElements = int64_t{1} << 47;

const TypeName kTypes[] = {{1, "float", DType::kF32},
                           {2, "uint8", DType::kU8},
                           {3, "int8", DType::kI8},
                           {4, "uint16", DType::kU16},
                           {5, "int16", DType::kI16},
                           {6, "int32", DType::kI32},
                           {7, "int64", DType::kI64},
                           {8, "string", std::nullopt},
                           {9, "bool", DType::kBool},
                           {10, "float16", DType::kF16},
                           {11, "double", DType::kF64},
                           {12, "uint32", DType::kU32},
                           {13, "uint64", DType::kU64},
                           {14, "complex64", std::nullopt},
                           {15, "complex128", std::nullopt},
                           {16, "bfloat16", DType::kBF16},
                           {17, "float8e4m3fn", DType::kF8E4M3},
                           {18, "float8e4m3fnuz", std::nullopt},
                           {19, "float8e5m2", DType::kF8E5M2},
                           {20, "float8e5m2fnuz", std::nullopt},
                           {21, "uint4", std::nullopt},
                           {22, "int4", std::nullopt},
                           {23, "float4e2m1", std::nullopt},
                           {24, "float8e8m0", std::nullopt},
                           {25, "uint2", std::nullopt},
                           {26, "int2", std::nullopt}};

/// The elements of a tensor that stand in fields of their own, not in raw bytes.
void read_fields(const OnnxTensor& tensor, HostTensor& made, const std::string& where) {
  const DType dtype = made.type.dtype;
  const auto count = static_cast<size_t>(made.elements());
  const auto check = [&](size_t found) {
    if (found != count)
      throw FormatError({.what = "a tensor has another number of elements than its shape says",
                         .where = where,
                         .found = std::to_string(found),
                         .expected = std::to_string(count)});
  };
  if (dtype == DType::kF32) {
    check(tensor.floats.size());
    if (count > 0) std::memcpy(made.data.data(), tensor.floats.data(), made.data.size());
  } else if (dtype == DType::kF64) {
    check(tensor.doubles.size());
    if (count > 0) std::memcpy(made.data.data(), tensor.doubles.data(), made.data.size());
  } else {
    check(tensor.integers.size());
    // Narrow floats stand as the integers of their bits.
    const DType bits = !is_floating(dtype) ? dtype : made.data.size() == count ? DType::kU8 : DType::kU16;
    for (size_t i = 0; i < count; ++i)
      store_integer(made.data.data(), bits, static_cast<int64_t>(i), tensor.integers[i]);
  }
}

}  // namespace

std::optional<DType> onnx_dtype(int32_t type) {
  for (const TypeName& each : kTypes)
    if (each.type == type) return each.dtype;
  return std::nullopt;
}

int32_t onnx_type_of(DType dtype) {
  for (const TypeName& each : kTypes)
    if (each.dtype == dtype) return each.type;
  return 0;
}

std::string onnx_type_name(int32_t type) {
  for (const TypeName& each : kTypes)
    if (each.type == type) return each.name;
  return "type " + std::to_string(type);
}

DType checked_onnx_dtype(int32_t type, const std::string& where) {
  if (const auto dtype = onnx_dtype(type)) return *dtype;
  throw UnsupportedOp({.what = "the element type is not supported", .where = where, .found = onnx_type_name(type)});
}

Shape onnx_shape(const OnnxTensor& tensor, const std::string& source) {
  const std::string where = source + ", tensor '" + tensor.name + "'";
  int64_t elements = 1;
  bool empty = false;
  for (const int64_t extent : tensor.dims) {
    if (extent < 0)
      throw FormatError({.what = "a tensor has a negative extent", .where = where, .found = std::to_string(extent)});
    empty = empty || extent == 0;
  }
  for (const int64_t extent : tensor.dims) {
    if (empty) break;
    if (extent > kMostElements / elements)
      throw FormatError({.what = "a tensor has too many elements", .where = where, .expected = "2^47 at most"});
    elements *= extent;
  }
  return Shape(tensor.dims);
}

HostTensor read_onnx_tensor(const OnnxTensor& tensor, const std::filesystem::path& folder, const std::string& source) {
  const std::string where = source + ", tensor '" + tensor.name + "'";
  const TensorType type{checked_onnx_dtype(tensor.type, where), onnx_shape(tensor, source)};
  const auto size = static_cast<uint64_t>(type.bytes());
  const auto check = [&](uint64_t found) {
    if (found != size)
      throw FormatError({.what = "the bytes of a tensor do not fit its type and shape",
                         .where = where,
                         .found = std::to_string(found) + " bytes",
                         .expected = std::to_string(size) + ", for " + type.text()});
  };
  if (tensor.external) return {read_external(tensor, type, folder, where)};
  // The number of bytes is checked before any are reserved.
  if (tensor.raw) {
    check(tensor.raw->size());
    HostTensor made(type);
    if (size > 0) std::memcpy(made.data.data(), tensor.raw->data(), size);
    return made;
  }
  const size_t given = tensor.floats.size() + tensor.doubles.size() + tensor.integers.size();
  if (given != static_cast<size_t>(type.elements()))
    throw FormatError({.what = "a tensor has another number of elements than its shape says",
                       .where = where,
                       .found = std::to_string(given),
                       .expected = std::to_string(type.elements())});
  HostTensor made(type);
  read_fields(tensor, made, where);
  return made;
}

}  // namespace ramet::front
