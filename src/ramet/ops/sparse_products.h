#pragma once

#include <span>

#include "ramet/ops/build_sparse.h"

namespace ramet::ops {

/// Whether the node is a product whose input 1 may be block-sparse: a matmul or linear by a matrix, or a convolution
/// with one tap, steps of 1 and no padding.
bool takes_sparse_matrix(const NodeSignature& node);

/// The result of such a node when its input 1, as the matrix [first dimension, second dimension], is stored as `values`
/// and `index`. Of `inputs`, number 1 is not read.
Tensor sparse_product(const NodeSignature& node, std::span<const Tensor> inputs, Tensor values, Tensor index,
                      const SparseCell& cell);

}  // namespace ramet::ops
