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
constexpr int64_t kRows = 6;                // of a tile
constexpr int kVectors = 4;                 // of a tile
constexpr int64_t kBlockBytes = 256 << 10;  // of rows of a that all panels read, one after the other

/// kTileRows x (kTileVectors vectors), the last of the lanes of `last` alone. `a`, `b`, `bias` and `out` are those of
/// the tile.
template <int kTileRows, int kTileVectors>
HWY_INLINE void PanelTile(const PanelProduct& of, const float* a, const float* b, const float* bias, float* out,
                          hn::Mask<F32> last) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const int64_t a_stride = of.a_stride, b_stride = of.panel_columns, k = of.k;
  hn::Vec<F32> chain[kTileRows][kTileVectors];
  RAMET_UNROLL
  for (int i = 0; i < kTileRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kTileVectors; ++j) chain[i][j] = hn::Zero(df);
  }
  for (int64_t p = 0; p < k; ++p, b += b_stride) {
    hn::Vec<F32> row[kTileVectors];
    RAMET_UNROLL
    for (int j = 0; j < kTileVectors; ++j) row[j] = hn::LoadU(df, b + j * lanes);
    RAMET_UNROLL
    for (int i = 0; i < kTileRows; ++i) {
      const auto factor = hn::Set(df, a[i * a_stride + p]);
      RAMET_UNROLL
      for (int j = 0; j < kTileVectors; ++j) chain[i][j] = hn::MulAdd(factor, row[j], chain[i][j]);
    }
  }
  RAMET_UNROLL
  for (int j = 0; j < kTileVectors; ++j) {
    const bool whole = j + 1 < kTileVectors;
    auto added = hn::Zero(df);
    if (bias) added = whole ? hn::LoadU(df, bias + j * lanes) : hn::MaskedLoad(last, df, bias + j * lanes);
    RAMET_UNROLL
    for (int i = 0; i < kTileRows; ++i) {
      const auto value = bias ? hn::Add(chain[i][j], added) : chain[i][j];
      float* const to = out + i * of.out_stride + j * lanes;
      if (whole)
        hn::StoreU(value, df, to);
      else
        hn::BlendedStore(value, last, df, to);
    }
  }
}

using PanelFunction = void (*)(const PanelProduct&, const float*, const float*, const float*, float*, hn::Mask<F32>);

template <int kTileVectors>
PanelFunction panel_tile(int64_t rows) {
  constexpr PanelFunction kTiles[] = {PanelTile<1, kTileVectors>, PanelTile<2, kTileVectors>,
                                      PanelTile<3, kTileVectors>, PanelTile<4, kTileVectors>,
                                      PanelTile<5, kTileVectors>, PanelTile<6, kTileVectors>};
  return kTiles[rows - 1];
}

PanelFunction panel_tile(int64_t rows, int64_t vectors) {
  switch (vectors) {
    case 1: return panel_tile<1>(rows);
    case 2: return panel_tile<2>(rows);
    case 3: return panel_tile<3>(rows);
    default: return panel_tile<4>(rows);
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
    const auto last = hn::FirstN(df, static_cast<size_t>(columns - (vectors - 1) * lanes));
    const float* const b = of.b + column / of.panel_columns * of.panel_stride + in_panel;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = begin + m * tile / tiles, rows = begin + m * (tile + 1) / tiles - row;
      panel_tile(rows, vectors)(of, of.a + row * of.a_stride, b, of.bias ? of.bias + column : nullptr,
                                of.out + row * of.out_stride + column, last);
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
