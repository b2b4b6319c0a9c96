#include "ramet/kernel/cpu/strided_pairs.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/convolution_tile.h"
#include "ramet/kernel/cpu/strided_product.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kPassPairs = 128;  // of k, whose panels lie in the second-level cache

int64_t panel_width(int64_t columns) { return std::min(kPairColumns, (columns + 15) / 16 * 16); }

/// Pairs of the panels of so many columns in one pass.
int64_t pass_pairs(int64_t columns) { return (columns + 15) / 16 * 16 * kPassPairs; }

/// Adds the products of the panels of a and b, which have `pairs` pairs of k, to sums.
void multiply_panels(const StridedPairs& of, const uint32_t* a, const uint32_t* b, int64_t pairs, float* sums) {
  const int64_t start = 0;
  for (int64_t column = 0; column < of.n; column += kPairColumns) {
    const int64_t width = panel_width(of.n - column), most = tile_positions(DType::kBF16, width);
    for (int64_t panel = 0; panel < of.m; panel += kPairColumns) {
      const int64_t rows = std::min(kPairColumns, of.m - panel), tiles = (rows + most - 1) / most;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t row = rows * tile / tiles;
        strip_tile_bf16({.rows = rows * (tile + 1) / tiles - row,
                         .width = width,
                         .strips = 1,
                         .units = pairs,
                         .a = a + panel * pairs + row,
                         .b = b + column * pairs,
                         .a_rows = &start,
                         .b_rows = &start,
                         .a_row = 0,
                         .b_row = 0,
                         .a_step = panel_width(of.m - panel),
                         .b_step = width,
                         .c = sums + (panel + row) * of.c_stride + column,
                         .c_stride = of.c_stride});
      }
    }
  }
}

}  // namespace

int64_t strided_pairs_work(int64_t m, int64_t n, int64_t c_stride) {
  return (pass_pairs(m) + pass_pairs(n) + m * c_stride) * static_cast<int64_t>(sizeof(float));
}

void strided_pairs(const StridedPairs& of) {
  auto* const a = static_cast<uint32_t*>(of.work);
  uint32_t* const b = a + pass_pairs(of.m);
  auto* const further = reinterpret_cast<float*>(b + pass_pairs(of.n));
  const int64_t elements = of.m * of.c_stride, chain = strided_chain(of.k);
  std::fill_n(of.c, elements, 0.0f);
  for (int64_t begin = 0; begin < of.k; begin += chain) {
    float* const sums = begin == 0 ? of.c : further;
    if (begin > 0) std::fill_n(sums, elements, 0.0f);
    const int64_t end = std::min(of.k, begin + chain);
    for (int64_t p = begin; p < end; p += 2 * kPassPairs) {
      const int64_t rows = std::min(2 * kPassPairs, end - p);
      pack_pairs(of.a + p * of.a_stride, of.a_stride, rows, of.m, a);
      pack_pairs(of.b + p * of.b_stride, of.b_stride, rows, of.n, b);
      multiply_panels(of, a, b, (rows + 1) / 2, sums);
    }
    if (begin > 0) std::transform(sums, sums + elements, of.c, of.c, [](float more, float sum) { return sum + more; });
  }
}

#if !defined(__x86_64__)
void pack_pairs(const uint16_t*, int64_t, int64_t, int64_t, uint32_t*) {
  internal_error("pack_pairs", "a processor without the instruction for pairs of bf16");
}
#endif

}  // namespace ramet::kernel
