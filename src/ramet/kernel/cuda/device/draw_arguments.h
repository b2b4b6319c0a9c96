#pragma once

#include "place_arguments.h"

namespace ramet_device {

/// Ops `draw` (ops/draw.h) and `random` (ops/random_fill.h).
struct DrawArguments {
  const long long* counter;  ///< {step, micro-batch}; null: initial values, which have none
  void* output;
  long long elements, logical_elements;
  unsigned key0, key1, tensor;
  double a, b;
  int placed;
  ElementPlace place;
};

}  // namespace ramet_device
