
#include "builder.h"

namespace ramet_python {
namespace {

const std::pair<const char*, ramet::LossReduction> kReductions[] = {
    {"none", ramet::LossReduction::kNone}, {"sum", ramet::LossReduction::kSum}, {"mean", ramet::LossReduction::kMean}};

/// Names of NumPy and PyTorch for element types.
const std::pair<const char*, ramet::DType> kOtherNames[] = {{"float32", ramet::DType::kF32},
                                                            {"float16", ramet::DType::kF16},
                                                            {"bfloat16", ramet::DType::kBF16},
                                                            {"float64", ramet::DType::kF64},
                                                            {"float8_e4m3fn", ramet::DType::kF8E4M3},
                                                            {"float8_e5m2", ramet::DType::kF8E5M2},
                                                            {"int8", ramet::DType::kI8},
                                                            {"int16", ramet::DType::kI16},
                                                            {"int32", ramet::DType::kI32},
                                                            {"int64", ramet::DType::kI64},
                                                            {"uint8", ramet::DType::kU8},
                                                            {"uint16", ramet::DType::kU16},
                                                            {"uint32", ramet::DType::kU32},
                                                            {"uint64", ramet::DType::kU64}};

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

/// The folder of this package, with a slash behind it.
const std::string& package_folder() {
  static const std::string folder = [] {
    const auto file = nb::cast<std::string>(nb::module_::import_("ramet").attr("__file__"));
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

ramet::Tensor power_of(const ramet::Tensor& a, double exponent) {
  if (exponent == 1) return a;
  if (exponent == 2) return ramet::multiply(a, a);
  if (exponent == 0.5) return ramet::sqrt(a);
  if (exponent == -0.5) return ramet::rsqrt(a);
  if (exponent == -1) return ramet::map_unary("reciprocal", a);
  throw ramet::UnsupportedOp(
      {.what = "a power that has no op of its own",
       .found = std::to_string(exponent),
       .expected = "1, 2, 0.5, -0.5 or -1",
       .remedy = "Use ramet.power(a, exponents) with a tensor of exponents, as builder.full gives"});
}

/// While entered, ops of this thread are of this place, and not of the line that calls them.
class GivenPlace {
 public:
  GivenPlace(std::string file, int line) : file_(std::move(file)), line_(line) {}
  void enter() {
    outer_ = current;
    current = this;
  }
  void leave() { current = outer_; }
  const std::string& file() const { return file_; }
  int line() const { return line_; }

  static thread_local const GivenPlace* current;

 private:
  const std::string file_;
  const int line_;
  const GivenPlace* outer_ = nullptr;
};
thread_local const GivenPlace* GivenPlace::current = nullptr;

}  // namespace

AtCaller::AtCaller() {
  if (const GivenPlace* const given = GivenPlace::current) {
    place_.emplace(given->file(), given->line());
    return;
  }
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    const char* const text = PyUnicode_AsUTF8(code->co_filename);
    const std::string file = text ? text : "";
    const int line = PyFrame_GetLineNumber(frame);
    Py_DECREF(code);
    if (!text) PyErr_Clear();
    if (!starts_with(file, package_folder())) {
      Py_DECREF(frame);
      place_.emplace(file, line);
      return;
    }
    PyFrameObject* const outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
}

std::vector<ramet::Tensor> tensors_of(const std::vector<OperandArgument>& arguments) {
  std::vector<ramet::Tensor> tensors;
  for (const OperandArgument& argument : arguments) tensors.push_back(argument.tensor);
  return tensors;
}

ramet::LossReduction reduction_of(const std::string& name) { return named(name, kReductions, "reduction of a loss"); }

nb::object tensor_or_none(const ramet::Tensor& tensor) { return tensor.valid() ? nb::cast(tensor) : nb::none(); }

ramet::DType DTypeArgument::dtype() const {
  ramet::DType dtype = ramet::DType::kF32;
  if (nb::try_cast(given, dtype)) return dtype;
  // What NumPy and PyTorch call a type ends the text of their objects: <class 'numpy.float32'>, torch.float32.
  std::string name = nb::isinstance<nb::str>(given)   ? nb::cast<std::string>(given)
                     : nb::hasattr(given, "name")     ? nb::cast<std::string>(nb::str(given.attr("name")))
                     : nb::hasattr(given, "__name__") ? nb::cast<std::string>(nb::str(given.attr("__name__")))
                                                      : nb::cast<std::string>(nb::str(given));
  if (starts_with(name, "torch.")) name = name.substr(6);
  for (const auto& [other, known] : kOtherNames)
    if (name == other) return known;
  return ramet::dtype_from_name(name);
}

void bind_tensor(nb::module_& m) {
  using ramet::DType;
  using ramet::Tensor;
  nb::enum_<DType> dtype(m, "DType", "Element types of tensors.");
  for (int i = 0; i < ramet::kDTypeCount; ++i) {
    const auto each = static_cast<DType>(i);
    const std::string name(ramet::name_of(each));
    dtype.value(name.c_str(), each);
  }
  dtype.export_values();
  dtype.def("__str__", [](DType self) { return std::string(ramet::name_of(self)); });
  m.def(
      "dtype", [](const DTypeArgument& given) { return given.dtype(); }, "given"_a,
      "The DType of a name or of a type of NumPy or PyTorch.");

  nb::class_<GivenPlace>(m, "_at_place")
      .def(nb::init<std::string, int>(), "file"_a, "line"_a)
      .def("__enter__", &GivenPlace::enter)
      .def("__exit__", [](GivenPlace& self, nb::args) { self.leave(); });

  nb::class_<Tensor> tensor(m, "Tensor",
                            "A value of a model under construction. It has a type, but no numbers yet. The operators "
                            "+ - * / @ and ** make new ones.");
  const auto guard = nb::call_guard<AtCaller>();
  tensor.def_prop_ro("shape", [](const Tensor& self) { return nb::tuple(nb::cast(self.shape().dims())); })
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("ndim", [](const Tensor& self) { return self.shape().rank(); })
      .def(
          "dim",
          [](const Tensor& self, int axis) {
            const int rank = self.shape().rank();
            if (axis < -rank || axis >= rank)
              throw ramet::ShapeError({.what = "a tensor has no such dimension",
                                       .where = self.type().text(),
                                       .found = std::to_string(axis)});
            return self.dim(axis);
          },
          "axis"_a, "Extent of a dimension; a negative axis counts from the end.")
      .def("__repr__", [](const Tensor& self) { return "<ramet.Tensor " + self.type().text() + ">"; })
      .def("__bool__",
           [](const Tensor&) -> bool {
             throw ramet::UnsupportedOp({.what = "a tensor of a model under construction has no numbers yet",
                                         .found = "its use as a condition",
                                         .remedy = "Choose between tensors with ramet.select"});
           })
      .def(
          "__add__", [](const Tensor& a, const Tensor& b) { return ramet::add(a, b); }, nb::is_operator(), guard)
      .def(
          "__add__", [](const Tensor& a, double b) { return ramet::add_scalar(a, b); }, nb::is_operator(), guard)
      .def(
          "__radd__", [](const Tensor& a, double b) { return ramet::add_scalar(a, b); }, nb::is_operator(), guard)
      .def(
          "__sub__", [](const Tensor& a, const Tensor& b) { return ramet::subtract(a, b); }, nb::is_operator(), guard)
      .def(
          "__sub__", [](const Tensor& a, double b) { return ramet::add_scalar(a, -b); }, nb::is_operator(), guard)
      .def(
          "__rsub__", [](const Tensor& a, double b) { return ramet::add_scalar(ramet::negate(a), b); },
          nb::is_operator(), guard)
      .def(
          "__mul__", [](const Tensor& a, const Tensor& b) { return ramet::multiply(a, b); }, nb::is_operator(), guard)
      .def(
          "__mul__", [](const Tensor& a, double b) { return ramet::scale(a, b); }, nb::is_operator(), guard)
      .def(
          "__rmul__", [](const Tensor& a, double b) { return ramet::scale(a, b); }, nb::is_operator(), guard)
      .def(
          "__truediv__", [](const Tensor& a, const Tensor& b) { return ramet::divide(a, b); }, nb::is_operator(), guard)
      .def(
          "__truediv__", [](const Tensor& a, double b) { return ramet::scale(a, 1 / b); }, nb::is_operator(), guard)
      .def(
          "__rtruediv__", [](const Tensor& a, double b) { return ramet::scale(ramet::map_unary("reciprocal", a), b); },
          nb::is_operator(), guard)
      .def(
          "__matmul__", [](const Tensor& a, const Tensor& b) { return ramet::matmul(a, b); }, nb::is_operator(), guard)
      .def(
          "__pow__", [](const Tensor& a, const Tensor& b) { return ramet::power(a, b); }, nb::is_operator(), guard)
      .def(
          "__pow__", [](const Tensor& a, double b) { return power_of(a, b); }, nb::is_operator(), guard)
      .def("__neg__", [](const Tensor& a) { return ramet::negate(a); }, guard);
}

}  // namespace ramet_python
