#pragma once

#include "ramet/machine/tile_matmul.h"
#include "ramet/ops/sparse.h"

namespace ramet::machine {

/// How a product with a block-sparse matrix is cut over tiles: the matrix's rows, its columns, and the tokens.
struct SparseSplit {
  int64_t rows = 1, columns = 1, tokens = 1;
};

struct SparseChoice {
  SparseSplit split;
  TileCycles cycles;
};

/// The cheapest way found to compute a product with a block-sparse matrix on one device of tiles. Of a fixed pattern, a
/// tile holds an equal share of the stored blocks. Of one that changes, tiles hold buckets of blocks with descriptions
/// of where each belongs; buckets pass on once, for those that a full one did not take.
SparseChoice choose_sparse_product(const TileFigures& figures, const ops::SparseWork& work);

}  // namespace ramet::machine
