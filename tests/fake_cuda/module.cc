#include "fake_cuda/module.h"

#include <dlfcn.h>
#include <elf.h>
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

/// The sections of a cubin, an ELF file in memory.
class Sections {
 public:
  explicit Sections(const char* image) : image_(image) {
    const auto& head = at<Elf64_Ehdr>(0);
    for (unsigned i = 0; i < head.e_shnum; ++i) all_.push_back(&at<Elf64_Shdr>(head.e_shoff + i * head.e_shentsize));
    names_ = image + all_[head.e_shstrndx]->sh_offset;
  }
  const Elf64_Shdr* find(const std::string& name) const {
    for (const Elf64_Shdr* section : all_)
      if (names_ + section->sh_name == name) return section;
    return nullptr;
  }
  const Elf64_Shdr& of(unsigned number) const { return *all_[number]; }
  template <typename T>
  const T& at(size_t offset) const {
    return *reinterpret_cast<const T*>(image_ + offset);
  }
  const char* text(size_t offset) const { return image_ + offset; }

 private:
  const char* image_;
  const char* names_ = nullptr;
  std::vector<const Elf64_Shdr*> all_;
};

/// What kernels of a true cubin take, from the section .nv.info as cuobjdump reads it: entries of a format, an
/// attribute, a size, a symbol and a value.
std::map<std::string, Function> read_cubin(const char* image) {
  constexpr unsigned char kValues = 0x04, kFrameBytes = 0x11, kRegisters = 0x2f;
  constexpr unsigned kReserved = 1024;  // of shared memory, for the card itself
  std::map<std::string, Function> functions;
  const Sections sections(image);
  const Elf64_Shdr *info = sections.find(".nv.info"), *symbols = sections.find(".symtab");
  if (!info || !symbols) return functions;
  const size_t names = sections.of(symbols->sh_link).sh_offset;
  for (size_t offset = info->sh_offset; offset + 4 <= info->sh_offset + info->sh_size;) {
    const auto format = sections.at<unsigned char>(offset), attribute = sections.at<unsigned char>(offset + 1);
    const unsigned bytes = format == kValues ? sections.at<uint16_t>(offset + 2) : 0;
    if (format == kValues && bytes == 8 && (attribute == kFrameBytes || attribute == kRegisters)) {
      const auto symbol = sections.at<uint32_t>(offset + 4), value = sections.at<uint32_t>(offset + 8);
      const auto& entry = sections.at<Elf64_Sym>(symbols->sh_offset + symbol * sizeof(Elf64_Sym));
      const std::string name = sections.text(names + entry.st_name);
      Function& function = functions[name];
      function.name = name;
      (attribute == kRegisters ? function.registers : function.local_bytes) = value;
      if (const Elf64_Shdr* shared = sections.find(".nv.shared." + name))
        function.shared_bytes = static_cast<unsigned>(shared->sh_size) - kReserved;
    }
    offset += 4 + bytes;
  }
  return functions;
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
  if (std::memcmp(head.magic, ELFMAG, SELFMAG) == 0) {
    *made = new Module{.library = nullptr, .true_functions = read_cubin(static_cast<const char*>(image))};
    return kSuccess;
  }
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
  *made = new Module{.library = library, .true_functions = {}};
  return kSuccess;
}

Function* find_function(const Module& module, const std::string& name) {
  if (!module.library) {
    const auto known = module.true_functions.find(name);
    return known == module.true_functions.end() ? nullptr : new Function(known->second);
  }
  const auto* found = static_cast<const DeviceFunction*>(dlsym(module.library, (name + "_function").c_str()));
  if (!found) return nullptr;
  return new Function{
      .name = name, .run = found->run, .arguments_bytes = found->arguments_bytes, .most_threads = found->most_threads};
}

}  // namespace ramet_fake
