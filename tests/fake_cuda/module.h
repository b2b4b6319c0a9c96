#pragma once

#include <string>
#include <vector>

#include "fake_cuda/driver_types.h"

// Compiled device code: what the fake compiler gives and the fake driver loads. It is a shared object with a head that
// tells it from a true cubin.

namespace ramet_fake {

struct Function {
  std::string name;
  void (*run)(const void* arguments) = nullptr;
  unsigned arguments_bytes = 0, most_threads = 0;
  unsigned most_dynamic = 48 << 10;
};
struct Module {
  void* library = nullptr;
};

/// The head of a shared object's bytes, for an architecture as "sm_90a".
std::vector<char> image_of(const std::vector<char>& object, const std::string& architecture);
Result load_module(const void* image, Module** made);
/// Null where there is none of that name.
Function* find_function(const Module& module, const std::string& name);

}  // namespace ramet_fake
