#include "ramet/transform/recompute.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/transform/fit_activations.h"
#include "ramet/transform/layer_inputs.h"
#include "ramet/transform/layers.h"

namespace ramet::transform {
namespace {

class Recomputer {
 public:
  Recomputer(const Graph& graph, const ActivationChoices& choices) : graph_(graph), choices_(choices) {
    const LayerOrder layers(graph);
    layer_.reserve(graph.nodes().size());
    for (const Node& node : graph.nodes()) {
      layer_.push_back(layers.index_of(node.part));
      backward_.push_back(node.pass == NodePass::kBackward);
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
  const LayerActivations& of(int layer) const {
    static const LayerActivations kAllKept;
    return layer < 0 || static_cast<size_t>(layer) >= choices_.size() ? kAllKept : choices_[static_cast<size_t>(layer)];
  }
  RecomputeLevel level(int layer) const { return of(layer).recompute; }

  void find_kept() {
    kept_.assign(graph_.values().size(), true);
    const auto uses = graph_.uses();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const size_t n = static_cast<size_t>(id);
      if (backward_[n] || level(layer_[n]) == RecomputeLevel::kNone) continue;
      const Node& node = graph_.node(id);
      if (level(layer_[n]) == RecomputeLevel::kCheap && (!is_cheap(graph_, id) || is_cheaper_to_keep(id, uses)))
        continue;
      for (ValueId output : node.outputs)
        kept_[static_cast<size_t>(output)] = is_boundary(uses[static_cast<size_t>(output)], layer_[n]);
    }
    for (const auto& output : graph_.outputs()) kept_[static_cast<size_t>(output.value)] = true;
  }

  /// Whether to keep what a node makes takes no more memory than to keep what it is made from, which nothing else of
  /// the backward pass reads.
  bool is_cheaper_to_keep(NodeId id, const std::vector<std::vector<NodeId>>& uses) const {
    const Node& node = graph_.node(id);
    if (node.op->is_view) return false;
    int64_t made = 0, freed = 0;
    for (ValueId output : node.outputs) made += graph_.type(output).bytes();
    for (ValueId input : std::set<ValueId>(node.inputs.begin(), node.inputs.end())) {
      const NodeId producer = graph_.value(input).producer;
      const auto reads = [&](NodeId user) {
        return user != id && (backward_[static_cast<size_t>(user)] || is_cheap(graph_, user));
      };
      if (producer == kNoNode || !kept_[static_cast<size_t>(input)] || graph_.node(producer).inputs.empty() ||
          std::ranges::any_of(uses[static_cast<size_t>(input)], reads))
        continue;
      freed += graph_.type(input).bytes();
    }
    return made <= freed;
  }

  /// A value that the forward pass of another layer (or of no layer) reads is kept, unless the choices drops that
  /// boundary.
  bool is_boundary(const std::vector<NodeId>& users, int layer) const {
    for (NodeId user : users) {
      const size_t n = static_cast<size_t>(user);
      if (backward_[n] || layer_[n] == layer) continue;
      if (!of(layer_[n]).drop_input) return true;
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
      const NodeId copy = result_->add_node(*node.op, inputs, node.attributes,
                                            node.derived(NodePass::kRecompute, node.name + "/recompute"));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        clones_[static_cast<size_t>(node.outputs[i])] = result_->node(copy).outputs[i];
    }
    return clones_[static_cast<size_t>(id)];
  }

  void copy_backward(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(in_backward(input));
    copier_->copy_node(id, std::move(inputs), node.attributes);
  }

  const Graph& graph_;
  const ActivationChoices& choices_;
  std::vector<int> layer_;
  std::vector<bool> backward_, kept_;
  std::vector<ValueId> clones_;
  GraphCopier* copier_ = nullptr;
  Graph* result_ = nullptr;
};

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

size_t count_layers(const Graph& micro) { return static_cast<size_t>(LayerOrder(micro).size()); }

ActivationChoices choose_activations(const RecomputeOptions& options, size_t layers) {
  using Mode = RecomputeOptions::Mode;
  ActivationChoices choices(layers + 1);
  if (options.mode == Mode::kNone || options.mode == Mode::kFit) return choices;
  const bool named = options.mode == Mode::kLayers && !options.layers.empty();
  const auto stride = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(layers))));
  for (size_t i = 0; i < layers && !named; ++i) {
    choices[i].recompute = options.mode == Mode::kCheap ? RecomputeLevel::kCheap : RecomputeLevel::kLayer;
    choices[i].drop_input = options.mode == Mode::kAll && !options.in_parts && i % stride != 0;
  }
  for (int64_t layer : options.layers) {
    if (layers == 0) break;
    if (layer >= static_cast<int64_t>(layers))
      throw Error({.what = "no such layer to recompute",
                   .where = "train.recompute",
                   .found = std::to_string(layer),
                   .expected = "0 to " + std::to_string(layers - 1)});
    choices[static_cast<size_t>(layer)].recompute = RecomputeLevel::kLayer;
  }
  return choices;
}

StepGraph recompute(const StepGraph& step, const ActivationChoices& choices) {
  StepGraph result = step;
  const auto recomputes = [](const LayerActivations& layer) { return layer.recompute != RecomputeLevel::kNone; };
  if (std::any_of(choices.begin(), choices.end(), recomputes)) result.micro = Recomputer(step.micro, choices).run();
  return result;
}

ActivationChoices choose_activations(const StepGraph& step, const RecomputeOptions& options, const Rates& rates,
                                     const std::function<int64_t(const StepGraph&)>& peak_bytes, double time_share) {
  const size_t layers = count_layers(step.micro);
  if (options.mode != RecomputeOptions::Mode::kFit) return choose_activations(options, layers);
  FitProblem problem{.stage_of = std::vector<int>(layers + 1, 0), .byte_limit = options.byte_limit, .peaks = {}};
  problem.in_parts = options.in_parts;
  problem.rates = rates;
  problem.time_share = time_share;
  problem.peaks = [&](const StepGraph& candidate, const ActivationChoices&) {
    return std::vector<int64_t>{peak_bytes(candidate)};
  };
  return fit_activations(step, problem);
}

StepGraph recompute(const StepGraph& step, const RecomputeOptions& options,
                    const std::function<int64_t(const StepGraph&)>& peak_bytes) {
  return recompute(step, choose_activations(step, options, Rates(), peak_bytes));
}

}  // namespace ramet::transform
