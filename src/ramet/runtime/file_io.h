#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::runtime {

/// One read or write of a file. `done` gets the bytes moved, or -errno.
struct FileTransfer {
  bool write = false;
  int64_t offset = 0;
  void* memory = nullptr;
  int64_t bytes = 0;
  int slot = 0;  ///< the caller's own number for it
  int64_t done = 0;
};

/// Reads and writes of one file, several at a time. Driven by one thread.
class FileIo {
 public:
  virtual ~FileIo() = default;
  virtual std::string_view name() const = 0;
  /// Starts a transfer; never more than `depth` are under way.
  virtual void start(const FileTransfer& transfer) = 0;
  /// Waits until at least one transfer is done, and appends the finished ones. At least one must be under way.
  virtual void finish(std::vector<FileTransfer>& done) = 0;
};

/// With io_uring; null where the kernel or the system's policy refuses it.
std::unique_ptr<FileIo> make_uring_io(int file, int depth);
/// With pread and pwrite, one after another when they are waited for.
std::unique_ptr<FileIo> make_plain_io(int file);

}  // namespace ramet::runtime
