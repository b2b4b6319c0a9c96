// Walks over channels that are the last dimension. Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_CHANNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_CHANNELS_INL_H_
#undef RAMET_CHANNELS_INL_H_
#else
#define RAMET_CHANNELS_INL_H_
#endif

#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

/// A vector from a tensor that ends at `end`: the lanes from `count` on hold anything, for they are never stored.
template <typename T>
HWY_INLINE Vf load_within(const T* from, int64_t count, const void* end) {
  const Df d;
  if (count >= vector_lanes() || from + vector_lanes() <= static_cast<const T*>(end)) return LoadF32(d, from);
  return LoadF32N(d, from, static_cast<size_t>(count));
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_CHANNELS_INL_H_
