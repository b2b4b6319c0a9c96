// Sums whose features lie along vectors: a loop has a fixed number of vectors of features, and keeps their sums in
// registers. Of the last vector the lanes of a mask alone are features.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_FEATURE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_FEATURE_SUMS_INL_H_
#undef RAMET_FEATURE_SUMS_INL_H_
#else
#define RAMET_FEATURE_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/loop_table.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int kMostVectors = 8;  // of features of one loop

template <int kCount>
HWY_INLINE void clear_sums(Vf (&sums)[kCount]) {
  RAMET_UNROLL
  for (int v = 0; v < kCount; ++v) sums[v] = hn::Zero(Df());
}

/// kWhole: all lanes of the last vector, which has `count` of them, are features.
template <bool kWhole = false, int kCount, typename T>
HWY_INLINE void store_sums(const Vf (&sums)[kCount], [[maybe_unused]] hn::Mask<Df> last, [[maybe_unused]] int64_t count,
                           T* out) {
  const Df d;
  const int64_t lanes = vector_lanes();
  RAMET_UNROLL
  for (int v = 0; v + (kWhole ? 0 : 1) < kCount; ++v) StoreF32(d, sums[v], out + v * lanes);
  if constexpr (!kWhole) store_lanes(sums[kCount - 1], out + (kCount - 1) * lanes, last, count);
}

/// How many features the last of `vectors` vectors with `count` features has.
HWY_INLINE int64_t last_count(int64_t vectors, int64_t count) { return count - (vectors - 1) * vector_lanes(); }

/// The lanes that are features of the last of `vectors` vectors with `count` features.
HWY_INLINE hn::Mask<Df> last_features(int64_t vectors, int64_t count) {
  return hn::FirstN(Df(), static_cast<size_t>(last_count(vectors, count)));
}

/// Calls `visit(first, count, vectors)` for features [first, first + count) of `width`, as many as a loop takes.
template <typename Visit>
HWY_INLINE void each_features(int64_t width, const Visit& visit) {
  const int64_t lanes = vector_lanes(), step = kMostVectors * lanes;
  for (int64_t first = 0; first < width; first += step) {
    const int64_t count = std::min(step, width - first);
    visit(first, count, (count + lanes - 1) / lanes);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
