#pragma once

#include <memory>

#include "ramet/graphs/graph_source.h"
#include "ramet/model/graph_net.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// A recipe's graphs, as its model and its training see them.
struct OpenedGraphs {
  std::shared_ptr<const GraphSet> set;
  std::shared_ptr<const graphs::GraphSource> train, held_out;  ///< held_out: null without a split
  GraphTask task;
};

/// Opens the graph set of a recipe, or takes `set` in its place, and finds the room of its batches. Throws Error naming
/// the key that is wrong.
OpenedGraphs open_graphs(const Recipe& recipe, std::shared_ptr<const GraphSet> set = nullptr);
/// The sizes of the recipe's network.
GraphNetConfig graph_config_of(const Recipe& recipe);

}  // namespace ramet::recipe
