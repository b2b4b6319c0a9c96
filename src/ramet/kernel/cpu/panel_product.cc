#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/panel_product.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/panel_product.h"

#include "ramet/kernel/cpu/chain_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;  // of rows of a that all panels read, one after the other

/// `a`, `b`, `bias` and `out` are those of the tile; of its last vector `last_lanes` lanes are in use.
template <int kWhole, class Last>
struct PanelTile {
  template <int kRows>
  static void run(const PanelProduct& of, const float* a, const float* b, const float* bias, float* out,
                  int64_t last_lanes) {
    const F32 df;
    const Last dl;
    const int64_t lanes = f32_lanes(), last_at = kWhole * lanes;
    ChainTile<kRows, kWhole, Last> tile;
    tile.clear();
    tile.add(of.k, a, of.a_stride, 1, b, of.panel_columns, [](const float* from) { return hn::LoadU(Last(), from); });
    RAMET_UNROLL
    for (int j = 0; j < kWhole; ++j) {
      const auto added = bias ? hn::LoadU(df, bias + j * lanes) : hn::Zero(df);
      RAMET_UNROLL
      for (int i = 0; i < kRows; ++i)
        hn::StoreU(bias ? hn::Add(tile.whole[i][j], added) : tile.whole[i][j], df, out + i * of.out_stride + j * lanes);
    }
    const auto used = hn::FirstN(dl, static_cast<size_t>(last_lanes));
    const auto added = bias ? hn::MaskedLoad(used, dl, bias + last_at) : hn::Zero(dl);
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i)
      hn::BlendedStore(bias ? hn::Add(tile.last[i], added) : tile.last[i], used, dl, out + i * of.out_stride + last_at);
  }
};

/// Rows [begin, end).
void PanelRows(const PanelProduct& of, int64_t begin, int64_t end) {
  const int64_t m = end - begin, tiles = (m + kTileRows - 1) / kTileRows;
  for (int64_t column = 0, columns; column < of.n; column += columns) {
    const int64_t in_panel = column % of.panel_columns;
    columns = std::min({of.n - column, of.panel_columns - in_panel, kTileVectors * f32_lanes()});
    const float* const b = of.b + column / of.panel_columns * of.panel_stride + in_panel;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = begin + m * tile / tiles, rows = begin + m * (tile + 1) / tiles - row;
      tile_of<PanelTile>(rows, columns)(of, of.a + row * of.a_stride, b, of.bias ? of.bias + column : nullptr,
                                        of.out + row * of.out_stride + column, last_columns(columns));
    }
  }
}

}  // namespace

void PanelProductOf(const PanelProduct& of) {
  const int64_t block =
      std::max<int64_t>(kTileRows, kBlockBytes / 4 / std::max<int64_t>(1, of.k) / kTileRows * kTileRows);
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
