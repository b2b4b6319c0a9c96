#include "ramet/machine/tile_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace ramet::tests {
namespace {

constexpr double kBow = 1.85e9, kGc200 = 1.325e9;

/// A published rate of [m,m] x [m,n], and by how much the model misses it.
struct Row {
  DType dtype;
  int64_t m, n;
  double published;  ///< operations a second, in 10^12
  double error;      ///< of the prediction, in percent of it
};

double tera(const MatrixProduct& product, double cycles, double clock) {
  return 2.0 * static_cast<double>(product.batch) * static_cast<double>(product.m) * static_cast<double>(product.k) *
         static_cast<double>(product.n) / (cycles / clock) / 1e12;
}

double planned_tera(const MatrixProduct& product, double clock = kBow) {
  return tera(product, choose_product(TileFigures{.clock = clock}, product).cycles.total(), clock);
}

double mean_error(const std::vector<Row>& rows) {
  double sum = 0;
  for (const Row& row : rows) {
    const MatrixProduct product{1, row.m, row.m, row.n, row.dtype};
    const TileFigures figures{.clock = kBow};
    const ProductChoice choice = choose_product(figures, product);
    const double predicted = tera(product, choice.cycles.total(), kBow), error = predicted / row.published - 1;
    std::printf("%-4s %5lld x %5lld x %5lld: published %6.2f TFLOP/s, predicted %6.2f, %+5.1f%%\n",
                std::string(name_of(row.dtype)).c_str(), static_cast<long long>(row.m), static_cast<long long>(row.m),
                static_cast<long long>(row.n), row.published, predicted, 100 * error);
    EXPECT_NEAR(100 * error, row.error, 0.5);
    sum += std::abs(error);
  }
  const double mean = sum / static_cast<double>(rows.size());
  std::printf("mean error %.1f%%\n", 100 * mean);
  return mean;
}

// "IPU Peak Flops" notebook of tessellate-ipu: on all tiles, [N,16] x [16,16] in f16.
TEST(TileMatmul, OneVertexTakesTheCyclesOfThePublishedMicrobenchmark) {
  const std::vector<std::pair<int64_t, double>> published = {
      {16, 55.49},   {32, 96.71},   {48, 127.72},  {64, 152.80},  {96, 186.94},   {128, 211.12},  {192, 243.36},
      {256, 264.01}, {384, 286.62}, {512, 299.78}, {768, 314.57}, {1024, 322.73}, {1536, 330.70}, {2048, 334.94}};
  const TileFigures figures{.clock = kBow};
  for (const auto& [n, rate] : published) {
    const double cycles = matrix_unit_cycles(figures, n, 16, 16, DType::kF16);
    EXPECT_NEAR(tera({figures.tiles, n, 16, 16}, cycles, kBow) / rate, 1, 0.02) << "N = " << n;
    EXPECT_NEAR(cycles, 331.4 + 4.0 * static_cast<double>(n), 9) << "N = " << n;
  }
}

// Dense rows of the PopSparse plots (arXiv 2303.16999) and of Graphcore's SpMM notebook, on a Bow IPU.
TEST(TileMatmul, HalfProductsTakeThePublishedTime) {
  const DType half = DType::kF16;
  EXPECT_LT(mean_error({{half, 1024, 4, 6.04, -6.0},
                        {half, 1024, 16, 20.3, 3.1},
                        {half, 1024, 64, 45.5, 5.1},
                        {half, 1024, 256, 89.3, -8.6},
                        {half, 1024, 1024, 120, 2.9},
                        {half, 1024, 2048, 153, -6.0},
                        {half, 1024, 4096, 180, -7.0},
                        {half, 1024, 8192, 206, -7.9},
                        {half, 1024, 16384, 223, -5.3},
                        {half, 1024, 32768, 223, 2.5},
                        {half, 4096, 4, 18.2, -15.1},
                        {half, 4096, 16, 61.2, 1.0},
                        {half, 4096, 64, 130, -9.2},
                        {half, 4096, 256, 175, -5.4},
                        {half, 4096, 1024, 209, -3.5},
                        {half, 4096, 2048, 223, -2.3},
                        {half, 4096, 4096, 228, 1.1},
                        {half, 4096, 1024, 197.7, 2.0},
                        {half, 4096, 2048, 211.0, 3.2}}),
            0.055);
}

// `float_sum_cycles` was fitted to these.
TEST(TileMatmul, SingleProductsTakeThePublishedTime) {
  const DType single = DType::kF32;
  EXPECT_LT(
      mean_error({{single, 1024, 4, 3.72, -9.3},     {single, 1024, 8, 6.54, -2.9},   {single, 1024, 16, 11.2, 13.2},
                  {single, 1024, 32, 16.3, 11.3},    {single, 1024, 64, 21.3, 8.1},   {single, 1024, 128, 29.4, -4.9},
                  {single, 1024, 256, 34.5, -5.5},   {single, 1024, 512, 36.4, 3.4},  {single, 1024, 1024, 44, -2.2},
                  {single, 1024, 2048, 50.3, -5.9},  {single, 1024, 4096, 56, -6.3},  {single, 1024, 8192, 57.5, -2.5},
                  {single, 1024, 16384, 59.1, -1.1}, {single, 4096, 4, 7.08, -7.7},   {single, 4096, 8, 12.5, 4.5},
                  {single, 4096, 16, 22.5, 16.1},    {single, 4096, 32, 31.9, 9.3},   {single, 4096, 64, 41.7, 0.6},
                  {single, 4096, 128, 49, -1.6},     {single, 4096, 256, 53.1, -1.9}, {single, 4096, 512, 54.5, 1.2},
                  {single, 4096, 1024, 56, 2.6},     {single, 4096, 2048, 57.5, 2.7}, {single, 4096, 4096, 59.1, 1.6},
                  {single, 4096, 512, 52.4, 5.3}}),
      0.055);
}

// The best over n of the same plots: the dense rows of the comparison by feature size.
TEST(TileMatmul, LargeProductsSettleWhereThePublishedOnesDo) {
  const std::vector<std::pair<int64_t, double>> published = {{256, 12.7 * 16},  {512, 13.9 * 16},  {1024, 14.3 * 16},
                                                             {2048, 14.5 * 16}, {4096, 14.3 * 16}, {8192, 14.1 * 16}};
  for (const auto& [m, rate] : published) {
    double best = 0;
    for (int64_t n = 4; n <= 131072; n *= 2)
      if (2 * (m * m + 2 * m * n) < int64_t{900} << 20) best = std::max(best, planned_tera({1, m, m, n, DType::kF16}));
    std::printf("best of m = k = %lld: published %.0f TFLOP/s, predicted %.0f\n", static_cast<long long>(m), rate,
                best);
    EXPECT_NEAR(best / rate, 1, 0.1);
  }
}

TEST(TileMatmul, ClocksOnlyScaleTime) {
  const MatrixProduct product{1, 2048, 2048, 2048, DType::kF16};
  EXPECT_NEAR(planned_tera(product, kBow) / planned_tera(product, kGc200), kBow / kGc200, 1e-9);
}

TEST(TileMatmul, NeverFasterThanTheMatrixUnits) {
  const TileFigures figures{.clock = kBow};
  for (int64_t m : {1, 7, 64, 1000, 30522})
    for (int64_t k : {1, 24, 768, 4096})
      for (int64_t n : {1, 17, 1024})
        for (int64_t batch : {1, 12, 3000})
          for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
            const MatrixProduct product{batch, m, k, n, dtype};
            const ProductChoice choice = choose_product(figures, product);
            const double peak = 2 * (dtype == DType::kF32 ? 16 : 64) * 1472 * kBow / 1e12;
            EXPECT_LT(tera(product, choice.cycles.total(), kBow), peak) << batch << " x " << m << " " << k << " " << n;
            const ProductSplit& s = choice.split;
            EXPECT_LE(s.batches * s.rows * s.sums * s.columns, 1472);
            EXPECT_LE(choice.cycles.temporary_bytes, 0.6 * 638976);
            EXPECT_GT(choice.cycles.sync, 0);
          }
}

// A product of one shape costs little more than a square one of as many multiply-adds (arXiv 2310.00256 found skewed
// products robust on an IPU), and one that is larger in one dimension is never cheaper by more than padding.
TEST(TileMatmul, SkewedAndGrowingProductsBehave) {
  const double square = planned_tera({1, 2048, 2048, 2048, DType::kF16});
  EXPECT_GT(planned_tera({1, 16384, 2048, 256, DType::kF16}), 0.6 * square);
  EXPECT_GT(planned_tera({1, 256, 2048, 16384, DType::kF16}), 0.6 * square);
  EXPECT_GT(planned_tera({1, 512, 32768, 512, DType::kF16}), 0.6 * square);
  const TileFigures figures{.clock = kBow};
  for (int64_t n = 16; n < 100000; n *= 2) {
    const auto cycles = [&](int64_t columns) {
      return choose_product(figures, {1, 1024, 1024, columns, DType::kF16}).cycles.total();
    };
    EXPECT_LT(cycles(n), cycles(2 * n)) << n;
    EXPECT_LT(cycles(2 * n), 2.2 * cycles(n)) << n;
  }
  EXPECT_EQ(choose_product(figures, {1, 512, 1024, 384, DType::kF16}).cycles.total(),
            choose_product(figures, {1, 384, 1024, 512, DType::kF16}).cycles.total());
}

TEST(TileMatmul, SumsInSinglePrecisionTakeTwiceTheTime) {
  const TileFigures half{.clock = kBow}, single{.clock = kBow, .half_sum_bits = 32};
  const double ratio =
      matrix_unit_cycles(single, 2048, 16, 16, DType::kF16) / matrix_unit_cycles(half, 2048, 16, 16, DType::kF16);
  EXPECT_GT(ratio, 1.9);
  EXPECT_LT(ratio, 2.3);
}

// Operands of gigabytes: cut in pieces that fit, at a cost that still stands in proportion.
TEST(TileMatmul, WhatFitsNoRoundIsCutInPieces) {
  const ProductChoice choice = choose_product({.clock = kBow}, {1, 65536, 65536, 65536, DType::kF16});
  EXPECT_GT(choice.split.pieces, 1);
  EXPECT_LE(choice.cycles.temporary_bytes, 0.6 * 638976);
  const double rate = tera({1, 65536, 65536, 65536}, choice.cycles.total(), kBow);
  EXPECT_GT(rate, 200);
  EXPECT_LT(rate, 348);
}

TEST(TileMatmul, EmptyProductsCostNothing) {
  EXPECT_EQ(choose_product({.clock = kBow}, {1, 0, 16, 16, DType::kF16}).cycles.total(), 0);
}

}  // namespace
}  // namespace ramet::tests
