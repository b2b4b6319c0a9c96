#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "ramet/base/house.h"
#include "ramet/types.h"

namespace ramet {

using v0::DType;
using v0::dtype_from_name;
using v0::is_floating;
using v0::is_integer;
using v0::kDTypeCount;
using v0::name_of;
using v0::size_of;

/// Whether the elements are bits that are no numbers.
inline bool is_opaque(DType dtype) { return dtype == DType::kU8 || dtype == DType::kU16; }

/// Scalar conversions, round to nearest even; NaN stays NaN, infinities stay where the format has them
/// (f8e4m3 has none: overflow saturates to NaN as OCP's "E4M3FN" does).
uint16_t f32_to_bf16(float value);
uint16_t f32_to_f16(float value);
float f16_to_f32(uint16_t bits);
inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint8_t f32_to_f8e4m3(float value);
uint8_t f32_to_f8e5m2(float value);
float f8e4m3_to_f32(uint8_t bits);
float f8e5m2_to_f32(uint8_t bits);

/// Reads element `index` of an array of `dtype` as double (bool as 0 or 1; i64 rounded beyond 2^53), and writes
/// it back: floats round once, from double, to nearest even; integers drop the fraction and stay within their
/// range (NaN gives 0). For oracles and printing, not for speed.
double load_element(const void* data, DType dtype, int64_t index);
void store_element(void* data, DType dtype, int64_t index, double value);

}  // namespace ramet
