#pragma once

// Places of edges in lists. A list that is wrong was reported (edge_lists.cu); here it only must not lead anywhere.

#include "kernel.cuh"
#include "neighbors_arguments.h"

namespace ramet_device {

struct Places {
  Index begin, end;
};

__device__ __forceinline__ Index held(Index value, Index least, Index most) {
  return value < least ? least : value > most ? most : value;
}

/// Of row `row` of sample `sample`.
__device__ __forceinline__ Places places_of(const int* ptr, Index sample, Index row, Index rows, Index edges) {
  const int* at = ptr + sample * (rows + 1) + row;
  const Index begin = held(at[0], 0, edges);
  return {begin, held(at[1], begin, edges)};
}

/// The places of a sample that hold edges.
__device__ __forceinline__ Index real_places(const int* ptr, Index sample, Index rows, Index edges) {
  return held(ptr[sample * (rows + 1) + rows], 0, edges);
}

/// The row that a real place belongs to.
__device__ __forceinline__ Index row_of_place(const int* ptr, Index sample, Index rows, Index place) {
  const int* at = ptr + sample * (rows + 1);
  Index low = 0, high = rows - 1;  // the last row that begins at or before the place
  while (low < high) {
    const Index middle = (low + high + 1) / 2;
    if (at[middle] <= place)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace ramet_device
