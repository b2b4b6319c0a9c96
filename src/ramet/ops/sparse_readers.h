#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ramet/ops/build_sparse.h"

namespace ramet::ops {

/// Why the node's input of the number cannot be block-sparse; "" where it can:
/// - as input 1 of a matmul or linear by a matrix, or of a convolution with one tap, steps of 1 and no padding;
/// - as input 1 of a matmul of as many matrices [count, rows, columns] by others, one by one;
/// - as a table whose rows a gather looks up, or a slice takes one after another.
/// `turned`: the input is the transposed matrix, which products may read, look-ups not.
std::string why_not_sparse(const NodeSignature& node, size_t input, bool turned = false);

/// The result of such a node when its input of the number, as the matrix [first dimension, second dimension], is
/// stored as `values` and `index`; with `turned`, these store the transposed matrix. Several matrices are stored one
/// above the other (SparseCell::stacked). Of `inputs` that one is not read.
Tensor read_sparse(const NodeSignature& node, std::span<const Tensor> inputs, size_t input, Tensor values, Tensor index,
                   const SparseCell& cell, bool turned = false);

/// How many rows such a node multiplies by the matrix; 0 where it looks rows up.
int64_t tokens_of_product(const NodeSignature& node);

}  // namespace ramet::ops
