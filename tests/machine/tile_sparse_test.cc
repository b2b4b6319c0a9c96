#include "ramet/machine/tile_sparse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

constexpr double kBow = 1.85e9;

/// A published rate of a sparse [m,m] with dense [m,n], the best over n, in 10^12 operations on stored elements a
/// second; and by what factor the model misses it.
struct Row {
  DType dtype;
  int64_t m, one_in, block;  ///< one block of `one_in` is stored
  double published, factor;
};

ops::SparseWork work_of(const Row& row, int64_t tokens, bool fixed) {
  const int64_t side = row.m / row.block;
  return {.grid = {.cells_down = 1,
                   .cells_across = 1,
                   .cell_rows = row.m,
                   .cell_columns = row.m,
                   .block_rows = row.block,
                   .block_columns = row.block,
                   .slots = side * side / row.one_in},
          .tokens = tokens,
          .fixed = fixed,
          .operands = row.dtype};
}

double best_rate(const Row& row, bool fixed) {
  // The benchmark of the published rows was free to use most of the memory.
  const TileFigures figures{.clock = kBow, .temporary_share = 0.8};
  double best = 0;
  for (int64_t tokens = 4; tokens <= 65536; tokens *= 2) {
    const ops::SparseWork work = work_of(row, tokens, fixed);
    const double operands =
        2.0 * static_cast<double>(row.m) * static_cast<double>(tokens) * static_cast<double>(size_of(row.dtype));
    if (operands > 0.9 * static_cast<double>(figures.tiles * figures.memory)) continue;
    const double seconds = choose_sparse_product(figures, work).cycles.total() / kBow;
    best = std::max(
        best, 2.0 * static_cast<double>(work.grid.stored_elements()) * static_cast<double>(tokens) / seconds / 1e12);
  }
  return best;
}

/// The mean factor; no row may miss by more than `most`.
double mean_factor(const std::vector<Row>& rows, bool fixed, double most) {
  double sum = 0;
  for (const Row& row : rows) {
    const double predicted = best_rate(row, fixed), factor = predicted / row.published;
    std::printf("%-4s m=%-5lld 1/%-3lld block %-2lld: published %6.1f TFLOP/s, predicted %6.1f, factor %.2f\n",
                std::string(name_of(row.dtype)).c_str(), static_cast<long long>(row.m),
                static_cast<long long>(row.one_in), static_cast<long long>(row.block), row.published, predicted,
                factor);
    EXPECT_LT(std::abs(std::log(factor)), std::log(most));
    EXPECT_NEAR(factor, row.factor, 0.02);
    sum += std::abs(std::log(factor));
  }
  const double mean = std::exp(sum / static_cast<double>(rows.size()));
  std::printf("mean factor %.2f\n", mean);
  return mean;
}

// PopSparse (arXiv 2303.16999), on a Bow IPU. FP32 rows are its speed-ups over dense products of 60.7 TFLOP/s.
constexpr DType kHalf = DType::kF16, kFloat = DType::kF32;

TEST(TileSparse, FixedPatternsTakeThePublishedTime) {
  EXPECT_LT(mean_factor({{kHalf, 4096, 4, 1, 11.9, 1.02},
                         {kHalf, 4096, 8, 1, 11.9, 0.98},
                         {kHalf, 4096, 16, 1, 10.7, 1.02},
                         {kHalf, 4096, 32, 1, 8.8, 1.06},
                         {kHalf, 4096, 16, 4, 21.7, 0.89},
                         {kHalf, 4096, 16, 8, 49.4, 0.70},
                         {kHalf, 4096, 4, 16, 93, 1.26},
                         {kHalf, 4096, 8, 16, 70, 1.30},
                         {kHalf, 4096, 16, 16, 70, 0.87},
                         {kHalf, 4096, 32, 16, 37, 1.08},
                         {kHalf, 256, 16, 16, 9.0, 1.02},
                         {kHalf, 512, 16, 16, 20.2, 0.85},
                         {kHalf, 1024, 16, 16, 30, 1.05},
                         {kHalf, 2048, 16, 16, 31, 1.48},
                         {kHalf, 8192, 16, 16, 62.6, 1.13},
                         {kFloat, 4096, 16, 1, 1.4 * 60.7 / 16, 1.01},
                         {kFloat, 4096, 16, 16, 5.6 * 60.7 / 16, 1.28}},
                        true, 1.5),
            1.2);
}

TEST(TileSparse, PatternsThatChangeTakeThePublishedTime) {
  EXPECT_LT(mean_factor({{kHalf, 4096, 4, 1, 9.8, 1.06},
                         {kHalf, 4096, 8, 1, 7.7, 1.31},
                         {kHalf, 4096, 16, 1, 5.95, 1.43},
                         {kHalf, 4096, 32, 1, 3.8, 1.88},
                         {kHalf, 4096, 16, 4, 14.5, 0.94},
                         {kHalf, 4096, 16, 8, 21.4, 0.99},
                         {kHalf, 4096, 4, 16, 57, 0.87},
                         {kHalf, 4096, 8, 16, 40, 0.88},
                         {kHalf, 4096, 16, 16, 27.3, 0.98},
                         {kHalf, 4096, 32, 16, 15.8, 1.02},
                         {kHalf, 256, 16, 16, 5.4, 0.72},
                         {kHalf, 512, 16, 16, 6.5, 1.15},
                         {kHalf, 1024, 16, 16, 11.2, 1.14},
                         {kHalf, 2048, 16, 16, 21.7, 0.91},
                         {kHalf, 8192, 16, 16, 22, 1.39},
                         {kFloat, 4096, 16, 1, 0.9 * 60.7 / 16, 1.31},
                         {kFloat, 4096, 16, 16, 3.8 * 60.7 / 16, 1.09}},
                        false, 2.0),
            1.3);
}

// "Speed-up = 0.0013 m^0.59 d^-0.54 b^0.50, within 2x": the published law of fixed patterns in FP16.
TEST(TileSparse, FixedPatternsFollowThePublishedLaw) {
  for (const int64_t m : {1024, 2048, 4096, 8192})
    for (const int64_t one_in : {8, 16, 32})
      for (const int64_t block : {1, 4, 8, 16}) {
        const double dense = 14.3 * 16 / static_cast<double>(one_in);  // TFLOP/s, counted as the sparse ones are
        const double law = 0.0013 * std::pow(m, 0.59) * std::pow(one_in, 0.54) * std::pow(block, 0.50);
        const double speed_up = best_rate({kHalf, m, one_in, block, 0, 0}, true) / dense;
        EXPECT_LT(std::abs(std::log(speed_up / law)), std::log(2.5)) << m << " 1/" << one_in << " block " << block;
      }
}

TEST(TileSparse, AMatrixThatFitsNoTileIsRefused) {
  const TileFigures small{.tiles = 4, .memory = 1024, .clock = kBow};
  try {
    choose_sparse_product(small, work_of({kHalf, 1024, 16, 16, 0, 0}, 64, true));
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too small for a product with a sparse matrix"), std::string::npos);
  }
}

}  // namespace
}  // namespace ramet::tests
