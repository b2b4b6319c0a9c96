#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/version.h"

namespace ramet::v0 {

/// Element types of tensors: floats, integers with a sign (I) and without (U), and bool. Arithmetic on integers wraps
/// around at the bounds of their type. There are no complex numbers.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI32,
  kI64,
  kBool,
  kU8,
  kU16,
  kF64,
  kI8,
  kI16,
  kU32,
  kU64
};
inline constexpr int kDTypeCount = 15;

/// Size of one element in bytes.
RAMET_API size_t size_of(DType dtype);
/// "f32", "bf16", "i64", "bool", ...
RAMET_API std::string_view name_of(DType dtype);
/// The inverse of `name_of`; throws Error that lists the known types.
RAMET_API DType dtype_from_name(std::string_view name);
RAMET_API bool is_floating(DType dtype);
/// Of 8 to 64 bits, with a sign or without; bool is none.
RAMET_API bool is_integer(DType dtype);

/// Extents of a dense row-major tensor; rank 0 is a scalar. Every extent is >= 0.
class RAMET_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  /// Extent of dimension `axis`, which must exist; a negative axis counts from the end.
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis < 0 ? axis + rank() : axis)]; }
  int64_t operator[](int axis) const { return dim(axis); }
  /// Product of the extents; throws Error when it does not fit in 63 bits.
  int64_t elements() const;
  const std::vector<int64_t>& dims() const { return dims_; }
  /// "[16,128]"; a scalar is "[]".
  std::string text() const;
  /// Row-major strides in elements; throws Error when one does not fit in 63 bits.
  std::vector<int64_t> strides() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<int64_t> dims_;
};

/// Element type and shape of a tensor.
struct RAMET_API TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  /// Size of all elements in bytes; throws Error when it does not fit in 63 bits.
  int64_t bytes() const;
  /// "bf16[16,128]"
  std::string text() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace ramet::v0
