#pragma once

#include <cstdint>

#include "ramet/ir/op.h"

namespace ramet::ops {

// Distances between all rows and all columns of a group, without a tensor of rows x columns x features. With x the
// difference a - sum over terms of w * b, feature by feature, a distance is a sum over the features:
//
// - kL1: |x|; kSquares: x^2;
// - kComplex: the modulus of complex numbers, whose real parts are the first half of the features;
// - kBox: |x| / (w + 1) where |x| <= w / 2, else |x| (w + 1) - w (w + 1 - 1 / (w + 1)) / 2: the distance from a box of
//   width w around its centre (Abboud et al., arXiv 2007.06267, equation 4). Here x is a - b.
//
// A distance sums its features in 16 strided lanes (ops/reduce_order.h). A gradient of a row is one chain over the
// columns, and that of a column one chain over the rows, in ascending order, of fused multiply-adds from +0.

enum class PairNorm : uint8_t { kL1, kSquares, kComplex, kBox };

/// Operands a [G, M, D], b [G, K, T D] and, except where there is one term without weights, w [G, M, T D] (kBox: widths
/// [G, M, D]). Where there is one group, b may be [K, T D], as a table of all columns is.
struct PairForm {
  int64_t groups = 0, rows = 0, columns = 0;
  int64_t width = 0;  ///< D
  int64_t terms = 1;  ///< T
  bool weighted = false;
  bool flat = false;  ///< b has no dimension of groups
  PairNorm norm = PairNorm::kL1;
  int64_t column_width() const { return terms * width; }
};
/// Of the nodes pair_distance (a, b, w), and of pair_row_grad and pair_column_grad (g [G, M, K], a, b, w). Throws Error
/// naming the node when the operands do not fit.
PairForm pair_form(const NodeSignature& node);

}  // namespace ramet::ops
