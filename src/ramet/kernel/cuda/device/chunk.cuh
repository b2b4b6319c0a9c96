#pragma once

// One chunk of classes of one row of logits, as loss.cu and loss_wide.cu work on. Definitions: see fixed_rows.cuh.

#include "fixed_rows.cuh"
#include "loss_arguments.h"
#include "math.cuh"
#include "rows.cuh"
#include "statistics.cuh"

namespace ramet_device {

/// The run that holds local class `local`; there is one.
__device__ __forceinline__ ClassRun run_of(const StatisticsArguments& a, int local) {
  int at = a.runs - 1;
  while (a.run[at].local > local) --at;
  return a.run[at];
}

/// One chunk of classes of one row.
struct Chunk {
  Index task;   ///< of [rows, chunks]
  int classes;  ///< its first logits; the others are padding
  int label;    ///< of these, -1: ignored or elsewhere
};

/// Local class of a label; -1 where it is ignored or another device's. A label that is no class is reported.
__device__ __forceinline__ int local_label(const StatisticsArguments& a, Index row, bool reports) {
  const int label = a.labels[row];
  if (label >= a.classes && reports)
    report_fault(static_cast<Fault*>(a.faults), a.kernel, static_cast<unsigned>(row), label, a.classes);
  for (int i = 0; i < a.runs; ++i)
    if (label >= a.run[i].logical && label < a.run[i].logical + a.run[i].length)
      return a.run[i].local + (label - a.run[i].logical);
  return -1;
}

__device__ __forceinline__ Chunk chunk_of(const StatisticsArguments& a, Index task) {
  const Index row = task / a.chunks;
  const int begin = static_cast<int>(task % a.chunks) * a.width;
  const ClassRun run = run_of(a, begin);
  const int left = a.classes - (run.logical + (begin - run.local)), most = left < a.width ? left : a.width;
  const int classes = most > 0 ? most : 0;
  const int label = local_label(a, row, begin == 0 && threadIdx.x % 32 == 0) - begin;
  return {task, classes, label >= 0 && label < classes ? label : -1};
}

/// Elements of the pair that are classes.
__device__ __forceinline__ int classes_here(int element, int count, int classes) {
  return classes - element < count ? classes - element : count;
}

__device__ __forceinline__ float logit_at(const RowType::Stored* row, int element) {
  return RowType::widen(row[element]);
}

/// What the greatest logit becomes with one more; a NaN that this loses comes back in the sum.
__device__ __forceinline__ float more_of(float most, float value) { return most > value ? most : value; }
/// What is taken off the logits, where `top` is the greatest.
__device__ __forceinline__ float shift_of(float top) { return top == -infinity() ? 0.0f : top; }

/// `before`: a class in front of the label has the greatest logit too.
__device__ __forceinline__ void store_statistics(const StatisticsArguments& a, const Chunk& chunk,
                                                 const RowType::Stored* row, float top, float sum, bool before) {
  const float logit = chunk.label < 0 ? 0.0f : logit_at(row, chunk.label);
  float* out = a.statistics + chunk.task * kStatistics;
  out[kChunkMost] = top;
  out[kChunkSum] = sum;
  out[kChunkLogit] = logit;
  out[kChunkLabel] = chunk.label < 0 ? 0.0f : logit == top && !before ? 2.0f : 1.0f;
}

/// The slopes of a chunk's logits.
struct ChunkSlopes {
  float top, shift, dsum, dlogit;
  /// The sum's reference moves with the greatest logit. In a gradient of cross-entropy these cancel out, exactly.
  float rest;
  int best;  ///< the first greatest logit, where `rest` is not 0

  __device__ __forceinline__ ChunkSlopes(const StatisticsArguments& a, const Chunk& chunk) {
    const float* statistics = a.statistics_in + chunk.task * kStatistics;
    const float* slopes = a.slopes + chunk.task * kStatistics;
    top = statistics[kChunkMost];
    shift = shift_of(top);
    dsum = slopes[kChunkSum];
    dlogit = slopes[kChunkLogit];
    rest = slopes[kChunkMost] - dsum * statistics[kChunkSum];
    best = chunk.classes;
  }
  __device__ __forceinline__ float at(const Chunk& chunk, int element, float logit) const {
    float slope = dsum == 0.0f ? 0.0f : exp_negative(logit - shift) * dsum;
    if (element == best) slope += rest;
    if (element == chunk.label) slope += dlogit;
    return element < chunk.classes ? slope : 0.0f;
  }
};

/// The first class from `first` on, at distances of `step`, that is `top`; none: the number of classes.
__device__ __forceinline__ int first_equal(const RowType::Stored* row, int classes, float top, int first, int step) {
  for (int i = first; i < classes; i += step)
    if (logit_at(row, i) == top) return i;
  return classes;
}

}  // namespace ramet_device
