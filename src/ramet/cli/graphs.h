#pragma once

#include "ramet/graphs/graph_set.h"

namespace ramet::cli {

/// Says what a graph set holds: as tables, or as the JSON line {"event":"graphs",...}.
void print_graphs(const graphs::GraphSet& set, bool json);

}  // namespace ramet::cli
