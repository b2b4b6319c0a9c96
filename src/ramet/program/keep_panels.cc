#include "ramet/program/keep_panels.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "ramet/ops/map_program.h"
#include "ramet/ops/map_role.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/sparse.h"

namespace ramet::program {
namespace {

using Dims = std::vector<int64_t>;

size_t at(int32_t id) { return static_cast<size_t>(id); }

constexpr std::string_view kFormat = "panels/";

/// What a node can do with values in panels.
enum class PanelRole : uint8_t {
  kNone,
  kProduct,  ///< takes and gives some in panels, and others in rows
  kMap,      ///< takes and gives all of them in panels, or none
  kView,     ///< the same; other leading dimensions, which panels do not have
  kSum       ///< takes them in panels: over all tokens
};

class PanelKeeper {
 public:
  PanelKeeper(const Graph& graph, const KernelLibrary& library)
      : graph_(graph),
        uses_(graph.uses()),
        roles_(graph.nodes().size(), PanelRole::kNone),
        kept_(graph.values().size(), false),
        result_(graph.name()),
        copier_(graph, result_) {
    for (NodeId id = 0; id < std::ssize(graph.nodes()); ++id) {
      if (ops::sparse_activations(graph.signature(id)).inputs.empty()) continue;
      const auto layout = library.blocking(graph.signature(id), 0);
      const int64_t tokens = layout ? panel_tokens(*layout).value_or(0) : 0;
      if (tokens == 0 || (panel_ != 0 && tokens != panel_)) continue;
      panel_ = tokens;
      roles_[at(id)] = PanelRole::kProduct;
    }
  }

  Graph run() {
    if (panel_ == 0) return graph_;
    find_kept();
    if (std::ranges::none_of(kept_, std::identity())) return graph_;
    copier_.copy_inputs();
    for (NodeId id = 0; id < std::ssize(graph_.nodes()); ++id) {
      node_ = id;
      emit();
    }
    copier_.copy_outputs();
    return std::move(result_);
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  bool kept(ValueId value) const { return kept_[at(value)]; }

  /// Names of a product's inputs that are activations, which stand in front of the others.
  std::vector<std::string> activations(NodeId id) const { return ops::sparse_activations(graph_.signature(id)).inputs; }

  // --- which values ---

  /// Starts with all values that nodes of the right kind make, and takes those away of which a reader or the maker
  /// cannot follow.
  void find_kept() {
    for (NodeId id = 0; id < std::ssize(graph_.nodes()); ++id) {
      if (roles_[at(id)] == PanelRole::kNone) roles_[at(id)] = role_of(id);
      const PanelRole role = roles_[at(id)];
      if (role == PanelRole::kNone || role == PanelRole::kSum) continue;
      if (role == PanelRole::kProduct && !ops::sparse_activations(graph_.signature(id)).result) continue;
      for (const ValueId value : node(id).outputs) kept_[at(value)] = fits(value);
    }
    for (const GraphOutput& output : graph_.outputs()) kept_[at(output.value)] = false;
    for (bool changed = true; changed;) {
      changed = false;
      for (ValueId value = 0; value < std::ssize(kept_); ++value)
        if (kept(value) && !stays(value)) kept_[at(value)] = false, changed = true;
    }
  }

  bool fits(ValueId value) const {
    const TensorType& type = graph_.type(value);
    if (type.shape.rank() < 2 || !is_floating(type.dtype) || type.elements() == 0) return false;
    return type.elements() / type.shape.dim(-1) % panel_ == 0;
  }

  PanelRole role_of(NodeId id) const {
    const NodeSignature signature = graph_.signature(id);
    if (!node(id).gradient.empty()) return PanelRole::kNone;
    switch (ops::map_role(signature)) {
      case ops::MapRole::kProgram: return is_map(signature) ? PanelRole::kMap : PanelRole::kNone;
      case ops::MapRole::kSumRows: return panel_ % ops::kReduceRows == 0 ? PanelRole::kSum : PanelRole::kNone;
      default: break;
    }
    const bool view = node(id).op->is_view && signature.inputs[0].dtype == signature.outputs[0].dtype &&
                      shape(node(id).inputs[0]).rank() > 0 && shape(node(id).outputs[0]).rank() > 0 &&
                      shape(node(id).inputs[0]).dim(-1) == shape(node(id).outputs[0]).dim(-1);
    return view ? PanelRole::kView : PanelRole::kNone;
  }

  /// Whether each operand of an element-wise node is as large as its results, a number, or a row of features.
  static bool is_map(const NodeSignature& signature) {
    const ops::MapProgram program = ops::map_program_of(signature);
    const Shape space = ops::map_space_of(signature);
    const auto reduces = [](const ops::MapProgram::Output& output) {
      return output.reduce != ops::MapProgram::Reduce::kNone;
    };
    if (program.draws() || space.rank() < 2 || std::ranges::any_of(program.outputs, reduces)) return false;
    return std::ranges::all_of(signature.inputs, [&](const TensorType& type) {
      return type.elements() == space.elements() || type.elements() == 1 || is_row(type.shape, space);
    });
  }
  static bool is_row(const Shape& operand, const Shape& space) {
    return operand.rank() > 0 && operand.dim(-1) == space.dim(-1) && operand.elements() == space.dim(-1);
  }

  bool is_full(NodeId id, ValueId value) const {
    return graph_.type(value).elements() == ops::map_space_of(graph_.signature(id)).elements();
  }

  /// Whether all values of a map or a view that would be in panels are.
  bool is_inside(NodeId id) const {
    const PanelRole role = roles_[at(id)];
    const auto is_kept = [&](ValueId value) { return kept(value); };
    if (!std::ranges::all_of(node(id).outputs, is_kept)) return false;
    if (role == PanelRole::kView) return kept(node(id).inputs[0]);
    return role == PanelRole::kMap &&
           std::ranges::all_of(node(id).inputs, [&](ValueId value) { return kept(value) || !is_full(id, value); });
  }

  bool stays(ValueId value) const {
    const NodeId maker = graph_.value(value).producer;
    if (roles_[at(maker)] != PanelRole::kProduct && !is_inside(maker)) return false;
    return std::ranges::all_of(uses_[at(value)], [&](NodeId reader) {
      if (roles_[at(reader)] == PanelRole::kSum) return true;
      if (roles_[at(reader)] != PanelRole::kProduct) return is_inside(reader);
      for (size_t i = 0; i < node(reader).inputs.size(); ++i)
        if (node(reader).inputs[i] == value && i >= activations(reader).size()) return false;
      return true;
    });
  }

  // --- the new graph ---

  Shape panels_of(const Shape& rows) const {
    const int64_t features = rows.dim(-1);
    return Shape{rows.elements() / features / panel_, features, panel_};
  }

  /// A node beside the one at hand.
  ValueId add(const char* op, ValueId input, Attributes attributes) {
    NodeInfo info = copier_.info(node_).named(graph_.node(node_).name + "/" + op);
    info.serial = 0;
    const NodeId id = result_.add_node(OpRegistry::instance().get(op), {input}, std::move(attributes), info);
    return result_.node(id).outputs[0];
  }
  ValueId reshaped(ValueId value, const Shape& to) { return add("reshape", value, {{"shape", to.dims()}}); }

  std::vector<ValueId> copied_inputs() const {
    std::vector<ValueId> inputs;
    for (const ValueId input : node(node_).inputs) inputs.push_back(copier_[input]);
    return inputs;
  }

  void emit() {
    const Node& node = graph_.node(node_);
    switch (roles_[at(node_)]) {
      case PanelRole::kProduct: return emit_product();
      case PanelRole::kMap:
        if (is_inside(node_)) return emit_map();
        break;
      case PanelRole::kView:
        if (is_inside(node_)) return copier_.map(node.outputs[0], copier_[node.inputs[0]]);
        break;
      case PanelRole::kSum:
        if (kept(node.inputs[0])) return emit_sum();
        break;
      case PanelRole::kNone: break;
    }
    copier_.copy_node(node_);
  }

  void emit_product() {
    const Node& node = graph_.node(node_);
    Attributes attributes = node.attributes;
    bool takes = false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (kept(node.inputs[i])) attributes.set(activations(node_)[i] + "_panels", true), takes = true;
    const ValueId output = node.outputs[0];
    if (kept(output)) attributes.set("y_panel", panel_);
    copier_.copy_node(node_, copied_inputs(), std::move(attributes));
    if (takes && !kept(output) && result_.type(copier_[output]).shape != shape(output))
      copier_.map(output, reshaped(copier_[output], shape(output)));
  }

  void emit_map() {
    const Node& node = graph_.node(node_);
    const Shape space = ops::map_space_of(graph_.signature(node_));
    std::vector<ValueId> inputs = copied_inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& operand = shape(node.inputs[i]);
      if (kept(node.inputs[i])) continue;
      if (operand.elements() == 1)
        inputs[i] = operand.rank() > 0 ? reshaped(inputs[i], Shape{}) : inputs[i];
      else
        inputs[i] = reshaped(inputs[i], Shape{space.dim(-1), 1});
    }
    Attributes attributes = node.attributes;
    if (attributes.has("shape")) attributes.set("shape", panels_of(space).dims());
    copier_.copy_node(node_, std::move(inputs), std::move(attributes));
  }

  /// In the order of a sum over rows: blocks of kReduceRows tokens one after another, then the tree over the blocks.
  void emit_sum() {
    const Node& node = graph_.node(node_);
    const Shape panels = panels_of(shape(node.inputs[0]));
    const int64_t count = panels[0], features = panels[1], blocks = panel_ / ops::kReduceRows;
    const ValueId cut = reshaped(copier_[node.inputs[0]], Shape{count, features, blocks, ops::kReduceRows});
    const ValueId sums = add("reduce_sum", cut, {{"axes", Dims{3}}, {"in_order", true}, {"dtype", DType::kF32}});
    const ValueId turned = add("transpose", sums, {{"permutation", Dims{0, 2, 1}}});
    const ValueId rows = reshaped(turned, Shape{count * blocks, features});
    Attributes attributes = node.attributes;
    attributes.set("axes", Dims{0});
    attributes.set("chunks", count * blocks);
    attributes.set("dtype", graph_.type(node.outputs[0]).dtype);
    copier_.copy_node(node_, {rows}, std::move(attributes));
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<PanelRole> roles_;
  std::vector<bool> kept_;
  int64_t panel_ = 0;
  Graph result_;
  GraphCopier copier_;
  NodeId node_ = kNoNode;
};

}  // namespace

BlockedLayout panel_layout(const TensorType& activation, int64_t tokens) {
  return {std::string(kFormat) + std::to_string(tokens), activation.bytes()};
}

std::optional<int64_t> panel_tokens(const BlockedLayout& layout) {
  if (!layout.format.starts_with(kFormat)) return std::nullopt;
  return std::stoll(layout.format.substr(kFormat.size()));
}

Graph keep_panels(const Graph& graph, const KernelLibrary& library) { return PanelKeeper(graph, library).run(); }

}  // namespace ramet::program
