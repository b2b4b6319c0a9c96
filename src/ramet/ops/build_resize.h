#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/ir/builder.h"
#include "ramet/ops/resize.h"

namespace ramet::ops {

// Resizing, sampling at given positions, and patches of images. Activations are [N, C, space...], or [N, space..., C]
// with `channels_last`; there are 1 to 3 dimensions of space.

struct ResizeOptions {
  ResampleRule rule{};  ///< where and how elements are read (ops/resize.h)
  /// Output elements an input element along each dimension of space; empty: recomputed from the extents.
  std::vector<double> scales{};
  bool channels_last = false;
};
/// Resizes space to `sizes`, by one rule along each dimension.
Tensor resize(Tensor a, const std::vector<int64_t>& sizes, const ResizeOptions& options = {});
/// The rule of PyTorch's modes "nearest", "nearest-exact", "linear" ("bilinear", "trilinear") and "bicubic". Throws
/// Error on another mode, and on `corners` or `antialias` with a mode that has none.
ResampleRule resample_rule_of_mode(const std::string& mode, bool corners = false, bool antialias = false);

struct GridSampleOptions {
  std::string method = "linear";  ///< "nearest", "linear", "cubic"
  std::string padding = "zeros";  ///< what is read outside: "zeros", "border", "reflection"
  bool corners = false;           ///< -1 and 1 are the centres of the outermost elements, not their outer edges
  bool channels_last = false;
};
/// a [N, C, in...] read at the positions grid [N, out..., d] -> [N, C, out...]. A position lists its coordinates last
/// dimension of space first, each from -1 to 1, as torch.nn.functional.grid_sample.
Tensor grid_sample(Tensor a, Tensor grid, const GridSampleOptions& options = {});
/// Positions [N, space..., d] for grid_sample, of affine maps theta [N, d, d + 1] of the positions of `space` (2 or 3
/// extents), as torch.nn.functional.affine_grid.
Tensor affine_grid(Tensor theta, const std::vector<int64_t>& space, bool corners = false);

/// [..., C r r, H, W] -> [..., C, H r, W r] (channels_last: [..., H, W, C r r] -> [..., H r, W r, C]), as
/// torch.nn.functional.pixel_shuffle.
Tensor pixel_shuffle(Tensor a, int64_t factor, bool channels_last = false);
/// The inverse.
Tensor pixel_unshuffle(Tensor a, int64_t factor, bool channels_last = false);
/// Channels [groups, C / groups] in the order [C / groups, groups].
Tensor channel_shuffle(Tensor a, int64_t groups, bool channels_last = false);

struct PatchOptions {
  std::vector<int64_t> taps;                    ///< extents of a patch, one a dimension of space
  std::vector<int64_t> strides{}, dilations{};  ///< empty: 1
  std::vector<int64_t> low{}, high{};           ///< zeros around space; empty: 0
  bool channels_last = false;
};
/// Patches of a [N, C, space...] as columns -> [N, C taps, L], L the number of patches (channels_last: [N, L, C taps]).
/// Rows are channels, then taps, each in row-major order, as torch.nn.functional.unfold.
Tensor im2col(Tensor a, const PatchOptions& options);
/// The transposed map: columns added up where their elements came from -> [N, C, sizes...], as
/// torch.nn.functional.fold.
Tensor col2im(Tensor columns, const std::vector<int64_t>& sizes, const PatchOptions& options);

}  // namespace ramet::ops
