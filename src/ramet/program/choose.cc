#include "ramet/program/choose.h"

#include <unordered_map>

#include "ramet/ops/collective.h"

namespace ramet::program {
namespace {

/// All that a kernel depends on, as text.
std::string key_of(const Graph& graph, const Node& node) {
  std::string key = node.op->name;
  const auto add_type = [&](ValueId id) {
    const TensorType& type = graph.type(id);
    key += static_cast<char>('A' + static_cast<int>(type.dtype));
    for (int64_t dim : type.shape.dims()) key.append(reinterpret_cast<const char*>(&dim), sizeof dim);
    key += ';';
  };
  for (ValueId input : node.inputs) add_type(input);
  key += '>';
  for (ValueId output : node.outputs) add_type(output);
  for (const auto& [name, attribute] : node.attributes) key += name + '=' + short_text_of(attribute) + ';';
  return key;
}

KernelChoice exchange_choice(const NodeSignature& node) {
  KernelChoice choice;
  choice.name = "exchange";
  choice.scratch_bytes = exchange_scratch(node);
  if (node.op->exchange == Exchange::kAllReduce) choice.may_alias = {{0, 0}};
  return choice;
}

}  // namespace

int64_t exchange_scratch(const NodeSignature& node) {
  const CollectiveForm form = collective_form(node);
  switch (form.exchange) {
    case Exchange::kAllGather: return form.outer > 1 ? form.output.bytes() : 0;
    case Exchange::kReduceScatter: return form.outer > 1 ? form.input.bytes() : 0;
    case Exchange::kAllToAll: return 2 * form.input.bytes();
    default: return 0;
  }
}

KernelChoices choose_kernels(std::span<const Piece> pieces, const KernelLibrary& library, int threads) {
  KernelChoices result;
  std::unordered_map<std::string, int32_t> known;
  for (const Piece& piece : pieces) {
    const Graph& graph = piece.graph;
    auto& calls = result.call_of_node.emplace_back(graph.nodes().size(), -1);
    for (size_t id = 0; id < calls.size(); ++id) {
      const Node& node = graph.node(static_cast<NodeId>(id));
      if (node.op->is_view) continue;
      const auto [place, fresh] = known.emplace(key_of(graph, node), static_cast<int32_t>(result.calls.size()));
      calls[id] = place->second;
      if (!fresh) continue;
      NodeSignature signature = graph.signature(static_cast<NodeId>(id));
      const bool exchanges = node.op->exchange != Exchange::kNone;
      KernelChoice choice = exchanges ? exchange_choice(signature) : library.choose(signature, threads);
      const Cost cost = node.op->cost ? node.op->cost(signature) : Cost{};
      result.calls.push_back({std::move(signature), choice.name, choice.scratch_bytes, cost});
      result.choices.push_back(std::move(choice));
    }
  }
  return result;
}

}  // namespace ramet::program
