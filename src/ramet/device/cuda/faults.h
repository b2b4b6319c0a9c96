#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/device/cuda/driver.h"

// How kernels' faults come to the host: kernels report into a box in device memory, a queue copies the box to pinned
// memory where an event asks for it, and the host looks there once the event has come.

namespace ramet::device {

/// Places of 32 bytes in blocks of memory that are never given back while this lives.
class SlotPool {
 public:
  static constexpr size_t kSlotBytes = 32;
  using Allocate = std::function<std::byte*(size_t bytes)>;
  using Release = std::function<void(std::byte* block)>;
  SlotPool(Allocate allocate, Release release) : allocate_(std::move(allocate)), release_(std::move(release)) {}
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  std::byte* take();
  void give_back(std::byte* slot);

 private:
  static constexpr size_t kBlockBytes = 1 << 16;
  Allocate allocate_;
  Release release_;
  std::mutex mutex_;
  std::vector<std::byte*> blocks_, free_;
};

/// A slot, given back when this goes.
class Slot {
 public:
  explicit Slot(std::shared_ptr<SlotPool> pool) : pool_(std::move(pool)), data_(pool_->take()) {}
  ~Slot() { pool_->give_back(data_); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<SlotPool> pool_;
  std::byte* data_;
};

/// Where the kernels of one queue, or of one captured program, report faults; and which kernels those are.
class FaultBox {
 public:
  FaultBox(std::shared_ptr<SlotPool> device_slots, CuStream stream);
  CudaFault* data() const { return reinterpret_cast<CudaFault*>(slot_.data()); }
  CuAddress address() const { return reinterpret_cast<CuAddress>(slot_.data()); }
  /// Work of the stream: nothing is wrong any more.
  void clear(CuStream stream) const;

  unsigned number_of(const CudaKernel& kernel);
  std::exception_ptr failure_of(const CudaFault& fault) const;

 private:
  Slot slot_;
  mutable std::mutex mutex_;
  std::vector<const CudaKernel*> kernels_;  // by number - 1
  std::unordered_map<const CudaKernel*, unsigned> numbers_;
};

/// What a box held when a queue came to a place in its work.
struct FaultLook {
  std::shared_ptr<FaultBox> box;
  Slot seen;  ///< pinned
};

}  // namespace ramet::device
