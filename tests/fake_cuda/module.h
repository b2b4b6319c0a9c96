#pragma once

#include <map>
#include <string>
#include <vector>

#include "fake_cuda/driver_types.h"

// Compiled device code: what the fake compiler gives and the fake driver loads. It is a shared object with a head that
// tells it from a true cubin. A true cubin is loaded too, but its kernels can only be asked what they take of a card:
// registers, local and shared memory.

namespace ramet_fake {

struct Function {
  std::string name;
  void (*run)(const void* arguments) = nullptr;  ///< null: of a true card, not to be launched here
  unsigned arguments_bytes = 0, most_threads = 1024;
  unsigned most_dynamic = 48 << 10;
  unsigned registers = 32, local_bytes = 0, shared_bytes = 0;
};
struct Module {
  void* library = nullptr;
  std::map<std::string, Function> true_functions;  ///< of a true cubin, with what its kernels take of a card
};

/// The head of a shared object's bytes, for an architecture as "sm_90a".
std::vector<char> image_of(const std::vector<char>& object, const std::string& architecture);
Result load_module(const void* image, Module** made);
/// Null where there is none of that name.
Function* find_function(const Module& module, const std::string& name);

}  // namespace ramet_fake
