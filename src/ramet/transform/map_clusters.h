#pragma once

#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Nodes that will be one `map`, last first: element-wise nodes, maps, and others with a role in maps (ops/map_role.h),
/// all over `space`. The map stands where `last` stood.
struct MapCluster {
  std::vector<NodeId> nodes;
  NodeId last = kNoNode;
  Shape space;
};

/// What a value of 16 bits is to the nodes of its own cluster.
enum class MapRounding : uint8_t {
  kAtOutputs,  ///< f32: only readers outside of the map see the rounding
  kAlways      ///< rounded, as to all other readers, so that clusters change no bit
};

/// The graph with a map in place of each cluster of two nodes or more, or of a node with an output that nobody reads.
/// A value that nodes outside of the cluster read is an output of the map; what no output needs is left out.
Graph with_maps(const Graph& graph, const std::vector<MapCluster>& clusters, MapRounding rounding);

}  // namespace ramet::transform
