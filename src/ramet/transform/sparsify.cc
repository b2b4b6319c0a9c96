#include "ramet/transform/sparsify.h"

#include "ramet/ops/sparse_products.h"

namespace ramet::transform {
namespace {

bool reads_as_matrix(const Graph& graph, NodeId id, ValueId weight) {
  const Node& node = graph.node(id);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == weight && i != 1) return false;
  return node.inputs.size() >= 2 && takes_sparse_matrix(graph.signature(id));
}

}  // namespace

std::string values_name(const std::string& weight) { return weight + ".values"; }
std::string index_name(const std::string& weight) { return weight + ".index"; }

std::string other_use(const Graph& graph, const std::string& weight) {
  const ValueId value = graph.find_input(weight);
  if (value == kNoValue) return "";
  const std::vector<std::vector<NodeId>> uses = graph.uses();
  for (const NodeId id : uses[static_cast<size_t>(value)])
    if (!reads_as_matrix(graph, id, value)) return graph.text_of(id);
  for (const GraphOutput& output : graph.outputs())
    if (output.value == value || output.name == weight) return "output '" + output.name + "'";
  return "";
}

Graph sparsify(const Graph& graph, const std::map<std::string, SparseGrid>& grids, bool fixed) {
  struct Stored {
    Tensor values, index;
    SparseCell cell;
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
    const Tensor y = sparse_product(graph.signature(id), inputs, weight.values, weight.index, weight.cell);
    copier.map(node.outputs[0], y.id);
  }
  copier.copy_outputs();
  return result;
}

}  // namespace ramet::transform
