#include "ramet/device/device.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ramet/base/error.h"

namespace ramet::device {

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this == &other) return *this;
  reset();
  device_ = std::exchange(other.device_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DeviceMemory::reset() {
  if (device_) device_->give_back(data_);
  device_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

Event Queue::read(void* to, const std::byte* from, int64_t bytes) {
  copy_out(to, from, bytes);
  return record();
}

DeviceMemory Device::take(int64_t bytes, Memory kind, const char* what) {
  if (bytes < 0) internal_error("Device::take", std::to_string(bytes) + " bytes");
  std::byte* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    data = allocate(bytes, kind, what);
  }
  return note(data, bytes, kind, true);
}

DeviceMemory Device::adopt(std::byte* data, int64_t bytes) {
  if (!addressable()) internal_error("Device::adopt", "memory of the host is none of this device's");
  return note(data, bytes, Memory::kDevice, false);
}

DeviceMemory Device::note(std::byte* data, int64_t bytes, Memory kind, bool owned) {
  const std::lock_guard lock(mutex_);
  blocks_.push_back({data, bytes, kind, owned});
  DeviceMemory memory;
  memory.device_ = this;
  memory.data_ = data;
  memory.bytes_ = bytes;
  return memory;
}

void Device::give_back(std::byte* data) noexcept {
  const std::lock_guard lock(mutex_);
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& each) { return each.data == data; });
  const Block gone = *block;
  *block = blocks_.back();
  blocks_.pop_back();
  if (gone.owned) release(data, gone.kind);
}

int64_t Device::taken(Memory kind) const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const Block& block : blocks_)
    if (block.kind == kind) bytes += block.bytes;
  return bytes;
}

const Device::Block* Device::find(const void* data, int64_t bytes, Memory kind) const {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (const Block& block : blocks_) {
    const auto first = reinterpret_cast<uintptr_t>(block.data);
    // No sum of addresses can wrap here.
    if (block.kind == kind && begin >= first && begin - first <= static_cast<uintptr_t>(block.bytes) &&
        bytes <= block.bytes - static_cast<int64_t>(begin - first))
      return &block;
  }
  return nullptr;
}

void Device::check_range(const void* data, int64_t bytes, const char* method) const {
  {
    const std::lock_guard lock(mutex_);
    if (bytes >= 0 && find(data, bytes, Memory::kDevice)) return;
  }
  throw Error({.what = "a range is not within one block of the device's memory",
               .where = std::string(name()) + " device, " + method,
               .found = std::to_string(bytes) + " bytes at " + std::to_string(reinterpret_cast<uintptr_t>(data))},
              ErrorKind::kFailure);
}

bool Device::is_device(const void* data, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return find(data, bytes, Memory::kDevice) != nullptr;
}

bool Device::is_pinned(const void* data, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return find(data, bytes, Memory::kPinned) != nullptr;
}

}  // namespace ramet::device
