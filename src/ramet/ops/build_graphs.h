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

/// Rows of H heads [B, H, N, F] and edges [B, E, F], which all heads read (ops/segment_heads.h). Of each edge the
/// product with its row, head by head: [B, E, H]; of each row the sum over its edges of weight [B, E, H] times the
/// edge: [B, H, N, F]; of each edge the sum over heads of weight times its row: [B, E, F].
Tensor segment_dot(Tensor rows, Tensor x, Tensor ptr);
Tensor segment_combine(Tensor x, Tensor weight, Tensor ptr);
Tensor segment_blend(Tensor rows, Tensor weight, Tensor ptr);

/// A graph in clusters (ops/halo.h), by the rows that edges end in and, reversed, by the rows that they come from.
/// Edges of one row ascend by their place in the whole graph in both lists.
struct HaloGraph {
  Tensor index, ptr;            ///< i32 [K, E] and [K, N + 1]
  Tensor back_index, back_ptr;  ///< i32 [K, E'] and [K, N + 1]
  TensorData rows, back_rows;   ///< i32 [K, H] and [K, H']: the far rows of the two lists
  /// For each edge of the lists its number in the reversed lists, and the inverse: i32 [K, E] and [K, E'].
  TensorData edges, back_edges;
  HaloGraph reversed() const;
};
/// out[i] = sum over the edges of row i of weight[e] * the row that the edge comes from: x [K, N, F] -> [K, N, F].
/// `weight` is invalid, [K, E] or [K, E, heads], as in neighbor_sum.
Tensor halo_sum(Tensor x, const HaloGraph& graph, Tensor weight = {});
/// Values of edges [K, E', ...] in the order of the reversed lists, brought into the order of the lists: [K, E, ...].
Tensor halo_edges(Tensor values, const HaloGraph& graph);

/// Distances between the rows a [G, M, D] and the columns b [G, K, T D] of each group (ops/pair_distance.h): the norm
/// of a - sum over terms of w * b, f32 [G, M, K]. `norm`: "l1", "squares" (without a root), "complex" or "box". `w` [G,
/// M, T D] is invalid for one term without weights; of "box" it holds widths [G, M, D].

/// Pairs of nodes with their distances f32 [B, P] (ops/radial.h): an edge in each direction.
struct PairLists {
  Tensor distance, ptr, second;
};
/// For each row the sum over its pairs of the filter at their distance times the other row: x [B, N, F] -> [B, N, F].
/// The filter is read from `table` [G, F] with rows at distances 0 to `cutoff`, between which cubic polynomials lie.
Tensor table_filter_sum(Tensor x, const PairLists& pairs, Tensor table, double cutoff);

/// Two layers with a shifted softplus between them, on Gaussians of the distance: w1 [H, K], b1 [H], w2 [F, H], b2 [F].
struct FilterNetwork {
  Tensor w1, b1, w2, b2;
};
/// The same with a network's filter, which exists for a few pairs at a time only. The network's result is multiplied by
/// (cos(pi distance / cutoff) + 1) / 2. Gaussian k of K has its centre at cutoff k / (K - 1), and the distance of two
/// centres as its deviation. With `keeps`, filters are stored as [B, P, F] for the gradient of x, which otherwise
/// computes them again.
Tensor network_filter_sum(Tensor x, const PairLists& pairs, const FilterNetwork& network, double cutoff,
                          bool keeps = false);
/// The same with filters [B, P, F] that are at hand.
Tensor pair_filter_sum(Tensor x, const PairLists& pairs, Tensor filter, double cutoff);

/// Distances between the rows a [G, M, D] and the columns b [G, K, T D] of each group (ops/pair_distance.h): the norm
/// of a - sum over terms of w * b, f32 [G, M, K]. `norm`: "l1", "squares" (without a root), "complex" or "box". `w` [G,
/// M, T D] is invalid for one term without weights; of "box" it holds widths [G, M, D].
Tensor pair_distance(Tensor a, Tensor b, const std::string& norm, Tensor w = {});

}  // namespace ramet::ops
