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

/// i32 or i64: the integers that indices, counts and sums over devices have.
inline bool is_index(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }
/// Whether an integer type has no sign.
bool is_unsigned(DType dtype);
/// The least and the greatest number of an integer type, and of bool, as doubles: exact but for the greatest i64 and
/// u64, which are 2^63 and 2^64.
double lowest_of(DType dtype);
double greatest_of(DType dtype);
/// `value` modulo 2^bits of an integer type, as a number of that type; a u64 is given by its 64 bits. Of bool: whether
/// the value is not 0.
int64_t wrap_integer(int64_t value, DType dtype);

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

/// Reads element `index` of an array of `dtype` as double (bool as 0 or 1; i64 and u64 rounded beyond 2^53), and writes
/// it back: floats round once, from double, to nearest even; integers drop the fraction and stay within their
/// range (NaN gives 0). For oracles and printing, not for speed.
double load_element(const void* data, DType dtype, int64_t index);
void store_element(void* data, DType dtype, int64_t index, double value);
/// The same for integers and bools, without a detour over double: a u64 is given by its 64 bits, and what is stored is
/// wrapped to the type.
int64_t load_integer(const void* data, DType dtype, int64_t index);
void store_integer(void* data, DType dtype, int64_t index, int64_t value);

}  // namespace ramet
