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

/// A `sparse_gather`, or a `sparse_scatter_add` (`scatters`), with numbers that were checked.
struct SparseRows {
  ops::SparseGrid grid{};
  SparseLines lines{};
  bool wide_numbers = false;  ///< i64
  const void* numbers = nullptr;
  int64_t count = 0;
  DType dtype = DType::kF32;
  const void* from = nullptr;
  void* out = nullptr;
  int64_t number(int64_t i) const {
    return wide_numbers ? static_cast<const int64_t*>(numbers)[i] : static_cast<const int32_t*>(numbers)[i];
  }
};

}  // namespace ramet::kernel::cpu
