#pragma once

#include <functional>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Whether `joined`, the node `bare` with an epilogue (ops/epilogue.h), has as good a kernel as `bare`.
using TakesEpilogue = std::function<bool(const NodeSignature& bare, const NodeSignature& joined)>;

/// Makes the element-wise node behind a node the epilogue of that node: where the op has the attribute `epilogue`, the
/// element-wise node is the only reader of the result, both are in one part and one pass, and `takes` agrees. The
/// joined node stands where the element-wise node stood. No bit changes.
Graph join_epilogues(const Graph& graph, const TakesEpilogue& takes);

}  // namespace ramet::transform
