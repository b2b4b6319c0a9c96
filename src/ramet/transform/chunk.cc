#include "ramet/transform/chunk.h"

#include <algorithm>
#include <functional>

#include "ramet/base/error.h"

namespace ramet::transform {
namespace {

/// Facts about a dimension.
struct Tag {
  bool batch = false;  ///< items of samples, which come from the batch
  bool rows = false;   ///< the same, also where a view took a batch of one sample into another dimension
  int64_t blocks = 1;  ///< as a state's logical axis sees it
  friend bool operator==(const Tag&, const Tag&) = default;
};
using Tags = std::vector<Tag>;  // one a dimension

Tag joined(const Tag& a, const Tag& b) { return {a.batch || b.batch, a.rows || b.rows, std::max(a.blocks, b.blocks)}; }
/// The same without blocks, which end where a dimension has several factors.
Tag of_dim(Tag tag, const ShardingRule::Dim& dim) {
  if (dim.size() != 1) tag.blocks = 1;
  return tag;
}

/// What the dimensions of the inputs say of the rule's factors. Blocks go with dimensions that are one factor.
Tags tags_of_factors(const ShardingRule& rule, const std::vector<Tags>& inputs) {
  Tags factors(rule.factors.size());
  for (size_t i = 0; i < rule.inputs.size() && i < inputs.size(); ++i)
    for (size_t d = 0; d < rule.inputs[i].size() && d < inputs[i].size(); ++d) {
      const ShardingRule::Dim& dim = rule.inputs[i][d];
      for (int factor : dim) {
        Tag& tag = factors[static_cast<size_t>(factor)];
        tag = joined(tag, of_dim(inputs[i][d], dim));
      }
    }
  return factors;
}

bool has_attribute(const OpDef& op, const std::string& name) {
  return std::any_of(op.attributes.begin(), op.attributes.end(),
                     [&](const AttributeSpec& spec) { return spec.name == name; });
}

bool is_reduced(const ShardingRule& rule, size_t factor) {
  const auto has = [&](const ShardingRule::Operand& operand) {
    return std::any_of(operand.begin(), operand.end(), [&](const ShardingRule::Dim& dim) {
      return std::find(dim.begin(), dim.end(), static_cast<int>(factor)) != dim.end();
    });
  };
  return std::none_of(rule.outputs.begin(), rule.outputs.end(), has);
}

/// Sets `chunks`, and `chunk_blocks` where needed, if what the node reduces can be cut so.
void chunk(const NodeSignature& node, const ShardingRule& rule, const Tags& factors, int64_t chunks,
           Attributes& attributes) {
  const OpDef& op = *node.op;
  if (attributes.get_bool_or("in_order", false)) return;
  if (op.chunked_extent) {
    if (attributes.get_int_or("chunks", 1) > 1) return;  // a tree over clusters (cluster_sums.h)
    const int64_t extent = op.chunked_extent(node);
    if (extent > 0 && extent % chunks == 0) attributes.set("chunks", chunks);
    return;
  }
  bool reduces = false;
  int64_t blocks = 1;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!is_reduced(rule, f)) continue;
    if (factors[f].batch || rule.factors[f].size % (chunks * factors[f].blocks) != 0) return;
    reduces = true;
    blocks = std::max(blocks, factors[f].blocks);
  }
  if (!reduces || (blocks > 1 && !has_attribute(op, "chunk_blocks"))) return;
  attributes.set("chunks", chunks);
  if (blocks > 1) attributes.set("chunk_blocks", blocks);
}

Tags tags_of_input(const Graph& graph, const GraphInput& input, const std::vector<StateTensor>& states) {
  const Value& value = graph.value(input.value);
  Tags tags(static_cast<size_t>(value.type.shape.rank()));
  // Where the model does not say what dimensions mean, all may be samples.
  for (size_t dim = 0; dim < tags.size(); ++dim)
    tags[dim].batch = tags[dim].rows =
        input.role == InputRole::kData && (input.axes.empty() || !input.axes[dim].empty());
  for (const StateTensor& state : states)
    if (input.role == InputRole::kState && state.name == value.name)
      for (size_t dim = 0; dim < state.axes.size() && dim < tags.size(); ++dim)
        tags[dim].blocks = state.axes[dim].blocks;
  return tags;
}

/// The dimension of a view's result that takes in a dimension of one element whose step is `step` elements: one of one
/// element at the same place, else the dimension in front of the place, else the one behind it.
size_t dim_with(const Shape& shape, int64_t step) {
  int64_t inner = shape.elements();
  size_t found = 0;
  for (size_t dim = 0; dim < shape.dims().size(); ++dim) {
    const int64_t outer = inner;
    inner /= shape.dims()[dim];
    if (shape.dims()[dim] == 1 && inner == step) return dim;
    if (shape.dims()[dim] != 1 && outer > step) found = dim;
  }
  return found;
}

/// A view's rule has no factor for a dimension of one element. Where it was the batch, the dimension of the result that
/// takes it in has the rows of the batch.
void mark_rows(const NodeSignature& view, const Tags& inputs, Tags& outputs) {
  const Shape& from = view.inputs[0].shape;
  int64_t step = from.elements();
  if (step == 0 || outputs.empty()) return;
  for (size_t dim = 0; dim < inputs.size(); ++dim) {
    step /= from.dims()[dim];
    if (inputs[dim].rows && from.dims()[dim] == 1) outputs[dim_with(view.outputs[0].shape, step)].rows = true;
  }
}

/// Sets `in_order` if the node sums over a factor of the batch: one that some output lacks.
void order(const ShardingRule& rule, const Tags& factors, Attributes& attributes) {
  const auto has = [](const ShardingRule::Operand& operand, size_t factor) {
    return std::any_of(operand.begin(), operand.end(), [&](const ShardingRule::Dim& dim) {
      return std::find(dim.begin(), dim.end(), static_cast<int>(factor)) != dim.end();
    });
  };
  for (size_t f = 0; f < factors.size(); ++f)
    if (factors[f].rows && !std::all_of(rule.outputs.begin(), rule.outputs.end(),
                                        [&](const ShardingRule::Operand& output) { return has(output, f); }))
      attributes.set("in_order", true);
}

using Decide = std::function<void(const NodeSignature& node, const ShardingRule& rule, const Tags& factors,
                                  Attributes& attributes)>;

/// The graph with each node's attributes as `decide` changes them.
Graph with_attributes(const Graph& graph, const std::vector<StateTensor>& states, const Decide& decide) {
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  std::vector<Tags> tags(graph.values().size());
  for (const auto& input : graph.inputs()) tags[static_cast<size_t>(input.value)] = tags_of_input(graph, input, states);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    std::vector<Tags> inputs;
    for (ValueId input : node.inputs) inputs.push_back(tags[static_cast<size_t>(input)]);
    Attributes attributes = node.attributes;
    NodeSignature signature = graph.signature(id);
    // Where blocks may matter, the rule without chunks: the reduced dimension is then one factor.
    if (has_attribute(*node.op, "chunk_blocks"))
      for (const char* name : {"chunks", "chunk_blocks"}) signature.attributes.erase(name);
    const ShardingRule rule = node.op->sharding(signature);
    const Tags factors = tags_of_factors(rule, inputs);
    decide(signature, rule, factors, attributes);
    std::vector<ValueId> mapped;
    for (ValueId input : node.inputs) mapped.push_back(copier[input]);
    copier.copy_node(id, mapped, attributes);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId output = node.outputs[o];
      Tags& out = tags[static_cast<size_t>(output)];
      out.resize(static_cast<size_t>(graph.type(output).shape.rank()));
      for (size_t d = 0; o < rule.outputs.size() && d < rule.outputs[o].size() && d < out.size(); ++d) {
        const ShardingRule::Dim& dim = rule.outputs[o][d];
        for (int factor : dim) out[d] = joined(out[d], of_dim(factors[static_cast<size_t>(factor)], dim));
      }
    }
    if (node.op->is_view) mark_rows(signature, inputs[0], tags[static_cast<size_t>(node.outputs[0])]);
  }
  copier.copy_outputs();
  return result;
}

}  // namespace

Graph set_chunks(const Graph& graph, int64_t chunks, const std::vector<StateTensor>& states) {
  if (chunks < 1)
    throw Error({.what = "chunks must be 1 or more", .where = "train.chunks", .found = std::to_string(chunks)});
  if (chunks == 1) return graph;
  return with_attributes(
      graph, states,
      [chunks](const NodeSignature& node, const ShardingRule& rule, const Tags& factors, Attributes& attributes) {
        if (has_attribute(*node.op, "chunks")) chunk(node, rule, factors, chunks, attributes);
      });
}

Graph set_sums_in_order(const Graph& graph) {
  return with_attributes(
      graph, {}, [](const NodeSignature& node, const ShardingRule& rule, const Tags& factors, Attributes& attributes) {
        if (has_attribute(*node.op, "in_order")) order(rule, factors, attributes);
      });
}

}  // namespace ramet::transform
