#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/strided_product.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/strided_product.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/kernel/cpu/zero_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
#if HWY_TARGET == HWY_SCALAR
using HalfF32 = F32;
#else
using HalfF32 = hn::Half<F32>;
#endif
constexpr int64_t kRows = 6;              // of a tile
constexpr int kVectors = 4;               // of a tile
constexpr int64_t kPassBytes = 64 << 10;  // of operands that one pass over k reads, tile by tile

/// kTileRows x (kWhole vectors and one of the type `Last`) of sums over `depth` of k, continuing the chains in `sums`
/// unless `first`. The last vector of b has `last_lanes` lanes.
template <int kTileRows, int kWhole, class Last>
HWY_INLINE void TileOf(const StridedProduct& of, int64_t depth, const float* a, const float* b, float* sums, bool first,
                       int64_t last_lanes) {
  const F32 df;
  const Last dl;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df)), last_at = kWhole * lanes;
  const auto used = hn::FirstN(dl, static_cast<size_t>(last_lanes));
  const int64_t a_row = of.a_row, a_k = of.a_k, b_stride = of.b_stride, stride = of.c_stride;
  hn::Vec<F32> chain[kTileRows][kVectors];
  hn::Vec<Last> last_chain[kTileRows];
  RAMET_UNROLL
  for (int i = 0; i < kTileRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kWhole; ++j) chain[i][j] = first ? hn::Zero(df) : hn::LoadU(df, sums + i * stride + j * lanes);
    last_chain[i] = first ? hn::Zero(dl) : hn::LoadU(dl, sums + i * stride + last_at);
  }
  for (int64_t p = 0; p < depth; ++p, a += a_k, b += b_stride) {
    hn::Vec<F32> row[kVectors];
    RAMET_UNROLL
    for (int j = 0; j < kWhole; ++j) row[j] = hn::LoadU(df, b + j * lanes);
    const auto last_row = hn::MaskedLoad(used, dl, b + last_at);
    RAMET_UNROLL
    for (int i = 0; i < kTileRows; ++i) {
      const float* const factor = a + i * a_row;
      RAMET_UNROLL
      for (int j = 0; j < kWhole; ++j) chain[i][j] = hn::MulAdd(hn::Set(df, *factor), row[j], chain[i][j]);
      last_chain[i] = hn::MulAdd(hn::Set(dl, *factor), last_row, last_chain[i]);
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kTileRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kWhole; ++j) hn::StoreU(chain[i][j], df, sums + i * stride + j * lanes);
    hn::StoreU(last_chain[i], dl, sums + i * stride + last_at);
  }
}

using TileFunction = void (*)(const StridedProduct&, int64_t, const float*, const float*, float*, bool, int64_t);

template <int kWhole, class Last>
TileFunction tile_of(int64_t rows) {
  constexpr TileFunction kTiles[] = {TileOf<1, kWhole, Last>, TileOf<2, kWhole, Last>, TileOf<3, kWhole, Last>,
                                     TileOf<4, kWhole, Last>, TileOf<5, kWhole, Last>, TileOf<6, kWhole, Last>};
  return kTiles[rows - 1];
}

template <class Last>
TileFunction tile_of(int64_t rows, int64_t vectors) {
  switch (vectors) {
    case 1: return tile_of<0, Last>(rows);
    case 2: return tile_of<1, Last>(rows);
    case 3: return tile_of<2, Last>(rows);
    default: return tile_of<3, Last>(rows);
  }
}

/// Rows [p, p + depth) of k, which lie in one chain.
void Pass(const StridedProduct& of, int64_t p, int64_t depth, float* sums, bool first) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const int64_t panel = kVectors * lanes, tiles = (of.m + kRows - 1) / kRows;
  for (int64_t column = 0; column < of.n; column += panel) {
    const int64_t columns = std::min(panel, of.n - column), vectors = (columns + lanes - 1) / lanes;
    const int64_t last_lanes = columns - (vectors - 1) * lanes;
    // Some processors take half the time for half a vector.
    const auto find = 2 * last_lanes <= lanes ? tile_of<HalfF32> : tile_of<F32>;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = of.m * tile / tiles, rows = of.m * (tile + 1) / tiles - row;
      find(rows, vectors)(of, depth, of.a + row * of.a_row + p * of.a_k, of.b + p * of.b_stride + column,
                          sums + row * of.c_stride + column, first, last_lanes);
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

void StridedProductOf(const StridedProduct& of) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const int64_t width = std::max<int64_t>(1, of.m + std::min(of.n, kVectors * lanes)), chain = strided_chain(of.k);
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
