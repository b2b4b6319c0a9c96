#include "arrays.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

namespace ramet_python {
namespace {

using ramet::DType;
using Imported = nb::ndarray<nb::ro>;

/// DLPack's code and number of bits of an element type; f8 has none that NumPy and PyTorch agree on.
struct Code {
  DType dtype;
  uint8_t code, bits;
};
constexpr auto kFloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
constexpr auto kBfloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
constexpr auto kInt = static_cast<uint8_t>(nb::dlpack::dtype_code::Int);
constexpr auto kUInt = static_cast<uint8_t>(nb::dlpack::dtype_code::UInt);
constexpr auto kBoolean = static_cast<uint8_t>(nb::dlpack::dtype_code::Bool);
constexpr Code kCodes[] = {{DType::kF32, kFloat, 32},   {DType::kF16, kFloat, 16}, {DType::kF64, kFloat, 64},
                           {DType::kBF16, kBfloat, 16}, {DType::kI8, kInt, 8},     {DType::kI16, kInt, 16},
                           {DType::kI32, kInt, 32},     {DType::kI64, kInt, 64},   {DType::kU8, kUInt, 8},
                           {DType::kU16, kUInt, 16},    {DType::kU32, kUInt, 32},  {DType::kU64, kUInt, 64},
                           {DType::kBool, kBoolean, 8}};

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__module__"))) + "." +
         nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

bool is_torch(nb::handle object) { return class_name(object).starts_with("torch.") && nb::hasattr(object, "detach"); }

[[noreturn]] void refuse(const std::string& name, const std::string& found) {
  throw ramet::ShapeError({.what = "no array of numbers",
                           .where = name.empty() ? "" : "'" + name + "'",
                           .found = found,
                           .expected =
                               "an array of NumPy, a tensor of PyTorch, or another object with __dlpack__ or the "
                               "buffer protocol, in the memory of the processor"});
}

DType dtype_of(const Imported& array, const std::string& name) {
  const nb::dlpack::dtype type = array.dtype();
  for (const Code& code : kCodes)
    if (type.code == code.code && type.bits == code.bits && type.lanes == 1) return code.dtype;
  refuse(name,
         "elements of DLPack's type " + std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits");
}

/// The object as an array that nanobind takes. Lists become arrays of `list_type`.
nb::object prepared(nb::handle object, const std::string& name, std::optional<DType> list_type, bool& torch) {
  if (is_torch(object)) {
    torch = true;
    nb::object tensor = nb::borrow(object);
    if (nb::cast<std::string>(nb::str(tensor.attr("device").attr("type"))) != "cpu")
      refuse(name, "a tensor on the device " + nb::cast<std::string>(nb::str(tensor.attr("device"))));
    return nb::cast<bool>(tensor.attr("requires_grad")) ? tensor.attr("detach")() : tensor;
  }
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object) || nb::isinstance<nb::float_>(object) ||
      nb::isinstance<nb::int_>(object)) {
    const DType type = list_type.value_or(DType::kF32);
    const std::string numpy_type = type == DType::kBool  ? "bool"
                                   : type == DType::kF16 ? "float16"
                                   : type == DType::kF64 ? "float64"
                                   : ramet::is_floating(type)
                                       ? "float32"
                                       : std::string(ramet::name_of(type)[0] == 'u' ? "uint" : "int") +
                                             std::string(ramet::name_of(type).substr(1));
    return nb::module_::import_("numpy").attr("asarray")(object, numpy_type);
  }
  return nb::borrow(object);
}

/// Copies an array of any strides to row-major order.
void copy_rows(const Imported& array, size_t axis, const std::byte* from, std::byte*& to, size_t size) {
  if (axis == array.ndim()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  const bool last_dense = axis + 1 == array.ndim() && array.stride(axis) == 1;
  if (last_dense) {
    std::memcpy(to, from, array.shape(axis) * size);
    to += array.shape(axis) * size;
    return;
  }
  for (size_t i = 0; i < array.shape(axis); ++i)
    copy_rows(array, axis + 1, from + static_cast<int64_t>(i) * array.stride(axis) * static_cast<int64_t>(size), to,
              size);
}

bool is_row_major(const Imported& array) {
  int64_t expected = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != expected) return false;
    expected *= static_cast<int64_t>(array.shape(axis));
  }
  return true;
}

std::vector<std::byte> narrowed(const std::string& name, const ramet::ArrayView& view) {
  std::vector<std::byte> bytes(static_cast<size_t>(view.elements()) * sizeof(int32_t));
  const auto* from = reinterpret_cast<const int64_t*>(view.data());
  auto* to = reinterpret_cast<int32_t*>(bytes.data());
  for (int64_t i = 0; i < view.elements(); ++i) {
    if (from[i] < std::numeric_limits<int32_t>::min() || from[i] > std::numeric_limits<int32_t>::max())
      throw ramet::ShapeError({.what = "a number does not fit in the i32 of the input",
                               .where = "'" + name + "'",
                               .found = std::to_string(from[i])});
    to[i] = static_cast<int32_t>(from[i]);
  }
  return bytes;
}

/// The type of a micro-batch of an input; nothing where the model has no such input.
std::optional<ramet::TensorType> input_type(const ramet::Model& model, const std::string& name) {
  const auto inputs = model.inputs();
  if (std::find(inputs.begin(), inputs.end(), name) == inputs.end()) return std::nullopt;
  return model.type_of(name);
}

ramet::Shape shape_of(const Imported& array) {
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < array.ndim(); ++axis) dims.push_back(static_cast<int64_t>(array.shape(axis)));
  return ramet::Shape(std::move(dims));
}

/// What the object's __dlpack__ gives, or the object where it has none or that fails. nanobind would call it too, but
/// passes over every error on the way: Ctrl-C during the call would be lost.
nb::object exported(const nb::object& object) {
  if (!nb::hasattr(object, "__dlpack__")) return object;
  try {
    return object.attr("__dlpack__")();
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    return object;
  }
}

/// The array as nanobind sees it. bf16 of ml_dtypes is an array of u16 to it.
Imported import_array(nb::object& object, const std::string& name, std::optional<DType>& known) {
  if (nb::hasattr(object, "dtype") && nb::hasattr(object, "view") && !is_torch(object) &&
      nb::hasattr(object.attr("dtype"), "name") &&
      nb::cast<std::string>(nb::str(object.attr("dtype").attr("name"))) == "bfloat16") {
    object = object.attr("view")("uint16");
    known = DType::kBF16;
  }
  Imported array;
  if (!nb::try_cast(exported(object), array, false) || array.device_type() != nb::device::cpu::value)
    refuse(name, "an object of type " + class_name(object));
  return array;
}

}  // namespace

ramet::ArrayView Feeds::owned(DType dtype, std::vector<std::byte> bytes) {
  const auto elements = static_cast<int64_t>(bytes.size() / ramet::size_of(dtype));
  copies_.push_back(std::move(bytes));
  return {dtype, copies_.back().data(), elements};
}

void Feeds::add(const std::string& name, nb::handle given, std::optional<DType> wanted) {
  nb::object object = prepared(given, name, wanted, torch_);
  std::optional<DType> known;
  const Imported array = import_array(object, name, known);
  const DType dtype = known ? *known : dtype_of(array, name);
  const auto elements = static_cast<int64_t>(array.size());
  ramet::ArrayView view(dtype, array.data(), elements);
  if (!is_row_major(array)) {
    std::vector<std::byte> bytes(static_cast<size_t>(elements) * ramet::size_of(dtype));
    std::byte* to = bytes.data();
    if (elements > 0) copy_rows(array, 0, static_cast<const std::byte*>(array.data()), to, ramet::size_of(dtype));
    view = owned(dtype, std::move(bytes));
  }
  if (dtype == DType::kI64 && wanted == DType::kI32) view = owned(DType::kI32, narrowed(name, view));
  views_.emplace_back(name, view);
  shapes_.push_back(shape_of(array));
  arrays_.push_back(array);
  objects_.push_back(std::move(object));
}

Feeds::Feeds(const nb::dict& arrays, const ramet::Model* model) {
  for (const auto& [name, array] : arrays) {
    if (!nb::isinstance<nb::str>(name)) refuse("", "a name of type " + class_name(name));
    const auto text = nb::cast<std::string>(name);
    const auto type = model ? input_type(*model, text) : std::nullopt;
    add(text, array, type ? std::optional(type->dtype) : std::nullopt);
  }
  if (model) check_samples(*model);
}

void Feeds::check_samples(const ramet::Model& model) const {
  std::string found, expected;
  for (size_t i = 0; i < views_.size(); ++i) {
    const std::string& name = views_[i].first;
    const auto type = input_type(model, name);
    if (!type) continue;
    const auto& wanted = type->shape.dims();
    const auto& dims = shapes_[i].dims();
    if (dims.size() == wanted.size() && std::equal(dims.begin() + 1, dims.end(), wanted.begin() + 1)) continue;
    found += (found.empty() ? "" : ", ") +
             ("'" + name + "' " + ramet::TensorType{views_[i].second.dtype(), shapes_[i]}.text());
    expected += (expected.empty() ? "" : ", ") + ("'" + name + "' " + type->text());
  }
  if (!found.empty())
    throw ramet::ShapeError({.what = "arrays of another shape than the model reads",
                             .found = found,
                             .expected = expected + ", with any number of samples as the first dimension"});
}

ArrayArgument::ArrayArgument(nb::handle given, std::optional<DType> list_type) {
  bool torch = false;
  nb::object object = prepared(given, "", list_type, torch);
  std::optional<DType> known;
  const Imported array = import_array(object, "", known);
  shape = shape_of(array);
  feeds.add("", object, list_type);
}

namespace {

/// Memory as an array of NumPy or PyTorch, which keeps the owner.
nb::object array_of(const ramet::Shape& extents, DType dtype, const std::byte* data, std::shared_ptr<const void> owner,
                    bool torch) {
  auto kept = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  const nb::capsule capsule(kept.get(),
                            [](void* memory) noexcept { delete static_cast<std::shared_ptr<const void>*>(memory); });
  kept.release();
  nb::dlpack::dtype code{};
  for (const Code& each : kCodes)
    if (each.dtype == dtype) code = {each.code, each.bits, 1};
  std::vector<size_t> shape;
  for (const int64_t extent : extents.dims()) shape.push_back(static_cast<size_t>(extent));
  void* const memory = const_cast<std::byte*>(data);  // of the object alone, which may change it
  if (torch) return nb::cast(nb::ndarray<nb::pytorch>(memory, shape.size(), shape.data(), capsule, nullptr, code));
  return nb::cast(nb::ndarray<nb::numpy>(memory, shape.size(), shape.data(), capsule, nullptr, code));
}

nb::object to_python(const ramet::Array& array, const std::shared_ptr<const void>& owner, bool torch) {
  const DType dtype = array.type().dtype;
  const bool is_f8 = dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  if (!is_f8 && (dtype != DType::kBF16 || torch))
    return array_of(array.shape(), dtype, array.bytes().data(), owner, torch);
  const auto numbers = std::make_shared<std::vector<float>>(array.floats());
  const auto* const bytes = reinterpret_cast<const std::byte*>(numbers->data());
  return array_of(array.shape(), DType::kF32, bytes, numbers, torch);
}

}  // namespace

nb::object to_python(ramet::Array array) {
  const auto owned = std::make_shared<const ramet::Array>(std::move(array));
  return to_python(*owned, owned, false);
}

nb::dict to_python(ramet::Arrays arrays, bool torch) {
  const auto owned = std::make_shared<const ramet::Arrays>(std::move(arrays));
  nb::dict made;
  for (const ramet::Array& array : *owned) made[array.name().c_str()] = to_python(array, owned, torch);
  return made;
}

}  // namespace ramet_python
