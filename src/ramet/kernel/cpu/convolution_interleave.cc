#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/convolution_interleave.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "ramet/kernel/cpu/convolution_filter.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void InterleavePairs(const uint16_t* first, const uint16_t* second, int64_t count, uint32_t* out) {
  const hn::ScalableTag<uint32_t> du;
  const hn::Rebind<uint16_t, decltype(du)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(du));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto low = first ? hn::PromoteTo(du, hn::LoadU(dh, first + i)) : hn::Zero(du);
    const auto high = second ? hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, second + i))) : hn::Zero(du);
    hn::StoreU(hn::Or(low, high), du, out + i);
  }
  for (; i < (count + 15) / 16 * 16; ++i)
    out[i] = i < count ? (first ? first[i] : 0u) | (second ? static_cast<uint32_t>(second[i]) << 16 : 0u) : 0u;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(InterleavePairs);

void interleave_rows(DType compute, const char* first, const char* second, int64_t count, uint32_t* out) {
  if (compute == DType::kBF16)
    return HWY_DYNAMIC_DISPATCH(InterleavePairs)(reinterpret_cast<const uint16_t*>(first),
                                                 reinterpret_cast<const uint16_t*>(second), count, out);
  const int64_t padded = (count + 15) / 16 * 16;
  if (first)
    std::memcpy(out, first, static_cast<size_t>(count) * 4);
  else
    std::memset(out, 0, static_cast<size_t>(count) * 4);
  std::memset(out + count, 0, static_cast<size_t>(padded - count) * 4);
}

}  // namespace ramet::kernel
#endif
