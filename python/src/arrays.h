#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"

namespace ramet_python {

/// Arrays of Python's as views: nothing is copied where an array lies row-major in memory. Keeps what the views need.
class Feeds {
 public:
  Feeds() = default;
  /// `arrays`: a dictionary of arrays by name, each with __dlpack__ or the buffer protocol, or numbers in lists.
  /// `model`: where it has an input of the name, i64 numbers become the i32 of the input if all fit, lists get its
  /// type, and check_samples is called. Throws Error for what is no array of numbers in the memory of the processor.
  Feeds(const nb::dict& arrays, const ramet::Model* model);
  /// Throws ShapeError when an array for an input of the model has other dimensions behind the first, which counts
  /// samples.
  void check_samples(const ramet::Model& model) const;
  /// `wanted`: the type of the input of the name.
  void add(const std::string& name, nb::handle array, std::optional<ramet::DType> wanted);

  const ramet::NamedViews& views() const { return views_; }
  /// The shapes of the views.
  const std::vector<ramet::Shape>& shapes() const { return shapes_; }
  /// Whether a tensor of PyTorch was among the arrays.
  bool torch() const { return torch_; }

 private:
  ramet::ArrayView owned(ramet::DType dtype, std::vector<std::byte> bytes);

  ramet::NamedViews views_;
  std::vector<ramet::Shape> shapes_;
  std::vector<nb::ndarray<nb::ro>> arrays_;
  std::vector<nb::object> objects_;
  std::deque<std::vector<std::byte>> copies_;
  bool torch_ = false;
};

/// One array as a view, with its shape.
struct ArrayArgument {
  Feeds feeds;
  ramet::Shape shape;
  const ramet::ArrayView& view() const { return feeds.views()[0].second; }
  explicit ArrayArgument(nb::handle array, std::optional<ramet::DType> list_type = std::nullopt);
};

/// The numbers of an array or a list. Numbers of i64 become those of i32 where all fit. Throws ShapeError otherwise.
template <typename T>
std::vector<T> numbers_of(nb::handle array, const char* name) {
  const ArrayArgument given(array, ramet::dtype_of<T>());
  const ramet::ArrayView& view = given.view();
  if constexpr (std::is_same_v<T, int32_t>) {
    const auto* wide = reinterpret_cast<const int64_t*>(view.data());
    const auto fits = [](int64_t number) { return std::in_range<int32_t>(number); };
    if (view.dtype() == ramet::DType::kI64 && std::all_of(wide, wide + view.elements(), fits))
      return {wide, wide + view.elements()};
  }
  if (view.dtype() != ramet::dtype_of<T>())
    throw ramet::ShapeError({.what = "numbers of another type",
                             .where = name,
                             .found = std::string(ramet::name_of(view.dtype())),
                             .expected = std::string(ramet::name_of(ramet::dtype_of<T>()))});
  const auto* first = reinterpret_cast<const T*>(view.data());
  return {first, first + view.elements()};
}

/// An array as an object of NumPy. Its memory belongs to the object, without a copy. NumPy has no bf16 and no f8: there
/// the numbers become f32.
nb::object to_python(ramet::Array array);

/// Numbers in row-major order as an array of a shape, and of one dimension.
template <typename T>
nb::object array_of(const std::vector<T>& numbers, const ramet::Shape& shape) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
  return to_python(ramet::Array("", {ramet::dtype_of<T>(), shape}, {bytes.begin(), bytes.end()}));
}
template <typename T>
nb::object array_of(const std::vector<T>& numbers) {
  return array_of(numbers, {std::ssize(numbers)});
}

/// A dictionary of arrays of NumPy, or of PyTorch with `torch`, by name. They share what owns their memory.
nb::dict to_python(ramet::Arrays arrays, bool torch);

}  // namespace ramet_python
