#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// The parts of all stacks of a model (ir/graph.h), in the order in which a graph comes to them: the layers 0, 1, 2, ...
/// of layouts, of recomputation and of reports. A part stands where the graph first computes something of it from data;
/// the parts of a stack stand in the order of their numbers, and a stack has all of them up to its greatest.
class PartOrder {
 public:
  explicit PartOrder(const Graph& graph);

  int size() const { return static_cast<int>(parts_.size()); }
  const Part& operator[](int index) const { return parts_[static_cast<size_t>(index)]; }
  /// Place of a part; kNoPart for what is outside of all stacks, and for parts that the graph does not have.
  int index_of(const Part& part) const;
  static constexpr int kNoPart = -1;

 private:
  std::vector<Part> parts_;
  std::map<std::string, std::vector<int>> places_;  // of each stack's parts
};

/// For each node of the backward pass, the part that the pass is at when it comes to it: the number of parts before it
/// has come to any, as the loss head's; the first one's after all. -1 for other nodes. `backward` says which nodes these
/// are.
std::vector<int> backward_parts(const Graph& micro, const PartOrder& parts, const std::vector<bool>& backward);

/// What shares a place in a model: the readers of a weight that one gradient sum serves, however a layout cuts the
/// model. `part` is a place of PartOrder.
struct ModelRegion {
  enum class Where : int8_t { kBefore, kIn, kAfter } where = Where::kBefore;
  int part = 0;
  friend auto operator<=>(const ModelRegion&, const ModelRegion&) = default;
};

/// The region of each node of a forward graph: in its part; a node outside of all parts is after the last part that it
/// depends on, or, where it depends on none, before the first part that reads it.
std::vector<ModelRegion> regions_of(const Graph& forward, const PartOrder& parts);

}  // namespace ramet::transform
