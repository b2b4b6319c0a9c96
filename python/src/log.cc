#include "log.h"

#include <nanobind/stl/filesystem.h>

#include "arrays.h"
#include "builder.h"

namespace ramet_python {
namespace {

const std::pair<const char*, ramet::AlertLevel> kLevels[] = {
    {"info", ramet::AlertLevel::kInfo}, {"warning", ramet::AlertLevel::kWarning}, {"error", ramet::AlertLevel::kError}};
using Released = nb::call_guard<nb::gil_scoped_release>;

/// A number, a yes or no, or a text; everything else as its text.
ramet::LogValue value_of(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  int64_t whole = 0;
  if (nb::isinstance<nb::int_>(value) && nb::try_cast(nb::borrow(value), whole)) return whole;
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  return nb::cast<std::string>(nb::str(value));
}

std::map<std::string, ramet::LogValue> config_of(const nb::dict& given) {
  std::map<std::string, ramet::LogValue> config;
  for (const auto& [key, value] : given) config[nb::cast<std::string>(nb::str(key))] = value_of(value);
  return config;
}

/// Numbers of Python, NumPy and PyTorch.
double number_of(const std::string& name, nb::handle value) {
  double number = 0;
  if (nb::try_cast(nb::borrow(value), number)) return number;
  if (nb::hasattr(value, "item") && nb::try_cast(value.attr("item")(), number)) return number;
  throw ramet::Error({.what = "a value that is no number",
                      .where = "'" + name + "'",
                      .found = nb::cast<std::string>(nb::repr(value)).substr(0, 80)});
}

void log_numbers(PyRun& self, int64_t step, const nb::dict& numbers) {
  std::vector<std::pair<std::string, double>> all;
  for (const auto& [key, value] : numbers) {
    const auto name = nb::cast<std::string>(nb::str(key));
    all.emplace_back(name, number_of(name, value));
  }
  self.get().log(step, all);
}

void log_image(PyRun& self, int64_t step, const std::string& name, nb::object pixels, const std::string& caption) {
  const ArrayArgument array(pixels, ramet::DType::kU8);
  const auto& dims = array.shape.dims();
  if (array.view().dtype() != ramet::DType::kU8 || dims.size() < 2 || dims.size() > 3)
    throw ramet::ShapeError({.what = "no image",
                             .where = "'" + name + "'",
                             .found = ramet::TensorType{array.view().dtype(), array.shape}.text(),
                             .expected = "u8[height,width] or u8[height,width,channels]"});
  const auto* first = reinterpret_cast<const uint8_t*>(array.view().data());
  self.get().log_image(step, name,
                       {.width = dims[1],
                        .height = dims[0],
                        .channels = dims.size() == 3 ? dims[2] : 1,
                        .pixels = {first, static_cast<size_t>(array.view().elements())},
                        .caption = caption});
}

void log_histogram(PyRun& self, int64_t step, const std::string& name, nb::object values, int64_t parts) {
  const ArrayArgument array(nb::module_::import_("numpy").attr("asarray")(values, "float32"));
  self.get().log_histogram(
      step, name,
      ramet::LogHistogram::of(
          {reinterpret_cast<const float*>(array.view().data()), static_cast<size_t>(array.view().elements())}, parts));
}

void log_table(PyRun& self, int64_t step, const std::string& name, std::vector<std::string> columns,
               const std::vector<std::vector<nb::object>>& rows) {
  ramet::LogTable table{.columns = std::move(columns)};
  for (const auto& row : rows) {
    auto& made = table.rows.emplace_back();
    for (const nb::object& cell : row) made.push_back(value_of(cell));
  }
  self.get().log_table(step, name, table);
}

}  // namespace

void bind_log(nb::module_& m) {
  nb::class_<PyRun>(m, "Run",
                    "A run that a program logs to: numbers by step, images, histograms, tables, texts, files.")
      .def(
          "__init__",
          [](PyRun* self, const std::string& name, const std::filesystem::path& folder,
             const std::optional<std::filesystem::path>& exactly, const std::string& group, const std::string& note,
             std::vector<std::string> tags, const nb::dict& config) {
            new (self) PyRun(ramet::Run({.folder = folder.string(),
                                         .name = name,
                                         .exactly = exactly ? exactly->string() : "",
                                         .group = group,
                                         .note = note,
                                         .tags = std::move(tags),
                                         .config = config_of(config)}));
          },
          "name"_a = "run", nb::kw_only(), "folder"_a = "runs", "exactly"_a = nb::none(), "group"_a = "", "note"_a = "",
          "tags"_a = std::vector<std::string>{}, "config"_a = nb::dict())
      .def_static(
          "join",
          [](const std::string& run, const std::string& writer) { return new PyRun(ramet::Run::join(run, writer)); },
          "run"_a, "writer"_a, "One more writer to a run that another process keeps, or that is over.")
      .def("log", &log_numbers, "step"_a, "numbers"_a, "Numbers of a step, by name.")
      .def(
          "log",
          [](PyRun& self, int64_t step, const std::string& name, nb::object number) {
            self.get().log(step, name, number_of(name, number));
          },
          "step"_a, "name"_a, "number"_a)
      .def("log_image", &log_image, "step"_a, "name"_a, "pixels"_a, "caption"_a = "",
           "An array u8[height, width] or u8[height, width, channels].")
      .def("log_histogram", &log_histogram, "step"_a, "name"_a, "values"_a, "parts"_a = int64_t(64))
      .def("log_table", &log_table, "step"_a, "name"_a, "columns"_a, "rows"_a)
      .def(
          "log_text",
          [](PyRun& self, int64_t step, const std::string& name, const std::string& text) {
            self.get().log_text(step, name, text);
          },
          "step"_a, "name"_a, "text"_a)
      .def(
          "log_file",
          [](PyRun& self, int64_t step, const std::string& name, const std::filesystem::path& path) {
            self.get().log_file(step, name, path.string());
          },
          "step"_a, "name"_a, "path"_a)
      .def(
          "alert",
          [](PyRun& self, const std::string& title, const std::string& text, const std::string& level, int64_t step) {
            self.get().alert(named(level, kLevels, "level of an alert"), title, text, step);
          },
          "title"_a, "text"_a = "", nb::kw_only(), "level"_a = "warning", "step"_a = int64_t(0))
      .def(
          "config", [](PyRun& self, const nb::dict& values) { self.get().config(config_of(values)); }, "values"_a,
          "More configuration, or other values for keys that are there.")
      .def(
          "tag", [](PyRun& self, const std::string& tag) { self.get().tag(tag); }, "tag"_a)
      .def(
          "axis",
          [](PyRun& self, double samples, double units, const std::string& name) {
            self.get().axis(samples, units, name);
          },
          "samples_per_step"_a, "units_per_step"_a = 0.0, "units"_a = "")
      .def(
          "flush", [](PyRun& self) { return self.get().flush(); }, Released(),
          "Waits until all that was logged is durable; False when a disk refused it, or something was dropped.")
      .def_prop_ro("dropped", [](PyRun& self) { return self.get().dropped(); })
      .def_prop_ro("problem", [](PyRun& self) { return self.get().problem(); })
      .def(
          "finish", [](PyRun& self, const std::string& error) { self.get().finish(error); }, Released(), "error"_a = "",
          "Ends the run: as done, or with an error as failed.")
      .def_prop_ro("path", [](PyRun& self) { return self.get().path(); })
      .def_prop_ro("id", [](PyRun& self) { return self.get().id(); })
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__",
          [](PyRun& self, nb::object type, nb::object value, nb::object) {
            self.get().finish(type.is_none() ? "" : nb::cast<std::string>(nb::str(nb::repr(value))));
          },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none());
}

}  // namespace ramet_python
