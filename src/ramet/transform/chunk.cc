#include "ramet/transform/chunk.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet {
namespace {

using Tags = std::vector<bool>;  // one a dimension: does it come from the batch

/// Factors of the rule that any tagged input dimension contains.
std::vector<bool> batch_factors(const ShardingRule& rule, const std::vector<Tags>& inputs) {
  std::vector<bool> batch(rule.factors.size(), false);
  for (size_t i = 0; i < rule.inputs.size() && i < inputs.size(); ++i)
    for (size_t d = 0; d < rule.inputs[i].size() && d < inputs[i].size(); ++d)
      if (inputs[i][d])
        for (int factor : rule.inputs[i][d]) batch[static_cast<size_t>(factor)] = true;
  return batch;
}

bool may_chunk(const ShardingRule& rule, const std::vector<bool>& batch, int64_t chunks) {
  bool reduces = false;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const auto has = [&](const ShardingRule::Operand& operand) {
      return std::any_of(operand.begin(), operand.end(), [&](const ShardingRule::Dim& dim) {
        return std::find(dim.begin(), dim.end(), static_cast<int>(f)) != dim.end();
      });
    };
    if (std::any_of(rule.outputs.begin(), rule.outputs.end(), has)) continue;
    if (batch[f] || rule.factors[f].size % chunks != 0) return false;
    reduces = true;
  }
  return reduces;
}

/// Whether the node's sum gets chunks.
bool may_chunk(const NodeSignature& node, const ShardingRule& rule, const std::vector<bool>& batch, int64_t chunks) {
  if (!node.op->chunked_extent) return may_chunk(rule, batch, chunks);
  const int64_t extent = node.op->chunked_extent(node);
  return extent > 0 && extent % chunks == 0;
}

bool has_chunks(const OpDef& op) {
  return std::any_of(op.attributes.begin(), op.attributes.end(), [](const AttributeSpec& spec) { return spec.name == "chunks"; });
}

}  // namespace

Graph set_chunks(const Graph& graph, int64_t chunks) {
  if (chunks < 1) throw Error({.what = "chunks must be 1 or more", .where = "train.chunks", .found = std::to_string(chunks)});
  if (chunks == 1) return graph;
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  std::vector<Tags> tags(graph.values().size());
  for (const auto& input : graph.inputs())
    tags[static_cast<size_t>(input.value)].assign(static_cast<size_t>(graph.type(input.value).shape.rank()), input.role == InputRole::kData);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    std::vector<Tags> inputs;
    for (ValueId input : node.inputs) inputs.push_back(tags[static_cast<size_t>(input)]);
    const ShardingRule rule = node.op->sharding(graph.signature(id));
    const std::vector<bool> batch = batch_factors(rule, inputs);
    Attributes attributes = node.attributes;
    if (has_chunks(*node.op) && may_chunk(graph.signature(id), rule, batch, chunks)) attributes.set("chunks", chunks);
    std::vector<ValueId> mapped;
    for (ValueId input : node.inputs) mapped.push_back(copier[input]);
    const NodeId copy = result.add_node(*node.op, mapped, attributes, node.name);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId output = node.outputs[o];
      copier.map(output, result.node(copy).outputs[o]);
      Tags& out = tags[static_cast<size_t>(output)];
      out.assign(static_cast<size_t>(graph.type(output).shape.rank()), false);
      for (size_t d = 0; o < rule.outputs.size() && d < rule.outputs[o].size() && d < out.size(); ++d)
        for (int factor : rule.outputs[o][d])
          if (batch[static_cast<size_t>(factor)]) out[d] = true;
    }
  }
  copier.copy_outputs();
  return result;
}

}  // namespace ramet
