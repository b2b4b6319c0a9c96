#include "ramet/device/host_memory.h"

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
#include "ramet/base/process_memory.h"
#include "ramet/device/host_reserve.h"

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

HostMapping map_memory(int64_t bytes, const char* what) {
  HostMapping memory;
  memory.mapped = static_cast<size_t>(bytes) + kHugePage;
  memory.mapping = mmap(nullptr, memory.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory.mapping == MAP_FAILED) fail(bytes, std::strerror(errno), what);
  const auto address = reinterpret_cast<uintptr_t>(memory.mapping);
  memory.data = reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
  return memory;
}

}  // namespace

int64_t available_memory() {
  const int64_t left = std::min(system_left(), cgroup_left());
  return left == kUnknown ? left : left + HostReserve::touched();
}

HostMemory::HostMemory(int64_t bytes, ThreadTeam& team, const char* what) : bytes_(bytes) {
  trim_heap();  // what a compiler or an import has left free
  HostMapping memory = HostReserve::claim(bytes);
  if (!memory.mapping && bytes > available_memory() - HostReserve::touched()) HostReserve::drop();
  if (const int64_t available = available_memory(); bytes - memory.touched > available) {
    if (memory.mapping) munmap(memory.mapping, memory.mapped);
    fail(bytes, format_size(available + memory.touched) + " available", what);
  }
  if (!memory.mapping) memory = map_memory(bytes, what);
  mapping_ = memory.mapping, mapped_ = memory.mapped, data_ = memory.data;
  // Whole huge pages only: the last one would keep up to 2 MiB that the plan does not know of.
  if (const size_t whole = static_cast<size_t>(bytes) / kHugePage * kHugePage) madvise(data_, whole, MADV_HUGEPAGE);
  const int64_t there = memory.touched / kPage * kPage;
  team.split((bytes - there + kPage - 1) / kPage, static_cast<int64_t>(kHugePage) / kPage,
             [&](int64_t begin, int64_t end, int) {
               touch_pages(data_, there + begin * kPage, std::min(bytes, there + end * kPage));
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
