#include "ramet/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "ramet/base/error.h"

namespace ramet {

std::optional<LockFile> LockFile::take(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    throw Error(
        {.what = "cannot open the lock (" + std::generic_category().message(errno) + ")", .where = path.string()},
        ErrorKind::kFailure);
  // `is_held` of another process has the lock for an instant: ask again before the answer is no.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return LockFile(fd);
  }
  ::close(fd);
  return {};
}

bool LockFile::is_held(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

LockFile::LockFile(LockFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

LockFile::~LockFile() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace ramet
