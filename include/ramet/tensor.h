#pragma once

#include <source_location>

#include "ramet/error.h"
#include "ramet/types.h"

namespace ramet::v0 {

namespace detail {
class Graphs;
}  // namespace detail

/// A value of a model that is being built: what an input, a weight or an op gives. It has a type, and no numbers yet.
/// Cheap to copy; good as long as its builder.
class RAMET_API Tensor {
 public:
  Tensor() = default;

  /// False of a default one. Some ops take such a tensor where they want none.
  bool valid() const { return graphs_ != nullptr; }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  /// Extent of a dimension; a negative axis counts from the end.
  int64_t dim(int axis) const { return shape().dim(axis); }

 private:
  friend class detail::Graphs;
  detail::Graphs* graphs_ = nullptr;
  int32_t ids_[2] = {-1, -1};  // in the graph of training and in that of evaluation
};

/// A tensor as an argument, with the place of the call: errors and listings name that line. Nobody writes this type: a
/// Tensor becomes one.
class Operand {
 public:
  Operand(const Tensor& tensor, const std::source_location& place = std::source_location::current())
      : tensor_(tensor), place_(place) {}

  const Tensor& tensor() const { return tensor_; }
  const std::source_location& place() const { return place_; }
  const TensorType& type() const { return tensor_.type(); }
  const Shape& shape() const { return tensor_.shape(); }
  DType dtype() const { return tensor_.dtype(); }
  int64_t dim(int axis) const { return tensor_.dim(axis); }

 private:
  Tensor tensor_;
  std::source_location place_;
};

}  // namespace ramet::v0
