#pragma once

#include <cstdint>
#include <optional>

#include "ramet/train/train_options.h"

namespace ramet::train {

/// The observations of an automatic loss scale: two shares of the gradients' histogram of exponents, which the update
/// gives as results ("grad_near_overflow" and "grad_room"), and whether a step overflowed. Gradients are seen as they
/// are summed: with the loss scale in them, and divided by the greatest power of two that is not above the number of
/// micro-batches, or, in sums of f16, which are means, by the least one that is not below.
struct LossScaleRange {
  int most = 15;    ///< exponent of the greatest number that gradients pass through on their way
  int least = -24;  ///< of the least
  /// Exponents from which on a gradient is near the end of the range, and below which there is room to double.
  int near() const { return most - 2; }
  int room() const { return most - 4; }
};
/// The narrowest of the types that gradients pass through; nothing where all reach as far as f32, so that a loss scale
/// has nothing to do.
std::optional<LossScaleRange> loss_scale_range(const TrainOptions& options);

/// Share of gradients that may lie beyond `near` or `room`.
inline constexpr double kLossScaleShare = 1e-7;

/// An automatic loss scale between two steps: a power of two. Part of a checkpoint.
struct LossScale {
  double scale = 1;
  int64_t calm = 0;     ///< steps with room above, one after another
  int64_t skipped = 0;  ///< steps that overflowed, in all

  friend bool operator==(const LossScale&, const LossScale&) = default;
};
inline constexpr double kLeastLossScale = 0x1p-20, kMostLossScale = 0x1p32;

/// Where a run begins.
LossScale first_loss_scale(const TrainOptions& options);
/// After a step that overflowed: half, and one more that was skipped. At kLeastLossScale it stays there: what overflows
/// then is no matter of scale.
LossScale after_overflow(const LossScale& scale);
/// After a step whose gradients had `near` and `room`, the shares from LossScaleRange::near() and room() on: half where
/// many are near the end, double after `window` steps with room, otherwise the same.
LossScale after_step(const LossScale& scale, double near, double room, int64_t window);

}  // namespace ramet::train
