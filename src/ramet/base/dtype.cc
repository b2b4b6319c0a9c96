#include "ramet/base/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"

namespace ramet {
namespace {

enum class Kind : uint8_t { kFloating, kSigned, kUnsigned, kBool };
struct Info {
  std::string_view name;
  size_t size;
  Kind kind;
};
constexpr std::array<Info, kDTypeCount> kInfo = {{{"f32", 4, Kind::kFloating},
                                                  {"f16", 2, Kind::kFloating},
                                                  {"bf16", 2, Kind::kFloating},
                                                  {"f8e4m3", 1, Kind::kFloating},
                                                  {"f8e5m2", 1, Kind::kFloating},
                                                  {"i32", 4, Kind::kSigned},
                                                  {"i64", 8, Kind::kSigned},
                                                  {"bool", 1, Kind::kBool},
                                                  {"u8", 1, Kind::kUnsigned},
                                                  {"u16", 2, Kind::kUnsigned},
                                                  {"f64", 8, Kind::kFloating},
                                                  {"i8", 1, Kind::kSigned},
                                                  {"i16", 2, Kind::kSigned},
                                                  {"u32", 4, Kind::kUnsigned},
                                                  {"u64", 8, Kind::kUnsigned}}};
const Info& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

/// The value of a code.
float decode(uint32_t bits, const FloatFormat& format) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const bool negative = bits >> width & 1;
  const uint32_t exponent = bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1);
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const uint32_t top = (1u << format.exponent_bits) - 1;
  float value;
  if (exponent == top && format.ieee) {
    value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exponent == top && mantissa == (1u << format.mantissa_bits) - 1) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | (1u << format.mantissa_bits)),
                       static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

template <typename T>
T load_as(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void store_as(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename T>
T to_integer(double value) {
  if (std::isnan(value)) return 0;
  constexpr T kLowest = std::numeric_limits<T>::lowest(), kHighest = std::numeric_limits<T>::max();
  if (value <= static_cast<double>(kLowest)) return kLowest;
  if (value >= static_cast<double>(kHighest)) return kHighest;
  return static_cast<T>(value);
}

}  // namespace

namespace v0 {

size_t size_of(DType dtype) { return info(dtype).size; }
std::string_view name_of(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).kind == Kind::kFloating; }
bool is_integer(DType dtype) { return info(dtype).kind == Kind::kSigned || info(dtype).kind == Kind::kUnsigned; }

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
    known += (i ? ", " : "") + std::string(kInfo[i].name);
  }
  if (name == "c64" || name == "c128" || name.starts_with("complex"))
    throw Error({.what = "complex numbers are not supported",
                 .found = "'" + std::string(name) + "'",
                 .expected = "one of " + known,
                 .remedy = "Keep the real and the imaginary part as two tensors"});
  throw Error({.what = "unknown element type", .found = "'" + std::string(name) + "'", .expected = "one of " + known});
}

}  // namespace v0

bool is_unsigned(DType dtype) { return info(dtype).kind == Kind::kUnsigned; }

double lowest_of(DType dtype) {
  if (info(dtype).kind != Kind::kSigned) return 0;
  return -std::ldexp(1.0, static_cast<int>(size_of(dtype)) * 8 - 1);
}
double greatest_of(DType dtype) {
  if (dtype == DType::kBool) return 1;
  const int bits = static_cast<int>(size_of(dtype)) * 8 - (is_unsigned(dtype) ? 0 : 1);
  return bits > 53 ? std::ldexp(1.0, bits) : std::ldexp(1.0, bits) - 1;
}

int64_t wrap_integer(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kU16: return static_cast<uint16_t>(value);
    case DType::kU32: return static_cast<uint32_t>(value);
    case DType::kBool: return value != 0;
    default: return value;
  }
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
uint16_t f32_to_f16(float value) { return static_cast<uint16_t>(round_nearest(value, DType::kF16)); }
float f16_to_f32(uint16_t bits) { return decode(bits, format_of(DType::kF16)); }
uint8_t f32_to_f8e4m3(float value) { return static_cast<uint8_t>(round_nearest(value, DType::kF8E4M3)); }
uint8_t f32_to_f8e5m2(float value) { return static_cast<uint8_t>(round_nearest(value, DType::kF8E5M2)); }
float f8e4m3_to_f32(uint8_t bits) { return decode(bits, format_of(DType::kF8E4M3)); }
float f8e5m2_to_f32(uint8_t bits) { return decode(bits, format_of(DType::kF8E5M2)); }

double load_element(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF32: return load_as<float>(data, index);
    case DType::kF16: return f16_to_f32(load_as<uint16_t>(data, index));
    case DType::kBF16: return bf16_to_f32(load_as<uint16_t>(data, index));
    case DType::kF8E4M3: return f8e4m3_to_f32(load_as<uint8_t>(data, index));
    case DType::kF8E5M2: return f8e5m2_to_f32(load_as<uint8_t>(data, index));
    case DType::kI32: return load_as<int32_t>(data, index);
    case DType::kI64: return static_cast<double>(load_as<int64_t>(data, index));
    case DType::kBool: return load_as<uint8_t>(data, index) != 0;
    case DType::kU8: return load_as<uint8_t>(data, index);
    case DType::kU16: return load_as<uint16_t>(data, index);
    case DType::kF64: return load_as<double>(data, index);
    case DType::kI8: return load_as<int8_t>(data, index);
    case DType::kI16: return load_as<int16_t>(data, index);
    case DType::kU32: return load_as<uint32_t>(data, index);
    case DType::kU64: return static_cast<double>(load_as<uint64_t>(data, index));
  }
  internal_error("load_element", "unknown dtype");
}

void store_element(void* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case DType::kF32: return store_as(data, index, static_cast<float>(value));
    case DType::kF16: return store_as(data, index, static_cast<uint16_t>(round_nearest(value, dtype)));
    case DType::kBF16: return store_as(data, index, static_cast<uint16_t>(round_nearest(value, dtype)));
    case DType::kF8E4M3: return store_as(data, index, static_cast<uint8_t>(round_nearest(value, dtype)));
    case DType::kF8E5M2: return store_as(data, index, static_cast<uint8_t>(round_nearest(value, dtype)));
    case DType::kI32: return store_as(data, index, to_integer<int32_t>(value));
    case DType::kI64: return store_as(data, index, to_integer<int64_t>(value));
    case DType::kBool: return store_as(data, index, static_cast<uint8_t>(value != 0));
    case DType::kU8: return store_as(data, index, to_integer<uint8_t>(value));
    case DType::kU16: return store_as(data, index, to_integer<uint16_t>(value));
    case DType::kF64: return store_as(data, index, value);
    case DType::kI8: return store_as(data, index, to_integer<int8_t>(value));
    case DType::kI16: return store_as(data, index, to_integer<int16_t>(value));
    case DType::kU32: return store_as(data, index, to_integer<uint32_t>(value));
    case DType::kU64: return store_as(data, index, to_integer<uint64_t>(value));
  }
  internal_error("store_element", "unknown dtype");
}

int64_t load_integer(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kI32: return load_as<int32_t>(data, index);
    case DType::kI64: return load_as<int64_t>(data, index);
    case DType::kBool: return load_as<uint8_t>(data, index) != 0;
    case DType::kU8: return load_as<uint8_t>(data, index);
    case DType::kU16: return load_as<uint16_t>(data, index);
    case DType::kI8: return load_as<int8_t>(data, index);
    case DType::kI16: return load_as<int16_t>(data, index);
    case DType::kU32: return load_as<uint32_t>(data, index);
    case DType::kU64: return load_as<int64_t>(data, index);
    default: internal_error("load_integer", std::string(name_of(dtype)) + " is no integer type");
  }
}

void store_integer(void* data, DType dtype, int64_t index, int64_t value) {
  if (dtype == DType::kBool) return store_as(data, index, static_cast<uint8_t>(value != 0));
  switch (size_of(dtype)) {
    case 1: return store_as(data, index, static_cast<uint8_t>(value));
    case 2: return store_as(data, index, static_cast<uint16_t>(value));
    case 4: return store_as(data, index, static_cast<uint32_t>(value));
    default: return store_as(data, index, value);
  }
}

}  // namespace ramet
