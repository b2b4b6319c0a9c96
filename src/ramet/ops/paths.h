#pragma once

#include <cstdint>
#include <string>

#include "ramet/ir/op.h"

namespace ramet::ops {

// Messages along paths (Zhu et al., arXiv 2106.06935): an edge of a graph with relations sends its source's row,
// changed by the row of the edge's relation. A sample b of the batch has N rows (nodes), R rows of relations and E
// places for edges, which are sorted by the row that they end in, as ops/neighbors.h has them. An edge's message m
// exists for a vector of features at a time, so there is no tensor of edges x features, forward or backward.
//
// Row i begins with a message of its own, own[i]; those of its edges follow in ascending order. Sums are chains of
// additions, sums of squares of fused multiply-adds, both from the row's own message on. Of equal greatest (least)
// messages the first counts; a message that is not a number is never the greatest (least).

/// What a message is, of a source's row x and a relation's row r.
enum class PathMessage : uint8_t {
  kProduct,  ///< x r, as DistMult has it
  kSum,      ///< x + r, as TransE has it
  kRotation  ///< complex x r, as RotatE has it: of `width` features that follow one another the first half are real
             ///< parts
};

/// Of a node `path_sum` or `path_statistics`: own [B, N, F], x [B, N, F], relations [B, R, F], source i32 [B, E],
/// relation i32 [B, E], ptr i32 [B, N + 1]. Of `path_gradient`: x, relations, source, relation, ptr, and what flows
/// into the sums; behind it what flows into squares, greatest and least, and the places of these.
struct PathForm {
  int64_t batch = 0, rows = 0, relations = 0, edges = 0, features = 0;
  int64_t width = 0;  ///< of a rotation: features of one run of complex numbers
  PathMessage message = PathMessage::kProduct;
  bool statistics = false;
};
/// Throws Error naming the node when the operands do not fit.
PathForm path_form(const NodeSignature& node);

/// What a node's lists hold.
struct PathPointers {
  const int32_t *source, *relation, *ptr;
};
/// Throws Error (kFailure) naming the node and the place unless pointers ascend, and rows and relations are in range.
void check_paths(const NodeSignature& node, const PathForm& form, const PathPointers& lists);

}  // namespace ramet::ops
