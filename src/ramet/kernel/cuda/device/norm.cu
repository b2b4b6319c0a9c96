// Layer norm and RMS norm, as kernel/cpu/normalize.cc. Definitions: kRowType, kGainType, kBiasType; kRowWidth where
// rows are kept in registers.

#include "fixed_rows.cuh"
#include "rows.cuh"
#include "rows_arguments.h"

namespace ramet_device {

/// Gain or bias. Rows in registers leave no room for many that are loaded ahead.
template <class Type>
__device__ __forceinline__ Pair load_vector(const void* vector, int element, int count, bool paired) {
  if constexpr (kFixedWidth > 0) return load_pair<Type>(vector, element, count, paired);
  return load_constant_pair<Type>(vector, element, count, paired);
}

__device__ __forceinline__ float square_root_part(float squares, int width, float epsilon) {
  return __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(squares, static_cast<float>(width)) + epsilon));
}

__device__ __forceinline__ void layer_norm_row(const NormArguments& a, Index row) {
  const int width = kFixedWidth > 0 ? kFixedWidth : a.width;
  const bool paired = width % 2 == 0;
  const Row<RowType, kFixedWidth> values(row_at<RowType>(a.a, row, width), width, paired);
  RowLanes sums(0.0f), squares(0.0f);
  walk_row(values, width, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) sums.lane[k] += value.at[k];
  });
  const float mean = __fdiv_rn(sums.sum(), static_cast<float>(width));
  walk_row(values, width, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) {
      const float off = value.at[k] - mean;
      squares.lane[k] = __fmaf_rn(off, off, squares.lane[k]);
    }
  });
  const float rstd = square_root_part(squares.sum(), width, a.epsilon);
  walk_row(values, width, [&](int element, int count, Pair value) {
    const Pair gain = load_vector<kGainType>(a.gain, element, count, paired);
    const Pair bias = load_vector<kBiasType>(a.bias, element, count, paired);
    for (int k = 0; k < 2; ++k) value.at[k] = __fmaf_rn((value.at[k] - mean) * rstd, gain.at[k], bias.at[k]);
    store_pair<RowType>(value, row_at<RowType>(a.out, row, width), element, count, paired);
  });
  if (threadIdx.x % 32 == 0) a.mean[row] = mean, a.rstd[row] = rstd;
}

__device__ __forceinline__ void rms_norm_row(const NormArguments& a, Index row) {
  const int width = kFixedWidth > 0 ? kFixedWidth : a.width;
  const bool paired = width % 2 == 0;
  const Row<RowType, kFixedWidth> values(row_at<RowType>(a.a, row, width), width, paired);
  RowLanes squares(0.0f);
  walk_row(values, width, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) squares.lane[k] = __fmaf_rn(value.at[k], value.at[k], squares.lane[k]);
  });
  const float rstd = square_root_part(squares.sum(), width, a.epsilon);
  walk_row(values, width, [&](int element, int count, Pair value) {
    const Pair gain = load_vector<kGainType>(a.gain, element, count, paired);
    for (int k = 0; k < 2; ++k) value.at[k] = value.at[k] * rstd * gain.at[k];
    store_pair<RowType>(value, row_at<RowType>(a.out, row, width), element, count, paired);
  });
  if (threadIdx.x % 32 == 0) a.rstd[row] = rstd;
}

}  // namespace ramet_device

RAMET_KERNEL(256, layer_norm, ramet_device::NormArguments, a) {
  for (ramet_device::Index row = ramet_device::first_row(); row < a.rows; row += ramet_device::row_step())
    ramet_device::layer_norm_row(a, row);
}

RAMET_KERNEL(256, rms_norm, ramet_device::NormArguments, a) {
  for (ramet_device::Index row = ramet_device::first_row(); row < a.rows; row += ramet_device::row_step())
    ramet_device::rms_norm_row(a, row);
}
