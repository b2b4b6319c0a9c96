#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ramet/base/dtype.h"

namespace ramet::kernel {

/// A matrix B [k,n] as the product kernels read it: columns in blocks of `n_block`; in each block groups of 16 units of
/// k, row-major, a unit being one f32 or a pair of neighbouring bf16; zeros behind k and n. With `chunks`, each
/// k/chunks rows are a blocked matrix of their own, one after the other; with `chunk_blocks` those of a chunk are
/// gathered from as many blocks (ops/matmul.h).
struct BlockedMatrix {
  DType compute = DType::kF32;  ///< f32 or bf16
  int64_t k = 0, n = 0, n_block = 64, chunks = 1, chunk_blocks = 1;
  bool transposed = false;  ///< the source is [n,k]

  int64_t k_chunk() const { return k / chunks; }
  /// Rows of a chunk that lie one after another in the source.
  int64_t run() const { return k_chunk() / chunk_blocks; }
  /// Row of the source that is row `row` of chunk `chunk`.
  int64_t source_row(int64_t chunk, int64_t row) const {
    return chunk_blocks == 1 ? chunk * k_chunk() + row : (row / run() * chunks + chunk) * run() + row % run();
  }
  /// k of one chunk, padded to whole groups.
  int64_t padded_k() const {
    const int64_t group = compute == DType::kBF16 ? 32 : 16;
    return (k_chunk() + group - 1) / group * group;
  }
  int64_t blocks() const { return (n + n_block - 1) / n_block; }
  int64_t block_bytes() const { return padded_k() * n_block * (compute == DType::kBF16 ? 2 : 4); }
  int64_t chunk_bytes() const { return blocks() * block_bytes(); }
  int64_t bytes() const { return chunks * chunk_bytes(); }
  /// "blocked bf16 768 3072 64 1 transposed" (type, k, n, n_block, chunks or "8x3": of 3 blocks, source), and back
  /// (nothing on another text).
  std::string format() const;
  static std::optional<BlockedMatrix> parse(const std::string& format);
};

/// What to fill of a blocked matrix: column blocks [begin, end) of all chunks, and of their k the part-th of `parts`.
struct FillRange {
  int64_t begin = 0, end = 0;
  int64_t part = 0, parts = 1;
};
/// Fills a range. `source` is [k,n], or [n,k] if transposed, of any 16- or 32-bit
/// floating type or 8-bit float, dense; `logical` is the type that b is of: an f32 source is rounded to it first.
void fill_blocks(const BlockedMatrix& blocked, const void* source, DType type, DType logical, const FillRange& range,
                 void* out);

/// rows x cols of a matrix with `stride` elements between rows (or, if `transposed`, between columns), converted to
/// `compute` (f32 or bf16), row-major with `out_stride` elements between rows.
void copy_block(const void* source, DType type, int64_t stride, bool transposed, int64_t rows, int64_t cols,
                DType compute, int64_t out_stride, void* out);

/// Sums of a product on their way to its result, row by row: out[i] = round(sum + c[i] + bias[i]), where sum is the
/// tree over the chunks (docs/architecture.md).
struct SumRows {
  float* sums;         ///< is overwritten
  int64_t sum_stride;  ///< floats between rows
  int64_t rows, n;
  int64_t chunks = 1, chunk_stride = 0;  ///< rows of further chunks are `chunk_stride` floats apart
  const void* bias = nullptr;            ///< of all rows
  DType bias_type = DType::kF32;
  const float* c = nullptr;
  int64_t c_stride = 0;
  DType out_type = DType::kF32;
  char* out = nullptr;  ///< of rows `out_stride` bytes apart
  int64_t out_stride = 0;
  char* const* outs = nullptr;  ///< instead: the memory of each row, of which `out_offset` bytes are left out
  int64_t out_offset = 0;
};
void finish_rows(const SumRows& rows);

}  // namespace ramet::kernel
