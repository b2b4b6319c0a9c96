#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/zero_rows.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/zero_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::ScalableTag<uint32_t>;

/// Whether no float of a row is one that `finds` finds among the bits of several.
template <typename Finds>
HWY_INLINE bool NoneIn(const float* row, int64_t width, const Finds& finds) {
  const U32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const bits = reinterpret_cast<const uint32_t*>(row);
  const auto found = [&](int64_t at) HWY_ATTR { return finds(hn::LoadU(d, bits + at)); };
  int64_t i = 0;
  for (; i + 4 * lanes <= width; i += 4 * lanes) {
    const auto first = hn::Or(found(i), found(i + lanes)), second = hn::Or(found(i + 2 * lanes), found(i + 3 * lanes));
    if (!hn::AllFalse(d, hn::Or(first, second))) return false;
  }
  for (; i + lanes <= width; i += lanes)
    if (!hn::AllFalse(d, found(i))) return false;
  const auto rest = hn::FirstN(d, static_cast<size_t>(width - i));
  return i == width || hn::AllFalse(d, finds(hn::MaskedLoad(rest, d, bits + i)));
}

bool AreZero(const float* data, int64_t rows, int64_t width, int64_t stride) {
  const auto magnitude = hn::Set(U32(), 0x7fffffffu), none = hn::Zero(U32());
  const auto finds = [&](hn::Vec<U32> bits) HWY_ATTR { return hn::Ne(hn::And(bits, magnitude), none); };
  for (int64_t i = 0; i < rows; ++i)
    if (!NoneIn(data + i * stride, width, finds)) return false;
  return true;
}

bool AreFinite(const float* data, int64_t rows, int64_t width, int64_t stride) {
  const auto exponent = hn::Set(U32(), 0x7f800000u);
  const auto finds = [&](hn::Vec<U32> bits) HWY_ATTR { return hn::Eq(hn::And(bits, exponent), exponent); };
  for (int64_t i = 0; i < rows; ++i)
    if (!NoneIn(data + i * stride, width, finds)) return false;
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(AreZero);
HWY_EXPORT(AreFinite);

bool are_zero(const float* data, int64_t rows, int64_t width, int64_t stride) {
  cpu_level();
  return HWY_DYNAMIC_DISPATCH(AreZero)(data, rows, width, stride);
}

bool are_finite(const float* data, int64_t rows, int64_t width, int64_t stride) {
  cpu_level();
  return HWY_DYNAMIC_DISPATCH(AreFinite)(data, rows, width, stride);
}

}  // namespace ramet::kernel
#endif
