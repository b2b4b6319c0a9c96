#include "ramet/front/onnx_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ramet/front/onnx_writer.h"

namespace ramet::front {
namespace {

/// Inputs of an operator that weights stand in.
bool takes_weight(const OnnxNode& node, size_t input) {
  if (node.domain == kOnnxOpDomain) return true;
  if (!node.domain.empty()) return false;
  static const std::map<std::string, std::vector<size_t>, std::less<>> kInputs = {
      {"Add", {0, 1}},
      {"Attention", {0, 1, 2}},
      {"BatchNormalization", {1, 2}},
      {"Conv", {1, 2}},
      {"ConvTranspose", {1, 2}},
      {"DeformConv", {1, 3}},
      {"Div", {0, 1}},
      {"Einsum", {0, 1, 2, 3}},
      {"GRU", {1, 2, 3}},
      {"Gather", {0}},
      {"Gemm", {0, 1, 2}},
      {"GroupNormalization", {1, 2}},
      {"InstanceNormalization", {1, 2}},
      {"LSTM", {1, 2, 3, 7}},
      {"LayerNormalization", {1, 2}},
      {"MatMul", {0, 1}},
      {"Mul", {0, 1}},
      {"PRelu", {1}},
      {"RMSNormalization", {1}},
      {"RNN", {1, 2, 3}},
      {"Sub", {0, 1}},
  };
  const auto found = kInputs.find(node.op);
  return found != kInputs.end() && std::find(found->second.begin(), found->second.end(), input) != found->second.end();
}

bool moves_elements(const OnnxNode& node) {
  static const std::set<std::string, std::less<>> kOps = {"Concat", "Expand",  "Flatten", "Identity",  "Reshape",
                                                          "Slice",  "Squeeze", "Tile",    "Transpose", "Unsqueeze"};
  return node.domain.empty() && kOps.count(node.op) != 0;
}

/// Whether a loop's graph hands its input `at` on as it came; the outputs of a Loop are those of its inputs but the
/// first, those of a Scan begin with its states.
bool is_kept(const OnnxNode& loop, const OnnxGraph& graph, size_t at) {
  if (loop.op == "If" || at >= graph.inputs.size() || (loop.op == "Loop" && at < 2)) return false;
  const size_t output = loop.op == "Loop" ? at - 1 : at;
  if (output >= graph.outputs.size()) return false;
  std::string name = graph.outputs[output].name;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (node->op == "Identity" && node->outputs == std::vector{name}) name = node->inputs.at(0);
  return name == graph.inputs[at].name;
}

/// An input of a node.
using Place = std::pair<const OnnxNode*, size_t>;

/// Who reads the values of a graph.
std::map<std::string, std::vector<Place>> readers_of(const OnnxGraph& graph) {
  std::map<std::string, std::vector<Place>> made;
  for (const OnnxNode& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) made[node.inputs[i]].emplace_back(&node, i);
  return made;
}

/// Inputs that statistics stand in where a batch norm is written out as arithmetic. A variance is a summand below a
/// square root. A mean is taken from what is then divided by the deviation (that root, and what initializers make of
/// it), or is divided itself and then taken from a bias.
std::set<Place> statistic_places(const OnnxGraph& graph) {
  const auto readers = readers_of(graph);
  const auto read_only_by = [&](const OnnxNode& node, const auto& allows) {
    if (node.outputs.size() != 1) return false;
    const auto found = readers.find(node.outputs[0]);
    return found != readers.end() && std::all_of(found->second.begin(), found->second.end(), allows);
  };
  std::set<std::string> fixed, deviations;  // values of initializers alone, and those of them that are deviations
  for (const OnnxTensor& tensor : graph.initializers) fixed.insert(tensor.name);
  const auto is_fixed = [&](const std::string& name) { return fixed.count(name) != 0; };
  const auto is_deviation = [&](const std::string& name) { return deviations.count(name) != 0; };
  const auto divides = [&](const Place& place) {
    const OnnxNode& node = *place.first;
    return node.inputs.size() == 2 && (node.op == "Mul" || (node.op == "Div" && place.second == 0)) &&
           is_deviation(node.inputs[1 - place.second]);
  };
  std::set<Place> made;
  for (const OnnxNode& node : graph.nodes) {
    const bool all_fixed = std::all_of(node.inputs.begin(), node.inputs.end(), is_fixed);
    if (all_fixed) fixed.insert(node.outputs.begin(), node.outputs.end());
    if (all_fixed && (node.op == "Sqrt" || std::any_of(node.inputs.begin(), node.inputs.end(), is_deviation)))
      deviations.insert(node.outputs.begin(), node.outputs.end());
    if (node.op == "Add" && read_only_by(node, [](const Place& place) { return place.first->op == "Sqrt"; }))
      for (size_t i = 0; i < node.inputs.size(); ++i) made.emplace(&node, i);
  }
  const auto is_taken = [](const Place& place) { return place.first->op == "Sub" && place.second == 1; };
  for (const OnnxNode& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size() && node.inputs.size() == 2; ++i)
      if ((is_taken({&node, i}) && read_only_by(node, divides)) ||
          (divides({&node, i}) && read_only_by(node, is_taken)))
        made.emplace(&node, i);
  return made;
}

/// Values of a graph that end in a weight's place, those of outer graphs among them: from the last node to the first.
std::set<std::string> weight_places(const OnnxGraph& graph) {
  const std::set<Place> statistics = statistic_places(graph);
  std::set<std::string> wanted;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const bool passes = moves_elements(*node) && !node->outputs.empty() && (i == 0 || node->op == "Concat") &&
                          wanted.count(node->outputs.at(0)) != 0;
      if (passes || (takes_weight(*node, i) && statistics.count({&*node, i}) == 0)) wanted.insert(node->inputs[i]);
    }
    for (const OnnxAttribute& attribute : node->attributes) {
      if (!attribute.graph) continue;
      const std::set<std::string> inner = weight_places(*attribute.graph);
      wanted.insert(inner.begin(), inner.end());
      // What a loop hands from step to step is a weight where no step changes it.
      for (size_t i = 0; i < node->inputs.size(); ++i)
        if (is_kept(*node, *attribute.graph, i) && inner.count(attribute.graph->inputs[i].name))
          wanted.insert(node->inputs[i]);
    }
  }
  return wanted;
}

}  // namespace

std::set<std::string> find_onnx_weights(const OnnxGraph& graph) {
  const std::set<std::string> wanted = weight_places(graph);
  std::set<std::string> made;
  for (const OnnxTensor& tensor : graph.initializers) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.dims) elements = elements > (int64_t{1} << 40) ? elements : elements * extent;
    if (tensor.type == 1 && !tensor.dims.empty() && elements > 1 && wanted.count(tensor.name)) made.insert(tensor.name);
  }
  return made;
}

namespace {

/// Whether rows hold each number twice, and not all numbers are one.
bool may_be_angles(const HostTensor& table) {
  const Shape& shape = table.type.shape;
  if (shape.rank() < 2 || shape.dim(-1) < 2 || shape.dim(-1) % 2 != 0 || table.elements() == 0) return false;
  const int64_t size = shape.dim(-1), half = size / 2;
  bool halves = true, neighbours = true, one = true;
  for (int64_t i = 0; i < table.elements() && (halves || neighbours); ++i) {
    const int64_t at = i % size;
    one = one && table.get(i) == table.get(0);
    if (at < half) halves = halves && table.get(i) == table.get(i + half);
    if (at % 2 == 0) neighbours = neighbours && table.get(i) == table.get(i + 1);
  }
  return (halves || neighbours) && !one;
}

/// Whether a^2 + b^2 is one number above 0 everywhere.
bool are_cosine_and_sine(const HostTensor& a, const HostTensor& b) {
  constexpr double kRounding = 1e-5;
  const double amplitude = a.get(0) * a.get(0) + b.get(0) * b.get(0);
  for (int64_t i = 0; i < a.elements(); ++i)
    if (!(std::fabs(a.get(i) * a.get(i) + b.get(i) * b.get(i) - amplitude) <= kRounding * amplitude)) return false;
  return amplitude > 0;
}

}  // namespace

bool hides_keys(const HostTensor& tensor) {
  constexpr float kHides = 1e30F;
  if (tensor.type.dtype != DType::kF32) return false;
  const auto* numbers = reinterpret_cast<const float*>(tensor.data.data());
  return std::any_of(numbers, numbers + tensor.elements(), [](float number) { return std::fabs(number) >= kHides; });
}

std::set<std::string> find_angle_tables(const std::vector<std::pair<std::string, const HostTensor*>>& tensors) {
  std::vector<std::pair<std::string, const HostTensor*>> candidates;
  for (const auto& each : tensors)
    if (may_be_angles(*each.second)) candidates.push_back(each);
  std::set<std::string> made;
  for (size_t i = 0; i < candidates.size(); ++i)
    for (size_t j = i + 1; j < candidates.size(); ++j)
      if (candidates[i].second->type == candidates[j].second->type &&
          are_cosine_and_sine(*candidates[i].second, *candidates[j].second))
        made.insert({candidates[i].first, candidates[j].first});
  return made;
}

}  // namespace ramet::front
