#pragma once

#include <cstdint>

#include "ramet/ir/op.h"

namespace ramet::ops {

// Heads over the edges of rows (ops/neighbors.h). Each of H heads has a row of its own, [B, H, N, F]; an edge [B, E, F]
// has one row that all heads read. So a product that all edges would have to go through may be taken by the rows that
// they end in, of which there are fewer: q . (W x) = (W^T q) . x, and sum w (W x) = W (sum w x).
//
//   segment_dot      rows [B, H, N, F], x [B, E, F], ptr -> [B, E, H]: of each edge and head the sum of row * x
//   segment_combine  x [B, E, F], weight [B, E, H], ptr -> [B, H, N, F]: the sum over a row's edges of weight * x
//   segment_blend    rows [B, H, N, F], weight [B, E, H], ptr -> [B, E, F]: the sum over heads of weight * row
//
// They are one another's gradients. Places without an edge get 0. Sums over edges and over heads are chains of fused
// multiply-adds from +0 in f32, in ascending order.
struct SegmentHeadsForm {
  int64_t batch = 0, heads = 0, rows = 0, edges = 0;  ///< B, H, N, E
  int64_t width = 0;                                  ///< F
};
/// Throws Error naming the node when the operands do not fit.
SegmentHeadsForm segment_dot_form(const NodeSignature& node);
SegmentHeadsForm segment_combine_form(const NodeSignature& node);
SegmentHeadsForm segment_blend_form(const NodeSignature& node);

}  // namespace ramet::ops
