#pragma once

#include <cstdint>
#include <string>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"

namespace ramet::ops {

// Graphs in a batch. A sample b of the batch has N rows (nodes) and E places for edges, which are sorted by the row
// that they end in: row i has the edges [ptr[b, i], ptr[b, i + 1]). Places from ptr[b, N] on hold no edge. So the
// pointers alone say what is real, and no op needs a mask.
//
// A sum over the edges of a row is one chain from +0 in f32, in ascending order of the edges; with weights, of fused
// multiply-adds. No shard, thread or padding changes the order.

/// Operands x [B, E, ...] and ptr i32 [B, N + 1], or (`expands`) rows [B, N, ...] and ptr.
struct SegmentForm {
  int64_t batch = 0, rows = 0, edges = 0;
  int64_t width = 0;  ///< elements of an edge (of a row)
};
/// Throws Error naming the node when the operands do not fit.
SegmentForm segment_form(const NodeSignature& node);
/// Of `segment_expand`, whose attribute `edges` is E.
SegmentForm expand_form(const NodeSignature& node);

/// The lists of a graph's edges, from the input `first` of a node on: source i32 [B, E], the rows of x that edges come
/// from; ptr i32 [B, N + 1]; and the same edges by the row that they come from: target i32 [B, E], the rows that they
/// end in; by_source i32 [B, E], their places in the first list; source_ptr i32 [B, V + 1]. Edges of one row ascend by
/// place in both lists.
struct NeighborForm {
  int64_t batch = 0, targets = 0, sources = 0, edges = 0;  ///< B, N, V, E
  int64_t width = 0;                                       ///< features F of a row
  int64_t heads = 0;  ///< weights of an edge, each for F / heads features; 0: an edge has none, or has one number
  bool weighted = false;
  bool transposed = false;  ///< x [B, N, F] by the second list gives [B, V, F]
  int64_t from() const { return transposed ? targets : sources; }
  int64_t to() const { return transposed ? sources : targets; }
};
/// Of a node `neighbor_sum`: x, the lists, and perhaps weights [B, E] or [B, E, heads].
NeighborForm neighbor_sum_form(const NodeSignature& node);
/// Heads of the weights of edges [batch, edges] (0 heads) or [batch, edges, heads], which are an input of a node whose
/// first input is x of `width` features. Throws Error where they do not fit.
int64_t edge_weight_heads(const NodeSignature& node, int input, int64_t batch, int64_t edges, int64_t width);
/// Of a node `neighbor_dot`: a [B, N, F], b [B, V, F] and the lists; attribute `heads`.
NeighborForm neighbor_dot_form(const NodeSignature& node);

/// What a node's lists hold.
struct NeighborPointers {
  const int32_t *source, *ptr, *target, *by_source, *source_ptr;
};
/// Throws Error (kFailure) naming the node and the place unless pointers ascend within [0, edges] and all rows and
/// places of edges are in range.
void check_segments(const NodeSignature& node, const int32_t* ptr, int64_t batch, int64_t rows, int64_t edges);
void check_neighbors(const NodeSignature& node, const NeighborForm& form, const NeighborPointers& lists);
/// What they throw: the number at `where` ("source[0,3]") is not in [low, high].
Error wrong_edge_list(const NodeSignature& node, const std::string& where, int64_t found, int64_t low, int64_t high);

}  // namespace ramet::ops
