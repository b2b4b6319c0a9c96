#pragma once

#include <cstdint>
#include <vector>

namespace ramet::ops {

/// The permutation that makes a tensor [N, space..., C] of one [N, C, space...].
inline std::vector<int64_t> channels_last_order(int rank) {
  std::vector<int64_t> order{0};
  for (int axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

/// The permutation that makes a tensor [N, C, space...] of one [N, space..., C].
inline std::vector<int64_t> channels_first_order(int rank) {
  std::vector<int64_t> order{0, rank - 1};
  for (int axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  return order;
}

}  // namespace ramet::ops
