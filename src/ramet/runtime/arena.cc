#include "ramet/runtime/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/transport/process.h"

namespace ramet::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kPage = 4096;

[[noreturn]] void fail(int64_t bytes, const std::string& found, const char* what) {
  throw Error({.what = "not enough memory for the arena",
               .where = what,
               .found = found,
               .expected = format_size(bytes),
               .remedy = std::string_view(what) == Arena::kDeviceMemory
                             ? "Give --device-memory what there is, and the plan will say what makes the step fit"
                             : "Keep it in files: streaming=FOLDER in the layout"},
              ErrorKind::kFailure);
}

}  // namespace

Arena::Arena(int64_t bytes, ThreadTeam& team, const char* what) : bytes_(bytes) {
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

Arena::~Arena() {
  if (mapping_) munmap(mapping_, mapped_);
}

}  // namespace ramet::runtime
