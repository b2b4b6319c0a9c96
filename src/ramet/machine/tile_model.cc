#include "ramet/machine/tile_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ramet/machine/tile_sparse.h"

namespace ramet::machine {
namespace {

constexpr int64_t kGrain = 8;  // bytes of a vector

double real(int64_t value) { return static_cast<double>(value); }

/// Elements that one vector instruction takes: fewer as soon as one floating operand is f32.
double vector_elements(const TileFigures& figures, const NodeSignature& node) {
  double widest = 2;
  for (const auto* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types)
      if (type.shape.elements() > 1) widest = std::max(widest, real(static_cast<int64_t>(size_of(type.dtype))));
  return std::max(1.0, figures.data_path_bytes / widest);
}

/// A loop over elements that are spread over all tiles: arithmetic beside loads and stores.
double loop_cycles(const TileFigures& figures, const NodeSignature& node, double operations, double bytes) {
  if (operations <= 0 && bytes <= 0) return 0;
  const double arithmetic = std::ceil(operations / real(figures.tiles)) / vector_elements(figures, node);
  const double moved = std::ceil(bytes / real(figures.tiles)) / figures.data_path_bytes;
  return figures.vertex_cycles + std::max(arithmetic, moved) / figures.element_efficiency;
}

/// What the node's dimensions say of how its tiles depend on each other.
struct Ties {
  bool reduces = false;  ///< elements of the result depend on others than their own
  bool indexed = false;  ///< by integers that are operands
};

Ties ties_of(const NodeSignature& node) {
  Ties ties;
  if (!node.op->sharding) return ties;
  const ShardingRule rule = node.op->sharding(node);
  for (const auto& factor : rule.factors)
    ties.reduces |= factor.size > 1 && (factor.whole || factor.reduce != ShardingRule::Reduce::kNone);
  const bool integers =
      std::any_of(node.inputs.begin(), node.inputs.end(), [](const TensorType& type) { return is_index(type.dtype); });
  const bool floats = std::any_of(node.inputs.begin(), node.inputs.end(),
                                  [](const TensorType& type) { return is_floating(type.dtype); });
  ties.indexed = ties.reduces && integers && floats;
  return ties;
}

double bytes_of(const std::vector<TensorType>& types, bool (*wanted)(DType)) {
  double bytes = 0;
  for (const TensorType& type : types)
    if (wanted(type.dtype)) bytes += real(type.bytes());
  return bytes;
}

TileCycles product_cycles(const TileFigures& figures, const NodeSignature& node, const Cost& cost) {
  TileCycles cycles;
  double multiplied = 0, operands = 0;
  for (const MatrixProduct& product : node.op->products(node)) {
    cycles += choose_product(figures, product).cycles;
    const double b = real(product.batch), m = real(product.m), k = real(product.k), n = real(product.n);
    multiplied += 2 * b * m * k * n;
    operands = std::max(operands, b * (m + n) * k * real(static_cast<int64_t>(size_of(product.operands))));
  }
  // A bias, a sum that the product is added to, what softmax does between two products.
  const double others = std::max(0.0, real(cost.bytes_read) - operands), rest = std::max(0.0, cost.flops - multiplied);
  if (others > 0 || rest > 0) {
    cycles.compute += loop_cycles(figures, node, rest, others + 2 * real(cost.bytes_written));
    cycles.sync += figures.sync_cycles;
  }
  return cycles;
}

}  // namespace

TileCycles tile_cycles(const TileFigures& figures, const NodeSignature& node, const Cost& cost) {
  if (node.op->products) return product_cycles(figures, node, cost);
  if (const auto work = ops::sparse_work(node)) return choose_sparse_product(figures, *work).cycles;
  TileCycles cycles{.tiles = figures.tiles};
  const double bytes = real(cost.bytes_read) + real(cost.bytes_written);
  if (bytes <= 0 && cost.flops <= 0) return cycles;
  cycles.compute = loop_cycles(figures, node, cost.flops, bytes);
  cycles.sync = figures.sync_cycles;
  const Ties ties = ties_of(node);
  const bool moves = cost.flops <= 0;
  if (moves || ties.indexed) {
    // Elements go to where the result lies; of indices every tile learns all.
    const double moved = ties.indexed ? std::min(bytes_of(node.inputs, is_floating), real(cost.bytes_written))
                                      : real(cost.bytes_written);
    cycles.exchange += moved / real(figures.tiles) / figures.exchange_bytes;
    cycles.exchange += ties.indexed ? bytes_of(node.inputs, is_integer) / figures.exchange_bytes : 0;
    cycles.sync += figures.phase_cycles;
    cycles.messages += 2;
  }
  if (ties.reduces && !moves) {
    // Each tile reduces its own elements, then a share of all tiles' results, which other tiles need again.
    cycles.compute += figures.vertex_cycles;
    cycles.sync += 2 * figures.phase_cycles;
    cycles.messages += 2 * std::sqrt(real(figures.tiles));
  }
  return cycles;
}

std::string tile_kernel_name(const TileFigures& figures) {
  return fmt::format("tiles {:.3g}%", 100 * figures.temporary_share);
}

TileFigures figures_of_kernel(const TileFigures& figures, const std::string& kernel) {
  constexpr std::string_view kPrefix = "tiles ";
  TileFigures result = figures;
  if (!kernel.starts_with(kPrefix)) return result;
  const double percent = std::atof(kernel.c_str() + kPrefix.size());
  if (percent > 0 && percent <= 100) result.temporary_share = percent / 100;
  return result;
}

TileCycles tile_pass_cycles(const TileFigures& figures, double bytes, double passes) {
  TileCycles cycles{.sync = figures.sync_cycles, .tiles = figures.tiles};
  cycles.compute = figures.vertex_cycles + std::ceil(bytes / real(figures.tiles)) * passes / figures.data_path_bytes /
                                               figures.element_efficiency;
  return cycles;
}

int64_t fullest_tile_bytes(const TileFigures& figures, int64_t bytes, double share) {
  const int64_t tiles = std::clamp<int64_t>(std::llround(share * real(figures.tiles)), 1, figures.tiles);
  const int64_t grains = (bytes + kGrain - 1) / kGrain;
  return (grains + tiles - 1) / tiles * kGrain;
}

int64_t tile_program_bytes(const TileFigures& figures, int64_t kinds, int64_t instructions, double messages) {
  return figures.runtime_bytes + kinds * figures.vertex_bytes + instructions * figures.call_bytes +
         static_cast<int64_t>(messages) * figures.message_bytes;
}

}  // namespace ramet::machine
