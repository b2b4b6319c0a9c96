#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/shape.h"

namespace ramet::weights {

// Pickles of NumPy arrays, of SciPy's sparse matrices, and of lists of numbers, as public graph data has them. They are
// read, never run (weights/unpickler.h): a pickle that names any other function is refused by that name.

/// A dense array of numbers, little-endian, row-major.
struct PickledArray {
  DType dtype = DType::kF32;
  Shape shape;
  std::string bytes;

  int64_t elements() const { return shape.elements(); }
  /// Element i as a float, or as a whole number. Of integers both are exact as far as the type allows.
  double real(int64_t i) const;
  int64_t whole(int64_t i) const;
};

/// A sparse matrix by rows: row i holds entries [pointers[i], pointers[i+1]) of `columns` and `values`.
struct PickledRows {
  int64_t rows = 0, columns_count = 0;
  std::vector<int64_t> pointers;
  std::vector<int64_t> columns;
  std::vector<float> values;
};

/// A number and the numbers that a table lists for it.
using PickledLists = std::vector<std::pair<int64_t, std::vector<int64_t>>>;

/// Each throws FormatError that names `source` when the pickle is not whole, is of another kind, or names a function
/// that such a pickle does not need. An array of objects that holds one matrix counts as that matrix.
PickledArray read_array_pickle(std::string_view pickle, const std::string& source);
PickledRows read_sparse_pickle(std::string_view pickle, const std::string& source);
PickledLists read_lists_pickle(std::string_view pickle, const std::string& source);

}  // namespace ramet::weights
