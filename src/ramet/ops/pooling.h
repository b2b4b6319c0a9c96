#pragma once

#include <cstdint>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// One spatial dimension of a pooling. The window of output o has its taps at positions start(o) + t * dilation,
/// t = 0 .. taps(o) - 1; positions outside of [0, input) are padding.
struct PoolAxis {
  int64_t input = 0, output = 0;  ///< extents
  int64_t taps = 1, stride = 1, dilation = 1, low = 0, high = 0;
  bool adaptive = false;  ///< windows from floor(o input / output) to ceil((o + 1) input / output)

  int64_t start(int64_t o) const { return adaptive ? o * input / output : o * stride - low; }
  /// With padding; of an adaptive pooling there is none.
  int64_t taps_of(int64_t o) const { return adaptive ? ((o + 1) * input + output - 1) / output - start(o) : taps; }
  /// Taps [first_tap, last_tap) stand on elements of the input.
  int64_t first_tap(int64_t o) const;
  int64_t last_tap(int64_t o) const;
  /// Taps that an average counts: those on elements, or with `padding` those on declared padding too. A window that
  /// reaches beyond the declared padding (ceil mode) counts nothing there.
  int64_t counted(int64_t o, bool padding) const;
};

/// A node of the pooling family as its kernels see it.
struct PoolForm {
  int64_t samples = 0, channels = 0;
  bool channels_last = false, count_padding = true, flat = false;
  int64_t divisor = 0;         ///< of averages; 0: the number of counted taps
  std::vector<PoolAxis> axes;  ///< one to three, in the order of dimensions

  /// Taps of the largest window: tap (t0, t1, ..) has the number (t0 taps1 + t1) taps2 + ...
  int64_t taps() const;
  int64_t input_space() const;   ///< elements of a channel
  int64_t output_space() const;  ///< of the pooled channel
};

/// Of "max_pool" and "average_pool" from input 0; of their gradients from input 0 (the gradient of the pooled tensor)
/// and the attribute `space`. Throws Error naming the node.
PoolForm pool_form(const NodeSignature& node);

}  // namespace ramet::ops
