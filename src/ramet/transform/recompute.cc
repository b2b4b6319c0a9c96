#include "ramet/transform/recompute.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/transform/layers.h"

namespace ramet {
namespace {

constexpr int kNoLayer = -1;

/// One plan: a level for each layer, and whether the boundary in front of a layer is dropped too.
struct Plan {
  std::vector<RecomputeLevel> levels;
  std::vector<bool> drop_input;  ///< true: the layer's inputs are recomputed from the layer before
};

class Recomputer {
 public:
  Recomputer(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {
    layer_.reserve(graph.nodes().size());
    for (const Node& node : graph.nodes()) {
      layer_.push_back(layer_of(node.name));
      backward_.push_back(is_backward(node.name));
    }
    find_kept();
  }

  Graph run() {
    Graph result(graph_.name());
    GraphCopier copier(graph_, result);
    copier_ = &copier;
    result_ = &result;
    clones_.assign(graph_.values().size(), kNoValue);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (backward_[static_cast<size_t>(id)])
        copy_backward(id);
      else
        copier.copy_node(id);
    }
    copier.copy_outputs();
    return result;
  }

 private:
  RecomputeLevel level(int layer) const {
    return layer < 0 || static_cast<size_t>(layer) >= plan_.levels.size() ? RecomputeLevel::kNone
                                                                          : plan_.levels[static_cast<size_t>(layer)];
  }

  void find_kept() {
    kept_.assign(graph_.values().size(), true);
    const auto uses = graph_.uses();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const size_t n = static_cast<size_t>(id);
      if (backward_[n] || level(layer_[n]) == RecomputeLevel::kNone) continue;
      const Node& node = graph_.node(id);
      if (level(layer_[n]) == RecomputeLevel::kCheap && !node.op->cheap && node.op->map_op.empty() && !node.op->is_view)
        continue;
      for (ValueId output : node.outputs)
        kept_[static_cast<size_t>(output)] = is_boundary(uses[static_cast<size_t>(output)], layer_[n]);
    }
    for (const auto& output : graph_.outputs()) kept_[static_cast<size_t>(output.value)] = true;
  }

  /// A value that the forward pass of another layer (or of no layer) reads is kept, unless the plan drops that
  /// boundary.
  bool is_boundary(const std::vector<NodeId>& users, int layer) const {
    for (NodeId user : users) {
      const size_t n = static_cast<size_t>(user);
      if (backward_[n] || layer_[n] == layer) continue;
      const bool dropped = layer_[n] >= 0 && static_cast<size_t>(layer_[n]) < plan_.drop_input.size() &&
                           plan_.drop_input[static_cast<size_t>(layer_[n])];
      if (!dropped) return true;
    }
    return false;
  }

  /// The value as the backward pass sees it: itself, or its copy, made on first need.
  ValueId in_backward(ValueId id) {
    const Value& value = graph_.value(id);
    if (kept_[static_cast<size_t>(id)] || value.producer == kNoNode || backward_[static_cast<size_t>(value.producer)])
      return (*copier_)[id];
    if (clones_[static_cast<size_t>(id)] == kNoValue) {
      const Node& node = graph_.node(value.producer);
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(in_backward(input));
      const NodeId copy = result_->add_node(*node.op, inputs, node.attributes, recomputed(node.name));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        clones_[static_cast<size_t>(node.outputs[i])] = result_->node(copy).outputs[i];
    }
    return clones_[static_cast<size_t>(id)];
  }

  void copy_backward(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(in_backward(input));
    const NodeId copy = result_->add_node(*node.op, inputs, node.attributes, node.name);
    for (size_t i = 0; i < node.outputs.size(); ++i) copier_->map(node.outputs[i], result_->node(copy).outputs[i]);
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<int> layer_;
  std::vector<bool> backward_, kept_;
  std::vector<ValueId> clones_;
  GraphCopier* copier_ = nullptr;
  Graph* result_ = nullptr;
};

size_t count_layers(const Graph& graph) {
  int last = kNoLayer;
  for (const Node& node : graph.nodes()) last = std::max(last, layer_of(node.name));
  return static_cast<size_t>(last + 1);
}

StepGraph apply(const StepGraph& step, const Plan& plan) {
  StepGraph result = step;
  result.micro = Recomputer(step.micro, plan).run();
  return result;
}

/// Candidates from no recomputation to all, each needing less memory and more time than the one before: layers turn
/// cheap one after another, then whole, then boundaries are dropped. The first that fits is found by bisection.
Plan ladder_rung(size_t layers, size_t rung) {
  Plan plan{std::vector<RecomputeLevel>(layers, RecomputeLevel::kNone), std::vector<bool>(layers, false)};
  for (size_t i = 0; i < layers; ++i) {
    if (rung > i) plan.levels[i] = RecomputeLevel::kCheap;
    if (rung > layers + i) plan.levels[i] = RecomputeLevel::kLayer;
  }
  return plan;
}

Plan thinned(size_t layers) {
  Plan plan{std::vector<RecomputeLevel>(layers, RecomputeLevel::kLayer), std::vector<bool>(layers, false)};
  const size_t stride = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(layers))));
  for (size_t i = 0; i < layers; ++i) plan.drop_input[i] = stride > 0 && i % stride != 0;
  return plan;
}

StepGraph fit(const StepGraph& step, size_t layers, const RecomputeOptions& options,
              const std::function<int64_t(const StepGraph&)>& peak_bytes) {
  const auto candidate = [&](size_t rung) {
    return apply(step, rung > 2 * layers ? thinned(layers) : ladder_rung(layers, rung));
  };
  size_t low = 0, high = 2 * layers + (options.in_parts ? 0 : 1);
  StepGraph best = candidate(high);
  while (low < high) {
    const size_t middle = (low + high) / 2;
    StepGraph trial = candidate(middle);
    if (peak_bytes(trial) <= options.byte_limit)
      high = middle, best = std::move(trial);
    else
      low = middle + 1;
  }
  return best;
}

}  // namespace

RecomputeOptions parse_recompute(const std::string& text) {
  using Mode = RecomputeOptions::Mode;
  RecomputeOptions options;
  if (text == "none") return options;
  if (text == "cheap" || text == "all" || text == "layer") {
    options.mode = text == "cheap" ? Mode::kCheap : text == "all" ? Mode::kAll : Mode::kLayers;
    return options;
  }
  if (text.rfind("fit:", 0) == 0) {
    options.mode = Mode::kFit;
    options.byte_limit = parse_size(text.substr(4));
    return options;
  }
  const auto refuse = [&] {
    return Error({.what = "unknown recomputation",
                  .where = "train.recompute",
                  .found = "'" + text + "'",
                  .expected = "none, cheap, layer, layer:0,3,5, all or fit:2GiB"});
  };
  if (text.rfind("layer:", 0) != 0) throw refuse();
  options.mode = Mode::kLayers;
  const char *at = text.data() + 6, *end = text.data() + text.size();
  for (;;) {
    int64_t layer = 0;
    const auto result = std::from_chars(at, end, layer);
    if (result.ec != std::errc() || layer < 0) throw refuse();
    options.layers.push_back(layer);
    if (result.ptr == end) return options;
    if (*result.ptr != ',') throw refuse();
    at = result.ptr + 1;
  }
}

StepGraph recompute(StepGraph step, const RecomputeOptions& options,
                    const std::function<int64_t(const StepGraph&)>& peak_bytes) {
  using Mode = RecomputeOptions::Mode;
  const size_t layers = count_layers(step.micro);
  if (options.mode == Mode::kNone || layers == 0) return step;
  if (options.mode == Mode::kFit) return fit(step, layers, options, peak_bytes);
  if (options.mode == Mode::kAll && !options.in_parts) return apply(step, thinned(layers));
  Plan plan{std::vector<RecomputeLevel>(layers, RecomputeLevel::kNone), std::vector<bool>(layers, false)};
  const bool named = options.mode == Mode::kLayers && !options.layers.empty();
  if (!named)
    plan.levels.assign(layers, options.mode == Mode::kCheap ? RecomputeLevel::kCheap : RecomputeLevel::kLayer);
  for (int64_t layer : options.layers) {
    if (layer >= static_cast<int64_t>(layers))
      throw Error({.what = "no such layer to recompute",
                   .where = "train.recompute",
                   .found = std::to_string(layer),
                   .expected = "0 to " + std::to_string(layers - 1)});
    plan.levels[static_cast<size_t>(layer)] = RecomputeLevel::kLayer;
  }
  return apply(step, plan);
}

}  // namespace ramet
