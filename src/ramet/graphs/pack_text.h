#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ramet/graphs/packs.h"

namespace ramet::graphs {

/// What packs of a run share, beside the way that they are made.
struct PackRequest {
  std::vector<int64_t> members{};  ///< graphs that take part, or nodes that are seeds; empty: all
  GraphBudget budget{};            ///< room to make instead of the least; 0: the least
  int64_t epochs = 0;
  Oversize oversize = Oversize::kRefuse;
  bool shuffle = true;
  uint64_t seed = 0;
};
/// Packs as a recipe names them:
///
///     count:32              32 graphs
///     pad:32                32 graphs, with room for the largest 32 times
///     stream:256:608:32     graphs until 256 nodes, 608 edges or 32 graphs are full (edges and graphs may be left out)
///     histogram:256:16:608  longest pack first in 256 nodes, at most 16 graphs and 608 edges (0: any number; edges may
///                           be left out)
///     neighbors:512:10,10   neighbours of 512 nodes, 10 of each in two hops
///     clusters:4            4 clusters of node.part
///     walks:1000:2          1000 random walks of 2 steps
///     walks:1000:2:200      the same, with counts of the first 200 packs for GraphSAINT's correction
///     cut                   one cluster of node.part with all edges that end in it, of a graph that is cut
///     (graph_cut.h)
///
/// Throws Error for other texts, for a bound that the text and the request's budget give differently, and for what of
/// the request such packs do not take.
std::shared_ptr<const Packs> make_packs(std::shared_ptr<const GraphSet> set, const std::string& text,
                                        const PackRequest& request);
/// Whether the members of the text's packs are nodes.
bool samples_nodes(const std::string& text);

}  // namespace ramet::graphs
