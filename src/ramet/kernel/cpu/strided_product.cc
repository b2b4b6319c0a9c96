#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/strided_product.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/strided_product.h"
#include "ramet/kernel/cpu/zero_rows.h"

#include "ramet/kernel/cpu/chain_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kPassBytes = 64 << 10;  // of operands that one pass over k reads, tile by tile

/// Sums over `depth` of k, continuing the chains in `sums` unless `first`. The last vector of b has `last_lanes` lanes.
template <int kWhole, class Last>
struct StridedTile {
  template <int kRows>
  static void run(const StridedProduct& of, int64_t depth, const float* a, const float* b, float* sums, bool first,
                  int64_t last_lanes) {
    const Last dl;
    const int64_t lanes = f32_lanes();
    const auto used = hn::FirstN(dl, static_cast<size_t>(last_lanes));
    ChainTile<kRows, kWhole, Last> tile;
    if (first)
      tile.clear();
    else
      tile.load(sums, of.c_stride);
    tile.add(depth, a, of.a_row, of.a_k, b, of.b_stride,
             [used](const float* from) { return hn::MaskedLoad(used, Last(), from); });
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RAMET_UNROLL
      for (int j = 0; j < kWhole; ++j) hn::StoreU(tile.whole[i][j], F32(), sums + i * of.c_stride + j * lanes);
      hn::StoreU(tile.last[i], dl, sums + i * of.c_stride + kWhole * lanes);
    }
  }
};

/// Rows [p, p + depth) of k, which lie in one chain.
void Pass(const StridedProduct& of, int64_t p, int64_t depth, float* sums, bool first) {
  const int64_t panel = kTileVectors * f32_lanes(), tiles = (of.m + kTileRows - 1) / kTileRows;
  for (int64_t column = 0; column < of.n; column += panel) {
    const int64_t columns = std::min(panel, of.n - column);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = of.m * tile / tiles, rows = of.m * (tile + 1) / tiles - row;
      tile_of<StridedTile>(rows, columns)(of, depth, of.a + row * of.a_row + p * of.a_k,
                                          of.b + p * of.b_stride + column, sums + row * of.c_stride + column, first,
                                          last_columns(columns));
    }
  }
}

/// Whether rows [p, p + rows) of k add nothing: one operand has zeros there, the other one no infinities and NaN.
bool AddNothing(const StridedProduct& of, int64_t p, int64_t rows) {
  if (of.a_row != 1) return false;
  const float *a = of.a + p * of.a_k, *b = of.b + p * of.b_stride;
  if (are_zero(a, rows, of.m, of.a_k)) return are_finite(b, rows, of.n, of.b_stride);
  return are_zero(b, rows, of.n, of.b_stride) && are_finite(a, rows, of.m, of.a_k);
}

/// The end of the rows from p on, below `end`, that all add something, or that all add nothing.
int64_t EndOf(bool something, const StridedProduct& of, int64_t p, int64_t end) {
  while (p < end && AddNothing(of, p, std::min(kZeroGroup, end - p)) != something) p += kZeroGroup;
  return std::min(p, end);
}

}  // namespace

void StridedProductOf(const StridedProduct& of) {
  const F32 df;
  const int64_t lanes = f32_lanes();
  const int64_t width = std::max<int64_t>(1, of.m + std::min(of.n, kTileVectors * lanes)), chain = strided_chain(of.k);
  const int64_t depth = std::max<int64_t>(16, kPassBytes / 4 / width);
  if (of.k == 0) std::fill_n(of.c, of.m * of.c_stride, 0.0f);
  for (int64_t begin = 0; begin < of.k; begin += chain) {
    float* const sums = begin == 0 ? of.c : of.work;
    const int64_t end = std::min(of.k, begin + chain);
    bool first = true;
    for (int64_t p = EndOf(false, of, begin, end); p < end; p = EndOf(false, of, p, end)) {
      for (const int64_t last = EndOf(true, of, p, end); p < last; p += std::min(depth, last - p), first = false)
        Pass(of, p, std::min(depth, last - p), sums, first);
    }
    if (begin == 0 && first) std::fill_n(sums, of.m * of.c_stride, 0.0f);
    if (begin > 0 && !first)
      for (int64_t i = 0; i < of.m * of.c_stride; i += lanes)
        hn::StoreU(hn::Add(hn::LoadU(df, of.c + i), hn::LoadU(df, sums + i)), df, of.c + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(StridedProductOf);

int64_t strided_chain(int64_t k) { return k <= 512 ? k : k <= 1024 ? 512 : 1024; }

void strided_product(const StridedProduct& product) {
  cpu_level();
  HWY_DYNAMIC_DISPATCH(StridedProductOf)(product);
}

}  // namespace ramet::kernel
#endif
