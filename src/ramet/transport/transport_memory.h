#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ramet/transport/transport_region.h"

namespace ramet::transport {

/// An anonymous file in memory, mapped. It has no name, so a killed process leaves nothing behind, and it is not held
/// to the size of /dev/shm; another process of the same user opens it through /proc/PID/fd.
struct SharedFile {
  int file = -1;
  std::byte* data = nullptr;
  size_t bytes = 0;

  /// Throws Error when memory is short.
  static SharedFile make(size_t bytes, const char* name);
  /// Maps the file `file` of process `process`; throws Error when it cannot be opened.
  static SharedFile open(int process, int file);
  void close();
};

/// The memory that one process shares, and that of others which it has mapped. Used by all its devices.
class SharedMemory {
 public:
  /// Without `between_processes` all peers are in this process and `allocate` gives plain pages.
  explicit SharedMemory(bool between_processes);
  ~SharedMemory();

  std::byte* allocate(size_t bytes);
  void release(std::byte* memory);
  /// How peers find these bytes. Bytes that lie in no allocation of this process are its own alone: file -1.
  SharedAddress address_of(const void* data, size_t bytes) const;
  /// The bytes at an address: null when they are another process's own.
  std::byte* resolve(const SharedAddress& address);

 private:
  struct Owned {
    SharedFile file;
    uint64_t serial;
  };
  mutable std::mutex mutex_;
  bool between_processes_;
  int32_t self_;  // this process
  uint64_t serials_ = 0;
  std::map<const std::byte*, Owned> owned_;              // by address
  std::map<std::pair<int32_t, int32_t>, Owned> mapped_;  // by process and file
};

}  // namespace ramet::transport
