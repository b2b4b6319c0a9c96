#pragma once

// Loops over the edges of graphs, for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>

#include "ramet/base/house.h"

namespace ramet::kernel::cpu {

/// Sums over the edges of rows: of row i of the sums the places [ptr[i], ptr[i + 1]).
struct EdgeSums {
  const float* x = nullptr;
  int64_t width = 0;
  const int32_t* from = nullptr;  ///< row of x of a place; null: place k has row k
  const float* far = nullptr;     ///< rows from `near` on
  int64_t near = INT64_MAX;       ///< rows of x, where there are far rows
  const int32_t* edge = nullptr;  ///< edge of a place, whose weights count; null: place k has edge k
  const float* weight = nullptr;  ///< null: none
  int64_t heads = 1;              ///< weights of an edge
  bool mean = false;
  const int32_t* ptr = nullptr;
  float* out = nullptr;
};

/// Products over the features of heads, for the edges of rows.
struct EdgeProducts {
  const float *a = nullptr, *b = nullptr;  ///< rows of targets and of sources
  int64_t width = 0, heads = 1;
  const float* far = nullptr;  ///< rows of sources from `near` on
  int64_t near = INT64_MAX;
  const int32_t *source = nullptr, *ptr = nullptr;
  float* out = nullptr;  ///< [edges, heads]
};

/// Softmax over the edges of rows.
struct EdgeSoftmax {
  const float* x = nullptr;
  int64_t width = 0;
  const int32_t* ptr = nullptr;
  float* out = nullptr;
};

}  // namespace ramet::kernel::cpu
