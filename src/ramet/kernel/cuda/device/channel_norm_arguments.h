#pragma once

// Arguments of channel_norm.cu.

namespace ramet_device {

/// Segments of rows of all channels, in blocks of kMomentRows rows.
constexpr int kMomentRows = 64;

struct ChannelArguments {
  const void* a;
  const void* dy;     ///< of gradients
  const float* mean;  ///< of gradients
  const int* used;    ///< [segments], rows in use; null: all
  float* shifts;      ///< [segments, channels], of moments: a number near the mean
  float* blocks;      ///< [segments, blocks, 2, channels]; those of the first block become the segment's
  float* first;       ///< [segments, channels / neighbours]
  float* second;
  long long segments, rows, channels, count_of_blocks, neighbours;
  int moments;
  int own_means;  ///< whether each segment has means of its own
};

}  // namespace ramet_device
