#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Computes only those rows that are read. Where a node picks rows of a value (OpDef::picks_rows: the masked words of a
/// sequence, the last token of a text), the nodes before it that compute each row by itself compute the picked rows
/// alone: products, norms and maps of a model's last layer. A row is computed as before, so no bit changes.
///
/// A node moves behind the picking when nothing else reads its outputs, it does not depend on positions, and its
/// sharding rule has the dimensions of rows as free factors. Values that such nodes read and that others read, too, are
/// picked from. Nothing moves unless a matrix product does and at least half of the rows are left out.
Graph pick_early(const Graph& graph);
/// In programs on request that change no state: the gradient of a training graph sums over all rows.
StepGraph pick_early(StepGraph step);

}  // namespace ramet::transform
