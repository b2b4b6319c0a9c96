#include "ramet/device/cuda/code.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "ramet/base/cache_folder.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/base/verbose.h"
#include "ramet/device/cuda/device_files.h"
#include "ramet/device/cuda/driver.h"
#include "ramet/device/cuda/nvrtc.h"

namespace ramet::device {
namespace {

/// All that a cubin depends on.
Hash key_of(const CudaSource& source) {
  static const Hash common = [] {
    Hasher hasher;
    hasher.update("1\n" + nvrtc_identity() + "\n" + nvrtc_options() + "\n");
    for (const CudaDeviceFile& file : cuda_device_files())
      if (!file.name.ends_with(".cu"))
        hasher.update(std::string(file.name) + " " + std::to_string(file.text.size()) + "\n").update(file.text);
    return hasher.digest();
  }();
  Hasher hasher;
  hasher.update(common.hex() + source.name + "\n");
  for (const std::string& definition : source.definitions) hasher.update(definition + "\n");
  return hasher.update("\n").update(source.text).digest();
}

std::string title_of(const CudaSource& source) {
  std::string title = source.name;
  for (const std::string& definition : source.definitions) title += " " + definition;
  return title;
}

// A file of the cache: the hash of the cubin in 32 digits, and the cubin.
constexpr size_t kDigits = 32;

/// The cubin in a file of the cache; "" where there is none, or a damaged one.
std::string read_cached(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return "";
  try {
    std::string text = read_file(path);
    if (text.size() <= kDigits || hash_text(std::string_view(text).substr(kDigits)).hex() != text.substr(0, kDigits))
      return "";
    return text.substr(kDigits);
  } catch (const Error&) {
    return "";  // unreadable: compiled again
  }
}

void write_cached(const std::filesystem::path& path, const std::string& cubin) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  try {
    write_file_atomic(path, hash_text(cubin).hex() + cubin);
  } catch (const Error&) {
    // Not writable: the next process compiles again.
  }
}

std::string cubin_of(const CudaSource& source, const Hash& key) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return compile_cubin(source);
  const std::filesystem::path path = folder / "cuda" / (key.hex() + ".cubin");
  std::string cubin = read_cached(path);
  if (!cubin.empty()) return cubin;
  cubin = compile_cubin(source);
  write_cached(path, cubin);
  return cubin;
}

/// The code that this process has on its card.
class LoadedCode {
 public:
  CudaFunction find(const CudaSource& source, const std::string& name, int64_t dynamic_shared_bytes) {
    cuda_card().make_current();  // first: of all that may be missing, its message says most
    const Hash key = key_of(source);
    const std::lock_guard lock(mutex_);
    const CuModule module = load(source, key);
    const auto [known, is_new] = places_.try_emplace({module, name}, functions_.size());
    if (is_new) functions_.push_back(load_function(source, module, name));
    Function& function = functions_[known->second];
    if (dynamic_shared_bytes > function.facts.dynamic_bytes) {
      cuda_driver().func_set_attribute(function.handle, kCuMostDynamicSharedBytes,
                                       static_cast<int>(dynamic_shared_bytes));
      function.facts.dynamic_bytes = dynamic_shared_bytes;
    }
    return {function.handle};
  }

  std::vector<LoadedFunction> list() const {
    const std::lock_guard lock(mutex_);
    std::vector<LoadedFunction> facts;
    for (const Function& function : functions_) facts.push_back(function.facts);
    return facts;
  }

 private:
  struct Function {
    CuFunction handle = nullptr;
    LoadedFunction facts;
  };

  CuModule load(const CudaSource& source, const Hash& key) {
    const auto known = modules_.find({key.low, key.high});
    if (known != modules_.end()) return known->second;
    CuModule module = nullptr;
    cuda_driver().module_load_data(&module, cubin_of(source, key).data());
    modules_.emplace(std::pair(key.low, key.high), module);
    return module;
  }

  static Function load_function(const CudaSource& source, CuModule module, const std::string& name) {
    const CudaDriver& driver = cuda_driver();
    Function function;
    if (driver.module_get_function.attempt(&function.handle, module, name.c_str()))
      internal_error("load_cuda_function", source.name + " has no kernel '" + name + "'");
    const auto ask = [&](int attribute) {
      int value = 0;
      driver.func_get_attribute(&value, attribute, function.handle);
      return value;
    };
    function.facts = {.source = title_of(source),
                      .name = name,
                      .registers = ask(kCuRegisters),
                      .local_bytes = ask(kCuLocalBytes),
                      .shared_bytes = ask(kCuSharedBytes),
                      .most_threads = ask(kCuMostThreads)};
    print(function.facts);
    return function;
  }

  static void print(const LoadedFunction& facts) {
    if (!is_verbose("dispatch")) return;
    std::fprintf(stderr, "ramet: cuda %s, %s: %d registers, %lld local bytes, %lld shared bytes, %d threads\n",
                 facts.source.c_str(), facts.name.c_str(), facts.registers, static_cast<long long>(facts.local_bytes),
                 static_cast<long long>(facts.shared_bytes), facts.most_threads);
  }

  mutable std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, CuModule> modules_;  // by key of the source
  std::map<std::pair<CuModule, std::string>, size_t> places_;  // in `functions_`
  std::vector<Function> functions_;
};

LoadedCode& loaded_code() {
  static LoadedCode code;
  return code;
}

}  // namespace

CudaSource cuda_device_source(std::string_view name, std::vector<std::string> definitions) {
  for (const CudaDeviceFile& file : cuda_device_files())
    if (file.name == name) return {std::string(name), std::string(file.text), std::move(definitions)};
  internal_error("cuda_device_source", "there is no device code '" + std::string(name) + "'");
}

std::string cubin_of(const CudaSource& source) { return cubin_of(source, key_of(source)); }

CudaFunction load_cuda_function(const CudaSource& source, const std::string& name, int64_t dynamic_shared_bytes) {
  return loaded_code().find(source, name, dynamic_shared_bytes);
}

void launch_on(CuStream stream, const CudaFunction& function, const CudaGrid& grid, const void* arguments) {
  void* list[] = {const_cast<void*>(arguments)};
  cuda_driver().launch_kernel(static_cast<CuFunction>(function.handle), static_cast<unsigned>(grid.x),
                              static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z),
                              static_cast<unsigned>(grid.threads), 1, 1,
                              static_cast<unsigned>(grid.dynamic_shared_bytes), stream, list, nullptr);
}

std::vector<LoadedFunction> loaded_functions() { return loaded_code().list(); }

}  // namespace ramet::device
