#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ramet/device/device.h"
#include "ramet/transport/transport.h"

namespace ramet::runtime {

/// The streaming memory of one device: bytes [0, bytes()), zero at first. One thread drives it.
///
/// Transfers whose ranges of the store overlap happen in the order in which they were started, others in any. Memory
/// given to `start_load` and `start_store` is the host's and belongs to the store until its ticket has been waited for
/// (device memory takes the way through runtime/device_store.h). Throws Error (kFailure) from `wait` when the medium
/// fails; ranges outside the store are internal errors.
class StreamingStore {
 public:
  virtual ~StreamingStore() = default;
  StreamingStore(const StreamingStore&) = delete;
  StreamingStore& operator=(const StreamingStore&) = delete;

  virtual std::string_view name() const = 0;  ///< "ram", "file", "file (no io_uring)"
  virtual int64_t bytes() const = 0;
  /// Host memory held beside the store itself, for transfers under way.
  virtual int64_t scratch_bytes() const = 0;

  /// The store's bytes, where they are pinned memory that a device copies from and to by itself; else null.
  virtual std::byte* pinned() { return nullptr; }

  /// Starts to copy [offset, offset + bytes) of the store to `to`, or of `from` into the store.
  virtual Ticket start_load(int64_t offset, void* to, int64_t bytes) = 0;
  virtual Ticket start_store(int64_t offset, const void* from, int64_t bytes) = 0;
  /// Blocks until the transfer is done. The ticket is spent.
  virtual void wait(Ticket ticket) = 0;
  void load(int64_t offset, void* to, int64_t bytes) { wait(start_load(offset, to, bytes)); }
  void store(int64_t offset, const void* from, int64_t bytes) { wait(start_store(offset, from, bytes)); }

 protected:
  StreamingStore() = default;
};

/// Host memory. Copies at once, with the threads of `device` where that works in the host's memory (they would else
/// wait), or on the caller's thread; null: a device of its own. `device` must outlive it. Throws Error (kFailure) when
/// the machine has not so much memory left.
std::unique_ptr<StreamingStore> make_ram_store(int64_t bytes, Device* device = nullptr);

struct FileStoreOptions {
  std::filesystem::path folder;    ///< must exist
  std::string name = "streaming";  ///< of the file, where it is kept
  bool keep = false;               ///< the file stays behind as FOLDER/NAME; else it has no name from the start
  bool uring = true;               ///< false: threads with pread and pwrite, as where the kernel refuses io_uring
  bool direct = true;              ///< false: through the page cache, as where the file system refuses O_DIRECT
};

/// A file, of its full size from the start. A thread of its own carries out transfers with io_uring, past the page
/// cache where the file system allows it (O_DIRECT). Addresses that are multiples of the device's block are fastest:
/// 4096 always does. Throws Error (kFailure) when the file cannot be made or cannot have that size: then nothing is
/// left behind.
std::unique_ptr<StreamingStore> make_file_store(int64_t bytes, const FileStoreOptions& options);

}  // namespace ramet::runtime
