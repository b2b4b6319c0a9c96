#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "ramet/base/base64.h"
#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ir/text.h"

namespace ramet::ir {
namespace {

constexpr int kMaxRank = 16;
constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr int64_t kMaxElements = int64_t{1} << 50;  // a tensor's bytes stay far below 2^63

class Parser {
 public:
  Parser(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  Graph parse() {
    expect_word("graph");
    Graph graph(string());
    expect('{');
    while (!accept('}')) statement(graph);
    skip_space();
    if (position_ != text_.size()) fail("text after the end of the graph", "the end");
    return graph;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& expected = "") const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < position_ && i < text_.size(); ++i) text_[i] == '\n' ? (++line, column = 1) : ++column;
    std::string found;
    for (size_t i = position_; i < text_.size() && i < position_ + 20 && text_[i] != '\n'; ++i)
      found += std::isprint(static_cast<unsigned char>(text_[i])) ? text_[i] : '?';
    throw Error({.what = what,
                 .where = source_ + ":" + std::to_string(line) + ":" + std::to_string(column),
                 .found = position_ >= text_.size() ? "the end of the text" : "'" + found + "'",
                 .expected = expected});
  }

  void skip_space() {
    while (position_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[position_])))
        ++position_;
      else if (text_[position_] == '#')
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      else
        break;
    }
  }
  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || position_ >= text_.size()) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("unexpected text", std::string("'") + c + "'");
  }

  std::string word() {
    skip_space();
    const size_t start = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) || text_[position_] == '_'))
      ++position_;
    if (start == position_) fail("unexpected text", "a name");
    return std::string(text_.substr(start, position_ - start));
  }
  void expect_word(const std::string& expected) {
    const size_t start = (skip_space(), position_);
    if (word() != expected) {
      position_ = start;
      fail("unexpected text", "'" + expected + "'");
    }
  }

  std::string string() {
    expect('"');
    std::string value;
    for (;;) {
      if (position_ >= text_.size()) fail("a string does not end", "'\"'");
      const char c = text_[position_++];
      if (c == '"') return value;
      if (c != '\\') {
        value += c;
        continue;
      }
      if (position_ >= text_.size()) fail("a string does not end", "'\"'");
      const char escaped = text_[position_++];
      value += escaped == 'n' ? '\n' : escaped;
    }
  }

  int64_t integer() {
    skip_space();
    int64_t value = 0;
    const auto result = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (result.ec != std::errc()) fail("not an integer", "an integer of 64 bits");
    position_ = static_cast<size_t>(result.ptr - text_.data());
    return value;
  }

  std::vector<int64_t> integers() {
    std::vector<int64_t> list;
    expect('[');
    if (accept(']')) return list;
    do list.push_back(integer());
    while (accept(','));
    expect(']');
    return list;
  }

  TensorType type() {
    const size_t start = (skip_space(), position_);
    const std::string name = word();
    DType dtype;
    try {
      dtype = dtype_from_name(name);
    } catch (const Error& error) {
      position_ = start;
      fail(error.parts().what, error.parts().expected);
    }
    const size_t shape_start = (skip_space(), position_);
    std::vector<int64_t> dims = integers();
    int64_t elements = 1;
    bool fits = dims.size() <= kMaxRank;
    for (int64_t dim : dims) {
      fits = fits && dim >= 0 && dim <= kMaxExtent && (dim == 0 || elements <= kMaxElements / dim);
      if (fits) elements *= std::max<int64_t>(dim, 1);
    }
    if (!fits) {
      position_ = shape_start;
      fail("shape out of bounds", "at most 16 dimensions, none negative, at most 2^50 elements");
    }
    return {dtype, Shape(std::move(dims))};
  }

  ValueId value_number() {
    expect('%');
    const int64_t number = integer();
    if (number < 0 || number > std::numeric_limits<ValueId>::max()) fail("value number out of range");
    return static_cast<ValueId>(number);
  }

  Attribute number() {
    skip_space();
    const size_t start = position_;
    while (position_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[position_])) ||
                                        std::string_view("+-.").find(text_[position_]) != std::string_view::npos))
      ++position_;
    const std::string_view token = text_.substr(start, position_ - start);
    const char *begin = token.data(), *end = begin + token.size();
    int64_t as_integer;
    if (const auto result = std::from_chars(begin, end, as_integer); result.ec == std::errc() && result.ptr == end)
      return as_integer;
    double as_float;
    if (const auto result = std::from_chars(begin, end, as_float); result.ec == std::errc() && result.ptr == end)
      return as_float;
    position_ = start;
    fail("not a number", "an attribute: true, 3, 0.5, \"text\", [1,2] or an element type");
  }

  /// An element of a tensor's list, in the bytes of the tensor's type.
  void element(DType dtype, std::vector<std::byte>& bytes) {
    const size_t start = (skip_space(), position_), size = size_of(dtype);
    bytes.resize(bytes.size() + size);
    std::byte* const to = bytes.data() + bytes.size() - size;
    const Attribute value = number();
    const auto* integer = std::get_if<int64_t>(&value);
    if (integer && dtype == DType::kI64) {
      std::memcpy(to, integer, size);
    } else {
      const double wanted = integer ? static_cast<double>(*integer) : std::get<double>(value);
      if (is_floating(dtype) || integer) store_element(to, dtype, 0, wanted);
      if ((is_floating(dtype) || integer) && load_element(to, dtype, 0) == wanted) return;
      position_ = start;
      fail("the number is none of the tensor's type", std::string(name_of(dtype)));
    }
  }

  /// What follows the word "tensor". Nothing is taken from memory for elements that are not there.
  TensorData tensor() {
    expect('(');
    HostTensor result;
    result.type = type();
    expect(',');
    const size_t start = (skip_space(), position_);
    if (accept('[')) {
      if (!accept(']')) {
        do element(result.type.dtype, result.data);
        while (accept(','));
        expect(']');
      }
      if (static_cast<int64_t>(result.data.size()) != result.type.bytes()) {
        position_ = start;
        fail("not as many elements as the tensor's type has", std::to_string(result.type.elements()));
      }
      expect(')');
      return TensorData(std::move(result));
    }
    const std::string hash = string();
    expect(',');
    auto bytes = bytes_of_base64(string());
    expect(')');
    if (!bytes || static_cast<int64_t>(bytes->size()) != result.type.bytes()) {
      position_ = start;
      fail("not the bytes of the tensor", std::to_string(result.type.bytes()) + " bytes in base64");
    }
    result.data = std::move(*bytes);
    TensorData data(std::move(result));
    if (data.hash().hex() != hash) {
      position_ = start;
      fail("the tensor's bytes are not those of its hash", data.hash().hex());
    }
    return data;
  }

  Attribute attribute() {
    const char c = peek();
    if (c == '"') return string();
    if (c == '[') return integers();
    if (std::isalpha(static_cast<unsigned char>(c))) {
      const size_t start = position_;
      const std::string name = word();
      if (name == "true") return true;
      if (name == "false") return false;
      if (name == "tensor") return tensor();
      for (int i = 0; i < kStoredDTypeCount; ++i)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
      position_ = start;
    }
    return number();
  }

  void statement(Graph& graph) {
    if (peek() == '%') return node(graph);
    const size_t start = position_;
    const std::string kind = word();
    if (kind == "input") return input(graph);
    if (kind == "output") return output(graph);
    position_ = start;
    fail("unexpected text", "'input', 'output', a node or '}'");
  }

  /// Runs an edit of the graph; its errors get the place in the text.
  template <typename Edit>
  auto at(size_t place, Edit edit) {
    try {
      return edit();
    } catch (const Error& error) {
      position_ = place;
      const std::string inner = error.what();
      fail(inner);
    }
  }

  void expect_next(const Graph& graph, ValueId id, size_t place) {
    if (static_cast<size_t>(id) == graph.values().size()) return;
    position_ = place;
    fail("values must be numbered in order", "%" + std::to_string(graph.values().size()));
  }

  void input(Graph& graph) {
    const size_t place = (skip_space(), position_);
    const ValueId id = value_number();
    expect_next(graph, id, place);
    const std::string name = string();
    expect(':');
    TensorType tensor_type = type();
    const size_t role_place = (skip_space(), position_);
    const std::string role = word();
    for (InputRole candidate : {InputRole::kData, InputRole::kScalar, InputRole::kState, InputRole::kBoundary})
      if (name_of(candidate) == role) {
        std::vector<std::string> axes;
        if (accept('[')) {
          do axes.push_back(string());
          while (accept(','));
          expect(']');
        }
        at(place, [&] { return graph.add_input(name, tensor_type, candidate, axes); });
        return;
      }
    position_ = role_place;
    fail("unknown input role", "data, scalar, state or boundary");
  }

  void output(Graph& graph) {
    const size_t place = (skip_space(), position_);
    const std::string name = string();
    expect('=');
    const ValueId value = value_number();
    const std::string role = word();
    for (OutputRole candidate : {OutputRole::kResult, OutputRole::kState, OutputRole::kBoundary})
      if (name_of(candidate) == role) {
        at(place, [&] { return graph.add_output(name, value, candidate), 0; });
        return;
      }
    fail("unknown output role '" + role + "'", "result, state or boundary");
  }

  int32_t number_up_to(int32_t most) {
    const size_t place = (skip_space(), position_);
    const int64_t number = integer();
    if (number < 0 || number > most) {
      position_ = place;
      fail("number out of range", "0 to " + std::to_string(most));
    }
    return static_cast<int32_t>(number);
  }

  NodePass pass() {
    const size_t place = (skip_space(), position_);
    const std::string name = word();
    for (NodePass candidate : {NodePass::kForward, NodePass::kBackward, NodePass::kRecompute, NodePass::kAccumulate,
                               NodePass::kUpdate})
      if (name_of(candidate) == name) return candidate;
    position_ = place;
    fail("unknown pass", "forward, backward, recompute, accumulate or update");
  }

  /// What stands behind a node's types.
  NodeInfo info() {
    constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
    NodeInfo info;
    if (accept('@')) info.name = string();
    while (std::isalpha(static_cast<unsigned char>(peek()))) {
      const size_t place = position_;
      const std::string field = word();
      if (field == "part") {
        info.part.stack = string();
        info.part.index = number_up_to(Part::kMost - 1);
      } else if (field == "pass") {
        info.pass = pass();
      } else if (field == "serial") {
        info.serial = number_up_to(kMost);
      } else if (field == "of") {
        info.forward_of = number_up_to(kMost);
      } else if (field == "gradient") {
        info.gradient = string();
      } else if (field == "from") {
        info.origin = string();
      } else {  // the next statement
        position_ = place;
        break;
      }
    }
    return info;
  }

  void node(Graph& graph) {
    const size_t place = position_;
    std::vector<std::string> names;
    do {
      const size_t number_place = (skip_space(), position_);
      const ValueId id = value_number();
      if (static_cast<size_t>(id) != graph.values().size() + names.size()) {
        position_ = number_place;
        fail("values must be numbered in order", "%" + std::to_string(graph.values().size() + names.size()));
      }
      names.push_back(peek() == '"' ? string() : "");
    } while (accept(','));
    expect('=');
    const size_t op_place = (skip_space(), position_);
    const std::string op_name = word();
    const OpDef& op = *at(op_place, [&] { return &OpRegistry::instance().get(op_name); });
    std::vector<ValueId> inputs;
    expect('(');
    if (!accept(')')) {
      do inputs.push_back(value_number());
      while (accept(','));
      expect(')');
    }
    Attributes attributes;
    if (accept('{') && !accept('}')) {
      do {
        const std::string name = word();
        expect('=');
        attributes.set(name, attribute());
      } while (accept(','));
      expect('}');
    }
    expect(':');
    std::vector<TensorType> types;
    do types.push_back(type());
    while (accept(','));
    const NodeInfo node_info = info();
    const NodeId id = at(place, [&] { return graph.add_node(op, inputs, attributes, node_info); });
    const Node& added = graph.node(id);
    bool agrees = added.outputs.size() == names.size() && types.size() == names.size();
    for (size_t i = 0; agrees && i < names.size(); ++i) agrees = graph.type(added.outputs[i]) == types[i];
    if (!agrees) {
      position_ = place;
      std::string expected;
      for (ValueId output : added.outputs) expected += (expected.empty() ? "" : ", ") + graph.type(output).text();
      fail("the node's outputs differ from what " + op_name + " makes", expected);
    }
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) graph.set_value_name(added.outputs[i], names[i]);
  }

  std::string_view text_;
  std::string source_;
  size_t position_ = 0;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::string& source) {
  Graph graph = Parser(text, source).parse();
  verify(graph, "parsing " + source);
  return graph;
}

}  // namespace ramet::ir
