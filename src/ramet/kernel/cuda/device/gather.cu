// Rows of a table by indices. Compiled with Number, the type of indices, and Unit, an unsigned type or uint4 that a
// row's bytes are whole units of.

#include "convert.cuh"
#include "gather_arguments.h"

namespace ramet_device {

using RowUnit = Unit;

RAMET_KERNEL(256, gather, GatherArguments, a) {
  const auto* const index = static_cast<const Number*>(a.index);
  const auto* const table = static_cast<const RowUnit*>(a.table);
  auto* const out = static_cast<RowUnit*>(a.out);
  const Index lanes = 1 << a.lane_bits, in_block = blockDim.x >> a.lane_bits;
  const Index lane = threadIdx.x & (lanes - 1), first = threadIdx.x >> a.lane_bits;
  for (Index i = blockIdx.x * in_block + first; i < a.indices; i += gridDim.x * in_block) {
    const Index row = index[i];
    const bool there = row >= 0 && row < a.rows;
    if (!there && lane == 0)
      report_fault(static_cast<Fault*>(a.faults), a.kernel, static_cast<unsigned>(i), row, a.rows);
    for (Index unit = lane; unit < a.width; unit += lanes)
      out[i * a.width + unit] = there ? table[row * a.width + unit] : RowUnit{};
  }
}

}  // namespace ramet_device
