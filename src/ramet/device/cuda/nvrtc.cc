#include "ramet/device/cuda/nvrtc.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "ramet/device/cuda/device_files.h"

namespace ramet::device {
namespace {

using NvrtcResult = int;
using NvrtcProgram = struct _nvrtcProgram*;
constexpr NvrtcResult kCompilationFailed = 6;

// IEEE arithmetic as written: nothing contracted, no subnormal number cut, division and square root exact (the
// compiler's defaults but for the first).
constexpr const char* kOptions[] = {"--gpu-architecture=sm_90a", "--fmad=false", "-std=c++17"};

struct Nvrtc {
  std::string file;
  NvrtcResult (*version)(int*, int*) = nullptr;
  const char* (*error_text)(NvrtcResult) = nullptr;
  NvrtcResult (*create)(NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  NvrtcResult (*destroy)(NvrtcProgram*) = nullptr;
  NvrtcResult (*compile)(NvrtcProgram, int, const char* const*) = nullptr;
  NvrtcResult (*log_size)(NvrtcProgram, size_t*) = nullptr;
  NvrtcResult (*log)(NvrtcProgram, char*) = nullptr;
  NvrtcResult (*cubin_size)(NvrtcProgram, size_t*) = nullptr;
  NvrtcResult (*cubin)(NvrtcProgram, char*) = nullptr;
};

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function) return;
  throw Error({.what = "NVIDIA's run-time compiler lacks a function",
               .where = "device cuda",
               .found = std::string("no ") + name,
               .remedy = "Install libnvrtc of CUDA 12 or 13"},
              ErrorKind::kFailure);
}

/// NVRTC opens a library of its own by name when it first compiles. As the package of PyPI has it, only the loader's
/// paths would be searched, and not the folder of NVRTC.
void open_builtins(const std::filesystem::path& compiler) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(compiler.parent_path(), ignored))
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so"))
      ::dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* open_library(std::string& tried) {
  const char* named = std::getenv("RAMET_NVRTC");
  const auto open = [&](const char* file) {
    tried += (tried.empty() ? "" : ", ") + std::string(file);
    return ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  };
  if (named && *named) {
    open_builtins(named);
    return open(named);
  }
  for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    if (void* library = open(file)) return library;
  return nullptr;
}

Nvrtc open_nvrtc() {
  std::string tried;
  void* library = open_library(tried);
  if (!library) {
    const char* reason = ::dlerror();
    throw Error(
        {.what = "NVIDIA's run-time compiler is not there",
         .where = "device cuda",
         .found = reason ? reason : "",
         .expected = tried,
         .remedy = "Install it (python3 -m pip install nvidia-cuda-nvrtc, or CUDA's package cuda-nvrtc) and name "
                   "its file by RAMET_NVRTC if the system does not find it"},
        ErrorKind::kFailure);
  }
  Nvrtc found;
  find(library, found.version, "nvrtcVersion");
  find(library, found.error_text, "nvrtcGetErrorString");
  find(library, found.create, "nvrtcCreateProgram");
  find(library, found.destroy, "nvrtcDestroyProgram");
  find(library, found.compile, "nvrtcCompileProgram");
  find(library, found.log_size, "nvrtcGetProgramLogSize");
  find(library, found.log, "nvrtcGetProgramLog");
  find(library, found.cubin_size, "nvrtcGetCUBINSize");
  find(library, found.cubin, "nvrtcGetCUBIN");
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(found.version), &info) && info.dli_fname) found.file = info.dli_fname;
  return found;
}

const Nvrtc& nvrtc() {
  static const Nvrtc library = open_nvrtc();
  return library;
}

void check(const char* function, NvrtcResult result) {
  if (result)
    throw Error({.what = "NVIDIA's run-time compiler reports a failure",
                 .where = std::string("device cuda, ") + function,
                 .found = nvrtc().error_text(result)},
                ErrorKind::kFailure);
}

/// A program of the compiler, and the end of it.
class Compilation {
 public:
  explicit Compilation(const CudaSource& source) {
    std::vector<const char*> texts, names;
    std::vector<std::string> room;  // texts with the zero that ends them
    room.reserve(cuda_device_files().size() * 2);
    for (const CudaDeviceFile& file : cuda_device_files()) {
      texts.push_back(room.emplace_back(file.text).c_str());
      names.push_back(room.emplace_back(file.name).c_str());
    }
    check("nvrtcCreateProgram", nvrtc().create(&program_, source.text.c_str(), source.name.c_str(),
                                               static_cast<int>(texts.size()), texts.data(), names.data()));
  }
  ~Compilation() { nvrtc().destroy(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  NvrtcResult compile(const std::vector<const char*>& options) {
    return nvrtc().compile(program_, static_cast<int>(options.size()), options.data());
  }
  std::string log() const {
    size_t bytes = 0;
    if (nvrtc().log_size(program_, &bytes) || bytes < 2) return "";
    std::string text(bytes, '\0');
    nvrtc().log(program_, text.data());
    text.resize(bytes - 1);
    return text;
  }
  std::string cubin() const {
    size_t bytes = 0;
    check("nvrtcGetCUBINSize", nvrtc().cubin_size(program_, &bytes));
    std::string code(bytes, '\0');
    check("nvrtcGetCUBIN", nvrtc().cubin(program_, code.data()));
    return code;
  }

 private:
  NvrtcProgram program_ = nullptr;
};

}  // namespace

const std::string& nvrtc_identity() {
  static const std::string identity = [] {
    int major = 0, minor = 0;
    check("nvrtcVersion", nvrtc().version(&major, &minor));
    std::string text = "nvrtc " + std::to_string(major) + "." + std::to_string(minor) + " " + nvrtc().file;
    struct stat status{};
    if (::stat(nvrtc().file.c_str(), &status) == 0)
      text += " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
              std::to_string(status.st_mtim.tv_nsec);
    return text;
  }();
  return identity;
}

std::string nvrtc_options() {
  std::string text;
  for (const char* option : kOptions) text += std::string(option) + " ";
  return text;
}

std::string compile_cubin(const CudaSource& source) {
  std::vector<std::string> definitions;
  for (const std::string& definition : source.definitions) definitions.push_back("-D" + definition);
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  for (const std::string& definition : definitions) options.push_back(definition.c_str());
  Compilation compilation(source);
  const NvrtcResult result = compilation.compile(options);
  if (result == kCompilationFailed)
    internal_error("compile_cubin", source.name + " does not compile:\n" + compilation.log());
  check("nvrtcCompileProgram", result);
  return compilation.cubin();
}

}  // namespace ramet::device
