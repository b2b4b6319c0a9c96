#pragma once

#include "divider.h"

namespace ramet_device {

/// Where elements of a part are in the logical tensor (ops/position.h): a part of what cuts leave from `first` on.
/// Dimensions but the last are lists of runs, one behind the other in `runs`; behind them all is whole.
struct ElementPlace {
  static constexpr int kDims = 6, kRuns = 48;
  long long first, elements;  ///< elements of what the cuts leave; beyond them is padding
  Divider tail;               ///< elements of the whole dimensions behind
  int dims;
  int first_run[kDims + 1];
  Divider extents[kDims];
  long long strides[kDims];  ///< logical
  long long local[kRuns], logical[kRuns];
};

}  // namespace ramet_device
