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

void InterleavePairs(const char* first, int64_t second, int64_t step, int64_t units, int64_t count, uint32_t* out,
                     int64_t out_step) {
  const hn::ScalableTag<uint32_t> du;
  const hn::Rebind<uint16_t, decltype(du)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(du));
  for (int64_t unit = 0; unit < units; ++unit, first += step, out += out_step) {
    const auto* a = reinterpret_cast<const uint16_t*>(first);
    const auto* b = reinterpret_cast<const uint16_t*>(first + second);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto low = hn::PromoteTo(du, hn::LoadU(dh, a + i));
      const auto high = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, b + i)));
      hn::StoreU(second ? hn::Or(low, high) : low, du, out + i);
    }
    for (; i < (count + 15) / 16 * 16; ++i)
      out[i] = i < count ? a[i] | (second ? static_cast<uint32_t>(b[i]) << 16 : 0u) : 0u;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(InterleavePairs);

void interleave_rows(DType compute, const char* first, int64_t second, int64_t step, int64_t units, int64_t count,
                     uint32_t* out, int64_t out_step) {
  if (first && compute == DType::kBF16)
    return HWY_DYNAMIC_DISPATCH(InterleavePairs)(first, second, step, units, count, out, out_step);
  const int64_t padded = (count + 15) / 16 * 16;
  for (int64_t unit = 0; unit < units; ++unit, out += out_step) {
    if (first) std::memcpy(out, first + unit * step, static_cast<size_t>(count) * 4);
    const int64_t there = first ? count : 0;
    std::memset(out + there, 0, static_cast<size_t>(padded - there) * 4);
  }
}

}  // namespace ramet::kernel
#endif
