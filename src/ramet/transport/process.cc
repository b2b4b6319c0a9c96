#include "ramet/transport/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace ramet::transport {
namespace {

/// The value after `key` in a file of lines "key: number kB", in bytes; -1 when it is not there.
int64_t kilobytes_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key + ":", 0) == 0) return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return -1;
}

}  // namespace

int64_t measured_peak_bytes() { return std::max<int64_t>(0, kilobytes_of("/proc/self/status", "VmHWM")); }

int64_t resident_bytes() { return std::max<int64_t>(0, kilobytes_of("/proc/self/status", "VmRSS")); }

// Field 39 of the file that proc(5) describes; the second is a name in parentheses, with anything in it.
int processor_of_thread(int process, int thread) {
  constexpr int kFieldsBehindName = 37;
  const int file = open(fmt::format("/proc/{}/task/{}/stat", process, thread).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[1024];
  const ssize_t bytes = read(file, text, sizeof(text));
  close(file);
  const std::string_view line(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  size_t at = line.rfind(')');
  for (int field = 0; field < kFieldsBehindName && at != line.npos; ++field) at = line.find(' ', at + 1);
  int processor = -1;
  if (at != line.npos) std::from_chars(line.data() + at + 1, line.data() + line.size(), processor);
  return processor;
}

}  // namespace ramet::transport
