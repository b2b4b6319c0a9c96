// Fused attention, forward and backward, at the shapes of BERT-base (16 x 128), ViT-B (16 x 197) and GPT-2 124M (2 x
// 1024, causal), and the latter with a bias of every head and its gradient, with a window of 128 keys, and with 3 heads
// of keys: useful GF/s (two products a score forward, five backward, hidden scores not counted) and the share of the
// peak that a plain loop of fused multiply-adds reaches on the same threads in the same run.
//   build/bench/attention [seconds per case, default 0.05]
#include <cmath>
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/tiled_attention.h"

namespace ramet::bench {
namespace {

enum class Kind { kPlain, kBias, kWindow, kGrouped };
constexpr const char* kNames[] = {"", "bias", "window", "grouped"};

void run_one(int64_t batch, int64_t sequence, bool causal, double dropout, Kind kind, DType dtype, ThreadTeam& team,
             double peak, double budget) {
  AttentionForm form;
  form.batch = batch, form.sequence = form.keys = sequence, form.heads = form.key_heads = 12;
  form.head_size = form.value_size = 64;
  form.joint = kind != Kind::kGrouped, form.causal = causal, form.scale = 0.125, form.dropout = dropout;
  form.counter = dropout > 0 ? 1 : -1;
  form.dtype = dtype;
  const Buffer bias(kind == Kind::kBias ? 12 * sequence * sequence * 4 : 4),
      dbias(kind == Kind::kBias ? 12 * sequence * sequence * 4 : 4);
  if (kind == Kind::kBias) {
    form.bias = 3, form.bias_gradient = true, form.bias_shape = Shape{1, 12, sequence, sequence};
    form.bias_strides = {0, sequence * sequence, sequence, 1};
  }
  if (kind == Kind::kWindow) form.left = 127;
  if (kind == Kind::kGrouped) form.key_heads = 3;
  const int64_t part = batch * sequence * form.heads * form.head_size * static_cast<int64_t>(size_of(dtype));
  const Buffer qkv(3 * part), dqkv(3 * part), out(part), dout(part), lse(batch * form.heads * sequence * 4);
  const int64_t counter[2] = {0, 0};
  const int64_t step = form.joint ? form.part_offset(1) * static_cast<int64_t>(size_of(dtype)) : part;
  AttentionOperands at;
  if (kind == Kind::kBias) at.bias = bias.data(), at.dbias = reinterpret_cast<float*>(dbias.data());
  at.query = qkv.data(), at.key = qkv.data() + step, at.value = qkv.data() + 2 * step;
  at.dquery = dqkv.data(), at.dkey = dqkv.data() + step, at.dvalue = dqkv.data() + 2 * step;
  at.out = out.data(), at.lse = reinterpret_cast<float*>(lse.data()), at.dout = dout.data(), at.counter = counter;
  double scores = static_cast<double>(batch * form.heads * sequence) * static_cast<double>(sequence);
  if (causal) scores *= 0.5 * (1 + 1.0 / static_cast<double>(sequence));
  if (kind == Kind::kWindow) scores = static_cast<double>(batch * form.heads) * form.visible_pairs();
  for (bool gradient : {false, true}) {
    const TiledAttention tiled(form, gradient, team.size());
    const Buffer scratch(tiled.scratch_bytes());
    const double time = best_time(team, budget, [&] { tiled.run(at, scratch.data(), team); });
    const double rate = scores * 2 * 64 * (gradient ? 5 : 2) / time * 1e-9;
    std::printf("%-4s %2ldx%-4ld %-6s dropout %.1f %-7s %-8s %8.3f ms %7.1f GF/s %5.1f%%  scratch %.1f MiB\n",
                std::string(name_of(dtype)).c_str(), static_cast<long>(batch), static_cast<long>(sequence),
                causal ? "causal" : "full", dropout, kNames[static_cast<int>(kind)], gradient ? "backward" : "forward",
                time * 1e3, rate, 100 * rate / peak, static_cast<double>(tiled.scratch_bytes()) / (1 << 20));
  }
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.05;
  bench::beside_peaks([&](DType dtype, ThreadTeam& team, double peak) {
    for (double dropout : {0.0, 0.1}) {
      bench::run_one(16, 128, false, dropout, bench::Kind::kPlain, dtype, team, peak, budget);
      bench::run_one(16, 197, false, dropout, bench::Kind::kPlain, dtype, team, peak, budget);
      bench::run_one(2, 1024, true, dropout, bench::Kind::kPlain, dtype, team, peak, budget);
    }
    for (bench::Kind kind : {bench::Kind::kBias, bench::Kind::kWindow, bench::Kind::kGrouped})
      bench::run_one(2, 1024, true, 0, kind, dtype, team, peak, budget);
  });
}
