#pragma once

#include <mutex>

#include "arguments.h"

namespace ramet_python {

/// A run of Python's. After `finish` every call but `path` and `id` is an Error.
class PyRun {
 public:
  explicit PyRun(ramet::Run run) : run_(std::move(run)) {}
  ramet::Run& get() { return run_; }

 private:
  ramet::Run run_;
};

}  // namespace ramet_python
