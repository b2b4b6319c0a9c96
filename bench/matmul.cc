// Matrix products of BERT-base and GPT-2 124M at 2048 rows, forward and backward, f32 and bf16: GF/s, and the share of
// the peak that a plain loop of fused multiply-adds reaches on the same threads in the same run.
//   build/bench/matmul [seconds per product, default 0.02]
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/prepared_matmul.h"

namespace ramet::bench {
namespace {

struct Case {
  std::string name;
  int64_t m, n, k;
  bool transpose_a, transpose_b, blocked, gradient;
};

std::vector<Case> cases() {
  constexpr int64_t kRows = 2048;
  std::vector<Case> all;
  for (auto [k, n] :
       std::vector<std::pair<int64_t, int64_t>>{{768, 768}, {768, 2304}, {768, 3072}, {3072, 768}, {768, 50257}}) {
    const std::string shape = std::to_string(k) + "x" + std::to_string(n);
    all.push_back({"y  " + shape, kRows, n, k, false, true, true, false});
    all.push_back({"dx " + shape, kRows, k, n, false, false, true, false});
    all.push_back({"dw " + shape, n, k, kRows, true, false, false, true});
  }
  return all;
}

void run_one(const Case& one, DType dtype, ThreadTeam& team, double peak, double budget) {
  MatmulForm form;
  form.m = one.m, form.n = one.n, form.k = one.k;
  form.transpose_a = one.transpose_a, form.transpose_b = one.transpose_b;
  form.blocked = one.blocked, form.accumulate = one.gradient;
  form.a_index = form.b_index = {0};
  form.a = {dtype, one.transpose_a ? Shape{one.k, one.m} : Shape{one.m, one.k}};
  form.b = {dtype, one.transpose_b ? Shape{one.n, one.k} : Shape{one.k, one.n}};
  form.output = {one.gradient ? DType::kF32 : dtype, Shape{one.m, one.n}};
  BlockProduct kind = BlockProduct::kOnednn;
  std::string why;
  std::optional<BlockedMatrix> blocking;
  std::unique_ptr<PreparedMatmul> prepared;
  for (BlockProduct next : {BlockProduct::kTiles, BlockProduct::kOnednn, BlockProduct::kPlain}) {
    kind = next;
    blocking = PreparedMatmul::preferred_blocking(kind, form);
    prepared = PreparedMatmul::make(kind, form, DType::kF32, blocking, team.size(), &why);
    if (prepared) break;
  }
  const int64_t b_bytes = one.blocked ? blocking->bytes() : form.b.bytes();
  const Buffer a(form.a.bytes()), b(b_bytes), out(form.output.bytes()), scratch(prepared->scratch_bytes());
  std::memset(out.data(), 0, static_cast<size_t>(form.output.bytes()));
  const void* c = one.gradient ? out.data() : nullptr;
  const double time =
      best_time(team, budget, [&] { prepared->run(a.data(), b.data(), c, out.data(), scratch.data(), team); });
  const double rate =
      2.0 * static_cast<double>(one.m) * static_cast<double>(one.n) * static_cast<double>(one.k) / time * 1e-9;
  std::printf("%-4s %-14s %9.3f ms %7.1f GF/s %5.1f%%  scratch %.1f MiB  %s\n", std::string(name_of(dtype)).c_str(),
              one.name.c_str(), time * 1e3, rate, 100 * rate / peak,
              static_cast<double>(prepared->scratch_bytes()) / (1 << 20), prepared->implementation().c_str());
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.02;
  bench::beside_peaks([&](DType dtype, ThreadTeam& team, double peak) {
    for (const auto& one : bench::cases()) bench::run_one(one, dtype, team, peak, budget);
  });
}
