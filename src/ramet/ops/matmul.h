#pragma once

#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// A node `matmul` or `linear` as its kernels see it: `batch` products of op(a) [m,k] and op(b) [k,n], where op
/// transposes or not. A rank-2 b without transpose_a is one product of all of a's rows.
///
/// Order of sums: the k products of an element are cut in `chunks` equal parts; the sums
/// of the parts, in f32, are combined by a balanced binary tree (ops/reduce_order.h), then c or the bias is added, then
/// the result is rounded to the output's type. With `chunk_blocks` the k are seen as [chunk_blocks, chunks, rest], and
/// part c is [0,c,:], [1,c,:], ... one after another: so a shard of a joint query-key-value contraction has whole
/// parts.
struct MatmulForm {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t chunks = 1;
  int64_t chunk_blocks = 1;  ///< 1 when chunks is 1: there is then no difference
  /// Contiguous k of one block of one chunk.
  int64_t run() const { return k / (chunks * chunk_blocks); }
  std::vector<int64_t> a_index, b_index;  ///< for each product, which matrix of a and of b it reads
  bool in_order = false;                  ///< a part is one chain of fused multiply-adds, in order: zeros do not show
  bool has_bias = false;                  ///< input 2 is the bias [n] (linear)
  bool accumulate = false;                ///< input 2 is c, f32, of the output's shape
  bool blocked = false;                   ///< input 1 is bytes in a kernel's own format, `b` its logical type
  TensorType a, b, output;
};
/// Throws Error naming the node when the operands do not fit.
MatmulForm matmul_form(const NodeSignature& node);

}  // namespace ramet::ops
