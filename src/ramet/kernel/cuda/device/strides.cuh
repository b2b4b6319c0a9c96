#pragma once

// Places in strided views. Compiled with kDims, the number of dimensions (0 to kMostDims), and kWide, 1 where indices
// do not fit 31 bits.

#include "divider.cuh"
#include "move_arguments.h"

namespace ramet_device {

struct Offsets {
  Index from = 0, to = 0;
};
/// Where element `index` of kDims dimensions stands.
template <class Arguments>
__device__ __forceinline__ Offsets offsets_of(const Arguments& a, Index index) {
  Offsets offsets;
  RAMET_UNROLL
  for (int d = kDims - 1; d >= 0; --d) {
    const Index at = d > 0 ? take_digit < kWide == 0 > (index, a.extents[d]) : index;
    offsets.from += at * a.from_strides[d];
    offsets.to += at * a.to_strides[d];
  }
  return offsets;
}

}  // namespace ramet_device
