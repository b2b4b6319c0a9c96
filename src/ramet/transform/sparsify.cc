#include "ramet/transform/sparsify.h"

#include "ramet/ops/sparse_products.h"

namespace ramet::transform {
namespace {

/// Whether the node transposes a matrix. Its result is then the same sparse matrix, read the other way round.
bool turns_matrix(const Node& node) {
  return node.op->name == "transpose" && node.attributes.get_ints("permutation") == std::vector<int64_t>{1, 0};
}

using Uses = std::vector<std::vector<NodeId>>;

/// Why the matrix cannot be sparse: the first reader, or output, that is no product by it.
std::string why_not_sparse(const Graph& graph, const Uses& uses, ValueId matrix) {
  for (const NodeId id : uses[static_cast<size_t>(matrix)]) {
    const Node& node = graph.node(id);
    if (turns_matrix(node)) {
      if (std::string why = why_not_sparse(graph, uses, node.outputs[0]); !why.empty()) return why;
      continue;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != matrix) continue;
      if (const std::string why = ops::why_not_sparse(graph.signature(id), i); !why.empty())
        return why + ": " + graph.text_of(id);
    }
  }
  for (const GraphOutput& output : graph.outputs())
    if (output.value == matrix) return "the output '" + output.name + "' gives it";
  return "";
}

}  // namespace

std::string values_name(const std::string& weight) { return weight + ".values"; }
std::string index_name(const std::string& weight) { return weight + ".index"; }

std::string why_not_sparse(const Graph& graph, const std::string& weight) {
  const ValueId value = graph.find_input(weight);
  if (value == kNoValue) return "";
  for (const GraphOutput& output : graph.outputs())
    if (output.name == weight) return "the output '" + output.name + "' replaces it";
  return why_not_sparse(graph, graph.uses(), value);
}

Graph sparsify(const Graph& graph, const std::map<std::string, SparseGrid>& grids, bool fixed) {
  struct Stored {
    Tensor values, index;
    SparseCell cell;
    bool turned = false;  ///< whether the value is the transposed matrix
  };
  Graph result(graph.name());
  GraphBuilder build(result);
  GraphCopier copier(graph, result);
  std::map<ValueId, Stored> stored;
  for (const GraphInput& input : graph.inputs()) {
    const std::string& name = graph.value(input.value).name;
    const auto found = input.role == InputRole::kState ? grids.find(name) : grids.end();
    if (found == grids.end()) {
      copier.copy_input(input);
      continue;
    }
    const SparseGrid& grid = found->second;
    const Shape index{grid.cells_down, grid.cells_across, grid.slots};
    const Shape values{grid.cells_down, grid.cells_across, grid.slots, grid.block_rows, grid.block_columns};
    stored[input.value] = {build.state(values_name(name), graph.type(input.value).dtype, values),
                           build.state(index_name(name), DType::kI32, index),
                           {grid.cell_rows, grid.cell_columns, fixed}};
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    const auto turned = turns_matrix(node) ? stored.find(node.inputs[0]) : stored.end();
    if (turned != stored.end()) {
      Stored other = turned->second;
      other.turned = !other.turned;
      stored[node.outputs[0]] = other;
      continue;
    }
    const auto found = node.inputs.size() < 2 ? stored.end() : stored.find(node.inputs[1]);
    if (found == stored.end()) {
      copier.copy_node(id);
      continue;
    }
    const Stored& weight = found->second;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(i == 1 ? weight.values : build.tensor(copier[node.inputs[i]]));
    const InfoScope scope(build, copier.info(id));
    const Tensor y =
        sparse_product(graph.signature(id), inputs, weight.values, weight.index, weight.cell, weight.turned);
    copier.map(node.outputs[0], y.id);
  }
  copier.copy_outputs();
  return result;
}

}  // namespace ramet::transform
