#include "ramet/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, const fs::path& path, ErrorKind kind, const std::string& remedy = "") {
  throw Error({.what = what + " (" + std::strerror(errno) + ")", .where = path.string(), .remedy = remedy}, kind);
}

}  // namespace

std::string read_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open the file", path, ErrorKind::kUsage);
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int reason = errno;
      ::close(fd);
      errno = reason;
      fail("cannot read the file", path, ErrorKind::kUsage);
    }
    if (got == 0) break;
    contents.append(buffer, static_cast<size_t>(got));
  }
  ::close(fd);
  return contents;
}

void write_file_atomic(const fs::path& path, std::string_view contents) {
  const fs::path temporary = path.string() + ".tmp" + std::to_string(::getpid());
  try {
    FileWriter writer(temporary);
    writer.write(contents);
    writer.close();
    fs::rename(temporary, path);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw Error({.what = "cannot put the file in place (" + error.code().message() + ")", .where = path.string()},
                ErrorKind::kFailure);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot create the file", path, ErrorKind::kFailure);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::write(fd_, bytes, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("cannot write the file", path_, ErrorKind::kFailure, "Free some room and try again");
    bytes += wrote;
    size -= static_cast<size_t>(wrote);
    position_ += static_cast<uint64_t>(wrote);
  }
}

void FileWriter::close() {
  const int fd = fd_;
  fd_ = -1;
  const int synced = ::fsync(fd), reason = errno;
  if (::close(fd) != 0) fail("cannot close the file", path_, ErrorKind::kFailure);
  errno = reason;
  if (synced != 0) fail("cannot make the file durable", path_, ErrorKind::kFailure);
}

MappedFile::MappedFile(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open the file", path, ErrorKind::kUsage);
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (!errno) errno = EINVAL;
    const int reason = errno;
    ::close(fd);
    errno = reason;
    fail("not a readable regular file", path, ErrorKind::kUsage);
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ > 0) {
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int reason = errno;
    ::close(fd);
    errno = reason;
    if (map == MAP_FAILED) fail("cannot map the file", path, ErrorKind::kUsage);
    data_ = static_cast<const char*>(map);
  } else {
    ::close(fd);
  }
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
  if (fd < 0) fail("cannot open the folder", path, ErrorKind::kFailure);
  const int result = ::fsync(fd), reason = errno;
  ::close(fd);
  errno = reason;
  // Some file systems cannot sync a folder; that is no fault of the run.
  if (result != 0 && reason != EINVAL && reason != ENOTSUP) fail("cannot sync the folder", path, ErrorKind::kFailure);
}

int64_t parse_size(std::string_view text) {
  const std::string input(text);
  const auto refuse = [&] {
    return Error({.what = "not a size", .found = "'" + input + "'", .expected = "a number and a unit, as in 512MiB or 1.5GiB"});
  };
  char* end = nullptr;
  const double number = std::strtod(input.c_str(), &end);
  if (end == input.c_str() || !(number >= 0) || !std::isfinite(number)) throw refuse();
  std::string unit(end);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  double scale = 0;
  const std::string kinds = "KMGT";
  if (unit.empty() || unit == "B") scale = 1;
  else if (const size_t power = kinds.find(unit[0]); power != std::string::npos) {
    const std::string rest = unit.substr(1);
    if (rest == "iB" || rest == "i" || rest.empty()) scale = std::pow(1024.0, static_cast<double>(power + 1));
    if (rest == "B") scale = std::pow(1000.0, static_cast<double>(power + 1));
  }
  if (scale == 0 || number * scale > 9e18) throw refuse();
  return static_cast<int64_t>(number * scale);
}

std::string format_size(int64_t bytes) {
  static const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::fabs(value) >= 1024 && unit < 5) value /= 1024, ++unit;
  char text[48];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

}  // namespace ramet
