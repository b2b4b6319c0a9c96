#pragma once

#include <memory>

#include "arrays.h"

namespace ramet_python {

/// Samples, with the arrays of Python's that they lie in.
struct PyData {
  ramet::Data data;
  std::shared_ptr<const Feeds> kept;
};

/// While it lives, this thread computes samples for a step that runs.
class FillingScope {
 public:
  FillingScope() : before_(filling()) { filling() = true; }
  ~FillingScope() { filling() = before_; }
  static bool active() { return filling(); }

 private:
  static bool& filling() {
    static thread_local bool value = false;
    return value;
  }
  const bool before_;
};

}  // namespace ramet_python
