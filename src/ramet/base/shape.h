#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/base/house.h"

namespace ramet {

/// Extents of a dense row-major tensor; rank 0 is a scalar. Every extent is >= 0.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  /// Extent of dimension `axis`; a negative axis counts from the end.
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis < 0 ? axis + rank() : axis)]; }
  int64_t operator[](int axis) const { return dim(axis); }
  /// Product of the extents; throws Error when it does not fit 63 bits.
  int64_t elements() const;
  const std::vector<int64_t>& dims() const { return dims_; }
  /// "[16,128]"; a scalar is "[]".
  std::string text() const;
  /// Row-major strides in elements; throws Error when one does not fit 63 bits.
  std::vector<int64_t> strides() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<int64_t> dims_;
};

/// Type of a tensor value: what a kernel must know to read it.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  /// Throws Error when the number does not fit 63 bits.
  int64_t bytes() const;
  /// "bf16[16,128]"
  std::string text() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// `axis` in [-rank, rank) as [0, rank); throws Error naming `where` otherwise.
int normalize_axis(int64_t axis, int rank, const std::string& where);

/// The shape that two shapes broadcast to, by NumPy's rule; throws Error naming `where`.
Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where);

}  // namespace ramet
