// Between memory and the registers of the map evaluator, and its sums.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_MAP_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_MAP_MEMORY_INL_H_
#undef RAMET_MAP_MEMORY_INL_H_
#else
#define RAMET_MAP_MEMORY_INL_H_
#endif

#include <cstring>

#include <hwy/highway.h>

#include "ramet/kernel/cpu/convert-inl.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/kernel/cpu/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Df = hn::ScalableTag<float>;
using Di = hn::RebindToSigned<Df>;
using Du = hn::RebindToUnsigned<Df>;
using Vf = hn::Vec<Df>;
using Vi = hn::Vec<Di>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Df())); }

template <class T, class R, R (*Widen)(T)>
void load_each(const void* from, int64_t stride, int64_t count, void* to) {
  const auto* source = static_cast<const T*>(from);
  auto* target = static_cast<R*>(to);
  if (stride == 0) {
    const hn::ScalableTag<R> d;
    const auto value = hn::Set(d, Widen(*source));
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + step <= count; i += step) hn::StoreU(value, d, target + i);
    for (; i < count; ++i) target[i] = hn::GetLane(value);
  } else {
    for (int64_t i = 0; i < count; ++i) target[i] = Widen(source[i * stride]);
  }
}
template <class T>
T same(T value) {
  return value;
}
inline int32_t truth(uint8_t value) { return value != 0; }
template <class T>
int32_t widened(T value) {
  return value;
}
template <class T>
T shortened(int32_t value) {
  return static_cast<T>(value);
}
inline float bf16_value(uint16_t bits) { return bf16_to_f32(bits); }

/// Bools to 0 and 1, and back.
inline void load_bools(const void* from, int64_t stride, int64_t count, void* to) {
  if (stride != 1) return load_each<uint8_t, int32_t, truth>(from, stride, count, to);
  const Di d;
  const hn::Rebind<uint8_t, Di> narrow;
  const auto* source = static_cast<const uint8_t*>(from);
  auto* target = static_cast<int32_t*>(to);
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::Min(hn::PromoteTo(d, hn::LoadU(narrow, source + i)), hn::Set(d, 1)), d, target + i);
  for (; i < count; ++i) target[i] = truth(source[i]);
}
inline void store_bools(const void* from, int64_t count, void* to) {
  const Di d;
  const hn::Rebind<uint8_t, Di> narrow;
  const auto* source = static_cast<const int32_t*>(from);
  auto* target = static_cast<uint8_t*>(to);
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) {
    const auto value = hn::LoadU(d, source + i);
    const auto bit = hn::IfThenZeroElse(hn::Eq(value, hn::Zero(d)), hn::Set(d, 1));
    hn::StoreU(hn::DemoteTo(narrow, bit), narrow, target + i);
  }
  for (; i < count; ++i) target[i] = source[i] != 0;
}

template <class T>
void load_plain(const void* from, int64_t stride, int64_t count, void* to) {
  if (stride == 1)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  else
    load_each<T, T, same<T>>(from, stride, count, to);
}
template <class T, float (*Widen)(decltype(T::bits))>
void load_narrow(const void* from, int64_t stride, int64_t count, void* to) {
  if (stride != 1) return load_each<decltype(T::bits), float, Widen>(from, stride, count, to);
  const Df d;
  const auto* source = static_cast<const T*>(from);
  auto* target = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) hn::StoreU(LoadF32(d, source + i), d, target + i);
  for (; i < count; ++i) target[i] = Widen(source[i].bits);
}

inline cpu::LoadFunction find_load(DType dtype) {
  switch (dtype) {
    case DType::kF32: return &load_plain<float>;
    case DType::kBF16: return &load_narrow<Bf16, bf16_value>;
    case DType::kF16: return &load_narrow<F16, f16_to_f32>;
    case DType::kF8E4M3: return &load_narrow<F8E4M3, f8e4m3_to_f32>;
    case DType::kF8E5M2: return &load_narrow<F8E5M2, f8e5m2_to_f32>;
    case DType::kI32: return &load_plain<int32_t>;
    case DType::kI64: return &load_plain<int64_t>;
    case DType::kBool: return &load_bools;
    case DType::kU8: return &load_each<uint8_t, int32_t, widened<uint8_t>>;
    case DType::kU16: return &load_each<uint16_t, int32_t, widened<uint16_t>>;
    case DType::kI8: return &load_each<int8_t, int32_t, widened<int8_t>>;
    case DType::kI16: return &load_each<int16_t, int32_t, widened<int16_t>>;
    case DType::kU32: return &load_plain<uint32_t>;
    case DType::kU64: return &load_plain<uint64_t>;
    case DType::kF64: return nullptr;
  }
  return nullptr;
}

template <class T>
void store_plain(const void* from, int64_t count, void* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}
template <class R, class T, T (*Narrow)(R)>
void store_each(const void* from, int64_t count, void* to) {
  const auto* source = static_cast<const R*>(from);
  auto* target = static_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) target[i] = Narrow(source[i]);
}

template <class T, uint16_t (*Narrow)(float)>
void store_half(const void* from, int64_t count, void* to) {
  const Df d;
  const auto* source = static_cast<const float*>(from);
  auto* target = static_cast<T*>(to);
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) StoreF32(d, hn::LoadU(d, source + i), target + i);
  for (; i < count; ++i) target[i].bits = Narrow(source[i]);
}

/// f32 that are bf16 numbers, which need no rounding.
inline void store_rounded(const void* from, int64_t count, void* to) {
  const Du d;
  const hn::Rebind<uint16_t, Du> narrow;
  const auto* source = static_cast<const uint32_t*>(from);
  auto* target = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(hn::LoadU(d, source + i))), narrow, target + i);
  for (; i < count; ++i) target[i] = static_cast<uint16_t>(source[i] >> 16);
}

template <DType type>
void store_f8(const void* from, int64_t count, void* to) {
  cpu::rounding_loops().narrow(type, static_cast<const float*>(from), count, to, nullptr, false);
}

inline cpu::StoreFunction find_store(DType dtype) {
  switch (dtype) {
    case DType::kF32: return &store_plain<float>;
    case DType::kBF16: return &store_half<Bf16, f32_to_bf16>;
    case DType::kF16: return &store_half<F16, f32_to_f16>;
    case DType::kF8E4M3: return &store_f8<DType::kF8E4M3>;
    case DType::kF8E5M2: return &store_f8<DType::kF8E5M2>;
    case DType::kI32: return &store_plain<int32_t>;
    case DType::kI64: return &store_plain<int64_t>;
    case DType::kBool: return &store_bools;
    case DType::kU8: return &store_each<int32_t, uint8_t, shortened<uint8_t>>;
    case DType::kU16: return &store_each<int32_t, uint16_t, shortened<uint16_t>>;
    case DType::kI8: return &store_each<int32_t, int8_t, shortened<int8_t>>;
    case DType::kI16: return &store_each<int32_t, int16_t, shortened<int16_t>>;
    case DType::kU32: return &store_plain<uint32_t>;
    case DType::kU64: return &store_plain<uint64_t>;
    case DType::kF64: return nullptr;
  }
  return nullptr;
}

inline void add_to(const float* from, int64_t count, float* sums) {
  const Df d;
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, from + i)), d, sums + i);
  for (; i < count; ++i) sums[i] += from[i];
}

/// So many vectors of columns from `from` on.
template <int kVectors>
HWY_INLINE void add_row_vectors(const float* from, int64_t rows, int64_t columns, bool first, float* sums) {
  const Df d;
  const int64_t width = lanes();
  Vf sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, (first ? from : sums) + v * width);
  for (int64_t row = first; row < rows; ++row)
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::LoadU(d, from + row * columns + v * width));
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + v * width);
}
inline void add_rows_to(const float* from, int64_t rows, int64_t columns, bool first, float* sums) {
  const int64_t width = lanes();
  int64_t i = 0;
  for (; i + 4 * width <= columns; i += 4 * width) add_row_vectors<4>(from + i, rows, columns, first, sums + i);
  for (; i + width <= columns; i += width) add_row_vectors<1>(from + i, rows, columns, first, sums + i);
  for (; i < columns; ++i) {
    float sum = first ? from[i] : sums[i];
    for (int64_t row = first; row < rows; ++row) sum += from[row * columns + i];
    sums[i] = sum;
  }
}

inline void add_to_lanes(const float* from, int64_t count, float* sums) {
  const Df d;
  constexpr int64_t kLanes = 16;
  constexpr int64_t kVectors = kLanes / static_cast<int64_t>(hn::MaxLanes(Df()));
  Vf lane[kVectors];
  const int64_t width = lanes(), whole = count / kLanes * kLanes;
  for (int64_t v = 0; v < kVectors; ++v) lane[v] = hn::LoadU(d, sums + v * width);
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t v = 0; v < kVectors; ++v) lane[v] = hn::Add(lane[v], hn::LoadU(d, from + i + v * width));
  for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(lane[v], d, sums + v * width);
  for (int64_t i = whole; i < count; ++i) sums[i - whole] += from[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_MAP_MEMORY_INL_H_
