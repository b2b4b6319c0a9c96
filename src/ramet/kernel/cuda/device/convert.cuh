#pragma once

// Narrow floats and integers, the same numbers as the CPU's (kernel/cpu/convert-inl.h, rounding-inl.h,
// base/rounding.h).

#include "kernel.cuh"

namespace ramet_device {

// --- f16 ---

#ifdef RAMET_FAKE_CUDA
/// What the card's instructions do, by integers.
__device__ __forceinline__ float widen_f16(Bits16 half) {
  const unsigned magnitude = half & 0x7fffu, sign = static_cast<unsigned>(half & 0x8000u) << 16;
  if (magnitude > 0x7c00u) return __uint_as_float(sign | 0x7fc00000u | magnitude << 13);
  if (magnitude == 0x7c00u) return __uint_as_float(sign | 0x7f800000u);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112f));
}
__device__ __forceinline__ Bits16 narrow_f16(float value) {
  const unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<Bits16>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<Bits16>(sign | 0x7c00u);
  if (magnitude < 0x38800000u)  // beside 1/2 f32 has f16's least number as its distance
    return static_cast<Bits16>(sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u));
  return static_cast<Bits16>(sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13);
}
#else
__device__ __forceinline__ float widen_f16(Bits16 half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
/// To nearest even; overflow gives infinity.
__device__ __forceinline__ Bits16 narrow_f16(float value) {
  Bits16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
#endif

__device__ __forceinline__ float round_bf16(float value) { return widen_bf16(narrow_bf16(value)); }
__device__ __forceinline__ float round_f16(float value) { return widen_f16(narrow_f16(value)); }

// --- formats of rounding, as FloatFormat of base/rounding.h ---

template <int kExponentBits, int kMantissaBits, int kBias_, bool kIeee>
struct FloatFormat {
  static constexpr int kMantissa = kMantissaBits, kBias = kBias_, kWidth = kExponentBits + kMantissaBits;
  static constexpr int kLeastExponent = 1 - kBias;
  static constexpr unsigned kOnes = (1u << kWidth) - 1, kTop = kOnes & ~((1u << kMantissaBits) - 1);
  static constexpr unsigned kNan = kIeee ? kTop | 1u << (kMantissaBits - 1) : kOnes;
  static constexpr unsigned kInfinity = kIeee ? kTop : kOnes;
  static constexpr unsigned kLargest = kInfinity - 1;
  /// Codes from here on are infinite or NaN, from the second on NaN.
  static constexpr unsigned kFirstSpecial = kInfinity, kFirstNan = kIeee ? kTop + 1 : kOnes;
};
using HalfFormat = FloatFormat<5, 10, 15, true>;
using BrainFormat = FloatFormat<8, 7, 127, true>;
using E4M3Format = FloatFormat<4, 3, 7, false>;
using E5M2Format = FloatFormat<5, 2, 15, true>;

__device__ __forceinline__ constexpr unsigned bits_of_power(int exponent) {
  return static_cast<unsigned>(exponent + 127) << 23;
}

/// What replaces the bits that are dropped of a number with all mantissa bits: to nearest even, or by 16 random bits.
template <class Format, bool kDraws>
__device__ __forceinline__ unsigned rounding_term(unsigned magnitude, unsigned draw) {
  constexpr int kLost = 23 - Format::kMantissa;
  if (!kDraws) return (magnitude >> kLost & 1u) + (1u << (kLost - 1)) - 1u;
  const unsigned other = draw ^ 0xffffu;
  constexpr int kDown = kLost <= 16 ? 16 - kLost : 0, kUp = kLost > 16 ? kLost - 16 : 0;
  return kLost <= 16 ? other >> kDown : (other << kUp) + (kUp > 0 ? (1u << (kUp > 0 ? kUp - 1 : 0)) - 1u : 0u);
}

/// A number below the least normal one, in units of the least one.
template <class Format, bool kDraws>
__device__ __forceinline__ unsigned subnormal_units(unsigned magnitude, unsigned draw) {
  const float absolute = __uint_as_float(magnitude);
  if (!kDraws) {
    // Beside this number f32 has the unit as its distance, and rounds to nearest even itself.
    constexpr unsigned kBase = bits_of_power(23 + Format::kLeastExponent - Format::kMantissa);
    return __float_as_uint(absolute + __uint_as_float(kBase)) - kBase;
  }
  const float scaled = absolute * __uint_as_float(bits_of_power(Format::kMantissa - Format::kLeastExponent));
  const int whole = static_cast<int>(scaled);
  const float fraction = scaled - static_cast<float>(whole);
  const float limit = static_cast<float>(draw + draw + 1u) * 0x1p-17f;
  return static_cast<unsigned>(whole) + (limit < fraction ? 1u : 0u);
}

/// The code of a number; `over` is what overflow gives: Format::kInfinity, or kLargest to saturate.
template <class Format, bool kDraws = false>
__device__ __forceinline__ unsigned narrow_code(float value, unsigned draw = 0, unsigned over = Format::kInfinity) {
  constexpr int kLost = 23 - Format::kMantissa;
  const unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
  unsigned code = (magnitude + rounding_term<Format, kDraws>(magnitude, draw)) >> kLost;
  if (Format::kBias != 127) {
    code -= static_cast<unsigned>(127 - Format::kBias) << Format::kMantissa;
    if (magnitude == 0u)
      code = 0;
    else if (magnitude < bits_of_power(Format::kLeastExponent))
      code = subnormal_units<Format, kDraws>(magnitude, draw);
  }
  if (code > Format::kLargest || magnitude == 0x7f800000u) code = over;
  if (magnitude > 0x7f800000u) code = Format::kNan;
  return code | bits >> 31 << Format::kWidth;
}

// --- 8-bit floats ---

using Bits8 = unsigned char;

template <class Format>
__device__ __forceinline__ float widen_f8(Bits8 code) {
  const unsigned magnitude = code & 0x7fu, sign = static_cast<unsigned>(code & 0x80u) << 24;
  const float number =
      __uint_as_float(magnitude << (23 - Format::kMantissa)) * __uint_as_float(bits_of_power(127 - Format::kBias));
  unsigned bits = __float_as_uint(number);
  if (magnitude >= Format::kFirstSpecial) bits = magnitude >= Format::kFirstNan ? 0x7fc00000u : 0x7f800000u;
  return __uint_as_float(bits | sign);
}
__device__ __forceinline__ float widen_e4m3(Bits8 code) { return widen_f8<E4M3Format>(code); }
__device__ __forceinline__ float widen_e5m2(Bits8 code) { return widen_f8<E5M2Format>(code); }
__device__ __forceinline__ Bits8 narrow_e4m3(float value) { return static_cast<Bits8>(narrow_code<E4M3Format>(value)); }
__device__ __forceinline__ Bits8 narrow_e5m2(float value) { return static_cast<Bits8>(narrow_code<E5M2Format>(value)); }

// --- numbers as kernels have them in memory: each type of storage with its register ---

struct F32 {
  using Stored = float;
  using Register = float;
  static __device__ __forceinline__ float widen(float value) { return value; }
  static __device__ __forceinline__ float narrow(float value) { return value; }
};
struct BF16 {
  using Stored = Bits16;
  using Register = float;
  static __device__ __forceinline__ float widen(Bits16 value) { return widen_bf16(value); }
  static __device__ __forceinline__ Bits16 narrow(float value) { return narrow_bf16(value); }
};
struct F16 {
  using Stored = Bits16;
  using Register = float;
  static __device__ __forceinline__ float widen(Bits16 value) { return widen_f16(value); }
  static __device__ __forceinline__ Bits16 narrow(float value) { return narrow_f16(value); }
};
struct F8E4M3 {
  using Stored = Bits8;
  using Register = float;
  static __device__ __forceinline__ float widen(Bits8 value) { return widen_e4m3(value); }
  static __device__ __forceinline__ Bits8 narrow(float value) { return narrow_e4m3(value); }
};
struct F8E5M2 {
  using Stored = Bits8;
  using Register = float;
  static __device__ __forceinline__ float widen(Bits8 value) { return widen_e5m2(value); }
  static __device__ __forceinline__ Bits8 narrow(float value) { return narrow_e5m2(value); }
};
/// Integers; those shorter than 32 bits have a register of int.
template <class T, class R>
struct Whole {
  using Stored = T;
  using Register = R;
  static __device__ __forceinline__ R widen(T value) { return value; }
  static __device__ __forceinline__ T narrow(R value) { return static_cast<T>(value); }
};
using I8 = Whole<signed char, int>;
using I16 = Whole<short, int>;
using I32 = Whole<int, int>;
using I64 = Whole<long long, long long>;
using U8 = Whole<unsigned char, int>;
using U16 = Whole<unsigned short, int>;
using U32 = Whole<unsigned, unsigned>;
using U64 = Whole<unsigned long long, unsigned long long>;
struct Bool {
  using Stored = unsigned char;
  using Register = int;
  static __device__ __forceinline__ int widen(unsigned char value) { return value != 0; }
  static __device__ __forceinline__ unsigned char narrow(int value) { return value != 0; }
};

/// Elements in 16 bytes.
template <class Type>
constexpr int kWide = 16 / static_cast<int>(sizeof(typename Type::Stored));

/// `kCount` elements that are loaded and stored at once; memory must be aligned to their bytes, a power of two up
/// to 16.
template <class Type, int kCount>
struct alignas(sizeof(typename Type::Stored) * kCount) Pack {
  typename Type::Stored at[kCount];
};

}  // namespace ramet_device
