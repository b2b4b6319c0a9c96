#pragma once

#include <cstdint>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// A tensor [samples, channels, space...] (or, channels last, [samples, space..., channels]) as the kernels of
/// statistics see it. Statistics have the tensor's rank, with extent 1 in each dimension that they are taken over.
struct ChannelForm {
  bool moments = false;  ///< "channel_moments", not "channel_sums"
  bool used = false;     ///< of moments: whether an input tells how many rows of each sample are in use
  int64_t samples = 0, channels = 0, space = 1;
  bool channels_last = false;
  /// Whether each sample has sums of its own; without, they are sums over all samples.
  bool each_sample = false;
  int64_t groups = 0;  ///< with each_sample: sums of channels / groups neighbouring channels together

  /// Sums of each sample (or of the batch), and elements in each.
  int64_t sums() const { return each_sample ? groups : channels; }
  int64_t count() const { return each_sample ? channels / groups * space : samples * space; }
};

/// Of "channel_moments" and "channel_sums". Throws Error naming the node.
ChannelForm channel_form(const NodeSignature& node);

/// Elements of a channel, or rows of all channels, whose moments are taken together before they are merged: blocks of
/// kMomentRows rows (channels last) or kMomentSpan elements (channels first). The sums of a block are those of the
/// differences from the mean of the first rows (elements). Blocks are merged by a balanced tree (ops/reduce_order.h)
/// with the formula of Chan, Golub and LeVeque 1979.
inline constexpr int64_t kMomentRows = 64, kMomentSpan = 1024;

}  // namespace ramet::ops
