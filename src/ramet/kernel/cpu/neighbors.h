#pragma once

// Loops over the edges of graphs, for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>
#include <functional>
#include <string>

#include "ramet/base/dtype.h"
#include "ramet/base/house.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/cpu/families.h"

namespace ramet::kernel::cpu {

// Rows, weights and results below are of one vector type (has_vector_loads); what is added is f32, and rounded once.

/// Sums over the edges of rows: of row i of the sums the places [ptr[i], ptr[i + 1]).
struct EdgeSums {
  const void* x = nullptr;
  int64_t width = 0;
  const int32_t* from = nullptr;  ///< row of x of a place; null: place k has row k
  const void* far = nullptr;      ///< rows from `near` on
  int64_t near = INT64_MAX;       ///< rows of x, where there are far rows
  const int32_t* edge = nullptr;  ///< edge of a place, whose weights count; null: place k has edge k
  const void* weight = nullptr;   ///< null: none
  int64_t heads = 1;              ///< weights of an edge
  bool mean = false;
  const int32_t* ptr = nullptr;
  void* out = nullptr;
};

/// Products over the features of heads, for the edges of rows.
struct EdgeProducts {
  const void *a = nullptr, *b = nullptr;  ///< rows of targets and of sources
  int64_t width = 0, heads = 1;
  const void* far = nullptr;  ///< rows of sources from `near` on
  int64_t near = INT64_MAX;
  const int32_t *source = nullptr, *ptr = nullptr;
  void* out = nullptr;  ///< [edges, heads]
};

/// Softmax over the edges of rows.
struct EdgeSoftmax {
  const void* x = nullptr;
  int64_t width = 0;
  const int32_t* ptr = nullptr;
  void* out = nullptr;
};

/// The greatest or least of the edges of rows, and its place: the first of equal ones, the first NaN if there is one.
struct EdgeExtremes {
  const void* x = nullptr;
  int64_t width = 0;
  bool least = false;
  const int32_t* ptr = nullptr;
  void* out = nullptr;        ///< 0 of a row without edges
  int32_t* places = nullptr;  ///< -1 of a row without edges
};

/// Each works on the edges of rows [begin, end).
struct EdgeLoops {
  void (*sum)(const EdgeSums&, int64_t begin, int64_t end);
  void (*multiply)(const EdgeProducts&, int64_t begin, int64_t end);
  void (*softmax)(const EdgeSoftmax&, int64_t begin, int64_t end);
  void (*extremes)(const EdgeExtremes&, int64_t begin, int64_t end);
};
/// For f32, bf16 or f16, for the instruction set at hand.
const EdgeLoops& edge_loops(DType dtype);

/// Operands of heads over the edges of rows (ops/segment_heads.h), of one sample; null where an op has none such.
struct EdgeHeads {
  int64_t heads = 0, width = 0;
  int64_t head_stride = 0;  ///< elements from the rows of a head to those of the next
  const int32_t* ptr = nullptr;
  const void *rows = nullptr, *edges = nullptr, *weight = nullptr;
  void* out = nullptr;
};

/// Each works on the edges of rows [begin, end): of f32, bf16 or f16.
struct HeadLoops {
  using Loop = void (*)(const EdgeHeads&, int64_t begin, int64_t end);
  Loop dot, combine, blend;
};

/// Whether all of `count` numbers are in [0, bound).
bool all_below(const int32_t* numbers, int64_t count, int64_t bound);
/// Whether `count` pointers ascend.
bool all_ascend(const int32_t* ptr, int64_t count);

/// Calls `body(begin, end)` for runs of rows that have about equal numbers of edges and rows, one a thread.
void split_rows(ThreadTeam& team, const int32_t* ptr, int64_t rows, const std::function<void(int64_t, int64_t)>& body);
/// One of the loops of `call`, over `rows` rows that threads share.
template <typename Call>
void run_rows(ThreadTeam& team, int64_t rows, const Call& call, void (*loop)(const Call&, int64_t begin, int64_t end)) {
  split_rows(team, call.ptr, rows, [&](int64_t begin, int64_t end) { loop(call, begin, end); });
}
/// Zeros at the places behind the last edge, `bytes` each, threads sharing them.
void clear_tail(ThreadTeam& team, void* out, const int32_t* ptr, int64_t rows, int64_t edges, int64_t bytes);

// The floating-point operands and the result of an op over edges have one type.

/// Why a kernel of the loops above cannot compute `node`; "" if it can.
std::string refuse_edges(const NodeSignature& node);
/// Bytes of that many elements.
int64_t row_bytes(const NodeSignature& node, int64_t elements);
/// An operand's elements from that one on.
const void* rows_at(const NodeSignature& node, const KernelContext& context, size_t input, int64_t element);
/// Those of the first result.
void* result_at(const NodeSignature& node, const KernelContext& context, int64_t element);

}  // namespace ramet::kernel::cpu
