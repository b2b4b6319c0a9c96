#include "builder.h"

namespace ramet_python {
namespace {

/// The class of ramet/errors.py for an error.
const char* class_of(const ramet::Error& error) {
  if (dynamic_cast<const ramet::UnsupportedOp*>(&error)) return "UnsupportedOp";
  if (dynamic_cast<const ramet::DoesNotFit*>(&error)) return "DoesNotFit";
  if (dynamic_cast<const ramet::ShapeError*>(&error)) return "ShapeError";
  if (dynamic_cast<const ramet::FormatError*>(&error)) return "FormatError";
  return "Error";
}

void raise(const ramet::Error& error) {
  try {
    const ramet::ErrorParts& parts = error.parts();
    const nb::object type = nb::module_::import_("ramet.errors").attr(class_of(error));
    const nb::object made =
        nb::module_::import_("ramet._words")
            .attr("raised")(type, parts.what, parts.where, parts.found, parts.expected, parts.remedy);
    PyErr_SetObject(type.ptr(), made.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const ramet::Error& error) {
      raise(error);
    }
  });
}

}  // namespace ramet_python
