// libxsmm's products of a block-sparse matrix and a dense one beside `build/bench/sparse`: the four matrices of
// BERT-base at 2048 tokens, forward, f32. libxsmm 1.17 has no product of blocks of its own, so each row of blocks is
// one batch of small products (reducebatch_addr), 64 tokens at once. The inputs are given in panels of 64 tokens and
// the outputs stay in panels, so no time of packing counts. Ramet's times have the packing in them.
//   c++ -O2 -std=c++20 -fopenmp bench/peers/sparse_libxsmm.cc -lxsmm -lxsmmnoblas -ldl -o build/sparse_libxsmm
//   OMP_NUM_THREADS=2 build/sparse_libxsmm [density, default 0.1]
#include <libxsmm.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

namespace {

constexpr int kTokens = 2048, kPanel = 64;

/// Best seconds of the product of one matrix.
double time_of(int rows, int columns, int side, double density) {
  std::mt19937 random(1);
  const int down = rows / side, across = columns / side, panels = kTokens / kPanel;
  std::vector<std::vector<int>> stored(static_cast<size_t>(down));
  size_t count = 0;
  std::vector<size_t> first;
  for (auto& line : stored) {
    first.push_back(count);
    for (int column = 0; column < across; ++column)
      if (std::uniform_real_distribution<>()(random) < density) line.push_back(column);
    count += line.size();
  }
  std::vector<float> values(count * static_cast<size_t>(side * side), 0.5F);
  std::vector<float> x(static_cast<size_t>(kTokens) * static_cast<size_t>(columns), 0.25F);
  std::vector<float> y(static_cast<size_t>(kTokens) * static_cast<size_t>(rows));
  const int lda = kPanel, ldb = side, ldc = kPanel, flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE;
  const float alpha = 1, beta = 0;
  const auto kernel =
      libxsmm_smmdispatch_reducebatch_addr(kPanel, side, side, &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
  if (!kernel) {
    std::fprintf(stderr, "libxsmm has no kernel for blocks of %d\n", side);
    std::exit(1);
  }
  const auto run = [&] {
#pragma omp parallel for
    for (int panel = 0; panel < panels; ++panel) {
      std::vector<const float*> a(static_cast<size_t>(across)), b(static_cast<size_t>(across));
      for (int line = 0; line < down; ++line) {
        const auto& columns_of = stored[static_cast<size_t>(line)];
        for (size_t i = 0; i < columns_of.size(); ++i) {
          a[i] = x.data() + (static_cast<size_t>(panel) * columns + static_cast<size_t>(columns_of[i]) * side) * kPanel;
          b[i] = values.data() + (first[static_cast<size_t>(line)] + i) * side * side;
        }
        const unsigned long long blocks = columns_of.size();
        float* const c = y.data() + (static_cast<size_t>(panel) * rows + static_cast<size_t>(line) * side) * kPanel;
        if (blocks) kernel(a.data(), b.data(), c, &blocks);
      }
    }
  };
  double best = 1e9;
  for (int call = 0; call < 12; ++call) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  float sum = 0;
  for (const float each : y) sum += each;
  const double expected = 0.125 * static_cast<double>(count) * side * side * kTokens;
  if (std::abs(sum - expected) > 0.02 * expected) std::fprintf(stderr, "wrong sums: %g, expected %g\n", sum, expected);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const double density = argc > 1 ? std::atof(argv[1]) : 0.1;
  for (const int side : {4, 8, 16}) {
    double seconds = 0;
    for (const auto& [rows, columns] : {std::pair(2304, 768), {768, 768}, {3072, 768}, {768, 3072}})
      seconds += time_of(rows, columns, side, density);
    std::printf("f32 block %-2d forward %7.2f ms\n", side, seconds * 1e3);
  }
}
