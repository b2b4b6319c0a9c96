// Products with block-sparse weights beside dense ones: the four matrices of BERT-base at 2048 tokens, forward,
// gradient of the input and gradient of the weight, packing included, and the same with operands and results that lie
// in panels already (bf16: where the processor has the instruction for pairs). Prints, for each block size, the time of
// the three together, the rate on stored elements, how many times faster than Ramet's dense products they are, and at
// which density dense products are as fast.
//   build/bench/sparse [density, default 0.1] [seconds per product, default 0.05] [type, default both]
// With one type, the densities at which dense products are as fast are left out: those take most of the time.
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/cpu/prepared_matmul.h"
#include "ramet/kernel/kernel.h"
#include "ramet/ops/sparse.h"

namespace ramet::bench {
namespace {

constexpr int64_t kTokens = 2048;
struct Matrix {
  int64_t rows, columns;
};
const std::vector<Matrix> kMatrices{{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};

/// Seconds of the dense product [m, k] x [k, n].
double dense_time(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, DType dtype, ThreadTeam& team,
                  double budget) {
  const bool gradient = transpose_a;
  MatmulForm form;
  form.m = m, form.n = n, form.k = k;
  form.transpose_a = transpose_a, form.transpose_b = transpose_b;
  form.blocked = !gradient;
  form.a_index = form.b_index = {0};
  form.a = {dtype, transpose_a ? Shape{k, m} : Shape{m, k}};
  form.b = {dtype, transpose_b ? Shape{n, k} : Shape{k, n}};
  form.output = {gradient ? DType::kF32 : dtype, Shape{m, n}};
  std::string why;
  std::optional<BlockedMatrix> blocking;
  std::unique_ptr<PreparedMatmul> prepared;
  for (BlockProduct kind : {BlockProduct::kTiles, BlockProduct::kOnednn, BlockProduct::kPlain}) {
    blocking = PreparedMatmul::preferred_blocking(kind, form);
    prepared = PreparedMatmul::make(kind, form, DType::kF32, blocking, team.size(), &why);
    if (prepared) break;
  }
  const Buffer a(form.a.bytes()), b(form.blocked ? blocking->bytes() : form.b.bytes()), out(form.output.bytes()),
      scratch(prepared->scratch_bytes());
  return best_time(team, budget, [&] { prepared->run(a.data(), b.data(), nullptr, out.data(), scratch.data(), team); });
}

/// Seconds of one node on the kernels of this processor.
double node_time(const std::string& op, const std::vector<TensorType>& inputs, const void* index, Attributes attributes,
                 ThreadTeam& team, double budget) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(op);
  node.name = "bench";
  node.attributes = std::move(attributes);
  node.inputs = inputs;
  node.outputs = node.op->infer(node);
  const auto kernel = cpu_backend().make(node, team.size());
  const Buffer a(inputs[0].bytes()), b(inputs[1].bytes()), out(node.outputs[0].bytes()),
      scratch(cpu_backend().choose(node, team.size()).scratch_bytes);
  const void* in[] = {a.data(), b.data(), index};
  void* to[] = {out.data()};
  const KernelContext context{in, to, scratch.data(), team};
  return best_time(team, budget, [&] { kernel->run(context); });
}

/// `slots` of `blocks`, ascending.
std::vector<int32_t> pattern(int64_t blocks, int64_t slots) {
  std::vector<int32_t> index;
  const RandomStream random(1, RandomPurpose::kTest, 0, 0);
  for (int64_t block = 0; block < blocks; ++block)
    if (random.below(static_cast<uint64_t>(block), static_cast<uint32_t>(blocks - block)) <
        static_cast<uint32_t>(slots - static_cast<int64_t>(index.size())))
      index.push_back(static_cast<int32_t>(block));
  return index;
}

/// Seconds of the products of all matrices, and their stored elements.
struct SparseTimes {
  double y = 0, dx = 0, dw = 0, stored = 0;
  double together() const { return y + dx + dw; }
};

/// `panel`: tokens of the panels in which operands and results lie; 0: rows.
SparseTimes sparse_times(DType dtype, int64_t side, double density, ThreadTeam& team, double budget,
                         int64_t panel = 0) {
  SparseTimes times;
  for (const Matrix& m : kMatrices) {
    const int64_t blocks = m.rows / side * (m.columns / side);
    const auto slots = static_cast<int64_t>(density * static_cast<double>(blocks) + 0.5);
    const std::vector<int32_t> index = pattern(blocks, slots);
    const TensorType at{DType::kI32, {1, 1, slots}}, values{dtype, {1, 1, slots, side, side}};
    const auto activation = [&](int64_t features) {
      return TensorType{dtype, panel ? Shape{kTokens / panel, features, panel} : Shape{kTokens, features}};
    };
    const TensorType in = activation(m.columns), out = activation(m.rows);
    const std::vector<int64_t> cell{m.rows, m.columns}, block{side, side};
    const bool panels = panel > 0;
    Attributes product{{"cell", cell}, {"x_panels", panels}, {"y_panel", panel}};
    times.y += node_time("sparse_matmul", {in, values, at}, index.data(), product, team, budget);
    product.set("transpose", true);
    times.dx += node_time("sparse_matmul", {out, values, at}, index.data(), product, team, budget);
    times.dw += node_time("sparse_outer", {out, in, at}, index.data(),
                          {{"cell", cell}, {"block", block}, {"a_panels", panels}, {"b_panels", panels}}, team, budget);
    times.stored += static_cast<double>(slots * side * side);
  }
  return times;
}

void run_type(DType dtype, ThreadTeam& team, double density, double budget, bool break_even) {
  double dense[3] = {};
  for (const Matrix& m : kMatrices) {
    dense[0] += dense_time(kTokens, m.rows, m.columns, false, true, dtype, team, budget);
    dense[1] += dense_time(kTokens, m.columns, m.rows, false, false, dtype, team, budget);
    dense[2] += dense_time(m.rows, m.columns, kTokens, true, false, dtype, team, budget);
  }
  const double all = dense[0] + dense[1] + dense[2];
  std::printf("%-4s dense          y %8.2f  dx %8.2f  dw %8.2f  together %8.2f ms\n",
              std::string(name_of(dtype)).c_str(), dense[0] * 1e3, dense[1] * 1e3, dense[2] * 1e3, all * 1e3);
  for (const int64_t side : {1, 4, 8, 16}) {
    const SparseTimes sparse = sparse_times(dtype, side, density, team, budget);
    // The time grows with the density, so halving finds where dense products are as fast.
    double below = 0, above = 1;
    for (int step = 0; break_even && step < 5; ++step) {
      const double middle = (below + above) / 2;
      (sparse_times(dtype, side, middle, team, budget / 4).together() < all ? below : above) = middle;
    }
    std::printf(
        "%-4s block %-2ld       y %8.2f  dx %8.2f  dw %8.2f  together %8.2f ms  %6.1f GF/s  %5.2f times dense's rate",
        std::string(name_of(dtype)).c_str(), static_cast<long>(side), sparse.y * 1e3, sparse.dx * 1e3, sparse.dw * 1e3,
        sparse.together() * 1e3, 6.0 * static_cast<double>(kTokens) * sparse.stored / sparse.together() * 1e-9,
        all / sparse.together());
    if (break_even) std::printf("  break-even density %.2f", (below + above) / 2);
    std::printf("\n");
    const SparseTimes inside = sparse_times(dtype, side, density, team, budget, kOuterTokens);
    std::printf("%-4s   in panels      y %8.2f  dx %8.2f  dw %8.2f  together %8.2f ms\n",
                std::string(name_of(dtype)).c_str(), inside.y * 1e3, inside.dx * 1e3, inside.dw * 1e3,
                inside.together() * 1e3);
  }
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const double density = argc > 1 ? std::atof(argv[1]) : 0.1;
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.05;
  if (!(density > 0 && density <= 1)) {
    std::fprintf(stderr, "the density must be above 0 and at most 1\n");
    return 2;
  }
  const std::string type = argc > 3 ? argv[3] : "";
  beside_peaks([&](ramet::DType dtype, ramet::ThreadTeam& team, double) {
    if (type.empty() || type == name_of(dtype)) ramet::bench::run_type(dtype, team, density, budget, type.empty());
  });
}
