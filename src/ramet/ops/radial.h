#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ramet/ir/op.h"

namespace ramet::ops {

// Messages between the two nodes of a pair, filtered by a function of the pair's distance (continuous filters, Schuett
// et al., arXiv 1706.08566). A sample b of the batch has N rows (nodes) and P places for pairs, which are sorted by
// their first row: the pairs [ptr[b, i], ptr[b, i + 1]) have row i as their first, and second[b, p] as their second.
// Places from ptr[b, N] on hold no pair.
//
// A pair stands for an edge in each direction. Both have the filter w_p(f), which is computed once:
//     out[first, f] += w_p(f) * x[second, f],    out[second, f] += w_p(f) * x[first, f].
// A row's sum is one chain of fused multiply-adds from +0 in the order of the pairs. Where the second rows of one first
// row ascend, and are greater than it, this is the order of the row's edges by source.

/// Operands: x [B, N, F]; distance [B, P]; ptr i32 [B, N + 1]; second i32 [B, P]; and the filter.
struct RadialForm {
  int64_t batch = 0, rows = 0, pairs = 0, width = 0;
  double cutoff = 0;      ///< no distance is greater
  int64_t points = 0;     ///< rows of a table of the filter, at distances 0 to cutoff; 0: the filter is a network
  int64_t gaussians = 0;  ///< of a network: radial basis functions, with centres at distances 0 to cutoff
  int64_t hidden = 0;     ///< of a network: features between its two layers
};

/// Of a node `table_filter_sum`: x, distance, ptr, second, table [points, F].
RadialForm table_filter_form(const NodeSignature& node);
/// Of a node `table_filter_gradient`: dy, distance, ptr, second, x.
RadialForm table_gradient_form(const NodeSignature& node);
/// Of a node `network_filter_sum`: x, distance, ptr, second, w1 [hidden, gaussians], b1 [hidden], w2 [F, hidden], b2
/// [F].
RadialForm network_filter_form(const NodeSignature& node);
/// Of a node `pair_filter_sum`: x, distance, ptr, second, filter [B, P, F].
RadialForm pair_filter_form(const NodeSignature& node);
/// Of a node `network_filter_gradient`: dy, distance, ptr, second, x, w1, b1, w2.
RadialForm network_gradient_form(const NodeSignature& node);

/// Throws Error (kFailure) naming the node and the place unless pointers ascend, rows are in range, and distances are
/// from 0 to the cutoff.
void check_pairs(const NodeSignature& node, const RadialForm& form, const float* distance, const int32_t* ptr,
                 const int32_t* second);

/// Four rows of a table from `first` on, and how much of each a distance's filter has: the cubic polynomial through
/// four points, in the middle of which the distance lies where it can.
struct TableCell {
  int64_t first = 0;
  std::array<double, 4> share{};
};
/// Rows of the table for each unit of distance.
inline double table_density(const RadialForm& form) { return static_cast<double>(form.points - 1) / form.cutoff; }
/// The cell of a distance, `place` is distance times table_density.
inline TableCell table_cell(int64_t points, double place) {
  const int64_t middle = std::clamp(static_cast<int64_t>(place), int64_t{1}, points - 3);
  const double t = place - static_cast<double>(middle), before = t + 1, after = t - 1, far = t - 2;
  constexpr double kSixth = 1.0 / 6;
  return {
      middle - 1,
      {-t * after * far * kSixth, before * after * far * 0.5, -before * t * far * 0.5, before * t * after * kSixth}};
}

}  // namespace ramet::ops
