#include "ramet/front/onnx_tensor.h"

#include <algorithm>
#include <cmath>
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
                           {18, "float8e4m3fnuz", DType::kF16},
                           {19, "float8e5m2", DType::kF8E5M2},
                           {20, "float8e5m2fnuz", DType::kF16},
                           {21, "uint4", DType::kU8},
                           {22, "int4", DType::kI8},
                           {23, "float4e2m1", DType::kF16},
                           {24, "float8e8m0", DType::kF32},
                           {25, "uint2", DType::kU8},
                           {26, "int2", DType::kI8}};

constexpr OnnxSmallType kSmallTypes[] = {
    {.type = 18,
     .bits = 8,
     .least = -240,
     .greatest = 240,
     .carrier = DType::kF16,
     .mantissa = 3,
     .bias = 8,
     .nan = 128},
    {.type = 20,
     .bits = 8,
     .least = -57344,
     .greatest = 57344,
     .carrier = DType::kF16,
     .mantissa = 2,
     .bias = 16,
     .nan = 128},
    {.type = 21, .bits = 4, .least = 0, .greatest = 15, .carrier = DType::kU8},
    {.type = 22, .bits = 4, .least = -8, .greatest = 7, .carrier = DType::kI8},
    {.type = 23, .bits = 4, .least = -6, .greatest = 6, .carrier = DType::kF16, .mantissa = 1, .bias = 1},
    {.type = kOnnxPowersOfTwo,
     .bits = 8,
     .least = 0x1p-127,
     .greatest = 0x1p127,
     .carrier = DType::kF32,
     .bias = 127,
     .nan = 255},
    {.type = 25, .bits = 2, .least = 0, .greatest = 3, .carrier = DType::kU8},
    {.type = 26, .bits = 2, .least = -2, .greatest = 1, .carrier = DType::kI8}};

int64_t packed_bytes(int64_t elements, const OnnxSmallType& type) { return (elements * type.bits + 7) / 8; }

/// Values of a small type from their packed bytes.
HostTensor unpack(const std::string_view bytes, const Shape& shape, const OnnxSmallType& type) {
  HostTensor made({type.carrier, shape});
  const int each = 8 / type.bits, mask = (1 << type.bits) - 1;
  for (int64_t i = 0; i < made.elements(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i / each)]);
    const int code = byte >> (type.bits * static_cast<int>(i % each)) & mask;
    made.set(i, type.value_of(code));
  }
  return made;
}

/// The code of a value of a small type of floats.
int code_of(double value, const OnnxSmallType& type) {
  if (std::isnan(value)) return std::max(type.nan, 0);
  int found = 0;
  for (int code = 0; code < 1 << type.bits; ++code) {
    if (type.value_of(code) != value) continue;
    if (std::signbit(type.value_of(code)) == std::signbit(value)) return code;
    found = code;
  }
  return found;
}

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

double OnnxSmallType::value_of(int code) const {
  const int mask = (1 << bits) - 1;
  if (!is_floating(carrier)) return code > greatest ? code - mask - 1 : code;
  if (code == nan) return std::nan("");
  if (type == kOnnxPowersOfTwo) return std::ldexp(1.0, code - bias);
  const int unsigned_code = code & (mask >> 1), exponent = unsigned_code >> mantissa;
  const int digits = (unsigned_code & ((1 << mantissa) - 1)) + (exponent > 0 ? 1 << mantissa : 0);
  const double size = std::ldexp(digits, std::max(exponent, 1) - bias - mantissa);
  return code > mask >> 1 ? -size : size;
}

const OnnxSmallType* onnx_small_type(int32_t type) {
  for (const OnnxSmallType& each : kSmallTypes)
    if (each.type == type) return &each;
  return nullptr;
}

std::string pack_onnx(const HostTensor& tensor, const OnnxSmallType& type) {
  std::string made(static_cast<size_t>(packed_bytes(tensor.elements(), type)), '\0');
  const int each = 8 / type.bits, mask = (1 << type.bits) - 1;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = tensor.get(i);
    const int code = is_floating(type.carrier) ? code_of(value, type) : static_cast<int>(value) & mask;
    made[static_cast<size_t>(i / each)] |= static_cast<char>(code << (type.bits * static_cast<int>(i % each)));
  }
  return made;
}

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
  TensorType type{checked_onnx_dtype(tensor.type, where), onnx_shape(tensor, source)};
  const OnnxSmallType* const small = onnx_small_type(tensor.type);
  const Shape shape = type.shape;
  if (small) type = {DType::kU8, {packed_bytes(type.elements(), *small)}};
  const auto settled = [&](HostTensor read) {
    return small ? unpack({reinterpret_cast<const char*>(read.data.data()), read.data.size()}, shape, *small)
                 : std::move(read);
  };
  const auto size = static_cast<uint64_t>(type.bytes());
  const auto check = [&](uint64_t found) {
    if (found != size)
      throw FormatError({.what = "the bytes of a tensor do not fit its type and shape",
                         .where = where,
                         .found = std::to_string(found) + " bytes",
                         .expected = std::to_string(size) + ", for " + type.text()});
  };
  if (tensor.external) return settled(read_external(tensor, type, folder, where));
  // The number of bytes is checked before any are reserved.
  if (tensor.raw) {
    check(tensor.raw->size());
    HostTensor made(type);
    if (size > 0) std::memcpy(made.data.data(), tensor.raw->data(), size);
    return settled(std::move(made));
  }
  const size_t given = tensor.floats.size() + tensor.doubles.size() + tensor.integers.size();
  if (given != static_cast<size_t>(type.elements()))
    throw FormatError({.what = "a tensor has another number of elements than its shape says",
                       .where = where,
                       .found = std::to_string(given),
                       .expected = std::to_string(type.elements())});
  HostTensor made(type);
  read_fields(tensor, made, where);
  return settled(std::move(made));
}

}  // namespace ramet::front
