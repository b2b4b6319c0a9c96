#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/attention_tile.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/amx_product.h"
#include "ramet/kernel/cpu/attention_tile.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
// Vectors to 16 columns, and how many columns at a time fill the registers.
constexpr int kToSixteen = 16 / static_cast<int>(hn::MaxLanes(F32()) > 16 ? 16 : hn::MaxLanes(F32()));
constexpr int64_t kColumns = kToSixteen == 1 ? 64 : 16;

template <int kRows, int kVectors>
HWY_INLINE void Tile(const TileProduct& p, const float* a, const float* b, float* c) {
  const F32 df;
  constexpr int64_t kLanes = 16 / kToSixteen;
  hn::Vec<F32> sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = p.add ? hn::LoadU(df, c + i * p.c_stride + j * kLanes) : hn::Zero(df);
  }
  for (int64_t k = 0; k < p.k; ++k, b += kPanel) {
    hn::Vec<F32> row[kVectors];
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) row[j] = hn::LoadU(df, b + j * kLanes);
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto factor = hn::Set(df, a[i * p.a_stride + k]);
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(factor, row[j], sums[i][j]);
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], df, c + i * p.c_stride + j * kLanes);
  }
}

template <int kVectors>
void Panel(const TileProduct& p, const float* b, float* c) {
  const auto* a = reinterpret_cast<const float*>(p.a);
  int64_t i = 0;
  for (; i + 6 <= p.m; i += 6) Tile<6, kVectors>(p, a + i * p.a_stride, b, c + i * p.c_stride);
  a += i * p.a_stride;
  c += i * p.c_stride;
  switch (p.m - i) {
    case 5: return Tile<5, kVectors>(p, a, b, c);
    case 4: return Tile<4, kVectors>(p, a, b, c);
    case 3: return Tile<3, kVectors>(p, a, b, c);
    case 2: return Tile<2, kVectors>(p, a, b, c);
    case 1: return Tile<1, kVectors>(p, a, b, c);
    default: return;
  }
}

void TileProductF32(const TileProduct& p) {
  for (int64_t column = 0; column < p.n;) {
    const auto* b = reinterpret_cast<const float*>(p.b) + column / kPanel * p.panel_stride + column % kPanel;
    if (kColumns == 64 && p.n - column >= 64) {
      Panel<kToSixteen == 1 ? 4 : kToSixteen>(p, b, p.c + column);
      column += 64;
    } else {
      Panel<kToSixteen>(p, b, p.c + column);
      column += 16;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(TileProductF32);

void tile_product_f32(const TileProduct& product) { HWY_DYNAMIC_DISPATCH(TileProductF32)(product); }

#if !defined(__x86_64__)
void tile_product_avx512bf16(const TileProduct&) { internal_error("tile_product_bf16", "no such instructions here"); }
#endif

void tile_product_bf16(const TileProduct& p) {
  if (cpu_level() < CpuLevel::kAmxBf16) return tile_product_avx512bf16(p);
  amx_product({.m = p.m,
               .n = p.n,
               .k = p.k,
               .a = p.a,
               .a_stride = 4 * p.a_stride,
               .b = p.b,
               .b_stride = kPanel,
               .panel_stride = p.panel_stride,
               .c = p.c,
               .c_stride = p.c_stride,
               .add = p.add});
}

}  // namespace ramet::kernel
#endif
