#pragma once

#include <cstdint>
#include <string>

#include "ramet/base/dtype.h"

namespace ramet::kernel::cuda {

/// How product_wgmma computes a product. Nothing of it shows in the bits.
struct ProductPlan {
  int columns = 0;                            ///< of a tile of 128 rows; a multiple of 8
  int cluster_rows = 1, cluster_columns = 1;  ///< blocks that share copies
  int head_start = 0;  ///< steps by which one group of a block is ahead of the other
  int stages = 0;
  int64_t shared_bytes = 0;
  int64_t blocks = 0;
  int cluster() const { return cluster_rows * cluster_columns; }
};

/// The tile that fills the card's processors best: `count` products (parts of products) of [m, k] and [k, n].
ProductPlan plan_product(int64_t m, int64_t n, int64_t k, int64_t count);

/// The device function `multiply_tile`: one wgmma of 64 rows and so many columns of bf16 or f16.
std::string multiply_tile_text(int columns, bool transpose_a, bool transpose_b, DType type);

}  // namespace ramet::kernel::cuda
