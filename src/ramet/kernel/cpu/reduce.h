#pragma once

#include <cstdint>

#include "ramet/base/thread_team.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel::cpu {

/// How a reduction joins f32 values.
struct Join {
  static constexpr int kLines = 16;
  /// into[i] = into[i] joined with from[i].
  void (*each)(const float* from, int64_t count, float* into);
  /// Joins `count` values to 16 strided lanes; `count` is a multiple of 16 but at the end of a row.
  void (*lanes)(const float* from, int64_t count, float* into);
  /// Joins the columns of kLines lines, `stride` apart, one after another to one number each; `begins`: to nothing.
  void (*chains)(const float* from, int64_t stride, int64_t columns, bool begins, float* into);
  float (*one)(float a, float b);
  float start;  ///< joins to nothing: 0, 1, -infinity, infinity
};
/// Of "reduce_sum", "reduce_prod", "reduce_max" or "reduce_min".
const Join& join_of(const char* op);

/// Joins `count` rows at distance `distance` floats, columns [begin, end), along the balanced tree (tree_split), in
/// place: the first row holds the result.
void combine_tree(const Join& join, float* rows, int64_t count, int64_t distance, int64_t begin, int64_t end);

/// Which rows are summed apart from others: of [lead, extent] rows each of `chunks` equal parts of `extent`, for all of
/// `lead`. Its rows in order are cut in blocks of kReduceRows.
struct ChunkedRows {
  int64_t lead = 1, extent = 1, chunks = 1;

  int64_t rows() const { return lead * (extent / chunks); }                    ///< of a chunk
  int64_t blocks() const { return (rows() + kReduceRows - 1) / kReduceRows; }  ///< of a chunk
  int64_t row(int64_t chunk, int64_t index) const {                            ///< where the chunk's rows lie
    const int64_t run = extent / chunks;
    return (index / run * chunks + chunk) * run + index % run;  // NOLINT(clang-analyzer-core.DivideZero): no rows then
  }
};

/// Sums of row blocks [chunks, blocks, columns] to one row, stored as `store` narrows it to elements of `size` bytes;
/// zeros when there are no blocks.
void combine_row_sums(float* sums, int64_t blocks, int64_t columns, StoreFunction store, int64_t size, void* output,
                      ThreadTeam& team, int64_t chunks = 1);

}  // namespace ramet::kernel::cpu
