#pragma once

// What the kernels of matrix products get.

namespace ramet_device {

constexpr int kStackAxes = 6;

/// One operand: a stack of matrices.
struct ProductOperand {
  const void* data;
  long long matrix;             ///< elements of a matrix
  long long steps[kStackAxes];  ///< matrices between neighbours along each axis of the products' stack
  int stride;                   ///< elements between its rows as they lie
  int whole_vectors;            ///< whether eight neighbours along its rows are 16 bytes, aligned, of one run
};

/// What becomes of a sum on its way to the result.
struct ProductResult {
  void* out;
  const void* extra;  ///< the bias [n], or c, of the result's shape; null: none
  int out_type;       ///< numbers of DType, as extra_type
  int extra_type;
  int extra_is_row;  ///< whether it is a bias
  int aligned;       ///< whether neighbours may be stored together: two, or 16 bytes by product_wgmma in 16-bit types
};

/// `products` products of op(a) [m, k] and op(b) [k, n], each in `chunks` parts along k, which are stored one after the
/// other in f32 when there are several. A part of k elements is cut in runs, and run r of part c lies at
/// (r chunks + c) run.
struct ProductArguments {
  ProductOperand a, b;
  ProductResult result;
  long long stack[kStackAxes];  ///< extents of the products' stack, the last varying fastest
  long long products, part;     ///< elements of a part
  int m, n, k, run, chunks;
};

/// Rows of `columns` elements, copied as 16-bit numbers to rows of `stride`, a multiple of 8, with zeros behind.
struct ProductCopyArguments {
  const void* from;
  void* to;
  long long rows;
  int columns, stride;
};

/// result[i] = round(parts along the tree + extra).
struct ProductPartsArguments {
  float* parts;  ///< [chunks][count]; overwritten
  ProductResult result;
  long long count, part;
  int n, chunks;
};

}  // namespace ramet_device
