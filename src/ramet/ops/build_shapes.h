#pragma once

#include <string>
#include <vector>

#include "ramet/ops/build.h"

namespace ramet::ops {

// Functions on shapes that are made of other ops: slices, concatenations, broadcasts, masks, constant indices. All have
// gradients. Axes may be negative. They take every element type unless said otherwise.

/// Dimensions in another order: dimension `from` of `a` is dimension `to` of the result, and the others keep their
/// order.
Tensor move_axis(Tensor a, int64_t from, int64_t to);
/// Elements [start, stop) along one axis, every `step`-th; negative bounds count from the end, bounds beyond it are
/// held.
Tensor slice_axis(Tensor a, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
/// Element `index` along an axis, which the result lacks (torch.select).
Tensor select_index(Tensor a, int64_t axis, int64_t index);
/// Elements `by` places further along `axis` (before, when negative); `value` moves in, and as many elements drop out.
Tensor shift(Tensor a, int64_t axis, int64_t by, double value = 0);
/// The opposite order along `axes`.
Tensor flip(Tensor a, const std::vector<int64_t>& axes);
/// Elements shifts[i] places further along axes[i], those at the end first (torch.roll). No axes: along the flat
/// tensor.
Tensor roll(Tensor a, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes = {});
/// The whole tensor repeats[i] times along dimension i (torch.tile, Tensor.repeat); with more repeats than dimensions,
/// new dimensions stand before.
Tensor tile(Tensor a, std::vector<int64_t> repeats);
/// Each element along `axis` `repeats` times, or repeats[i] times element i.
Tensor repeat_interleave(Tensor a, int64_t repeats, int64_t axis);
Tensor repeat_interleave(Tensor a, const std::vector<int64_t>& repeats, int64_t axis);
/// Tensors of one type along a new axis; and back.
Tensor stack(const std::vector<Tensor>& parts, int64_t axis);
std::vector<Tensor> unstack(Tensor a, int64_t axis);
/// The last two dimensions with 0 above (below) the diagonal; `diagonal` > 0 names one further to the right.
Tensor tril(Tensor a, int64_t diagonal = 0);
Tensor triu(Tensor a, int64_t diagonal = 0);
/// Vectors as coordinates of a grid of all their extents; `xy` swaps the first two dimensions, as NumPy's default does.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool xy = false);
/// Padding of `low` and `high` elements a dimension by what is there: "reflect" (without the edge), "symmetric" (with
/// it), "edge" (torch: replicate) or "wrap" (torch: circular). Negative numbers cut; "wrap" repeats what is left.
Tensor pad_by(Tensor a, const std::vector<int64_t>& low, const std::vector<int64_t>& high, const std::string& mode);
/// The middle of `a`, or `a` in the middle of zeros, so that `axes` have `sizes` (ONNX CenterCropPad).
Tensor center_crop_pad(Tensor a, const std::vector<int64_t>& sizes, std::vector<int64_t> axes = {});
/// `a` with slice_axis(a, axis, start, stop, step) = `part`; with select_index(a, axis, index) = `part`; with
/// diagonal(a, offset, axis1, axis2) = `part`.
Tensor slice_scatter(Tensor a, Tensor part, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
Tensor select_scatter(Tensor a, Tensor part, int64_t axis, int64_t index);
Tensor diagonal_scatter(Tensor a, Tensor part, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
/// Elements whose coordinates on the axes differ by `offset`, as a new last dimension (torch.diagonal).
Tensor diagonal(Tensor a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
/// Square matrices with the last dimension of `a` on a diagonal, 0 elsewhere (torch.diag_embed).
Tensor diagonal_embed(Tensor a, int64_t offset = 0);
/// Windows of `size` elements every `step` along `axis`: their number replaces its extent, their elements are a new
/// last dimension (Tensor.unfold).
Tensor unfold(Tensor a, int64_t axis, int64_t size, int64_t step);
/// Differences of neighbours along `axis`, n times. Numbers only.
Tensor difference(Tensor a, int64_t axis = -1, int64_t n = 1);

}  // namespace ramet::ops
