// A tile of a product in f32: rows and columns whose sums, chains of fused multiply-adds in ascending order of k, stay
// in registers. Its columns are vectors, of which the last one may be half a vector. Included once per target, as
// Highway's *-inl.h files are.
#if defined(RAMET_CHAIN_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_CHAIN_TILE_INL_H_
#undef RAMET_CHAIN_TILE_INL_H_
#else
#define RAMET_CHAIN_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include "ramet/kernel/cpu/loop_table.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
#if HWY_TARGET == HWY_SCALAR
using HalfF32 = F32;
#else
using HalfF32 = hn::Half<F32>;
#endif
constexpr int kTileRows = 6;     // at most
constexpr int kTileVectors = 4;  // at most

HWY_INLINE int64_t f32_lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }
/// Columns of the last of the vectors that `columns` take.
HWY_INLINE int64_t last_columns(int64_t columns) { return (columns - 1) % f32_lanes() + 1; }

/// The sums of kRows x (kWhole vectors and one of the type `Last`).
template <int kRows, int kWhole, class Last>
struct ChainTile {
  hn::Vec<F32> whole[kRows][kTileVectors];
  hn::Vec<Last> last[kRows];

  HWY_INLINE void clear() {
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RAMET_UNROLL
      for (int j = 0; j < kWhole; ++j) whole[i][j] = hn::Zero(F32());
      last[i] = hn::Zero(Last());
    }
  }

  HWY_INLINE void load(const float* from, int64_t stride) {
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RAMET_UNROLL
      for (int j = 0; j < kWhole; ++j) whole[i][j] = hn::LoadU(F32(), from + i * stride + j * f32_lanes());
      last[i] = hn::LoadU(Last(), from + i * stride + kWhole * f32_lanes());
    }
  }

  /// Adds the products of `depth` columns of a with as many rows of b. `load_last` loads the last vector of such a row.
  template <typename LoadLast>
  HWY_INLINE void add(int64_t depth, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t b_stride,
                      const LoadLast& load_last) {
    for (int64_t p = 0; p < depth; ++p, a += a_k, b += b_stride) {
      hn::Vec<F32> row[kTileVectors];
      RAMET_UNROLL
      for (int j = 0; j < kWhole; ++j) row[j] = hn::LoadU(F32(), b + j * f32_lanes());
      const hn::Vec<Last> last_row = load_last(b + kWhole * f32_lanes());
      RAMET_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const float* const factor = a + i * a_row;
        RAMET_UNROLL
        for (int j = 0; j < kWhole; ++j) whole[i][j] = hn::MulAdd(hn::Set(F32(), *factor), row[j], whole[i][j]);
        last[i] = hn::MulAdd(hn::Set(Last(), *factor), last_row, last[i]);
      }
    }
  }
};

template <template <int, class> class Tile, class Last>
auto tile_of(int64_t rows, int64_t vectors) {
  switch (vectors) {
    case 1: return loop_of<Tile<0, Last>, kTileRows>(rows);
    case 2: return loop_of<Tile<1, Last>, kTileRows>(rows);
    case 3: return loop_of<Tile<2, Last>, kTileRows>(rows);
    default: return loop_of<Tile<3, Last>, kTileRows>(rows);
  }
}

/// Tile<whole vectors, type of the last one>::run<rows> for a tile of so many rows and columns.
template <template <int, class> class Tile>
auto tile_of(int64_t rows, int64_t columns) {
  const int64_t vectors = (columns - 1) / f32_lanes() + 1;
  // Some processors take half the time for half a vector.
  return 2 * last_columns(columns) <= f32_lanes() ? tile_of<Tile, HalfF32>(rows, vectors)
                                                  : tile_of<Tile, F32>(rows, vectors);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
