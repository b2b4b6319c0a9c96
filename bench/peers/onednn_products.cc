// f32 products of BERT-base and ViT-B at 2048 rows by any oneDNN from version 3, to compare with build/bench/matmul:
// forward, gradient of the input, gradient of the weight, two threads, GF/s, the best of several runs.
//   pip download --no-deps onednn-cpu-gomp && unzip -d onednn onednn_cpu_gomp-*.whl
//   g++ -O2 -std=c++20 -fopenmp -I onednn/INCLUDE bench/peers/onednn_products.cc -L onednn/LIB -ldnnl -o products
//   OMP_NUM_THREADS=2 OMP_PROC_BIND=true LD_LIBRARY_PATH=onednn/LIB ./products
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

namespace {

using dnnl::memory;

/// GF/s of [m, k] x [k, n] with operands stored in the given orders ("ab": row-major, "ba": transposed).
double rate(memory::dim m, memory::dim n, memory::dim k, memory::format_tag a_order, memory::format_tag b_order) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = memory::data_type::f32;
  const memory::desc a({m, k}, type, a_order), b({k, n}, type, b_order), c({m, n}, type, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(engine, a, b, c);
  const dnnl::matmul product(description);
  std::vector<float> numbers(static_cast<size_t>(m * k + k * n + m * n), 0.5f);
  memory left(a, engine, numbers.data()), right(b, engine, numbers.data() + m * k),
      result(c, engine, numbers.data() + m * k + k * n);
  double best = 1e30;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    product.execute(stream, {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}});
    stream.wait();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / best * 1e-9;
}

}  // namespace

int main() {
  const dnnl_version_t* version = dnnl_version();
  std::printf("oneDNN %d.%d.%d\n", version->major, version->minor, version->patch);
  const auto rows = memory::format_tag::ab, transposed = memory::format_tag::ba;
  for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{{768, 768}, {768, 2304}, {768, 3072}, {3072, 768}})
    std::printf("%5ldx%-5ld y %6.1f  dx %6.1f  dw %6.1f GF/s\n", static_cast<long>(k), static_cast<long>(n),
                rate(2048, n, k, rows, transposed), rate(2048, k, n, rows, rows), rate(n, k, 2048, transposed, rows));
}
