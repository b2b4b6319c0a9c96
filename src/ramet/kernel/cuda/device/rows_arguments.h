#pragma once

// Arguments of norm.cu, norm_grad.cu and softmax.cu.

namespace ramet_device {

struct NormArguments {
  const void* a;  ///< [rows, width]
  const void* gain;
  const void* bias;
  void* out;  ///< may be a
  float* mean;
  float* rstd;
  long long rows;
  int width;
  float epsilon;
};

struct SoftmaxArguments {
  const void* a;
  void* out;  ///< may be a
  long long rows;
  int width;
};

/// Rows that are summed apart from others, as ChunkedRows of kernel/cpu/reduce.h: of [lead, chunks, run] rows those of
/// one chunk, for all of `lead`, in blocks of kReduceRows.
struct RowChunks {
  long long rows;  ///< of a chunk: lead * run
  long long run, chunks, blocks;
};

struct NormGradArguments {
  const void* dy;
  const void* a;
  const void* gain;
  const float* mean;
  const float* rstd;
  void* out;         ///< may be dy or a
  float* gain_sums;  ///< [chunks, blocks, width]; none: only the gradient of rows is wanted
  float* bias_sums;
  RowChunks chunks;
  int width;
};

}  // namespace ramet_device
