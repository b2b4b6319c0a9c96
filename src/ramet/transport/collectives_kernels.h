#pragma once

#include <cstddef>
#include <cstdint>

#include "ramet/base/dtype.h"
#include "ramet/transport/collectives.h"

namespace ramet::transport {

/// The type in which partial results of a reduction are held and travel: the type itself.
inline DType partial_type(DType dtype) { return dtype; }
/// Whether a type can be reduced: f32, bf16, f16, i32, i64.
bool reducible(DType dtype);

/// What `reduce_elements` does.
struct ReduceJob {
  const std::byte* const* in = nullptr;  ///< operands, in order of positions
  int inputs = 0;
  std::byte* const* out = nullptr;  ///< all get the result
  int outputs = 0;
  DType in_type = DType::kF32, out_type = DType::kF32;  ///< the same, or a type and its partial type
  Reduction kind = Reduction::kSum;
  bool stream = false;  ///< results will not be read soon: write them past the caches
};

/// Combines elements [in_begin, in_begin + count) of all operands along the balanced tree over them
/// (ops/reduce_order.h) and writes the result to elements from `out_begin` of each output. Sums of 16-bit floats are
/// rounded where two of them meet, so that partial results may be kept and sent in their own type: the tree alone
/// decides the bits. An output may be an operand when both begins are equal.
void reduce_elements(const ReduceJob& job, int64_t in_begin, int64_t out_begin, int64_t count);

/// Copies `bytes` to each of `outputs` places; a place that is `from` itself is skipped.
void copy_to_all(const std::byte* from, std::byte* const* to, int outputs, size_t bytes, bool stream);

}  // namespace ramet::transport
