#include "fake_cuda/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "fake_cuda/card.h"
#include "fake_cuda/host_shim.h"

namespace ramet_fake {
namespace {

struct Head {
  char magic[16];
  char architecture[16];
  uint64_t bytes;
};
constexpr std::string_view kMagic = "ramet fake cubin";
static_assert(kMagic.size() == sizeof(Head::magic));

/// Compiled kernels find the shim's functions in this library, however it was loaded.
void open_to_modules() {
  [[maybe_unused]] static const bool once = [] {
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&open_to_modules), &self))
      dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    return true;
  }();
}

}  // namespace

std::vector<char> image_of(const std::vector<char>& object, const std::string& architecture) {
  Head head{};
  std::memcpy(head.magic, kMagic.data(), kMagic.size());
  std::snprintf(head.architecture, sizeof(head.architecture), "%s", architecture.c_str());
  head.bytes = object.size();
  std::vector<char> image(sizeof(head) + object.size());
  std::memcpy(image.data(), &head, sizeof(head));
  std::memcpy(image.data() + sizeof(head), object.data(), object.size());
  return image;
}

Result load_module(const void* image, Module** made) {
  Head head;
  std::memcpy(&head, image, sizeof(head.magic));
  if (std::memcmp(head.magic, "\177ELF", 4) == 0) return kNoBinaryForGpu;  // a true card's code
  if (std::string_view(head.magic, sizeof(head.magic)) != kMagic) return kInvalidImage;
  std::memcpy(&head, image, sizeof(head));
  const std::string own = "sm_" + std::to_string(settings().major) + std::to_string(settings().minor);
  if (std::string(head.architecture) != own && std::string(head.architecture) != own + "a") return kNoBinaryForGpu;

  open_to_modules();
  std::string path = (std::filesystem::temp_directory_path() / "ramet-fake-module-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return kInvalidImage;
  const auto* bytes = static_cast<const char*>(image) + sizeof(head);
  const bool written = write(file, bytes, head.bytes) == static_cast<ssize_t>(head.bytes);
  close(file);
  void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) std::fprintf(stderr, "fake card: a module cannot be loaded: %s\n", written ? dlerror() : "no space");
  unlink(path.c_str());
  if (!library) return kInvalidImage;
  *made = new Module{library};
  return kSuccess;
}

Function* find_function(const Module& module, const std::string& name) {
  const auto* found = static_cast<const DeviceFunction*>(dlsym(module.library, (name + "_function").c_str()));
  if (!found) return nullptr;
  return new Function{name, found->run, found->arguments_bytes, found->most_threads};
}

}  // namespace ramet_fake
