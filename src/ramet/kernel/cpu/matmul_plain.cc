#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/matmul_plain.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/matmul_plain.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
constexpr int64_t kDepth = 256;  // k of one pass: a panel of b stays in the first-level cache

/// 64 columns where a vector has 16 lanes, 16 otherwise.
int64_t PlainBlock() { return hn::Lanes(F32()) >= 16 ? 64 : 16; }

/// kRows x (kVectors vectors) of c over `depth` of k, continuing the chains in c unless `first`.
template <int kRows, int kVectors>
HWY_INLINE void Tile(int64_t depth, const float* a, int64_t a_stride, const float* b, float* c, int64_t c_stride,
                     bool first) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  hn::Vec<F32> sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) sums[i][j] = first ? hn::Zero(df) : hn::LoadU(df, c + i * c_stride + j * lanes);
  }
  for (int64_t p = 0; p < depth; ++p, b += kVectors * lanes) {
    hn::Vec<F32> row[kVectors];
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) row[j] = hn::LoadU(df, b + j * lanes);
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto factor = hn::Set(df, a[i * a_stride + p]);
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(factor, row[j], sums[i][j]);
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], df, c + i * c_stride + j * lanes);
  }
}

template <int kVectors>
void TileRows(int64_t rows, int64_t depth, const float* a, int64_t a_stride, const float* b, float* c, int64_t c_stride,
              bool first) {
  switch (rows) {
    case 1: return Tile<1, kVectors>(depth, a, a_stride, b, c, c_stride, first);
    case 2: return Tile<2, kVectors>(depth, a, a_stride, b, c, c_stride, first);
    case 3: return Tile<3, kVectors>(depth, a, a_stride, b, c, c_stride, first);
    case 4: return Tile<4, kVectors>(depth, a, a_stride, b, c, c_stride, first);
    case 5: return Tile<5, kVectors>(depth, a, a_stride, b, c, c_stride, first);
    default: return Tile<6, kVectors>(depth, a, a_stride, b, c, c_stride, first);
  }
}

template <int kVectors>
void PlainProductOf(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t c_stride) {
  constexpr int64_t kRows = 6;
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(F32()));
  const int64_t padded = (k + 15) / 16 * 16;
  HWY_ALIGN float edge[kRows * 64];
  for (int64_t column = 0; column < n; column += width, b += padded * width)
    for (int64_t p = 0; p == 0 || p < k; p += kDepth)
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i), cols = std::min(width, n - column),
                      depth = std::min(kDepth, k - p);
        float* to = c + i * c_stride + column;
        if (cols == width) {
          TileRows<kVectors>(rows, depth, a + i * k + p, k, b + p * width, to, c_stride, p == 0);
          continue;
        }
        for (int64_t r = 0; p > 0 && r < rows; ++r) std::copy_n(to + r * c_stride, cols, edge + r * width);
        TileRows<kVectors>(rows, depth, a + i * k + p, k, b + p * width, edge, width, p == 0);
        for (int64_t r = 0; r < rows; ++r) std::copy_n(edge + r * width, cols, to + r * c_stride);
      }
}

void PlainProduct(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t c_stride) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32()));
  constexpr int kVectors = kLanes == 16 ? 4 : 16 / kLanes;
  PlainProductOf<kVectors>(m, n, k, a, b, c, c_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(PlainBlock);
HWY_EXPORT(PlainProduct);

int64_t plain_block() {
  cpu_level();
  return HWY_DYNAMIC_DISPATCH(PlainBlock)();
}

void plain_product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t c_stride) {
  HWY_DYNAMIC_DISPATCH(PlainProduct)(m, n, k, a, b, c, c_stride);
}

}  // namespace ramet::kernel
#endif
