#include "ramet/transform/layers.h"

#include <algorithm>
#include <limits>

namespace ramet::transform {
namespace {

/// Whether each value depends on what the host feeds.
std::vector<bool> find_fed(const Graph& graph) {
  std::vector<bool> fed(graph.values().size(), false);
  for (const GraphInput& input : graph.inputs())
    fed[static_cast<size_t>(input.value)] = input.role == InputRole::kData || input.role == InputRole::kBoundary;
  for (const Node& node : graph.nodes()) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return fed[static_cast<size_t>(input)]; });
    for (ValueId output : node.outputs) fed[static_cast<size_t>(output)] = any;
  }
  return fed;
}

}  // namespace

LayerOrder::LayerOrder(const Graph& graph) {
  // Where each part is first computed from data, or at all where that never is; parts without nodes have no such place.
  constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  const std::vector<bool> fed = find_fed(graph);
  std::map<std::string, std::vector<std::pair<size_t, size_t>>> first;  // with data, without
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (!node.part.known()) continue;
    auto& stack = first[node.part.stack];
    const auto index = static_cast<size_t>(node.part.index);
    if (stack.size() <= index) stack.resize(index + 1, {kNowhere, kNowhere});
    auto& [with, without] = stack[index];
    without = std::min(without, n);
    const bool from_data = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId input) { return fed[static_cast<size_t>(input)]; });
    if (from_data) with = std::min(with, n);
  }
  std::vector<std::pair<size_t, Part>> places;
  for (const auto& [name, stack] : first) {
    size_t place = 0;
    for (size_t i = 0; i < stack.size(); ++i) {
      const auto [with, without] = stack[i];
      if (const size_t own = with != kNowhere ? with : without; own != kNowhere) place = std::max(place, own);
      places.push_back({place, {name, static_cast<int32_t>(i)}});
    }
  }
  // Two stacks never begin at one node; a part without nodes stands right behind the one before it.
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [place, part] : places) {
    places_[part.stack].push_back(static_cast<int>(parts_.size()));
    parts_.push_back(std::move(part));
  }
}

int LayerOrder::index_of(const Part& part) const {
  if (!part.known()) return kNoLayer;
  const auto stack = places_.find(part.stack);
  if (stack == places_.end() || static_cast<size_t>(part.index) >= stack->second.size()) return kNoLayer;
  return stack->second[static_cast<size_t>(part.index)];
}

std::vector<int> backward_layers(const Graph& micro, const LayerOrder& layers, const std::vector<bool>& backward) {
  std::vector<int> result(micro.nodes().size(), -1);
  int at = layers.size();
  for (size_t n = 0; n < result.size(); ++n) {
    if (!backward[n]) continue;
    if (const int own = layers.index_of(micro.nodes()[n].part); own >= 0) at = own;
    result[n] = at;
  }
  return result;
}

std::vector<ModelRegion> regions_of(const Graph& forward, const LayerOrder& layers) {
  constexpr int kNone = -1, kNever = std::numeric_limits<int>::max();
  const size_t count = forward.nodes().size();
  std::vector<int> own(count), last(forward.values().size(), kNone), first(forward.values().size(), kNever);
  for (size_t n = 0; n < count; ++n) {
    const Node& node = forward.nodes()[n];
    own[n] = layers.index_of(node.part);
    int most = own[n];
    for (ValueId input : node.inputs) most = std::max(most, last[static_cast<size_t>(input)]);
    for (ValueId output : node.outputs) last[static_cast<size_t>(output)] = most;
  }
  std::vector<ModelRegion> regions(count);
  for (size_t n = count; n-- > 0;) {
    const Node& node = forward.nodes()[n];
    int least = own[n] == LayerOrder::kNoLayer ? kNever : own[n], most = kNone;
    for (ValueId output : node.outputs) least = std::min(least, first[static_cast<size_t>(output)]);
    for (ValueId input : node.inputs) {
      first[static_cast<size_t>(input)] = std::min(first[static_cast<size_t>(input)], least);
      most = std::max(most, last[static_cast<size_t>(input)]);
    }
    if (own[n] != LayerOrder::kNoLayer)
      regions[n] = {ModelRegion::Where::kIn, own[n]};
    else if (most != kNone)
      regions[n] = {ModelRegion::Where::kAfter, most};
    else
      regions[n] = {ModelRegion::Where::kBefore, least == kNever ? 0 : least};
  }
  return regions;
}

}  // namespace ramet::transform
