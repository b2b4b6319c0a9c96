#pragma once

#include <memory>

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// A node of one of the three ops of convolution where each group is one channel of both sides ("depthwise"), prepared
/// to run. Sums are f32, each a chain of multiply-adds over taps in the order in which the activations lie; those of
/// the filter's gradient are a chain for each row of positions, and rows are added in order.
class DepthwiseConvolution : public Kernel {
 public:
  DepthwiseConvolution(const NodeSignature& node, int threads);
  ~DepthwiseConvolution() override;
  int64_t scratch_bytes() const;
  void run(const KernelContext& context) const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Positions of a row that are computed together.
inline constexpr int64_t kDepthwiseTile = 8;

/// Results of `count` neighbouring positions (at most kDepthwiseTile): out[i][channel] = bias + the sum over rows of
/// taps and taps of a row of reads[row * reads_stride + i * step + tap * gap][channel] * filter[row, tap][channel].
struct DepthwiseTile {
  int64_t count, rows, taps, step, gap, channels, reads_stride;
  const char* const* reads;
  const float* filter;  ///< [rows][taps][channels]
  const float* bias;    ///< or null
  char* const* out;
  DType in_type, out_type;
};
void depthwise_tile(const DepthwiseTile& tile);

/// For each tap of a row, total[tap * channels + channel] += the sum over the positions i of a row of
/// gradient[i][channel] * reads[i * step + tap * gap][channel], for channels [begin, end).
struct DepthwiseRow {
  int64_t positions, taps, step, gap, channels, begin, end;
  const char* const* reads;
  const char* gradient;
  float* total;
  DType type;
};
void depthwise_row(const DepthwiseRow& row);

}  // namespace ramet::kernel
