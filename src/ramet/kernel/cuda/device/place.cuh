#pragma once

#include "divider.cuh"
#include "place_arguments.h"

namespace ramet_device {

/// Logical index of element `at` of a part; of padding, some number.
template <bool kFast>
__device__ __forceinline__ Index place_of(const ElementPlace& place, Index at) {
  at += place.first;
  if (at >= place.elements) return at;
  Index logical = take_digit<kFast>(at, place.tail);
  for (int dim = place.dims - 1; dim >= 0; --dim) {
    const Index coordinate = take_digit<kFast>(at, place.extents[dim]);
    int run = place.first_run[dim + 1] - 1;
    while (place.local[run] > coordinate) --run;
    logical += (place.logical[run] + (coordinate - place.local[run])) * place.strides[dim];
  }
  return logical;
}

}  // namespace ramet_device
