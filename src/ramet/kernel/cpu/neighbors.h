#pragma once

// Loops over the edges of graphs, for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>
#include <functional>

#include "ramet/base/house.h"
#include "ramet/base/thread_team.h"

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

/// Operands of heads over the edges of rows (ops/segment_heads.h), of one sample; null where an op has none such.
struct EdgeHeads {
  int64_t heads = 0, width = 0;
  int64_t head_stride = 0;  ///< floats from the rows of a head to those of the next
  const int32_t* ptr = nullptr;
  const float *rows = nullptr, *edges = nullptr, *weight = nullptr;
  float* out = nullptr;
};

/// Calls `body(begin, end)` for runs of rows that have about equal numbers of edges and rows, one a thread.
void split_rows(ThreadTeam& team, const int32_t* ptr, int64_t rows, const std::function<void(int64_t, int64_t)>& body);
/// Zeros at the places behind the last edge, threads sharing them.
void clear_tail(ThreadTeam& team, float* out, const int32_t* ptr, int64_t rows, int64_t edges, int64_t width);

}  // namespace ramet::kernel::cpu
