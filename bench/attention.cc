// Fused attention, forward and backward, at the shapes of BERT-base (16 x 128) and GPT-2 124M (2 x 1024, causal):
// useful GF/s (two products a score forward, five backward, hidden scores not counted) and the share of the peak that
// a plain loop of fused multiply-adds reaches on the same threads in the same run.
//   build/bench/attention [seconds per case, default 0.05]
#include <cmath>
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/tiled_attention.h"

namespace ramet::bench {
namespace {

void run_one(int64_t batch, int64_t sequence, bool causal, double dropout, DType dtype, ThreadTeam& team, double peak,
             double budget) {
  AttentionForm form;
  form.batch = batch, form.sequence = sequence, form.heads = 12, form.head_size = 64;
  form.joint = true, form.causal = causal, form.scale = 0.125, form.dropout = dropout;
  form.counter = dropout > 0 ? 1 : -1;
  form.dtype = dtype;
  const int64_t part = batch * sequence * form.heads * form.head_size * static_cast<int64_t>(size_of(dtype));
  const Buffer qkv(3 * part), dqkv(3 * part), out(part), dout(part), lse(batch * form.heads * sequence * 4);
  const int64_t counter[2] = {0, 0};
  const int64_t step = form.part_offset(1) * static_cast<int64_t>(size_of(dtype));
  AttentionOperands at;
  at.query = qkv.data(), at.key = qkv.data() + step, at.value = qkv.data() + 2 * step;
  at.dquery = dqkv.data(), at.dkey = dqkv.data() + step, at.dvalue = dqkv.data() + 2 * step;
  at.out = out.data(), at.lse = reinterpret_cast<float*>(lse.data()), at.dout = dout.data(), at.counter = counter;
  double scores = static_cast<double>(batch * form.heads * sequence) * static_cast<double>(sequence);
  if (causal) scores *= 0.5 * (1 + 1.0 / static_cast<double>(sequence));
  for (bool gradient : {false, true}) {
    const TiledAttention tiled(form, gradient, team.size());
    const Buffer scratch(tiled.scratch_bytes());
    const double time = best_time(team, budget, [&] { tiled.run(at, scratch.data(), team); });
    const double rate = scores * 2 * 64 * (gradient ? 5 : 2) / time * 1e-9;
    std::printf("%-4s %2ldx%-4ld %-6s dropout %.1f %-8s %8.3f ms %7.1f GF/s %5.1f%%  scratch %.1f MiB\n",
                std::string(name_of(dtype)).c_str(), static_cast<long>(batch), static_cast<long>(sequence),
                causal ? "causal" : "full", dropout, gradient ? "backward" : "forward", time * 1e3, rate,
                100 * rate / peak, static_cast<double>(tiled.scratch_bytes()) / (1 << 20));
  }
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.05;
  bench::beside_peaks([&](DType dtype, ThreadTeam& team, double peak) {
    for (double dropout : {0.0, 0.1}) {
      bench::run_one(16, 128, false, dropout, dtype, team, peak, budget);
      bench::run_one(2, 1024, true, dropout, dtype, team, peak, budget);
    }
  });
}
