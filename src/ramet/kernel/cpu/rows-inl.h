// Walks over one row of f32, bf16 or f16, with the same code for body and tail, and sums in one order for every vector
// width: 64 strided lanes, lane j adding elements j, j + 64, ..., then lane i += lane i + 32, + 16, ... + 1.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_ROWS_INL_H_
#undef RAMET_ROWS_INL_H_
#else
#define RAMET_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "ramet/kernel/cpu/convert-inl.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;

HWY_INLINE int64_t vector_lanes() { return static_cast<int64_t>(hn::Lanes(Df())); }

/// Of loops for one type of elements, Loops<T>::kTable: the table for f32, bf16 or f16. Static, for every file calls
/// its own template Loops, and GCC gives all of those one name.
template <template <typename> class Loops>
static const auto* table_of(DType dtype) {
  if (dtype == DType::kF32) return &Loops<float>::kTable;
  return dtype == DType::kBF16 ? &Loops<Bf16>::kTable : &Loops<F16>::kTable;
}

/// Loads vector `count` > 0 lanes of a row from `from`; lanes beyond are 0.
template <typename T>
HWY_INLINE Vf load_part(const T* from, int64_t count) {
  const Df d;
  return count >= vector_lanes() ? LoadF32(d, from) : LoadF32N(d, from, static_cast<size_t>(count));
}
template <typename T>
HWY_INLINE void store_part(Vf value, T* to, int64_t count) {
  const Df d;
  if (count >= vector_lanes())
    StoreF32(d, value, to);
  else
    StoreF32N(d, value, to, static_cast<size_t>(count));
}
/// The same with a mask of the first `count` lanes at hand, which f32 needs alone.
template <typename T>
HWY_INLINE Vf load_lanes(const T* from, [[maybe_unused]] hn::Mask<Df> first, [[maybe_unused]] int64_t count) {
  if constexpr (std::is_same_v<T, float>)
    return hn::MaskedLoad(first, Df(), from);
  else
    return load_part(from, count);
}
template <typename T>
HWY_INLINE void store_lanes(Vf value, T* to, [[maybe_unused]] hn::Mask<Df> first, [[maybe_unused]] int64_t count) {
  if constexpr (std::is_same_v<T, float>)
    hn::BlendedStore(value, first, Df(), to);
  else
    store_part(value, to, count);
}
/// One element.
HWY_INLINE float value_at(const float* from) { return *from; }
HWY_INLINE float value_at(const Bf16* from) { return bf16_to_f32(from->bits); }
HWY_INLINE float value_at(const F16* from) { return f16_to_f32(from->bits); }
/// Lanes from `count` on become 0.
HWY_INLINE Vf keep_part(Vf value, int64_t count) {
  const Df d;
  return count >= vector_lanes() ? value : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), value);
}

/// Calls `visit(element, count)` for each vector of a stretch.
template <typename Visit>
HWY_INLINE void walk_vectors(int64_t elements, const Visit& visit) {
  const int64_t step = vector_lanes();
  int64_t i = 0;
  for (; i + step <= elements; i += step) visit(i, step);
  if (i < elements) visit(i, elements - i);
}

constexpr int64_t kRowLanes = 64;

/// kRowLanes accumulators.
struct RowLanes {
  static constexpr int64_t kVectors = kRowLanes / static_cast<int64_t>(hn::MaxLanes(Df()));
  Vf lane[kVectors];

  HWY_INLINE explicit RowLanes(float start) {
    for (Vf& vector : lane) vector = hn::Set(Df(), start);
  }
  HWY_INLINE void add(int64_t vector, Vf value) { lane[vector] = hn::Add(lane[vector], value); }
  HWY_INLINE float sum() const {
    return fold([](Vf a, Vf b) HWY_ATTR { return hn::Add(a, b); });
  }
  HWY_INLINE float most() const {
    return fold([](Vf a, Vf b) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); });
  }

 private:
  template <typename Join>
  HWY_INLINE float fold(const Join& join) const {
    Vf all[kVectors];
    RAMET_UNROLL
    for (int64_t v = 0; v < kVectors; ++v) all[v] = lane[v];
    return fold_lanes(fold_vectors<kVectors>(all, join), join);
  }
  /// Vector i takes vector i + half, until one is left.
  template <int64_t kCount, typename Join>
  static HWY_INLINE Vf fold_vectors(Vf* all, const Join& join) {
    if constexpr (kCount == 1) {
      return all[0];
    } else {
      RAMET_UNROLL
      for (int64_t v = 0; v < kCount / 2; ++v) all[v] = join(all[v], all[v + kCount / 2]);
      return fold_vectors<kCount / 2>(all, join);
    }
  }
  /// Lane i takes lane i + half, until one is left; what the upper lanes then hold has no meaning.
  template <typename Join>
  static HWY_INLINE float fold_lanes(Vf all, [[maybe_unused]] const Join& join) {
#if HWY_TARGET != HWY_SCALAR
    constexpr int64_t kLanes = kRowLanes / kVectors;
    if constexpr (kLanes >= 16) all = join(all, hn::ConcatUpperUpper(Df(), all, all));
    if constexpr (kLanes >= 8) all = join(all, hn::SwapAdjacentBlocks(all));
    all = join(all, hn::Shuffle1032(all));
    all = join(all, hn::Shuffle2301(all));
#endif
    return hn::GetLane(all);
  }
};

/// Calls `visit(element, vector, count)` for each vector of a row: the accumulator that its lanes belong to, and how
/// many of them are in the row.
template <typename Visit>
HWY_INLINE void for_each_vector(int64_t width, const Visit& visit) {
  const int64_t step = vector_lanes(), whole = width / kRowLanes * kRowLanes;
  for (int64_t i = 0; i < whole; i += kRowLanes)
    for (int64_t v = 0; v < RowLanes::kVectors; ++v) visit(i + v * step, v, step);
  for (int64_t i = whole, v = 0; i < width; i += step, ++v) visit(i, v, width - i < step ? width - i : step);
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_ROWS_INL_H_
