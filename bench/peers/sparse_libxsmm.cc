// libxsmm's products of a dense matrix and a block-sparse one (BCSC, from libxsmm 2.0 on) beside `build/bench/sparse`:
// the four matrices of BERT-base at 2048 tokens, forward, f32. Prints milliseconds from rows of tokens to rows of
// tokens, with libxsmm's own transpositions, as Ramet's first lines are, and those from panels to panels without any
// packing; each for the number of tokens in a panel that is fastest. libxsmm has no such product of bf16 on a
// processor without AMX's tiles.
//   c++ -O2 -std=c++20 -fopenmp bench/peers/sparse_libxsmm.cc -lxsmm -ldl -o build/sparse_libxsmm
//   OMP_NUM_THREADS=2 build/sparse_libxsmm [density, default 0.1]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <libxsmm.h>  // its macros disturb the headers above

namespace {

constexpr int kTokens = 2048;
constexpr int kCalls = 12;     // of which the fastest counts
constexpr int kTogether = 64;  // features whose results are transposed together
constexpr float kValue = 0.5F, kInput = 0.25F;

/// A block-sparse matrix [rows, columns], its blocks sorted by rows of blocks: libxsmm's columns.
struct Matrix {
  int rows, columns, side;
  std::vector<unsigned> first{0}, places{};
  std::vector<float> values{};

  Matrix(int rows, int columns, int side, double density) : rows(rows), columns(columns), side(side) {
    std::mt19937 random(1);
    for (int line = 0; line < rows / side; ++line) {
      for (int column = 0; column < columns / side; ++column)
        if (std::uniform_real_distribution<>()(random) < density) places.push_back(static_cast<unsigned>(column));
      first.push_back(static_cast<unsigned>(places.size()));
    }
    values.assign(places.size() * static_cast<size_t>(side * side), kValue);
  }
};

template <typename Kernel>
Kernel made(Kernel kernel, const char* what) {
  if (kernel) return kernel;
  std::fprintf(stderr, "libxsmm has no kernel for %s here\n", what);
  std::exit(1);
}

/// The kernel that transposes m x n numbers, m of them side by side.
libxsmm_meltwfunction_unary transposition(int m, int n, int from, int to) {
  const auto type = LIBXSMM_DATATYPE_F32;
  const auto shape = libxsmm_create_meltw_unary_shape(m, n, from, to, type, type, type);
  return made(libxsmm_dispatch_meltw_unary(LIBXSMM_MELTW_TYPE_UNARY_TRANSFORM_NORM_TO_NORMT, shape, 0),
              "transposition");
}

void transpose(libxsmm_meltwfunction_unary kernel, const float* from, float* to) {
  libxsmm_meltw_unary_param param{};
  param.in.primary = const_cast<float*>(from);
  param.out.primary = to;
  kernel(&param);
}

/// Best seconds of the product of one matrix. `packed`: from panels to panels, else from rows to rows.
double time_of(const Matrix& matrix, int panel, bool packed) {
  const auto type = LIBXSMM_DATATYPE_F32;
  const int together = packed ? matrix.rows : kTogether;
  const auto shape =
      libxsmm_create_gemm_shape(1, 0, matrix.columns, matrix.columns, 0, together, type, type, type, type);
  libxsmm_spgemm_config config;
  config.packed_width = panel, config.bk = config.bn = matrix.side;
  const auto product =
      made(libxsmm_create_packed_spgemm_bcsc(shape, LIBXSMM_GEMM_FLAGS('N', 'N') | LIBXSMM_GEMM_FLAG_BETA_0, 0, config),
           "this product");
  const auto pack = transposition(matrix.columns, panel, matrix.columns, panel);
  const auto unpack = transposition(panel, together, panel, matrix.rows);
  const auto row_in = static_cast<size_t>(matrix.columns), row_out = static_cast<size_t>(matrix.rows);
  std::vector<float> x(kTokens * row_in, kInput), y(kTokens * row_out);

  const auto run_panel = [&](int p, std::vector<float>& room) {
    const auto first = static_cast<size_t>(p) * static_cast<size_t>(panel);
    const float* in = x.data() + first * row_in;
    if (!packed) {
      transpose(pack, in, room.data());
      in = room.data();
    }
    float* const results = room.data() + row_in * static_cast<size_t>(panel);
    for (int feature = 0; feature < matrix.rows; feature += together) {
      unsigned long long lines = static_cast<unsigned long long>(together / matrix.side);
      libxsmm_gemm_param param{};
      param.a.primary = const_cast<float*>(in);
      param.b.primary = const_cast<float*>(matrix.values.data());
      param.b.secondary = const_cast<unsigned*>(matrix.first.data()) + feature / matrix.side;
      param.b.tertiary = const_cast<unsigned*>(matrix.places.data());
      param.b.quaternary = &lines;
      param.c.primary = packed ? y.data() + first * row_out : results;
      product(&param);
      if (!packed) transpose(unpack, results, y.data() + first * row_out + feature);
    }
  };
  const auto run = [&] {
#pragma omp parallel
    {
      std::vector<float> room((row_in + static_cast<size_t>(together)) * static_cast<size_t>(panel));
#pragma omp for
      for (int p = 0; p < kTokens / panel; ++p) run_panel(p, room);
    }
  };

  run();
  double sum = 0;
  for (const float number : y) sum += number;
  const double expected = static_cast<double>(matrix.values.size()) * kTokens * kValue * kInput;
  if (!(std::abs(sum / expected - 1) < 1e-3)) {
    std::fprintf(stderr, "the sum of all results is %g, expected %g\n", sum, expected);
    std::exit(1);
  }
  double best = HUGE_VAL;
  for (int call = 0; call < kCalls; ++call) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const double density = argc > 1 ? std::atof(argv[1]) : 0.1;
  const std::pair<int, int> sizes[] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};
  libxsmm_init();
  for (const int side : {1, 4, 8, 16}) {
    double rows = 0, panels = 0;
    for (const auto& [down, across] : sizes) {
      const Matrix matrix(down, across, side, density);
      double best[2] = {HUGE_VAL, HUGE_VAL};
      for (const int panel : {16, 32, 64, 128})
        for (const bool packed : {false, true}) best[packed] = std::min(best[packed], time_of(matrix, panel, packed));
      rows += best[0], panels += best[1];
    }
    std::printf("f32 block %-2d forward %8.2f ms, without packing %8.2f ms\n", side, 1e3 * rows, 1e3 * panels);
  }
}
