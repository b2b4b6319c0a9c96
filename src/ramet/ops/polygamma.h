#pragma once

#include "ramet/ops/build.h"

namespace ramet::ops {

/// The highest derivative that polygamma() gives.
inline constexpr int64_t kMostPolygamma = 20;

/// The derivative of digamma of this order, 0 to kMostPolygamma. An infinity at 0 and the negative integers.
Tensor polygamma(Tensor a, int64_t order);

}  // namespace ramet::ops
