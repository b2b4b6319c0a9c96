#include "ramet/transport/transport_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet::transport {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

[[noreturn]] void memory_error(const std::string& what, const std::string& found, int error) {
  throw Error({.what = what,
               .where = "shared memory",
               .found = fmt::format("{} ({})", found, std::strerror(error)),
               .expected = "",
               .remedy = "Free memory or take fewer devices; processes that share memory must belong to one user"},
              ErrorKind::kFailure);
}

/// Maps `bytes` (of a file, or none) at a multiple of 2 MiB, so that huge pages can back it.
std::byte* map_aligned(size_t bytes, int file) {
  const size_t reserve = bytes + kHugePage;
  void* space = mmap(nullptr, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) memory_error("no address space", fmt::format("{} bytes wanted", bytes), errno);
  const auto begin = reinterpret_cast<uintptr_t>(space);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  void* data = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE,
                    MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), file, 0);
  const int error = errno;
  if (data == MAP_FAILED) {
    munmap(space, reserve);
    memory_error("memory cannot be mapped", fmt::format("{} bytes wanted", bytes), error);
  }
  if (aligned > begin) munmap(space, aligned - begin);
  const uintptr_t end = (aligned + bytes + 4095) / 4096 * 4096;
  if (begin + reserve > end) munmap(reinterpret_cast<void*>(end), begin + reserve - end);
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: where the system has none, small pages serve
  return static_cast<std::byte*>(data);
}

/// Gives the file's whole stretches of 2 MiB huge pages at once. Many systems wish for none in memory that processes
/// share, and devices that take turns on a processor then find no translation of theirs left: 6% of a step of small
/// models.
void take_huge_pages(std::byte* data, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, of Linux 6.1 and later: an error before, and small pages serve
  const size_t whole = bytes / kHugePage * kHugePage;
  for (size_t at = 0; at < whole; at += kHugePage) reinterpret_cast<volatile char*>(data)[at] = 0;
  if (whole > 0) madvise(data, whole, kCollapse);
}

}  // namespace

SharedFile SharedFile::make(size_t bytes, const char* name) {
  SharedFile made;
  made.bytes = bytes < 1 ? 1 : bytes;
  made.file = memfd_create(name, MFD_CLOEXEC);
  if (made.file < 0) memory_error("no anonymous file", fmt::format("{} bytes wanted", bytes), errno);
  if (ftruncate(made.file, static_cast<off_t>(made.bytes)) != 0) {
    const int error = errno;
    ::close(made.file);
    memory_error("an anonymous file cannot grow", fmt::format("{} bytes wanted", bytes), error);
  }
  try {
    made.data = map_aligned(made.bytes, made.file);
    take_huge_pages(made.data, made.bytes);
  } catch (...) {
    ::close(made.file);
    throw;
  }
  return made;
}

SharedFile SharedFile::open(int process, int file) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file);
  SharedFile opened;
  opened.file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened.file < 0) memory_error("a peer's memory cannot be opened", path, errno);
  struct stat status{};
  if (fstat(opened.file, &status) != 0 || status.st_size <= 0) {
    ::close(opened.file);
    memory_error("a peer's memory cannot be read", path, errno);
  }
  opened.bytes = static_cast<size_t>(status.st_size);
  try {
    opened.data = map_aligned(opened.bytes, opened.file);
  } catch (...) {
    ::close(opened.file);
    throw;
  }
  ::close(opened.file);  // the mapping keeps it
  opened.file = -1;
  return opened;
}

void SharedFile::close() {
  if (data) munmap(data, bytes);
  if (file >= 0) ::close(file);
  data = nullptr;
  file = -1;
}

SharedMemory::SharedMemory(bool between_processes) : between_processes_(between_processes), self_(getpid()) {}

SharedMemory::~SharedMemory() {
  for (auto& [address, owned] : owned_) owned.file.close();
  for (auto& [key, owned] : mapped_) owned.file.close();
}

std::byte* SharedMemory::allocate(size_t bytes) {
  SharedFile made;
  if (between_processes_) {
    made = SharedFile::make(bytes, "ramet-arena");
  } else {
    made.bytes = bytes < 1 ? 1 : bytes;
    made.data = map_aligned(made.bytes, -1);
  }
  const std::lock_guard lock(mutex_);
  owned_[made.data] = {made, ++serials_};
  return made.data;
}

void SharedMemory::release(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = owned_.find(memory);
  if (found == owned_.end()) internal_error("SharedMemory::release", "memory that `allocate` did not give");
  found->second.file.close();
  owned_.erase(found);
}

SharedAddress SharedMemory::address_of(const void* data, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  SharedAddress own{self_, -1, 0, reinterpret_cast<uint64_t>(data)};
  if (!between_processes_) return own;
  const std::lock_guard lock(mutex_);
  auto after = owned_.upper_bound(begin);
  if (after == owned_.begin()) return own;
  const auto& [address, owned] = *--after;
  if (begin + bytes > address + owned.file.bytes) return own;
  return {own.process, owned.file.file, owned.serial, static_cast<uint64_t>(begin - address)};
}

std::byte* SharedMemory::resolve(const SharedAddress& address) {
  if (address.process == 0) return nullptr;
  if (address.file < 0) return address.process == self_ ? reinterpret_cast<std::byte*>(address.offset) : nullptr;
  const std::lock_guard lock(mutex_);
  if (address.process == self_) {
    for (auto& [base, owned] : owned_)
      if (owned.file.file == address.file && owned.serial == address.serial) return owned.file.data + address.offset;
    return nullptr;
  }
  Owned& mapped = mapped_[{address.process, address.file}];
  if (mapped.file.data && mapped.serial != address.serial) mapped.file.close();
  if (!mapped.file.data) mapped = {SharedFile::open(address.process, address.file), address.serial};
  return mapped.file.data + address.offset;
}

}  // namespace ramet::transport
