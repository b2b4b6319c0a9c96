#pragma once

#include <string>

#include "ramet/ops/build.h"

namespace ramet::ops {

// Functions on graphs in a batch (ops/neighbors.h): B samples of N rows and E edges.

/// x [B, E, ...] summed over the edges of each row: [B, N, ...]; of a row without edges 0.
Tensor segment_sum(Tensor x, Tensor ptr);
/// The sum over the number of edges; of a row without edges 0.
Tensor segment_mean(Tensor x, Tensor ptr);
/// The greatest (least) element over the edges of each row; of a row without edges 0. The gradient goes to the first of
/// equal elements. A NaN counts as the greatest (least).
Tensor segment_max(Tensor x, Tensor ptr);
Tensor segment_min(Tensor x, Tensor ptr);
/// exp(x) over its sum, over the edges of each row: [B, E, ...]; 0 at places without an edge.
Tensor segment_softmax(Tensor x, Tensor ptr);
/// rows [B, N, ...] given to each edge of its row: [B, edges, ...]; 0 at places without an edge.
Tensor segment_expand(Tensor rows, Tensor ptr, int64_t edges);
/// rows [B, V, ...] at indices [B, ...]: of sample b the rows of sample b.
Tensor gather_rows(Tensor rows, Tensor indices);

/// A graph's edges twice: by the row that they end in, and by the row that they come from (NeighborForm).
struct NeighborLists {
  Tensor source, ptr, target, by_source, source_ptr;
};
/// out[i] = sum over the edges of row i of weight[e] * x[source[e]]: x [B, V, F] -> [B, N, F]. `weight` is invalid, [B,
/// E], or [B, E, heads], head h for features [h F / heads, (h + 1) F / heads). With `transposed`, out[j] is the sum
/// over the edges that come from row j of weight[e] * x[target[e]]: x [B, N, F] -> [B, V, F].
Tensor neighbor_sum(Tensor x, const NeighborLists& lists, Tensor weight = {}, bool transposed = false);
/// For each edge the sum of a[target] * b[source] over the features of a head: a [B, N, F], b [B, V, F] -> [B, E,
/// heads], or [B, E] with heads = 0.
Tensor neighbor_dot(Tensor a, Tensor b, const NeighborLists& lists, int64_t heads = 0);

/// Distances between the rows a [G, M, D] and the columns b [G, K, T D] of each group (ops/pair_distance.h): the norm of
/// a - sum over terms of w * b, f32 [G, M, K]. `norm`: "l1", "squares" (without a root), "complex" or "box". `w` [G, M, T
/// D] is invalid for one term without weights; of "box" it holds widths [G, M, D].
Tensor pair_distance(Tensor a, Tensor b, const std::string& norm, Tensor w = {});

}  // namespace ramet::ops
