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

struct Info {
  std::string_view name;
  size_t size;
  bool floating;
};
constexpr std::array<Info, kDTypeCount> kInfo = {{{"f32", 4, true},
                                                  {"f16", 2, true},
                                                  {"bf16", 2, true},
                                                  {"f8e4m3", 1, true},
                                                  {"f8e5m2", 1, true},
                                                  {"i32", 4, false},
                                                  {"i64", 8, false},
                                                  {"bool", 1, false},
                                                  {"u8", 1, false},
                                                  {"u16", 2, false}}};
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
bool is_floating(DType dtype) { return info(dtype).floating; }
bool is_integer(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
    known += (i ? ", " : "") + std::string(kInfo[i].name);
  }
  throw Error({.what = "unknown element type", .found = "'" + std::string(name) + "'", .expected = "one of " + known});
}

}  // namespace v0

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
  }
  internal_error("store_element", "unknown dtype");
}

}  // namespace ramet
