#pragma once

#include <memory>
#include <source_location>

#include "ramet/error.h"
#include "ramet/types.h"

namespace ramet::v0 {

namespace detail {
class Graphs;
}  // namespace detail

/// A value of a model under construction: an input, a weight or the result of an op. It has a type, but no numbers yet.
/// Cheap to copy. It keeps what its builder wrote, even when the builder is gone.
class RAMET_API Tensor {
 public:
  Tensor() = default;

  /// False for a default Tensor. Some ops take one for an operand that is left out.
  bool valid() const { return graphs_ != nullptr; }
  const TensorType& type() const;  ///< throws Error when the tensor is not valid()
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  /// Extent of a dimension; a negative axis counts from the end.
  int64_t dim(int axis) const { return shape().dim(axis); }

 private:
  friend class detail::Graphs;
  std::shared_ptr<detail::Graphs> graphs_{};
  int32_t ids_[2] = {-1, -1};  // in the graphs of training and of evaluation
};

/// A tensor as an argument of an op, with the source line of the call, which errors and listings name. User code does
/// not name this type: a Tensor converts to it.
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
