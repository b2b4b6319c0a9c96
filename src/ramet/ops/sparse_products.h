#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ramet/ops/build_sparse.h"

namespace ramet::ops {

/// Why the node's input of the number cannot be block-sparse: "" where it can, as input 1 of a matmul or linear by a
/// matrix, or of a convolution with one tap, steps of 1 and no padding.
std::string why_not_sparse(const NodeSignature& node, size_t input);

/// The result of such a node when its input 1, as the matrix [first dimension, second dimension], is stored as `values`
/// and `index`; with `turned`, these store the transposed matrix. Of `inputs`, number 1 is not read.
Tensor sparse_product(const NodeSignature& node, std::span<const Tensor> inputs, Tensor values, Tensor index,
                      const SparseCell& cell, bool turned = false);

}  // namespace ramet::ops
