#include <cctype>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/ir/text_reader.h"

namespace ramet::ir {
namespace {

/// Reads one graph.
class Parser {
 public:
  explicit Parser(TextReader& in) : in_(in) {}

  Graph parse() {
    in_.expect_word("graph");
    Graph graph(in_.string());
    in_.expect('{');
    while (!in_.accept('}')) statement(graph);
    return graph;
  }

 private:
  void statement(Graph& graph) {
    if (in_.peek() == '%') return node(graph);
    const size_t place = in_.place();
    const std::string kind = in_.word();
    if (kind == "input") return input(graph);
    if (kind == "output") return output(graph);
    in_.fail_at(place, "unexpected text", "'input', 'output', a node or '}'");
  }

  ValueId value_number() {
    in_.expect('%');
    const int64_t number = in_.integer();
    if (number < 0 || number > std::numeric_limits<ValueId>::max()) in_.fail("value number out of range");
    return static_cast<ValueId>(number);
  }

  /// The number of a new value, which must be the next one.
  void new_value(size_t expected) {
    const size_t place = in_.place();
    if (static_cast<size_t>(value_number()) != expected)
      in_.fail_at(place, "values must be numbered in order", "%" + std::to_string(expected));
  }

  void input(Graph& graph) {
    const size_t place = in_.place();
    new_value(graph.values().size());
    const std::string name = in_.string();
    in_.expect(':');
    TensorType type = in_.type();
    const size_t role_place = in_.place();
    const std::string role = in_.word();
    for (InputRole candidate : {InputRole::kData, InputRole::kScalar, InputRole::kState, InputRole::kBoundary})
      if (name_of(candidate) == role) {
        const std::vector<std::string> axes = in_.peek() == '[' ? in_.strings() : std::vector<std::string>();
        in_.at(place, [&] { return graph.add_input(name, type, candidate, axes); });
        return;
      }
    in_.fail_at(role_place, "unknown input role", "data, scalar, state or boundary");
  }

  void output(Graph& graph) {
    const size_t place = in_.place();
    const std::string name = in_.string();
    in_.expect('=');
    const ValueId value = value_number();
    const std::string role = in_.word();
    for (OutputRole candidate : {OutputRole::kResult, OutputRole::kState, OutputRole::kBoundary})
      if (name_of(candidate) == role) {
        in_.at(place, [&] { return graph.add_output(name, value, candidate), 0; });
        return;
      }
    in_.fail("unknown output role '" + role + "'", "result, state or boundary");
  }

  NodePass pass() {
    const size_t place = in_.place();
    const std::string name = in_.word();
    for (NodePass candidate :
         {NodePass::kForward, NodePass::kBackward, NodePass::kRecompute, NodePass::kAccumulate, NodePass::kUpdate})
      if (name_of(candidate) == name) return candidate;
    in_.fail_at(place, "unknown pass", "forward, backward, recompute, accumulate or update");
  }

  /// What stands behind a node's types.
  NodeInfo info() {
    constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
    NodeInfo info;
    if (in_.accept('@')) info.name = in_.string();
    while (std::isalpha(static_cast<unsigned char>(in_.peek()))) {
      const size_t place = in_.place();
      const std::string field = in_.word();
      if (field == "part") {
        info.part.stack = in_.string();
        info.part.index = in_.number_up_to(Part::kMost - 1);
      } else if (field == "pass") {
        info.pass = pass();
      } else if (field == "serial") {
        info.serial = in_.number_up_to(kMost);
      } else if (field == "of") {
        info.forward_of = in_.number_up_to(kMost);
      } else if (field == "gradient") {
        info.gradient = in_.string();
      } else if (field == "from") {
        info.origin = in_.string();
      } else {  // the next statement
        in_.back_to(place);
        break;
      }
    }
    return info;
  }

  void node(Graph& graph) {
    const size_t place = in_.place();
    std::vector<std::string> names;
    do {
      new_value(graph.values().size() + names.size());
      names.push_back(in_.peek() == '"' ? in_.string() : "");
    } while (in_.accept(','));
    in_.expect('=');
    const size_t op_place = in_.place();
    const std::string op_name = in_.word();
    const OpDef& op = *in_.at(op_place, [&] { return &OpRegistry::instance().get(op_name); });
    std::vector<ValueId> inputs;
    in_.expect('(');
    if (!in_.accept(')')) {
      do inputs.push_back(value_number());
      while (in_.accept(','));
      in_.expect(')');
    }
    const Attributes attributes = in_.attributes();
    in_.expect(':');
    std::vector<TensorType> types;
    do types.push_back(in_.type());
    while (in_.accept(','));
    const NodeInfo known = info();
    const std::string of = known.origin.empty() ? "" : "the node of " + known.origin + ": ";
    const NodeId id = in_.at(place, [&] { return graph.add_node(op, inputs, attributes, known); }, of);
    const Node& added = graph.node(id);
    bool agrees = added.outputs.size() == names.size() && types.size() == names.size();
    for (size_t i = 0; agrees && i < names.size(); ++i) agrees = graph.type(added.outputs[i]) == types[i];
    if (!agrees) {
      std::string expected;
      for (ValueId output : added.outputs) expected += (expected.empty() ? "" : ", ") + graph.type(output).text();
      in_.fail_at(place, of + "the node's outputs differ from what " + op_name + " makes", expected);
    }
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) graph.set_value_name(added.outputs[i], names[i]);
  }

  TextReader& in_;
};

}  // namespace

Graph parse_graph(TextReader& in) {
  const std::string source = in.text_of_place(in.place());
  Graph graph = Parser(in).parse();
  verify(graph, "parsing " + source);
  return graph;
}

Graph parse_graph(std::string_view text, const std::string& source) {
  TextReader in(text, source);
  Graph graph = Parser(in).parse();
  if (!in.at_end()) in.fail("text after the end of the graph", "the end");
  verify(graph, "parsing " + source);
  return graph;
}

}  // namespace ramet::ir
