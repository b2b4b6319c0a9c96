#include "ramet/transform/inline_maps.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ramet/ops/map_program.h"
#include "ramet/ops/map_role.h"
#include "ramet/ops/map_types.h"
#include "ramet/transform/map_needs.h"

namespace ramet::transform {
namespace {

constexpr int kMostFlops = 12;     // an element, of a value that its readers make
constexpr int64_t kSmallPart = 8;  // tensors that are at most this part of the space count as small

/// A node as a program that is being rewritten.
struct Rewritten {
  MapProgram program;
  std::vector<ValueId> inputs;   ///< of the program
  std::vector<ValueId> outputs;  ///< that are still made, as the program's
  Shape space;
  bool changed = false;
};

/// Puts a program together from parts of others; equal steps and inputs are one.
class ProgramBuilder {
 public:
  int input(ValueId value) {
    const auto found = std::ranges::find(inputs_, value);
    if (found != inputs_.end()) return static_cast<int>(found - inputs_.begin());
    inputs_.push_back(value);
    return static_cast<int>(inputs_.size()) - 1;
  }

  /// Steps of `from` that the values `wanted` need. `known` holds numbers that stand for some of its values.
  void append(const Rewritten& from, const std::vector<int>& wanted, std::map<int, int>& known) {
    for (const int value : needed_values(from.program, wanted, known)) {
      if (value < from.program.inputs) {
        known[value] = input(from.inputs[static_cast<size_t>(value)]);
        continue;
      }
      MapProgram::Step step = from.program.steps[static_cast<size_t>(value - from.program.inputs)];
      for (int& operand : step.operands) operand = known.at(operand);
      const auto found = std::ranges::find(steps_, step);
      known[value] = kFirstStep + static_cast<int>(found - steps_.begin());
      if (found == steps_.end()) steps_.push_back(std::move(step));
    }
  }

  int steps() const { return static_cast<int>(steps_.size()); }
  int inputs() const { return static_cast<int>(inputs_.size()); }

  /// The program; `outputs` are in the numbers that `append` gave.
  void finish(std::vector<MapProgram::Output> outputs, Rewritten* to) {
    const auto number = [&](int value) { return value < kFirstStep ? value : value - kFirstStep + inputs(); };
    for (MapProgram::Step& step : steps_)
      for (int& operand : step.operands) operand = number(operand);
    for (MapProgram::Output& output : outputs) output.value = number(output.value);
    to->program = {inputs(), std::move(steps_), std::move(outputs)};
    to->inputs = std::move(inputs_);
    to->changed = true;
  }

 private:
  static constexpr int kFirstStep = 1 << 20;  // numbers of steps, while the number of inputs grows
  std::vector<ValueId> inputs_;
  std::vector<MapProgram::Step> steps_;
};

class Inliner {
 public:
  Inliner(const Graph& graph, const MergeLimits& limits)
      : graph_(graph),
        limits_(limits),
        uses_(graph.uses()),
        is_output_(graph.values().size(), false),
        of_node_(graph.nodes().size()) {
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
    for (NodeId id = 0; id < std::ssize(graph.nodes()); ++id) of_node_[static_cast<size_t>(id)] = program_of(id);
  }

  Graph run() {
    for (auto& from : of_node_)
      if (from)
        for (const ValueId value : std::vector<ValueId>(from->outputs)) inline_value(*from, value);
    Graph result(graph_.name());
    GraphCopier copier(graph_, result);
    copier.copy_inputs();
    for (NodeId id = 0; id < std::ssize(graph_.nodes()); ++id) {
      const auto& node = of_node_[static_cast<size_t>(id)];
      if (!node || !node->changed)
        copier.copy_node(id);
      else if (!node->outputs.empty())
        emit(id, *node, copier, result);
    }
    copier.copy_outputs();
    return result;
  }

 private:
  std::optional<Rewritten> program_of(NodeId id) const {
    const Node& node = graph_.node(id);
    const NodeSignature signature = graph_.signature(id);
    if (!node.gradient.empty() || map_role(signature) != MapRole::kProgram) return std::nullopt;
    MapProgram program = map_program_of(signature);
    if (program.draws()) return std::nullopt;
    return Rewritten{std::move(program), node.inputs, node.outputs, map_space_of(signature), false};
  }

  bool is_full(ValueId value, const Shape& space) const {
    return graph_.type(value).shape.elements() == space.elements();
  }

  /// Whether the value, which `from` makes as `number`, takes little work and one tensor of its size that exists
  /// anyway.
  bool is_cheap(const Rewritten& from, ValueId value, int number) const {
    int flops = 0;
    ValueId full = kNoValue;
    for (const int each : needed_values(from.program, {number})) {
      if (each >= from.program.inputs) {
        flops += std::max(1, from.program.steps[static_cast<size_t>(each - from.program.inputs)].info().flops);
        continue;
      }
      const ValueId input = from.inputs[static_cast<size_t>(each)];
      const TensorType& type = graph_.type(input);
      if (type.shape.elements() * kSmallPart <= from.space.elements()) continue;
      if (!is_full(input, from.space) || (full != kNoValue && full != input)) return false;
      full = input;
    }
    // States change in place.
    return full != kNoValue && flops <= kMostFlops && graph_.value(full).producer != kNoNode &&
           graph_.type(full).bytes() <= graph_.type(value).bytes();
  }

  void inline_value(Rewritten& from, ValueId value) {
    const auto& readers = uses_[static_cast<size_t>(value)];
    const auto place = std::ranges::find(from.outputs, value) - from.outputs.begin();
    const MapProgram::Output made = from.program.outputs[static_cast<size_t>(place)];
    if (is_output_[static_cast<size_t>(value)] || readers.empty() || made.reduce != MapProgram::Reduce::kNone ||
        graph_.type(value).dtype != DType::kF32 || made.value < from.program.inputs ||
        !is_cheap(from, value, made.value))
      return;
    std::vector<std::pair<Rewritten*, Rewritten>> rewritten;
    for (const NodeId reader : readers) {
      auto& to = of_node_[static_cast<size_t>(reader)];
      if (!to || to->space != from.space || graph_.type(value).shape != from.space) return;
      rewritten.emplace_back(&*to, *to);
      if (!put_inside(from, made.value, value, &rewritten.back().second)) return;
    }
    for (auto& [to, by] : rewritten) *to = std::move(by);
    drop_output(from, static_cast<size_t>(place));
  }

  /// The reader makes the value itself; false where its program would become too large.
  bool put_inside(const Rewritten& from, int number, ValueId value, Rewritten* reader) const {
    ProgramBuilder builder;
    std::map<int, int> of_from, of_reader;
    builder.append(from, {number}, of_from);
    for (size_t i = 0; i < reader->inputs.size(); ++i)
      if (reader->inputs[i] == value) of_reader[static_cast<int>(i)] = of_from.at(number);
    finish(builder, of_reader, reader);
    return static_cast<int>(reader->inputs.size()) <= limits_.inputs &&
           static_cast<int>(reader->program.steps.size()) <= limits_.steps;
  }

  static void drop_output(Rewritten& node, size_t place) {
    node.program.outputs.erase(node.program.outputs.begin() + static_cast<std::ptrdiff_t>(place));
    node.outputs.erase(node.outputs.begin() + static_cast<std::ptrdiff_t>(place));
    ProgramBuilder builder;
    std::map<int, int> known;
    finish(builder, known, &node);
  }

  /// What the node's outputs need, behind what the builder has.
  static void finish(ProgramBuilder& builder, std::map<int, int>& known, Rewritten* node) {
    std::vector<int> wanted;
    for (const MapProgram::Output& output : node->program.outputs) wanted.push_back(output.value);
    builder.append(*node, wanted, known);
    std::vector<MapProgram::Output> outputs = node->program.outputs;
    for (MapProgram::Output& output : outputs) output.value = known.at(output.value);
    builder.finish(std::move(outputs), node);
  }

  void emit(NodeId id, const Rewritten& node, GraphCopier& copier, Graph& result) const {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(copier[input]);
    std::vector<DType> dtypes;
    for (const ValueId output : node.outputs) dtypes.push_back(graph_.type(output).dtype);
    const Attributes attributes{
        {"program", node.program.text()}, {"shape", node.space.dims()}, {"dtypes", dtypes_text(dtypes)}};
    const NodeId map = result.add_node(OpRegistry::instance().get("map"), inputs, attributes, copier.info(id));
    for (size_t i = 0; i < node.outputs.size(); ++i) copier.map(node.outputs[i], result.node(map).outputs[i]);
  }

  const Graph& graph_;
  const MergeLimits limits_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_output_;
  std::vector<std::optional<Rewritten>> of_node_;
};

}  // namespace

Graph inline_maps(const Graph& graph, const MergeLimits& limits) { return Inliner(graph, limits).run(); }

}  // namespace ramet::transform
