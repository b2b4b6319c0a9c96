#pragma once

#include "ramet/base/dtype.h"
#include "ramet/kernel/cpu/sparse_lines.h"

namespace ramet::kernel::cpu {

/// One matrix of a `sparse_softmax`, or of its gradient (`dy` is not null).
struct SparseSoftmax {
  ops::SparseGrid grid{};
  SparseLines lines{};
  ops::SparseKeep keep = ops::SparseKeep::kAll;
  DType dtype = DType::kF32;
  const void* values = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
};

/// A `sparse_gather`, or a `sparse_scatter_add`.
struct SparseRows {
  ops::SparseGrid grid{};
  SparseLines lines{};
  const int64_t* rows = nullptr;  ///< the numbers as rows of this part of the table; -1: another part has the row
  int64_t count = 0;
  DType dtype = DType::kF32;
  const void* from = nullptr;
  void* out = nullptr;
};

}  // namespace ramet::kernel::cpu
