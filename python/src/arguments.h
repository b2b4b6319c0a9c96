#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "ramet/ramet.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ramet_python {

/// While it lives, nodes and errors name the line of Python that made the call: the innermost one outside of this
/// package.
class AtCaller {
 public:
  AtCaller();

 private:
  std::optional<ramet::PlaceScope> place_;
};

/// A Tensor, or None for one that is left out.
struct OperandArgument {
  ramet::Tensor tensor;
};

/// An element type: a DType, its name ("f32", "float32"), or a type of NumPy or PyTorch.
struct DTypeArgument {
  nb::object given;
  /// Throws Error for what is no type.
  ramet::DType dtype() const;
};

inline std::optional<ramet::DType> dtype_of(const std::optional<DTypeArgument>& given) {
  return given ? std::optional(given->dtype()) : std::nullopt;
}

std::vector<ramet::Tensor> tensors_of(const std::vector<OperandArgument>& arguments);
/// "none", "sum" or "mean"; throws Error for others.
ramet::LossReduction reduction_of(const std::string& name);
/// The Tensor as an object, or None for one that is not valid.
nb::object tensor_or_none(const ramet::Tensor& tensor);

/// The entry of that name in a table of names and values; throws Error that lists the names.
template <typename Value, size_t N>
Value named(const std::string& name, const std::pair<const char*, Value> (&table)[N], const char* what) {
  std::string known;
  for (const auto& [each, value] : table) {
    if (name == each) return value;
    known += (known.empty() ? "'" : ", '") + std::string(each) + "'";
  }
  throw ramet::Error({.what = std::string("no ") + what, .found = "'" + name + "'", .expected = known});
}
template <typename Value, size_t N>
std::string name_in(Value value, const std::pair<const char*, Value> (&table)[N]) {
  for (const auto& [each, known] : table)
    if (known == value) return each;
  return "";
}

}  // namespace ramet_python

namespace nanobind::detail {

template <>
struct type_caster<ramet_python::OperandArgument> {
  NB_TYPE_CASTER(ramet_python::OperandArgument, const_name("Tensor | None"))
  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (source.is_none()) return true;
    make_caster<ramet::Tensor> tensor;
    if (!tensor.from_python(source, flags, cleanup)) return false;
    value.tensor = static_cast<ramet::Tensor&>(tensor);
    return true;
  }
};

template <>
struct type_caster<ramet_python::DTypeArgument> {
  NB_TYPE_CASTER(ramet_python::DTypeArgument, const_name("DType | str | object"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    value.given = borrow(source);
    return true;
  }
};

}  // namespace nanobind::detail
