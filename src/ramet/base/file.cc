#include "ramet/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "ramet/base/error.h"

namespace ramet {
namespace {

namespace fs = std::filesystem;

/// Throws what the system's `reason` (an errno) says of `path`. What stops reading is bad input; what stops writing
/// is a failed run.
[[noreturn]] void fail(const std::string& what, const fs::path& path, int reason, ErrorKind kind) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  throw Error({.what = what + " (" + std::generic_category().message(reason) + ")",
               .where = path.string(),
               .remedy = full ? "Free some room, or raise the limit, and try again" : ""},
              kind);
}

/// Closes a file descriptor at the end of a scope.
struct Closer {
  int fd;
  ~Closer() { ::close(fd); }
};

int open_to_read(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open the file", path, errno, ErrorKind::kUsage);
  return fd;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Closer file{open_to_read(path)};
  std::string contents;
  struct stat info;
  if (::fstat(file.fd, &info) == 0 && S_ISREG(info.st_mode)) contents.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the file", path, errno, ErrorKind::kUsage);
    if (got == 0) return contents;
    contents.append(buffer, static_cast<size_t>(got));
  }
}

void write_file_atomic(const fs::path& path, std::string_view contents) {
  // Unlike any other writer's, in this process or another.
  static std::atomic<uint64_t> counter{0};
  const fs::path temporary = path.string() + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter++);
  try {
    FileWriter writer(temporary);
    writer.write(contents);
    writer.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      fail("cannot put the file in place", path, errno, ErrorKind::kFailure);
  } catch (const Error& error) {
    ::unlink(temporary.c_str());
    ErrorParts parts = error.parts();
    parts.where = path.string();
    throw Error(std::move(parts), ErrorKind::kFailure);
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot create the file", path, errno, ErrorKind::kFailure);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::write(fd_, bytes, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("cannot write the file", path_, wrote < 0 ? errno : ENOSPC, ErrorKind::kFailure);
    bytes += wrote;
    size -= static_cast<size_t>(wrote);
    position_ += static_cast<uint64_t>(wrote);
  }
}

void FileWriter::close() {
  const int fd = fd_;
  fd_ = -1;
  const int sync_reason = ::fsync(fd) == 0 ? 0 : errno;
  if (::close(fd) != 0) fail("cannot close the file", path_, errno, ErrorKind::kFailure);
  // A pipe or a device has nothing to make durable.
  if (sync_reason != 0 && sync_reason != EINVAL && sync_reason != EROFS)
    fail("cannot make the file durable", path_, sync_reason, ErrorKind::kFailure);
}

MappedFile::MappedFile(const fs::path& path) {
  const Closer file{open_to_read(path)};
  struct stat info;
  if (::fstat(file.fd, &info) != 0) fail("cannot read the file", path, errno, ErrorKind::kUsage);
  if (!S_ISREG(info.st_mode))
    throw Error({.what = "not a regular file", .where = path.string(), .expected = "a file that can be mapped"});
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (map == MAP_FAILED) fail("cannot map the file", path, errno, ErrorKind::kUsage);
  data_ = static_cast<const char*>(map);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}

void sync_directory(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open the folder", path, errno, ErrorKind::kFailure);
  const Closer folder{fd};
  // Some file systems cannot sync a folder; that is no fault of the run.
  if (::fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("cannot sync the folder", path, errno, ErrorKind::kFailure);
}

int64_t parse_size(std::string_view text) {
  const auto refuse = [&] {
    return Error({.what = "not a size",
                  .found = "'" + std::string(text.substr(0, 80)) + "'",
                  .expected = "a number and a unit, as in 512MiB or 1.5GiB"});
  };
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !(number >= 0) || !std::isfinite(number)) throw refuse();
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double scale = unit.empty() || unit == "B" ? 1 : 0;
  if (constexpr std::string_view kPrefixes = "KMGT"; scale == 0 && kPrefixes.find(unit[0]) != kPrefixes.npos) {
    const double power = static_cast<double>(kPrefixes.find(unit[0]) + 1);
    const std::string_view rest = unit.substr(1);
    if (rest == "iB" || rest == "i" || rest.empty()) scale = std::pow(1024.0, power);
    if (rest == "B") scale = std::pow(1000.0, power);
  }
  if (scale == 0 || number * scale >= 0x1p63) throw refuse();
  return static_cast<int64_t>(number * scale);
}

std::string format_size(int64_t bytes) {
  static const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  // 1023.995 and more would be printed as 1024.00.
  while (std::fabs(value) >= (unit == 0 ? 1024 : 1023.995) && unit < 5) value /= 1024, ++unit;
  char text[48];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

}  // namespace ramet
