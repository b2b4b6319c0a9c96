#include "ramet/sim/model_library.h"

#include <algorithm>
#include <set>

#include "ramet/machine/machine.h"
#include "ramet/machine/tile_model.h"
#include "ramet/program/executable.h"

namespace ramet::sim {
std::vector<std::pair<int, int>> in_place(const NodeSignature& node) {
  std::vector<std::pair<int, int>> result;
  if (!node.op->sharding) return result;
  const ShardingRule rule = node.op->sharding(node);
  if (node.op->products && node.op->products(node).size() > 1) return result;
  const size_t first = node.op->products ? 2 : 0;
  const auto is_tied = [&](const ShardingRule::Operand& operand) {
    return std::any_of(operand.begin(), operand.end(), [&](const ShardingRule::Dim& dim) {
      return std::any_of(dim.begin(), dim.end(), [&](int index) {
        const ShardingRule::Factor& factor = rule.factors[static_cast<size_t>(index)];
        return factor.size > 1 && (factor.whole || factor.reduce != ShardingRule::Reduce::kNone);
      });
    });
  };
  for (size_t i = first; i < node.inputs.size(); ++i)
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (node.inputs[i] == node.outputs[o] && rule.inputs[i] == rule.outputs[o] && !is_tied(rule.inputs[i]))
        result.emplace_back(static_cast<int>(i), static_cast<int>(o));
  return result;
}

KernelChoice CoreLibrary::choose(const NodeSignature& node, int) const {
  KernelChoice choice;
  choice.name = "cores";
  choice.may_alias = in_place(node);
  return choice;
}

const TileLibrary::Known& TileLibrary::known(const NodeSignature& node) const {
  const std::lock_guard lock(mutex_);
  const auto [place, fresh] = known_.try_emplace(timing_key(node, ""));
  if (!fresh) return place->second;
  const TileCycles cycles = tile_cycles(figures_, node, node.op->cost ? node.op->cost(node) : Cost{});
  Known& result = place->second;
  result.choice.name = tile_kernel_name(figures_);
  result.choice.scratch_bytes = cycles.temporary_bytes * figures_.tiles;
  result.choice.may_alias = in_place(node);
  // Terms go to the tiles where their sum lies, which may be any tile.
  const bool adds = node.op->products && !result.choice.may_alias.empty();
  result.choice.spread = adds ? 1 : static_cast<double>(cycles.tiles) / static_cast<double>(figures_.tiles);
  result.messages = cycles.messages;
  return result;
}

std::shared_ptr<const KernelLibrary> TileLibrary::tighter() const {
  constexpr double kFactor = 0.6, kLeast = 0.04;
  TileFigures less = figures_;
  less.temporary_share *= kFactor;
  return less.temporary_share < kLeast ? nullptr : std::make_shared<TileLibrary>(less);
}

KernelChoice TileLibrary::choose(const NodeSignature& node, int) const { return known(node).choice; }

int64_t TileLibrary::stored_bytes(int64_t bytes, double spread) const {
  return figures_.tiles * fullest_tile_bytes(figures_, bytes, spread);
}

int64_t TileLibrary::program_bytes(std::span<const Call> calls, int64_t instructions) const {
  // Vertices are made for an op and types of elements, exchanges for shapes; what differs in names alone shares both.
  std::set<std::string> vertices;
  std::map<std::string, double> exchanges;
  for (const Call& call : calls) {
    if (call.node.op->exchange != Exchange::kNone) continue;
    std::string vertex = call.node.op->name;
    for (const auto* types : {&call.node.inputs, &call.node.outputs})
      for (const TensorType& type : *types) vertex += " " + std::string(name_of(type.dtype));
    vertices.insert(vertex);
    exchanges[call_key(call.node)] = known(call.node).messages;
  }
  double messages = 0;
  for (const auto& [shapes, count] : exchanges) messages += count;
  return figures_.tiles * tile_program_bytes(figures_, static_cast<int64_t>(vertices.size()), instructions, messages);
}

}  // namespace ramet::sim
