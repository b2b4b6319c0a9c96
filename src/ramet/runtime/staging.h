#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ramet/device/device.h"

namespace ramet::runtime {

/// Ways between device memory and parts that work in the host's (transports, collectives, files). Where the host can
/// use the device's addresses, all of this is the address itself; else the bytes go through pinned blocks, which are
/// kept for the next time: after the first step there are enough of them. Of one thread, for work of one queue.
class Staging {
 public:
  Staging(Device& device, Queue& queue) : device_(device), queue_(queue) {}

  /// Host memory with the bytes at `from` as the queue has them after all that it was given. Waits for the queue.
  std::byte* outgoing(const std::byte* from, int64_t bytes);
  /// Host memory in which the bytes for `to` may be put. The queue is done with `to` then.
  std::byte* incoming(std::byte* to, int64_t bytes);
  /// Copies to `to` the contents of the memory that `incoming` gave for it, and takes that memory back.
  void deliver(std::byte* to, std::byte* host, int64_t bytes);
  /// Gives back what `outgoing` or `incoming` gave.
  void release(std::byte* host);
  /// Pinned memory that it holds.
  int64_t bytes() const;

 private:
  struct Block {
    DeviceMemory memory;
    bool lent = false;
    Event free_after{};  ///< of a copy that still reads it; no queue: none
  };
  std::byte* lend(int64_t bytes);
  Block& block_of(const std::byte* host);

  Device& device_;
  Queue& queue_;
  std::vector<Block> blocks_;
};

}  // namespace ramet::runtime
