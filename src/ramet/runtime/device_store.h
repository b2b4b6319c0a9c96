#pragma once

#include <memory>
#include <vector>

#include "ramet/runtime/staging.h"
#include "ramet/runtime/streaming_store.h"

namespace ramet::runtime {

/// Streaming memory as a device's program uses it: transfers between a store and device memory, in order with the
/// program's queue.
///
/// Three ways, by what device and store are: the store takes the device's addresses, where the host can use them; the
/// device copies by itself from and to pinned memory of the store, on a queue each way; or bytes go through staging.
class DeviceStore {
 public:
  DeviceStore(std::unique_ptr<StreamingStore> store, Device& device, Queue& queue, Staging& staging);

  /// Starts a transfer behind all work that the queue was given so far. `wait` orders later work of the queue behind
  /// the transfer.
  Ticket start_load(int64_t offset, std::byte* to, int64_t bytes);
  Ticket start_store(int64_t offset, const std::byte* from, int64_t bytes);
  void wait(Ticket ticket);

  /// Whole transfers from and to host memory, after all that were started.
  void load(int64_t offset, void* to, int64_t bytes);
  void store(int64_t offset, const void* from, int64_t bytes);

 private:
  struct Transfer {
    int64_t ticket = 0;  ///< its own number, and that of the store
    Ticket inner{};
    bool store = false, waited = false;
    int64_t offset = 0, bytes = 0;
    std::byte* address = nullptr;  ///< in device memory
    std::byte* host = nullptr;     ///< where it is staged
    Event done{};                  ///< where the device copies by itself
  };
  Transfer& start(bool store, int64_t offset, std::byte* address, int64_t bytes);
  void start_copy(Transfer& transfer);
  void settle();

  std::unique_ptr<StreamingStore> store_;
  Device& device_;
  Queue& queue_;
  Staging& staging_;
  std::byte* pinned_;                // of the store, where the device copies by itself
  std::unique_ptr<Queue> in_, out_;  // likewise
  std::vector<Transfer> transfers_;  // not waited for, and copies that may not be done
  int64_t next_ = 0;
};

}  // namespace ramet::runtime
