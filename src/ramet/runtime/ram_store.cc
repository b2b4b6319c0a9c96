#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/runtime/streaming_store.h"

namespace ramet::runtime {
namespace {

/// Host memory beside the device's. Transfers are done when they are started.
class RamStore final : public StreamingStore {
 public:
  RamStore(int64_t bytes, Device* device)
      : own_(device ? nullptr : find_device().make(1)),
        device_(device ? *device : *own_),
        // Where host and device share one memory, its threads copy; else it is pinned, so that the device can.
        memory_(device_.take(bytes, device_.addressable() ? Memory::kDevice : Memory::kPinned, "streaming memory")),
        queue_(device_.make_queue()) {}

  std::string_view name() const override { return "ram"; }
  int64_t bytes() const override { return memory_.bytes(); }
  int64_t scratch_bytes() const override { return 0; }
  std::byte* pinned() override { return device_.addressable() ? nullptr : memory_.data(); }

  Ticket start_load(int64_t offset, void* to, int64_t bytes) override {
    const std::byte* from = checked(offset, bytes);
    if (device_.addressable())
      queue_->copy_out(to, from, bytes);
    else
      std::memcpy(to, from, static_cast<size_t>(bytes));
    return {next_++};
  }
  Ticket start_store(int64_t offset, const void* from, int64_t bytes) override {
    std::byte* to = checked(offset, bytes);
    if (device_.addressable())
      queue_->copy_in(to, from, bytes);
    else
      std::memcpy(to, from, static_cast<size_t>(bytes));
    return {next_++};
  }
  void wait(Ticket ticket) override {
    if (!ticket.valid() || ticket.id >= next_) internal_error("RamStore::wait", "no such ticket");
  }

 private:
  std::byte* checked(int64_t offset, int64_t bytes) const {
    if (offset < 0 || bytes < 0 || offset > memory_.bytes() - bytes)
      internal_error("RamStore", "range " + std::to_string(offset) + "+" + std::to_string(bytes) + " of " +
                                     std::to_string(memory_.bytes()));
    return memory_.data() + offset;
  }

  std::unique_ptr<Device> own_;
  Device& device_;
  DeviceMemory memory_;
  std::unique_ptr<Queue> queue_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<StreamingStore> make_ram_store(int64_t bytes, Device* device) {
  return std::make_unique<RamStore>(bytes, device);
}

}  // namespace ramet::runtime
