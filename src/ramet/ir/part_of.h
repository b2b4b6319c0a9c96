#pragma once

#include <set>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::ir {

/// The part of a graph that some of its values come from: these outputs, and the inputs and nodes that they need.
Graph part_of(const Graph& graph, const std::string& name, const std::vector<GraphOutput>& outputs);
/// The part that makes the outputs named in `wanted`, and nothing else.
Graph part_of(const Graph& graph, const std::set<std::string>& wanted);

}  // namespace ramet::ir
