#include "ramet/base/shape.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet {
namespace {

int64_t product_of(int64_t a, int64_t b, const Shape& shape) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error({.what = "a tensor larger than any memory",
                 .found = shape.text(),
                 .expected = "fewer than 2^63 elements and bytes"});
  return product;
}

}  // namespace

int64_t Shape::elements() const {
  if (std::find(dims_.begin(), dims_.end(), 0) != dims_.end()) return 0;
  int64_t product = 1;
  for (int64_t dim : dims_) product = product_of(product, dim, *this);
  return product;
}

std::string Shape::text() const {
  std::string text = "[";
  for (size_t i = 0; i < dims_.size(); ++i) text += (i ? "," : "") + std::to_string(dims_[i]);
  return text + "]";
}

std::vector<int64_t> Shape::strides() const {
  std::vector<int64_t> strides(dims_.size(), 1);
  for (int i = rank() - 2; i >= 0; --i) strides[i] = product_of(strides[i + 1], dims_[i + 1], *this);
  return strides;
}

int64_t TensorType::bytes() const { return product_of(elements(), static_cast<int64_t>(size_of(dtype)), shape); }

std::string TensorType::text() const { return std::string(name_of(dtype)) + shape.text(); }

int normalize_axis(int64_t axis, int rank, const std::string& where) {
  if (axis < -rank || axis >= rank)
    throw Error({.what = "axis out of range",
                 .where = where,
                 .found = std::to_string(axis),
                 .expected = "an axis in [" + std::to_string(-rank) + ", " + std::to_string(rank) + ")"});
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    if (da != db && da != 1 && db != 1)
      throw Error({.what = "shapes do not broadcast",
                   .where = where,
                   .found = a.text() + " and " + b.text(),
                   .expected = "equal extents, or 1, in each dimension counted from the last"});
    dims[static_cast<size_t>(i)] = da == 1 ? db : da;
  }
  return Shape(std::move(dims));
}

}  // namespace ramet
