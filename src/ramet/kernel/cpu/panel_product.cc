#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/panel_product.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/panel_product.h"
#include "ramet/kernel/cpu/unroll.h"

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
constexpr int64_t kRows = 6;                // of a tile
constexpr int kVectors = 4;                 // of a tile
constexpr int64_t kBlockBytes = 256 << 10;  // of rows of a that all panels read, one after the other

/// kTileRows x (kWhole vectors and one of the type `Last`, of which `last_lanes` lanes are in use). `a`, `b`, `bias`
/// and `out` are those of the tile.
template <int kTileRows, int kWhole, class Last>
HWY_INLINE void PanelTile(const PanelProduct& of, const float* a, const float* b, const float* bias, float* out,
                          int64_t last_lanes) {
  const F32 df;
  const Last dl;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df)), last_at = kWhole * lanes;
  const int64_t a_stride = of.a_stride, b_stride = of.panel_columns, k = of.k;
  hn::Vec<F32> chain[kTileRows][kVectors];
  hn::Vec<Last> last_chain[kTileRows];
  RAMET_UNROLL
  for (int i = 0; i < kTileRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kWhole; ++j) chain[i][j] = hn::Zero(df);
    last_chain[i] = hn::Zero(dl);
  }
  for (int64_t p = 0; p < k; ++p, b += b_stride) {
    hn::Vec<F32> row[kVectors];
    RAMET_UNROLL
    for (int j = 0; j < kWhole; ++j) row[j] = hn::LoadU(df, b + j * lanes);
    const auto last_row = hn::LoadU(dl, b + last_at);
    RAMET_UNROLL
    for (int i = 0; i < kTileRows; ++i) {
      const float* const factor = a + i * a_stride + p;
      RAMET_UNROLL
      for (int j = 0; j < kWhole; ++j) chain[i][j] = hn::MulAdd(hn::Set(df, *factor), row[j], chain[i][j]);
      last_chain[i] = hn::MulAdd(hn::Set(dl, *factor), last_row, last_chain[i]);
    }
  }
  RAMET_UNROLL
  for (int j = 0; j < kWhole; ++j) {
    const auto added = bias ? hn::LoadU(df, bias + j * lanes) : hn::Zero(df);
    RAMET_UNROLL
    for (int i = 0; i < kTileRows; ++i)
      hn::StoreU(bias ? hn::Add(chain[i][j], added) : chain[i][j], df, out + i * of.out_stride + j * lanes);
  }
  const auto used = hn::FirstN(dl, static_cast<size_t>(last_lanes));
  const auto added = bias ? hn::MaskedLoad(used, dl, bias + last_at) : hn::Zero(dl);
  RAMET_UNROLL
  for (int i = 0; i < kTileRows; ++i)
    hn::BlendedStore(bias ? hn::Add(last_chain[i], added) : last_chain[i], used, dl, out + i * of.out_stride + last_at);
}

using PanelFunction = void (*)(const PanelProduct&, const float*, const float*, const float*, float*, int64_t);

template <int kWhole, class Last>
PanelFunction panel_tile(int64_t rows) {
  constexpr PanelFunction kTiles[] = {PanelTile<1, kWhole, Last>, PanelTile<2, kWhole, Last>,
                                      PanelTile<3, kWhole, Last>, PanelTile<4, kWhole, Last>,
                                      PanelTile<5, kWhole, Last>, PanelTile<6, kWhole, Last>};
  return kTiles[rows - 1];
}

template <class Last>
PanelFunction panel_tile(int64_t rows, int64_t vectors) {
  switch (vectors) {
    case 1: return panel_tile<0, Last>(rows);
    case 2: return panel_tile<1, Last>(rows);
    case 3: return panel_tile<2, Last>(rows);
    default: return panel_tile<3, Last>(rows);
  }
}

/// Rows [begin, end).
void PanelRows(const PanelProduct& of, int64_t begin, int64_t end) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const int64_t m = end - begin, tiles = (m + kRows - 1) / kRows;
  for (int64_t column = 0, columns; column < of.n; column += columns) {
    const int64_t in_panel = column % of.panel_columns;
    columns = std::min({of.n - column, of.panel_columns - in_panel, kVectors * lanes});
    const int64_t vectors = (columns + lanes - 1) / lanes;
    const int64_t last_lanes = columns - (vectors - 1) * lanes;
    // Some processors take half the time for half a vector.
    const auto find = 2 * last_lanes <= lanes ? panel_tile<HalfF32> : panel_tile<F32>;
    const float* const b = of.b + column / of.panel_columns * of.panel_stride + in_panel;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = begin + m * tile / tiles, rows = begin + m * (tile + 1) / tiles - row;
      find(rows, vectors)(of, of.a + row * of.a_stride, b, of.bias ? of.bias + column : nullptr,
                          of.out + row * of.out_stride + column, last_lanes);
    }
  }
}

void PanelProductOf(const PanelProduct& of) {
  const int64_t block = std::max(kRows, kBlockBytes / 4 / std::max<int64_t>(1, of.k) / kRows * kRows);
  for (int64_t row = 0; row < of.m; row += block) PanelRows(of, row, std::min(of.m, row + block));
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(PanelProductOf);

void panel_product(const PanelProduct& product) {
  cpu_level();
  HWY_DYNAMIC_DISPATCH(PanelProductOf)(product);
}

}  // namespace ramet::kernel
#endif
