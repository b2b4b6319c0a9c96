#include "ramet/base/process_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace ramet {
namespace {

/// A range of addresses as /proc/self/smaps describes it.
struct Range {
  uintptr_t begin = 0, end = 0;
  bool is_library = false;  ///< private, of a file of code, and not writable
  int64_t resident = 0, changed = 0;
};

bool read_head(const std::string& line, Range& range) {
  unsigned long begin = 0, end = 0;
  char rights[5] = {};
  int path = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &begin, &end, rights, &path) != 3) return false;
  const std::string_view name = std::string_view(line).substr(static_cast<size_t>(path));
  const bool of_code = name.starts_with('/') && (name.ends_with(".so") || name.find(".so.") != std::string_view::npos);
  range = {begin, end, of_code && rights[0] == 'r' && rights[1] == '-' && rights[3] == 'p', 0, 0};
  return true;
}

int64_t leave(const Range& range) {
  // Pages that were changed (relocated tables, which are read-only afterwards) exist nowhere else.
  if (!range.is_library || range.resident == 0 || range.changed != 0) return 0;
  void* const begin = reinterpret_cast<void*>(range.begin);
  return madvise(begin, range.end - range.begin, MADV_DONTNEED) == 0 ? range.resident : 0;
}

/// The bytes of a line such as "Rss:   12 kB" of that key; 0: another line.
int64_t bytes_of(const std::string& line, std::string_view key) {
  return line.starts_with(key) ? std::strtoll(line.c_str() + key.size(), nullptr, 10) * 1024 : 0;
}

}  // namespace

void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int64_t leave_library_pages() {
  std::ifstream file("/proc/self/smaps");
  Range range, next;
  int64_t gone = 0;
  bool tells = false;  // whether this system's ranges say what was changed
  for (std::string line; std::getline(file, line);) {
    if (read_head(line, next)) {
      if (tells) gone += leave(range);
      range = next, tells = false;
      continue;
    }
    range.resident += bytes_of(line, "Rss:");
    range.changed += bytes_of(line, "Anonymous:") + bytes_of(line, "Private_Dirty:") + bytes_of(line, "Shared_Dirty:");
    tells = tells || line.starts_with("Anonymous:");
  }
  if (tells) gone += leave(range);
  return gone;
}

}  // namespace ramet
