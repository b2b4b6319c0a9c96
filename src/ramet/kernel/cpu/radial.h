#pragma once

// Loops over the pairs of nodes (ops/radial.h), for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>
#include <functional>

#include "ramet/base/house.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/kernel.h"
#include "ramet/ops/radial.h"

namespace ramet::kernel::cpu {

/// The pairs of one sample, with the rows that they read.
struct RadialCall {
  const ops::RadialForm* form = nullptr;
  const float *x = nullptr, *dy = nullptr;
  const float* distance = nullptr;
  const int32_t *ptr = nullptr, *second = nullptr;
  float* out = nullptr;

  int64_t pairs() const { return ptr[form->rows]; }
};

/// Calls `body(begin, end, rank)` for runs of rows, one a thread, that have about equal numbers of pairs. A run ends
/// between two graphs where such a place is near, for a pair of rows of two runs is computed for both.
void split_pairs(ThreadTeam& team, const RadialCall& call,
                 const std::function<void(int64_t begin, int64_t end, int rank)>& body);

/// Whether one of `count` rows is in [begin, end). Without a branch, which a compiler makes vectors of.
inline bool has_row_within(const int32_t* rows, int64_t count, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 32;
  const auto low = static_cast<uint32_t>(begin), span = static_cast<uint32_t>(end - begin);
  uint32_t found = 0;
  int64_t at = 0;
  for (; at + kBlock <= count; at += kBlock)
    for (int64_t i = 0; i < kBlock; ++i)
      found |= static_cast<uint32_t>(static_cast<uint32_t>(rows[at + i]) - low < span);
  for (; at < count; ++at) found |= static_cast<uint32_t>(static_cast<uint32_t>(rows[at]) - low < span);
  return found != 0;
}

/// Calls `visit(pair, first, second)` for the pairs of rows [from, to) whose second row is in [begin, end), in order.
template <typename Visit>
void walk_crossing(const RadialCall& call, int64_t from, int64_t to, int64_t begin, int64_t end, const Visit& visit) {
  // Between graphs there is none.
  if (from == to || !has_row_within(call.second + call.ptr[from], call.ptr[to] - call.ptr[from], begin, end)) return;
  for (int64_t row = from; row < to; ++row)
    for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p)
      if (call.second[p] >= begin && call.second[p] < end) visit(p, row, int64_t{call.second[p]});
}

/// Calls `visit(pair, first, second)` for the pairs that have a row in [begin, end), in order.
template <typename Visit>
void walk_pairs(const RadialCall& call, int64_t begin, int64_t end, const Visit& visit) {
  walk_crossing(call, 0, begin, begin, end, visit);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p) visit(p, row, int64_t{call.second[p]});
  walk_crossing(call, end, call.form->rows, begin, end, visit);
}

/// The operands of a node whose inputs 1, 2 and 3 are distance, ptr and second, checked; of the first sample.
RadialCall checked_pairs(const NodeSignature& node, const ops::RadialForm& form, const KernelContext& context);
/// The call of sample b of the batch.
RadialCall pairs_of_sample(const RadialCall& first, int64_t b);

/// Sums over the pairs of x, input 0, into output 0: calls `body(call, b, begin, end, rank)` for runs of rows of each
/// sample b, as split_pairs does.
void sum_samples(const NodeSignature& node, const ops::RadialForm& form, const KernelContext& context,
                 const std::function<void(const RadialCall&, int64_t b, int64_t begin, int64_t end, int rank)>& body);

/// Adds a kernel that is `run` for each node.
void add_pair_kernel(Backend& backend, const char* op, void (*run)(const NodeSignature&, const KernelContext&),
                     const ScratchFunction& scratch);
/// Adds the kernels whose filter is a network.
void add_network_filters(Backend& backend);

}  // namespace ramet::kernel::cpu
