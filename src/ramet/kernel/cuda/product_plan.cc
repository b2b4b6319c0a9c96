#include "ramet/kernel/cuda/product_plan.h"

#include <algorithm>

namespace ramet::kernel::cuda {
namespace {

constexpr int64_t kProcessors = 132, kSharedBytes = 232448;  // of an H100 and an H200, and of a block
constexpr int kRows = 128, kDepth = 64, kSlab = 64;
constexpr int kMostStages = 8;

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// Columns of b that a stage holds: where the rows of b are k, whole slabs of 64.
int64_t held_columns(int64_t columns, bool transpose_b) {
  return transpose_b ? columns : divided_up(columns, kSlab) * kSlab;
}

/// Cycles of all waves of tiles, by a rough model: the tensor cores need four for 64 k of a column, memory three for
/// each row and column that is copied; then the results are written.
int64_t cycles(int64_t m, int64_t n, int64_t k, int64_t count, int64_t columns, bool transpose_b) {
  const int64_t waves = divided_up(divided_up(m, kRows) * divided_up(n, columns) * count, kProcessors);
  const int64_t step = std::max(4 * columns, 3 * (kRows + held_columns(columns, transpose_b)));
  return waves * (divided_up(k, kDepth) * step + 1500 + 8 * columns);
}

}  // namespace

ProductPlan plan_product(int64_t m, int64_t n, int64_t k, int64_t count, bool transpose_b) {
  ProductPlan plan;
  // Few widths, so that few kernels are compiled.
  int64_t best = 0;
  for (const int columns : {64, 96, 128, 160, 192, 200, 224, 240, 256}) {
    const int64_t cost = cycles(m, n, k, count, columns, transpose_b);
    if (plan.columns && cost >= best) continue;
    best = cost;
    plan.columns = columns;
  }
  const int64_t stage = (kRows + held_columns(plan.columns, transpose_b)) * kDepth * 2;
  const int64_t aligned = 1024, barriers = 16;  // what the first stage may lose to its alignment; two a stage
  plan.stages =
      static_cast<int>(std::min<int64_t>(kMostStages, (kSharedBytes - aligned - kMostStages * barriers) / stage));
  plan.shared_bytes = plan.stages * (stage + barriers) + aligned;
  plan.blocks = std::min(kProcessors, divided_up(m, kRows) * divided_up(n, plan.columns) * count);
  return plan;
}

std::string multiply_tile_text(int columns, bool transpose_a, bool transpose_b, DType type) {
  const int count = columns / 2;  // sums of a thread
  std::string registers, sums;
  for (int i = 0; i < count; ++i) {
    registers += (i ? ",%" : "%") + std::to_string(i);
    sums += (i ? ", \"+f\"(d[" : "\"+f\"(d[") + std::to_string(i) + "])";
  }
  const std::string name = type == DType::kF16 ? "f16" : "bf16";
  // The last two numbers: whether the operands' rows are k.
  return "__device__ __forceinline__ void multiply_tile(float (&d)[" + std::to_string(count) +
         "], unsigned long long a, unsigned long long b) {\n  asm volatile(\"wgmma.mma_async.sync.aligned.m64n" +
         std::to_string(columns) + "k16.f32." + name + "." + name + " {" + registers + "}, %" + std::to_string(count) +
         ", %" + std::to_string(count + 1) + ", 1, 1, 1, " + (transpose_a ? "1, " : "0, ") + (transpose_b ? "0" : "1") +
         ";\" : " + sums + " : \"l\"(a), \"l\"(b));\n}\n";
}

}  // namespace ramet::kernel::cuda
