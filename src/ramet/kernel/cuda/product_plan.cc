#include "ramet/kernel/cuda/product_plan.h"

#include <algorithm>

#include "ramet/kernel/cuda/families.h"

namespace ramet::kernel::cuda {
namespace {

constexpr int64_t kSharedBytes = 232448;  // of a block, on an H100 and an H200
constexpr int64_t kRows = 128, kDepth = 64, kSlab = 64, kMostStages = 8;

/// Those worth trying. Widths that are no multiple of 64 are slow where the rows of b are k.
constexpr int kWidths[] = {256, 192, 128, 64};
struct Cluster {
  int rows, columns;
};
constexpr Cluster kClusters[] = {{1, 1}};
constexpr int kHeadStart = 0;

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// Columns of b that a stage holds.
int64_t held_columns(int64_t columns) { return divided_up(columns, kSlab) * kSlab; }

/// Tiles of clusters.
int64_t cluster_tiles(int64_t m, int64_t n, int64_t count, const ProductPlan& plan) {
  return divided_up(m, kRows * plan.cluster_rows) * divided_up(n, plan.columns * plan.cluster_columns) * count;
}

/// A cluster stays within a group of 16 or 18 processors, so not all processors have one of four.
int64_t clusters_at_once(const ProductPlan& plan) { return plan.cluster() == 4 ? 32 : kProcessors / plan.cluster(); }

/// Cycles of all waves of tiles, by a model that follows what an H100 did: the tensor cores need four for 64 k of a
/// column, memory nearly three for each row and column that is copied; then the results are written.
int64_t cycles(int64_t m, int64_t n, int64_t k, int64_t count, const ProductPlan& plan) {
  const int64_t waves = divided_up(cluster_tiles(m, n, count, plan), clusters_at_once(plan));
  const int64_t copied = kRows / plan.cluster_columns + held_columns(plan.columns) / plan.cluster_rows;
  const int64_t step = std::max<int64_t>(4 * plan.columns, 28 * copied / 10);
  return waves * (divided_up(k, kDepth) * step + 1500 + 8 * plan.columns);
}

}  // namespace

ProductPlan plan_product(int64_t m, int64_t n, int64_t k, int64_t count) {
  ProductPlan best;
  int64_t least = 0;
  for (const Cluster& cluster : kClusters)
    for (const int columns : kWidths) {
      const ProductPlan plan{.columns = columns,
                             .cluster_rows = cluster.rows,
                             .cluster_columns = cluster.columns,
                             .head_start = kHeadStart};
      const int64_t cost = cycles(m, n, k, count, plan);
      if (best.columns && cost >= least) continue;
      least = cost;
      best = plan;
    }
  const int64_t stage = (kRows + held_columns(best.columns)) * kDepth * 2;
  const int64_t aligned = 1024, barriers = 16;  // what the first stage may lose to its alignment; two a stage
  best.stages = static_cast<int>(std::min(kMostStages, (kSharedBytes - aligned - kMostStages * barriers) / stage));
  best.shared_bytes = best.stages * (stage + barriers) + aligned;
  best.blocks = std::min(clusters_at_once(best), cluster_tiles(m, n, count, best)) * best.cluster();
  return best;
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
