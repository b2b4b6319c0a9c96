#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// The parts of all stacks of a model (ir/graph.h), in the order in which a graph comes to them: the layers 0, 1, 2,
/// ... of layouts, of recomputation and of reports. A part comes where the graph first computes one of its values from
/// data. The parts of a stack come in the order of their numbers, and a stack has every number up to its greatest.
class LayerOrder {
 public:
  explicit LayerOrder(const Graph& graph);

  int size() const { return static_cast<int>(parts_.size()); }
  const Part& operator[](int index) const { return parts_[static_cast<size_t>(index)]; }
  /// Layer number of a part; kNoLayer for nodes outside of all stacks, and for parts that the graph does not have.
  int index_of(const Part& part) const;
  static constexpr int kNoLayer = -1;

 private:
  std::vector<Part> parts_;
  std::map<std::string, std::vector<int>> places_;  // of each stack's parts
};

/// For each node of the backward pass, the layer at which the backward pass is when it comes to this node: the number
/// of layers before it has reached any layer (the loss head), and then the layer reached last. -1 for nodes of other
/// passes. `backward` says which nodes are of the backward pass.
std::vector<int> backward_layers(const Graph& micro, const LayerOrder& layers, const std::vector<bool>& backward);

/// A place in a model that no layout cuts apart: the readers of a weight in one region share one gradient sum. `layer`
/// is a number of LayerOrder.
struct ModelRegion {
  enum class Where : int8_t { kBefore, kIn, kAfter } where = Where::kBefore;
  int layer = 0;
  friend auto operator<=>(const ModelRegion&, const ModelRegion&) = default;
};

/// The region of each node of a forward graph: in its layer. A node outside of all layers is after the last layer that
/// it depends on; one that depends on none is before the first layer that reads it.
std::vector<ModelRegion> regions_of(const Graph& forward, const LayerOrder& layers);

}  // namespace ramet::transform
