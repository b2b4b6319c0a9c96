#include "ramet/front/onnx_fuse.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

namespace ramet::front {
namespace {

/// A graph while attention is sought in it.
class Fuser {
 public:
  Fuser(const OnnxGraph& graph, int64_t version) : version_(version), nodes_(graph.nodes) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const std::string& output : nodes_[i].outputs) makers_[output] = i;
      for (const std::string& input : nodes_[i].inputs) readers_[input].push_back(i);
      for (const OnnxAttribute& attribute : nodes_[i].attributes)
        if (attribute.graph) has_inner_ = true;
    }
    for (const OnnxValueInfo& output : graph.outputs) kept_.insert(output.name);
    for (const OnnxTensor& tensor : graph.initializers) initializers_[tensor.name] = &tensor;
  }

  std::vector<OnnxNode> run() {
    // Inner graphs may read any value.
    if (!has_inner_)
      for (size_t i = 0; i < nodes_.size(); ++i)
        if (is(i, "Softmax") && !fuse(i)) find_choice(i);
    std::vector<OnnxNode> made;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!dropped_.count(i)) made.push_back(std::move(nodes_[i]));
    return made;
  }

 private:
  bool is(size_t node, const char* op) const { return nodes_[node].domain.empty() && nodes_[node].op == op; }
  /// The node of this operator that makes a value which `readers` nodes read; none for others.
  std::optional<size_t> inner(const std::string& value, const char* op, size_t readers = 1) const {
    const auto maker = makers_.find(value);
    if (maker == makers_.end() || !is(maker->second, op) || kept_.count(value)) return std::nullopt;
    const auto found = readers_.find(value);
    return found != readers_.end() && found->second.size() == readers ? std::optional(maker->second) : std::nullopt;
  }

  /// A constant of one float.
  std::optional<double> scalar(const std::string& value) const {
    const OnnxTensor* tensor = nullptr;
    if (const auto found = initializers_.find(value); found != initializers_.end()) tensor = found->second;
    if (const auto maker = makers_.find(value); maker != makers_.end() && is(maker->second, "Constant")) {
      if (const OnnxAttribute* number = nodes_[maker->second].find("value_float")) return number->number;
      const OnnxAttribute* given = nodes_[maker->second].find("value");
      if (given && given->tensor) tensor = given->tensor.get();
    }
    if (!tensor || tensor->type != 1 || tensor->external) return std::nullopt;
    if (std::any_of(tensor->dims.begin(), tensor->dims.end(), [](int64_t extent) { return extent != 1; }))
      return std::nullopt;
    if (tensor->raw && tensor->raw->size() == sizeof(float)) {
      float number = 0;
      std::memcpy(&number, tensor->raw->data(), sizeof number);
      return number;
    }
    return tensor->floats.size() == 1 ? std::optional<double>(tensor->floats[0]) : std::nullopt;
  }

  /// Takes factors off a value: the value behind them. The nodes that go are added to `gone`.
  std::string behind_factors(std::string value, double& factor, std::vector<size_t>& gone) const {
    for (int depth = 0; depth < 4; ++depth) {
      if (const auto node = inner(value, "Mul")) {
        const std::vector<std::string>& inputs = nodes_[*node].inputs;
        if (inputs.size() != 2) return value;
        const auto first = scalar(inputs[0]), second = scalar(inputs[1]);
        if (!first && !second) return value;
        factor *= second ? *second : *first;
        value = second ? inputs[0] : inputs[1];
        gone.push_back(*node);
      } else if (const auto quotient = inner(value, "Div")) {
        const std::vector<std::string>& inputs = nodes_[*quotient].inputs;
        const auto divisor = inputs.size() == 2 ? scalar(inputs[1]) : std::nullopt;
        if (!divisor || *divisor == 0) return value;
        factor /= *divisor;
        value = inputs[0];
        gone.push_back(*quotient);
      } else {
        return value;
      }
    }
    return value;
  }

  /// The value behind a guard `Where(IsNaN(p), 0, p)` of the probabilities p, or p itself.
  std::string guarded(const std::string& value, std::vector<size_t>& gone) const {
    const auto readers = readers_.find(value);
    if (readers == readers_.end() || readers->second.size() != 2 || kept_.count(value)) return value;
    for (const size_t test : readers->second) {
      if (!is(test, "IsNaN")) continue;
      const auto where = inner_reader(nodes_[test].outputs.at(0), "Where");
      if (!where || nodes_[*where].inputs.size() != 3 || nodes_[*where].inputs[2] != value) return value;
      const auto zero = scalar(nodes_[*where].inputs[1]);
      if (!zero || *zero != 0) return value;
      gone.push_back(test), gone.push_back(*where);
      return nodes_[*where].outputs.at(0);
    }
    return value;
  }
  /// The only node that reads a value, if it is of this operator.
  std::optional<size_t> inner_reader(const std::string& value, const char* op) const {
    const auto found = readers_.find(value);
    if (found == readers_.end() || found->second.size() != 1 || kept_.count(value)) return std::nullopt;
    return is(found->second[0], op) ? std::optional(found->second[0]) : std::nullopt;
  }

  bool fuse(size_t softmax) {
    const OnnxNode& node = nodes_[softmax];
    const OnnxAttribute* axis = node.find("axis");
    if (node.inputs.size() != 1 || node.outputs.size() != 1 || (!axis && version_ < 13)) return false;
    const int64_t softmax_axis = axis ? axis->integer : -1;
    if (softmax_axis != -1 && softmax_axis < 2) return false;
    std::vector<size_t> gone = {softmax};
    const std::string probabilities = guarded(node.outputs[0], gone);
    const auto last = inner_reader(probabilities, "MatMul");
    if (!last || nodes_[*last].inputs.size() != 2 || nodes_[*last].inputs[0] != probabilities) return false;
    // Before the softmax: perhaps a summand, perhaps factors, and the product.
    std::string scores = node.inputs[0], summand;
    double factor = 1;
    std::optional<size_t> product;
    if (const auto sum = inner(scores, "Add"); sum && nodes_[*sum].inputs.size() == 2) {
      for (const size_t side : {size_t{0}, size_t{1}}) {
        double tried = 1;
        std::vector<size_t> more;
        const std::string behind = behind_factors(nodes_[*sum].inputs[side], tried, more);
        product = inner(behind, "MatMul");
        if (!product) continue;
        factor = tried, summand = nodes_[*sum].inputs[1 - side];
        gone.push_back(*sum), gone.insert(gone.end(), more.begin(), more.end());
        break;
      }
    } else {
      product = inner(behind_factors(scores, factor, gone), "MatMul");
    }
    if (!product || nodes_[*product].inputs.size() != 2) return false;
    gone.push_back(*product);
    // Factors of the operands belong to the product as well.
    const std::string query = behind_factors(nodes_[*product].inputs[0], factor, gone);
    const std::string key = behind_factors(nodes_[*product].inputs[1], factor, gone);
    OnnxNode made;
    made.op = "Attention", made.domain = "ramet", made.name = nodes_[*last].name;
    made.inputs = {query, key, nodes_[*last].inputs[1], summand};
    made.outputs = nodes_[*last].outputs;
    made.metadata = nodes_[*last].metadata;
    OnnxAttribute scale;
    scale.name = "scale", scale.kind = OnnxAttributeKind::kFloat, scale.number = static_cast<float>(factor);
    made.attributes.push_back(std::move(scale));
    OnnxAttribute along;
    along.name = "axis", along.kind = OnnxAttributeKind::kInt, along.integer = softmax_axis;
    made.attributes.push_back(std::move(along));
    nodes_[*last] = std::move(made);
    dropped_.insert(gone.begin(), gone.end());
    return true;
  }

  /// A softmax behind which a Where chooses.
  void find_choice(size_t softmax) {
    if (nodes_[softmax].outputs.size() != 1 || !chosen(nodes_[softmax].outputs[0], 0)) return;
    if (!nodes_[softmax].find("axis") && version_ < 13) return;
    nodes_[softmax].domain = "ramet";
  }
  /// Whether a Where reads a value, perhaps behind casts.
  bool chosen(const std::string& value, int depth) const {
    const auto found = readers_.find(value);
    if (found == readers_.end() || depth > 3) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](size_t reader) {
      if (is(reader, "Where")) return true;
      const bool same = is(reader, "Cast") || is(reader, "CastLike") || is(reader, "Identity");
      return same && nodes_[reader].inputs[0] == value && !nodes_[reader].outputs.empty() &&
             chosen(nodes_[reader].outputs[0], depth + 1);
    });
  }

  int64_t version_;
  std::vector<OnnxNode> nodes_;
  std::map<std::string, size_t> makers_{};
  std::map<std::string, std::vector<size_t>> readers_{};
  std::set<std::string> kept_{};
  std::map<std::string, const OnnxTensor*> initializers_{};
  std::set<size_t> dropped_{};
  bool has_inner_ = false;
};

}  // namespace

std::vector<OnnxNode> fuse_onnx_nodes(const OnnxGraph& graph, int64_t version) { return Fuser(graph, version).run(); }

}  // namespace ramet::front
