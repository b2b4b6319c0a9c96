#include <cctype>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"

namespace ramet::ir {
namespace {

using Operand = ShardingRule::Operand;

/// Reads "([i,k],[k,j])->[i,j]" into factors by name; sizes come later.
class RuleParser {
 public:
  RuleParser(std::string_view text, const NodeSignature& node) : node_(node) {
    for (char letter : text)
      if (letter != ' ') text_ += letter;
  }

  ShardingRule parse() {
    rule_.inputs = list();
    expect("->");
    rule_.outputs = peek() == '(' ? list() : std::vector<Operand>{operand()};
    if (at_ != text_.size()) fail("text after the rule");
    return std::move(rule_);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error({.what = "sharding rule '" + text_ + "': " + what,
                 .where = node_.text(),
                 .found = at_ < text_.size() ? "'" + text_.substr(at_) + "'" : "the end"});
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char letter) { return peek() == letter ? (++at_, true) : false; }
  void expect(std::string_view wanted) {
    if (text_.compare(at_, wanted.size(), wanted) != 0) fail("expected '" + std::string(wanted) + "'");
    at_ += wanted.size();
  }

  std::vector<Operand> list() {
    std::vector<Operand> operands;
    expect("(");
    if (take(')')) return operands;
    do operands.push_back(operand());
    while (take(','));
    expect(")");
    return operands;
  }

  Operand operand() {
    Operand dims;
    expect("[");
    if (take(']')) return dims;
    do dims.push_back(dim());
    while (take(','));
    expect("]");
    return dims;
  }

  ShardingRule::Dim dim() {
    if (take('1')) return {};
    ShardingRule::Dim factors;
    do factors.push_back(factor());
    while (take('*'));
    return factors;
  }

  int factor() {
    const bool whole = take('!');
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') name += text_[at_++];
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) fail("expected the name of a factor");
    for (size_t i = 0; i < rule_.factors.size(); ++i)
      if (rule_.factors[i].name == name) {
        rule_.factors[i].whole = rule_.factors[i].whole || whole;
        return static_cast<int>(i);
      }
    rule_.factors.push_back({name, -1, whole, ShardingRule::Reduce::kNone});
    return static_cast<int>(rule_.factors.size()) - 1;
  }

  const NodeSignature& node_;
  std::string text_;
  size_t at_ = 0;
  ShardingRule rule_;
};

/// Fills the sizes of factors from the shapes of operands, one unknown a dimension at a time.
class SizeSolver {
 public:
  SizeSolver(ShardingRule& rule, const RuleParser& parser) : rule_(rule), parser_(parser) {}

  void solve(const NodeSignature& node) {
    check_ranks("input", rule_.inputs, node.inputs);
    // A signature without outputs is one whose types are still being inferred: inputs must then say all.
    if (!node.outputs.empty()) check_ranks("output", rule_.outputs, node.outputs);
    for (bool progress = true; progress;) {
      progress = pass(rule_.inputs, node.inputs);
      if (!node.outputs.empty()) progress = pass(rule_.outputs, node.outputs) || progress;
    }
    for (const auto& factor : rule_.factors)
      if (factor.size < 0) parser_.fail("the size of factor '" + factor.name + "' does not follow from the shapes");
  }

 private:
  void check_ranks(const std::string& kind, const std::vector<Operand>& operands,
                   const std::vector<TensorType>& types) {
    if (operands.size() != types.size())
      parser_.fail(std::to_string(operands.size()) + " " + kind + "s for a node with " + std::to_string(types.size()));
    for (size_t i = 0; i < types.size(); ++i)
      if (static_cast<int>(operands[i].size()) != types[i].shape.rank())
        parser_.fail(kind + " " + std::to_string(i) + " has " + std::to_string(operands[i].size()) +
                     " dimensions, the node's is " + types[i].text());
  }

  /// True when a size became known.
  bool pass(const std::vector<Operand>& operands, const std::vector<TensorType>& types) {
    bool progress = false;
    for (size_t i = 0; i < types.size(); ++i)
      for (size_t axis = 0; axis < operands[i].size(); ++axis)
        progress = dimension(operands[i][axis], types[i].shape.dims()[axis], types[i]) || progress;
    return progress;
  }

  bool dimension(const ShardingRule::Dim& dim, int64_t extent, const TensorType& type) {
    int unknown = -1, unknowns = 0;
    int64_t known = 1;
    for (int index : dim) {
      const int64_t size = rule_.factors[static_cast<size_t>(index)].size;
      if (size < 0)
        unknown = index, ++unknowns;
      else
        known *= size;
    }
    if (unknowns > 1) return false;
    const bool fits = unknowns == 0 ? known == extent : known == 0 ? extent == 0 : extent % known == 0;
    if (!fits)
      parser_.fail("extents contradict each other: " + std::to_string(extent) + " in " + type.text() +
                   " where the other operands give " + std::to_string(known));
    if (unknowns == 0) return false;
    rule_.factors[static_cast<size_t>(unknown)].size = known == 0 ? 0 : extent / known;
    return true;
  }

  ShardingRule& rule_;
  const RuleParser& parser_;
};

std::vector<bool> factors_in(const std::vector<Operand>& operands, size_t count) {
  std::vector<bool> present(count, false);
  for (const auto& operand : operands)
    for (const auto& dim : operand)
      for (int factor : dim) present[static_cast<size_t>(factor)] = true;
  return present;
}

}  // namespace

ShardingRule ShardingRule::parse(std::string_view text, const NodeSignature& node, Reduce reduce) {
  RuleParser parser(text, node);
  ShardingRule rule = parser.parse();
  SizeSolver(rule, parser).solve(node);
  const auto in_outputs = factors_in(rule.outputs, rule.factors.size());
  for (size_t i = 0; i < rule.factors.size(); ++i)
    if (!in_outputs[i]) rule.factors[i].reduce = reduce;
  return rule;
}

std::string ShardingRule::text() const {
  const auto dim_text = [&](const Dim& dim) {
    std::string text;
    for (int index : dim) {
      const Factor& factor = factors[static_cast<size_t>(index)];
      text += (text.empty() ? "" : "*") + std::string(factor.whole ? "!" : "") + factor.name;
    }
    return text.empty() ? std::string("1") : text;
  };
  const auto operand_text = [&](const Operand& operand) {
    std::string text;
    for (const Dim& dim : operand) text += (text.empty() ? "" : ",") + dim_text(dim);
    return "[" + text + "]";
  };
  const auto list_text = [&](const std::vector<Operand>& operands) {
    std::string text;
    for (const Operand& operand : operands) text += (text.empty() ? "" : ",") + operand_text(operand);
    return text;
  };
  return "(" + list_text(inputs) + ")->" + (outputs.size() == 1 ? list_text(outputs) : "(" + list_text(outputs) + ")");
}

}  // namespace ramet::ir
