#pragma once

#include <filesystem>
#include <optional>

#include "ramet/base/house.h"

namespace ramet {

/// A lock that one process holds at a time and that the system releases when the process ends, however it ends. The
/// file stays.
class LockFile {
 public:
  /// Makes the file where there is none; nothing when another process holds the lock. Throws Error when the file cannot
  /// be opened.
  static std::optional<LockFile> take(const std::filesystem::path& path);
  /// Whether a process holds the lock now.
  static bool is_held(const std::filesystem::path& path);
  ~LockFile();
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;

 private:
  explicit LockFile(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace ramet
