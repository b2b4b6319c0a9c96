#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/graph.h"

namespace ramet::ir {
namespace {

using Kind = AttributeSpec::Kind;

bool is_of_kind(const Attribute& attribute, Kind kind) {
  switch (kind) {
    case Kind::kBool: return std::holds_alternative<bool>(attribute);
    case Kind::kInt: return std::holds_alternative<int64_t>(attribute);
    case Kind::kFloat: return std::holds_alternative<double>(attribute) || std::holds_alternative<int64_t>(attribute);
    case Kind::kString: return std::holds_alternative<std::string>(attribute);
    case Kind::kInts: return std::holds_alternative<std::vector<int64_t>>(attribute);
    case Kind::kDType: return std::holds_alternative<DType>(attribute);
    case Kind::kTensor: return std::holds_alternative<TensorData>(attribute);
  }
  return false;
}

class Verifier {
 public:
  Verifier(const Graph& graph, const std::string& after) : graph_(graph), after_(after) {}

  void run() const {
    check_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) check_node(id);
    check_values();
    check_outputs();
  }

 private:
  [[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& found = "",
                         const std::string& expected = "") const {
    throw Error({.what = "graph '" + graph_.name() + "' is not valid after " + after_ + ": " + what,
                 .where = where,
                 .found = found,
                 .expected = expected},
                ErrorKind::kFailure);
  }

  bool exists(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.values().size(); }

  void check_inputs() const {
    std::set<std::string> names;
    for (const auto& input : graph_.inputs()) {
      if (!exists(input.value)) fail("input", "value does not exist", "%" + std::to_string(input.value));
      const Value& value = graph_.value(input.value);
      if (value.producer != kNoNode) fail("input '" + value.name + "'", "an input has a producer");
      if (value.name.empty() || !names.insert(value.name).second)
        fail("input '" + value.name + "'", "input names must be unique and not empty");
      if (!input.axes.empty() && static_cast<int>(input.axes.size()) != value.type.shape.rank())
        fail("input '" + value.name + "'", "not one axis a dimension", std::to_string(input.axes.size()),
             value.type.text());
    }
  }

  void check_node(NodeId id) const {
    const Node& node = graph_.node(id);
    for (ValueId input : node.inputs) {
      if (!exists(input)) fail(node_name(node), "reads a value that does not exist", "%" + std::to_string(input));
      if (graph_.value(input).producer >= id)
        fail(node_name(node), "reads a value before it is produced", "%" + std::to_string(input));
    }
    check_attributes(id);
    if (node.part.index < Part::kNo || node.part.index >= Part::kMost)
      fail(text_of(id), "a part of a stack has an impossible number", std::to_string(node.part.index),
           "0 to " + std::to_string(Part::kMost - 1));
    if (node.serial < 0 || node.forward_of < 0) fail(text_of(id), "serial numbers of nodes are positive");
    check_types(id);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph_.value(node.outputs[i]);
      if (value.producer != id || value.output_index != static_cast<int>(i))
        fail(text_of(id), "an output names another producer");
    }
  }

  void check_types(NodeId id) const {
    NodeSignature question = graph_.signature(id);
    const std::vector<TensorType> found = std::move(question.outputs);
    question.outputs.clear();
    const std::vector<TensorType> types = question.op->infer(question);
    if (types != found)
      fail(question.text(), "output types differ from the type rule's", found.empty() ? "none" : found[0].text(),
           types.empty() ? "none" : types[0].text());
  }

  // Texts of nodes are expensive: they are made for errors alone.
  std::string text_of(NodeId id) const { return graph_.signature(id).text(); }
  static std::string node_name(const Node& node) { return node.op->name + " '" + node.name + "'"; }

  void check_attributes(NodeId id) const {
    const Node& node = graph_.node(id);
    for (const auto& spec : node.op->attributes)
      if (spec.required && !node.attributes.has(spec.name)) fail(text_of(id), "missing attribute '" + spec.name + "'");
    static const AttributeSpec kPosition[] = {{"cuts", Kind::kInts, false, ""},
                                              {"deal", Kind::kInts, false, ""},
                                              {"flat", Kind::kInts, false, ""},
                                              {"position", Kind::kInts, false, ""}};
    for (const auto& [name, attribute] : node.attributes) {
      const AttributeSpec* spec = nullptr;
      if (node.op->positional != OpDef::kNotPositional)
        for (const auto& candidate : kPosition)
          if (candidate.name == name) spec = &candidate;
      for (const auto& candidate : node.op->attributes)
        if (candidate.name == name) spec = &candidate;
      if (!spec) fail(text_of(id), "unknown attribute '" + name + "'");
      if (!is_of_kind(attribute, spec->kind))
        fail(text_of(id), "attribute '" + name + "' is of the wrong kind", ir::text_of(attribute));
    }
  }

  void check_values() const {
    size_t produced = graph_.inputs().size();
    for (const Node& node : graph_.nodes()) produced += node.outputs.size();
    if (produced != graph_.values().size()) fail("values", "some value is produced by nobody, or twice");
  }

  void check_outputs() const {
    std::set<std::string> names;
    for (const auto& output : graph_.outputs()) {
      if (!exists(output.value)) fail("output '" + output.name + "'", "value does not exist");
      if (!names.insert(output.name).second) fail("output '" + output.name + "'", "output names must be unique");
    }
  }

  const Graph& graph_;
  const std::string& after_;
};

}  // namespace

void verify(const Graph& graph, const std::string& after) { Verifier(graph, after).run(); }

}  // namespace ramet::ir
