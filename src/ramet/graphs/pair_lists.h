#pragma once

#include <cstdint>
#include <vector>

#include "ramet/graphs/graph_set.h"
#include "ramet/graphs/packs.h"

namespace ramet::graphs {

/// Edges that come in both directions, as pairs of nodes (ops/radial.h): the first node of a pair has the lower number.
/// Pairs ascend by their first node, then by their second.
struct PairNumbers {
  std::vector<int32_t> ptr;     ///< of `nodes` + 1 numbers: node i is the first of the pairs [ptr[i], ptr[i + 1])
  std::vector<int32_t> second;  ///< the other node of each pair
  std::vector<int64_t> edge;    ///< a row of the set's edge fields: the edge from the second node to the first
};

/// The pairs of a pack with room for `nodes` nodes. `field` is a field of edges, one number each, that both directions
/// of an edge share. Throws Error naming an edge from a node to itself, or one whose reverse is not there or has
/// another value.
PairNumbers pairs_of(const GraphSet& set, size_t field, const PackContents& pack, int64_t nodes);

}  // namespace ramet::graphs
