#include "ramet/transform/sparsify.h"

#include <algorithm>

#include "ramet/ops/sparse_readers.h"

namespace ramet::transform {
namespace {

/// Whether the node transposes a matrix. Its result is then the same sparse matrix, read the other way round.
bool turns_matrix(const Node& node) {
  return node.op->name == "transpose" && node.attributes.get_ints("permutation") == std::vector<int64_t>{1, 0};
}

using Uses = std::vector<std::vector<NodeId>>;

/// Calls visit(node, number of the input, whether it is the transposed matrix) for all that read the matrix, directly
/// or transposed, and visit_output(output) for the outputs that give it.
template <typename Visit, typename VisitOutput>
void each_reader(const Graph& graph, const Uses& uses, ValueId matrix, bool turned, const Visit& visit,
                 const VisitOutput& visit_output) {
  for (const NodeId id : uses[static_cast<size_t>(matrix)]) {
    const Node& node = graph.node(id);
    if (turns_matrix(node)) {
      each_reader(graph, uses, node.outputs[0], !turned, visit, visit_output);
      continue;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == matrix) visit(id, i, turned);
  }
  for (const GraphOutput& output : graph.outputs())
    if (output.value == matrix) visit_output(output);
}

}  // namespace

std::string values_name(const std::string& weight) { return weight + ".values"; }
std::string index_name(const std::string& weight) { return weight + ".index"; }

std::optional<WeightMatrix> matrix_of(const Shape& shape) {
  if (shape.rank() < 2) return {};
  if (shape[0] * shape[1] == shape.elements()) return WeightMatrix{shape[0], shape[1]};
  if (shape.rank() != 3) return {};
  return WeightMatrix{shape[0] * shape[1], shape[2], shape[0]};
}

std::string why_not_sparse(const Graph& graph, const std::string& weight) {
  const ValueId value = graph.find_input(weight);
  if (value == kNoValue) return "";
  for (const GraphOutput& output : graph.outputs())
    if (output.name == weight) return "the output '" + output.name + "' replaces it";
  std::string why;
  each_reader(
      graph, graph.uses(), value, false,
      [&](NodeId id, size_t input, bool turned) {
        if (!why.empty()) return;
        why = ops::why_not_sparse(graph.signature(id), input, turned);
        if (!why.empty()) why += ": " + graph.text_of(id);
      },
      [&](const GraphOutput& output) {
        if (why.empty()) why = "the output '" + output.name + "' gives it";
      });
  return why;
}

int64_t tokens_of_products(const Graph& graph, const std::string& weight) {
  const ValueId value = graph.find_input(weight);
  int64_t tokens = 0;
  if (value != kNoValue)
    each_reader(
        graph, graph.uses(), value, false,
        [&](NodeId id, size_t, bool) { tokens += ops::tokens_of_product(graph.signature(id)); },
        [](const GraphOutput&) {});
  return tokens;
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
                           {grid.cell_rows, grid.cell_columns, fixed, grid.padding, grid.stacked}};
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
    const auto read =
        std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return stored.count(input) > 0; });
    if (read == node.inputs.end()) {
      copier.copy_node(id);
      continue;
    }
    const Stored& weight = stored.at(*read);
    std::vector<Tensor> inputs;
    for (const ValueId input : node.inputs)
      inputs.push_back(input == *read ? weight.values : build.tensor(copier[input]));
    const InfoScope scope(build, copier.info(id));
    const Tensor y = ops::read_sparse(graph.signature(id), inputs, static_cast<size_t>(read - node.inputs.begin()),
                                      weight.values, weight.index, weight.cell, weight.turned);
    copier.map(node.outputs[0], y.id);
  }
  copier.copy_outputs();
  return result;
}

}  // namespace ramet::transform
