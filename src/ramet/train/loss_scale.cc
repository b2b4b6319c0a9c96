#include "ramet/train/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace ramet::train {

std::optional<LossScaleRange> loss_scale_range(const TrainOptions& options) {
  const std::string& precision = options.precision;
  const bool wide = precision == "f32" || precision == "bf16";
  if (wide && options.accumulators != "f16") return std::nullopt;
  return LossScaleRange{};  // f16; E5M2, which f8 has in the backward pass beside f16, ends at the same exponent
}

LossScale first_loss_scale(const TrainOptions& options) {
  return {.scale = loss_scale_range(options) ? std::ldexp(1.0, std::ilogb(options.loss_scale_start)) : 1.0};
}

LossScale after_overflow(const LossScale& scale) {
  return {.scale = std::max(scale.scale / 2, kLeastLossScale), .calm = 0, .skipped = scale.skipped + 1};
}

LossScale after_step(const LossScale& scale, double near, double room, int64_t window) {
  LossScale next = scale;
  if (near > kLossScaleShare) {
    next.scale = std::max(scale.scale / 2, kLeastLossScale);
    next.calm = 0;
  } else if (room > kLossScaleShare) {
    next.calm = 0;
  } else if (++next.calm >= window) {
    next.scale = std::min(scale.scale * 2, kMostLossScale);
    next.calm = 0;
  }
  return next;
}

}  // namespace ramet::train
