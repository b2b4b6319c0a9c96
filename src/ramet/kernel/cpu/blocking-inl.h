// Operands of products as 32-bit units: one f32, or a pair of bf16 that are neighbours along the contraction.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_BLOCKING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_BLOCKING_INL_H_
#undef RAMET_BLOCKING_INL_H_
#else
#define RAMET_BLOCKING_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/convert-inl.h"
#include "ramet/kernel/cpu/square-inl.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

constexpr int64_t kUnits = 16;  // units of k in a group
constexpr int64_t kWidth = 64;  // most columns of a block

using U32 = hn::ScalableTag<uint32_t>;
using F32 = hn::ScalableTag<float>;

/// An f32 that stands for its rounding to a narrower type.
struct F32AsBf16 {
  float value;
};
struct F32AsF16 {
  float value;
};
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const F32AsBf16* from) {
  const hn::RebindToUnsigned<DF> du;
  return hn::BitCast(df, hn::And(RoundToBf16(du, hn::LoadU(df, &from->value)), hn::Set(du, 0xffff0000u)));
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const F32AsF16* from) {
  HWY_ALIGN F16 rounded[hn::MaxLanes(df)];
  StoreF32(df, hn::LoadU(df, &from->value), rounded);
  return LoadF32(df, rounded);
}

/// Into the second-level cache: rows whose distance is a multiple of a large power of two meet in a few sets of the
/// first.
inline void PrefetchFarRow(const void* line) { __builtin_prefetch(line, 0, 2); }

template <typename T>
HWY_INLINE hn::Vec<F32> LoadSome(const T* from, int64_t count) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  return count >= lanes ? LoadF32(df, from) : LoadF32N(df, from, static_cast<size_t>(std::max<int64_t>(count, 0)));
}

/// A value as bf16 in the upper half of its lane.
template <typename T>
HWY_INLINE hn::Vec<U32> UpperBf16(hn::Vec<F32> value) {
  const U32 du;
  if constexpr (sizeof(T) == 2 && std::is_same_v<T, Bf16>)
    return hn::BitCast(du, value);
  else
    return hn::And(RoundToBf16(du, value), hn::Set(du, 0xffff0000u));
}

/// One group of units from a source whose rows are k: out [16][width], zero where k or columns end.
template <typename T, bool kPairs>
void UnitsFromRowsEdge(const T* source, int64_t stride, int64_t k, int64_t cols, int64_t width, uint32_t* out) {
  const U32 du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(du));
  for (int64_t unit = 0; unit < kUnits; ++unit, out += width) {
    const int64_t row = kPairs ? 2 * unit : unit;
    const T* first = source + row * stride;
    for (int64_t j = 0; j < width; j += lanes) {
      const int64_t left = cols - j;
      auto value = hn::Zero(du);
      if constexpr (kPairs) {
        if (row < k) value = hn::ShiftRight<16>(UpperBf16<T>(LoadSome(first + j, left)));
        if (row + 1 < k) value = hn::Or(value, UpperBf16<T>(LoadSome(first + stride + j, left)));
      } else if (row < k) {
        value = hn::BitCast(du, LoadSome(first + j, left));
      }
      hn::StoreU(value, du, out + j);
    }
  }
}

template <typename T, bool kPairs>
void UnitsFromRows(const T* source, int64_t stride, int64_t k, int64_t cols, int64_t width, uint32_t* out) {
  constexpr int64_t kGroup = kPairs ? 2 * kUnits : kUnits;
  if (k < kGroup || cols < width) return UnitsFromRowsEdge<T, kPairs>(source, stride, k, cols, width, out);
  const F32 df;
  const U32 du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(du));
  // Rows are far apart, often on pages of their own, where the processor does not look ahead by itself.
  if (k >= 2 * kGroup)
    for (int64_t row = kGroup; row < 2 * kGroup; ++row)
      for (int64_t j = 0; j < width; j += 64 / static_cast<int64_t>(sizeof(T)))
        PrefetchFarRow(source + row * stride + j);
  for (int64_t unit = 0; unit < kUnits; ++unit, out += width) {
    const T* first = source + (kPairs ? 2 * unit : unit) * stride;
    for (int64_t j = 0; j < width; j += lanes) {
      auto value = hn::BitCast(du, LoadF32(df, first + j));
      if constexpr (kPairs)
        value = hn::Or(hn::ShiftRight<16>(UpperBf16<T>(hn::BitCast(df, value))),
                       UpperBf16<T>(LoadF32(df, first + stride + j)));
      hn::StoreU(value, du, out + j);
    }
  }
}

/// A row of `count` values converted to the compute type.
template <typename T, typename C>
HWY_INLINE void ConvertRow(const T* from, int64_t count, C* to) {
  if constexpr (std::is_same_v<T, C>) {
    std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(count) * sizeof(T));
  } else {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) StoreF32(df, LoadF32(df, from + i), to + i);
    if (i < count)
      StoreF32N(df, LoadF32N(df, from + i, static_cast<size_t>(count - i)), to + i, static_cast<size_t>(count - i));
  }
}

/// One group of units from a source whose rows are columns of B: tile [width][16].
template <typename T, typename C>
void UnitsFromColumns(const T* source, int64_t stride, int64_t k, int64_t cols, int64_t width, uint32_t* tile) {
  constexpr int64_t kGroup = kUnits * 4 / static_cast<int64_t>(sizeof(C));
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t count = std::min(k, kGroup);
  if (count == kGroup && cols >= width) {
    // Each column is on a page of its own, where the processor does not look ahead by itself.
    const int64_t ahead = k >= 2 * kGroup ? kGroup : 0;
    for (int64_t j = 0; j < width; ++j, tile += kUnits, source += stride) {
      for (int64_t i = ahead; i < 2 * ahead; i += kLine) PrefetchFarRow(source + i);
      ConvertRow(source, kGroup, reinterpret_cast<C*>(tile));
    }
    return;
  }
  for (int64_t j = 0; j < width; ++j, tile += kUnits) {
    if (j >= cols || count < kGroup) std::memset(tile, 0, kUnits * 4);
    if (j < cols) ConvertRow(source + j * stride, count, reinterpret_cast<C*>(tile));
  }
}

/// out [cols][rows] = in [rows][cols]^T; both multiples of 4.
inline void Transpose32(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride, int64_t rows,
                        int64_t cols) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) out[j * out_stride + i] = in[i * in_stride + j];
#else
  const hn::Full128<uint32_t> d;
  for (int64_t i = 0; i < rows; i += 4)
    for (int64_t j = 0; j < cols; j += 4) {
      hn::Vec<decltype(d)> square[4];
      RAMET_UNROLL
      for (int r = 0; r < 4; ++r) square[r] = hn::LoadU(d, in + (i + r) * in_stride + j);
      turn_square(d, square);
      RAMET_UNROLL
      for (int r = 0; r < 4; ++r) hn::StoreU(square[r], d, out + (j + r) * out_stride + i);
    }
#endif
}

/// Calls body with `data` as a pointer to the storage type of a 16- or 32-bit floating type.
template <typename Body>
void WithStorage(DType type, const void* data, const Body& body) {
  if (type == DType::kF32) return body(static_cast<const float*>(data));
  if (type == DType::kBF16) return body(static_cast<const Bf16*>(data));
  if (type == DType::kF16) return body(static_cast<const F16*>(data));
  internal_error("block", "no 16- or 32-bit floating type: " + std::string(name_of(type)));
}

/// The same, of operands that are only read: 8-bit floats too.
template <typename Body>
void WithOperand(DType type, const void* data, const Body& body) {
  if (type == DType::kF8E4M3) return body(static_cast<const F8E4M3*>(data));
  if (type == DType::kF8E5M2) return body(static_cast<const F8E5M2*>(data));
  WithStorage(type, data, body);
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_BLOCKING_INL_H_
