#include "ramet/device/host_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::device {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kPage = 4096;

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

/// What the system has free, in bytes; kUnknown where it does not tell.
int64_t system_left() {
  std::ifstream file("/proc/meminfo");
  constexpr std::string_view kKey = "MemAvailable:";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kKey)) return std::strtoll(line.c_str() + kKey.size(), nullptr, 10) * 1024;
  return kUnknown;
}

/// A file that holds one number; -1 for "max" or no file.
int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

/// What the cgroup (version 2) of this process and those above it still allow.
int64_t cgroup_left() {
  std::ifstream file("/proc/self/cgroup");
  int64_t left = kUnknown;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    std::string group = line.substr(3);
    for (;;) {
      const std::string folder = "/sys/fs/cgroup" + group;
      const int64_t most = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
      if (most >= 0 && used >= 0) left = std::min(left, std::max<int64_t>(0, most - used));
      const size_t slash = group.rfind('/');
      if (group.size() <= 1 || slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return left;
}

[[noreturn]] void fail(int64_t bytes, const std::string& found, const char* what) {
  throw Error({.what = "not enough memory for the arena",
               .where = what,
               .found = found,
               .expected = format_size(bytes),
               .remedy = std::string_view(what) == HostMemory::kDeviceMemory
                             ? "Give --device-memory what there is, and the plan will say what makes the step fit"
                             : "Keep it in files: streaming=FOLDER in the layout"},
              ErrorKind::kFailure);
}

}  // namespace

int64_t available_memory() { return std::min(system_left(), cgroup_left()); }

HostMemory::HostMemory(int64_t bytes, ThreadTeam& team, const char* what) : bytes_(bytes) {
#ifdef __GLIBC__
  malloc_trim(0);  // what a compiler or an import has left free
#endif
  const int64_t available = available_memory();
  if (bytes > available) fail(bytes, format_size(available) + " available", what);
  mapped_ = static_cast<size_t>(bytes) + kHugePage;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail(bytes, std::strerror(errno), what);
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
  // Whole huge pages only: the last one would keep up to 2 MiB that the plan does not know of.
  if (const size_t whole = static_cast<size_t>(bytes) / kHugePage * kHugePage) madvise(data_, whole, MADV_HUGEPAGE);
  team.split((bytes + kPage - 1) / kPage, static_cast<int64_t>(kHugePage) / kPage,
             [&](int64_t begin, int64_t end, int) {
               for (int64_t page = begin; page < end; ++page) reinterpret_cast<volatile char*>(data_)[page * kPage] = 0;
             });
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory::~HostMemory() {
  if (mapping_) munmap(mapping_, mapped_);
}

}  // namespace ramet::device
