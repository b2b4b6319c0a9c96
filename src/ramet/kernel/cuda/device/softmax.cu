// Softmax and its logarithm over the last dimension, as kernel/cpu/normalize.cc. Definitions: kRowType; kRowWidth where
// rows are kept in registers.

#include "fixed_rows.cuh"
#include "math.cuh"
#include "rows.cuh"
#include "rows_arguments.h"

namespace ramet_device {

template <bool kLogarithm>
__device__ __forceinline__ void softmax_row(const SoftmaxArguments& a, Index row) {
  const int width = kFixedWidth > 0 ? kFixedWidth : a.width;
  const bool paired = width % 2 == 0;
  const Row<RowType, kFixedWidth> values(row_at<RowType>(a.a, row, width), width, paired);
  RowLanes most(-infinity()), sums(0.0f);
  walk_row(values, width, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k)
      if (value.at[k] > most.lane[k] || is_nan(value.at[k])) most.lane[k] = value.at[k];
  });
  const float top = most.most();
  walk_row(values, width, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) sums.lane[k] += exp_negative(value.at[k] - top);
  });
  const float sum = sums.sum(), factor = __fdiv_rn(1.0f, sum), log_sum = log_of(sum);
  walk_row(values, width, [&](int element, int count, Pair value) {
    for (int k = 0; k < 2; ++k) {
      const float shifted = value.at[k] - top;
      value.at[k] = kLogarithm ? shifted - log_sum : exp_negative(shifted) * factor;
    }
    store_pair<RowType>(value, row_at<RowType>(a.out, row, width), element, count, paired);
  });
}

}  // namespace ramet_device

RAMET_KERNEL(256, softmax, ramet_device::SoftmaxArguments, a) {
  for (ramet_device::Index row = ramet_device::first_row(); row < a.rows; row += ramet_device::row_step())
    ramet_device::softmax_row<false>(a, row);
}

RAMET_KERNEL(256, log_softmax, ramet_device::SoftmaxArguments, a) {
  for (ramet_device::Index row = ramet_device::first_row(); row < a.rows; row += ramet_device::row_step())
    ramet_device::softmax_row<true>(a, row);
}
