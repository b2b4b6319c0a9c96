#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Pooling over one to three spatial dimensions: a [N, C, space...] -> [N, C, pooled space...], or with `channels_last`
// [N, space..., C]. Samples and channels may be cut by layouts, space may not.

/// Windows of a pooling. Each list has one entry a spatial dimension.
struct PoolOptions {
  std::vector<int64_t> taps;           ///< extent of the window
  std::vector<int64_t> strides{};      ///< empty: those of `taps`, so that windows do not overlap
  std::vector<int64_t> dilations{};    ///< empty: 1
  std::vector<int64_t> low{}, high{};  ///< padding before and after; empty: 0
  bool ceil_mode = false;              ///< the last window may reach beyond the padding, but must start before its end
  bool count_padding = true;           ///< whether an average counts padding as zeros
  bool channels_last = false;
};

/// Greatest element of each window; padding is no element. NaN wins; of equals the first.
Tensor max_pool(Tensor a, const PoolOptions& options);
/// Also the place of that element: i32, its row-major position in the input's space.
std::pair<Tensor, Tensor> max_pool_with_indices(Tensor a, const PoolOptions& options);
/// Sum of each window over `divisor`, or for 0 over the number of its taps (PoolOptions::count_padding; taps beyond the
/// padding never count).
Tensor average_pool(Tensor a, const PoolOptions& options, int64_t divisor = 0);
/// (sum |a|^power)^(1/power) of each window. `whole_windows`: the sum of a window of which a part is missing is scaled
/// up to all taps, as PyTorch does in ceil mode. Where the sum is 0, so is the gradient.
Tensor lp_pool(Tensor a, const PoolOptions& options, double power, bool whole_windows = false);

/// Pooling to given extents: output o of a dimension takes elements floor(o n / size) to ceil((o + 1) n / size) - 1.
/// Averages to sizes of 1 are means (reduce_mean).
Tensor adaptive_average_pool(Tensor a, std::vector<int64_t> sizes, bool channels_last = false);
Tensor adaptive_max_pool(Tensor a, std::vector<int64_t> sizes, bool channels_last = false);
std::pair<Tensor, Tensor> adaptive_max_pool_with_indices(Tensor a, std::vector<int64_t> sizes,
                                                         bool channels_last = false);
/// Over all of the space, which keeps extents of 1.
Tensor global_average_pool(Tensor a, bool channels_last = false);
Tensor global_max_pool(Tensor a, bool channels_last = false);

}  // namespace ramet::ops
