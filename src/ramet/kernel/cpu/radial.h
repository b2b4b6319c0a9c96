#pragma once

// Loops over the pairs of nodes (ops/radial.h), for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>
#include <functional>

#include "ramet/base/house.h"
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

/// Calls `visit(pair, first, second)` for the pairs that have a row in [begin, end), in order.
template <typename Visit>
void walk_pairs(const RadialCall& call, int64_t begin, int64_t end, const Visit& visit) {
  for (int64_t p = 0, row = 0; row < begin; ++row)
    for (; p < call.ptr[row + 1]; ++p)
      if (call.second[p] >= begin && call.second[p] < end) visit(p, row, int64_t{call.second[p]});
  for (int64_t row = begin; row < end; ++row)
    for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p) visit(p, row, int64_t{call.second[p]});
  for (int64_t row = end; row < call.form->rows; ++row)
    for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p)
      if (call.second[p] >= begin && call.second[p] < end) visit(p, row, int64_t{call.second[p]});
}

/// The operands of a node whose inputs 1, 2 and 3 are distance, ptr and second, checked; of the first sample.
RadialCall checked_pairs(const NodeSignature& node, const ops::RadialForm& form, const KernelContext& context);
/// The call of sample b of the batch.
RadialCall pairs_of_sample(const RadialCall& first, int64_t b);

/// Adds the kernels whose filter is a network.
void add_network_filters(Backend& backend);

}  // namespace ramet::kernel::cpu
