#pragma once

// What product_wgmma gets.

#include "product_arguments.h"

namespace ramet_device {

/// What the driver makes for the copies of a stack of matrices (cuTensorMapEncodeTiled).
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

struct WgmmaArguments {
  TensorMap map_a, map_b;
  ProductArguments product;
};

}  // namespace ramet_device
