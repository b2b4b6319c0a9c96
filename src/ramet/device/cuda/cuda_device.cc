#include "ramet/device/cuda/cuda_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ramet/base/file.h"
#include "ramet/base/verbose.h"
#include "ramet/device/cuda/cuda_queue.h"
#include "ramet/device/host_memory.h"

namespace ramet::device {
namespace {

constexpr uintptr_t kAlignment = 4096;

int64_t free_bytes(Memory kind) { return kind == Memory::kDevice ? available_cuda_memory() : available_memory(); }

[[noreturn]] void fail_for_memory(int64_t bytes, Memory kind, const char* what) {
  const bool device = kind == Memory::kDevice;
  throw Error({.what = "not enough memory",
               .where = what,
               .found = format_size(free_bytes(kind)) + " available " + (device ? "on " + cuda_card().name : "to pin"),
               .expected = format_size(bytes),
               .remedy = device ? "Give --device-memory what there is, and the plan will say what makes the step fit"
                                : "Keep it in files: streaming=FOLDER in the layout"},
              ErrorKind::kFailure);
}

/// Memory of the driver; null where there is not so much.
void* allocate_raw(int64_t bytes, Memory kind) {
  const CudaDriver& driver = cuda_driver();
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (kind == Memory::kDevice) {
    CuAddress address = 0;
    const CuResult result = driver.mem_alloc.attempt(&address, size);
    if (result && result != kCuOutOfMemory) fail_cuda(driver.mem_alloc.name(), result);
    return reinterpret_cast<void*>(address);
  }
  void* data = nullptr;
  const CuResult result = driver.mem_host_alloc.attempt(&data, size, kCuHostPortable);
  if (result && result != kCuOutOfMemory) fail_cuda(driver.mem_host_alloc.name(), result);
  return result ? nullptr : data;
}

void release_raw(void* data, Memory kind) noexcept {
  if (kind == Memory::kDevice)
    cuda_driver().mem_free.attempt(reinterpret_cast<CuAddress>(data));
  else
    cuda_driver().mem_free_host.attempt(data);
}

/// What the driver and other programs take of the card, around a device's own memory.
void tell_memory(const char* when) {
  size_t left = 0, total = 0;
  if (!is_verbose("dispatch") || cuda_driver().mem_get_info.attempt(&left, &total)) return;
  std::fprintf(stderr, "ramet: cuda device, memory %s: %s of %s taken\n", when,
               format_size(static_cast<int64_t>(total - left)).c_str(),
               format_size(static_cast<int64_t>(total)).c_str());
}

bool graphs_are(std::string_view choice) {
  const char* chosen = std::getenv("RAMET_CUDA_GRAPHS");
  return chosen && chosen == choice;
}

std::shared_ptr<SlotPool> make_slots(Memory kind) {
  return std::make_shared<SlotPool>(
      [kind](size_t bytes) {
        void* data = allocate_raw(static_cast<int64_t>(bytes), kind);
        if (!data) fail_for_memory(static_cast<int64_t>(bytes), kind, "memory for the faults of kernels");
        return static_cast<std::byte*>(data);
      },
      [kind](std::byte* data) { release_raw(data, kind); });
}

}  // namespace

int64_t available_cuda_memory() {
  cuda_card();
  size_t left = 0, total = 0;
  cuda_driver().mem_get_info(&left, &total);
  return static_cast<int64_t>(left);
}

CudaDevice::CudaDevice(int threads)
    : team_(threads),
      graphs_(!graphs_are("off")),
      reorders_(graphs_are("free")),
      shared_(std::make_shared<CudaShared>()) {
  cuda_card();
  cuda_driver().stream_create(&stream_, kCuStreamNonBlocking);
  tell_memory("before it");
  shared_->device_slots = make_slots(Memory::kDevice);
  shared_->pinned_slots = make_slots(Memory::kPinned);
}

CudaDevice::~CudaDevice() {
  cuda_driver().ctx_set_current.attempt(cuda_card().context);
  tell_memory("after it");
  cuda_driver().stream_destroy.attempt(stream_);
}

std::unique_ptr<Queue> CudaDevice::make_queue() { return std::make_unique<CudaQueue>(*this); }

std::byte* CudaDevice::allocate(int64_t bytes, Memory kind, const char* what) {
  cuda_card().make_current();
  std::byte* data = allocate_aligned(bytes, kind, what);
  if (kind == Memory::kPinned) {
    std::memset(data, 0, static_cast<size_t>(bytes));
  } else if (bytes > 0) {
    const CudaDriver& driver = cuda_driver();
    driver.memset_d8_async(reinterpret_cast<CuAddress>(data), 0, static_cast<size_t>(bytes), stream_);
    driver.stream_synchronize(stream_);
  }
  return data;
}

/// The driver aligns small blocks less than Device::take promises.
std::byte* CudaDevice::allocate_aligned(int64_t bytes, Memory kind, const char* what) {
  if (bytes > free_bytes(kind)) fail_for_memory(bytes, kind, what);
  void* data = allocate_raw(bytes, kind);
  if (data && reinterpret_cast<uintptr_t>(data) % kAlignment == 0) return static_cast<std::byte*>(data);
  if (data) release_raw(data, kind);
  if (data) data = allocate_raw(bytes + static_cast<int64_t>(kAlignment), kind);
  if (!data) fail_for_memory(bytes, kind, what);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  auto* aligned = static_cast<std::byte*>(data) + (kAlignment - begin % kAlignment) % kAlignment;
  begins_[aligned] = data;
  return aligned;
}

void CudaDevice::release(std::byte* data, Memory kind) noexcept {
  const auto begin = begins_.find(data);
  void* block = begin == begins_.end() ? data : begin->second;
  if (begin != begins_.end()) begins_.erase(begin);
  // A thread that ends has no context any more; the driver takes the memory back with the process then.
  if (cuda_driver().ctx_set_current.attempt(cuda_card().context) == 0) release_raw(block, kind);
}

std::unique_ptr<Device> make_cuda_device(int threads) { return std::make_unique<CudaDevice>(threads); }

}  // namespace ramet::device
