#include "ramet/base/process_memory.h"
#include "ramet/device/host_reserve.h"

#include "ramet/memory.h"

namespace ramet::v0 {

struct MemoryReserve::State {
  device::HostReserve reserve;
};

MemoryReserve::MemoryReserve(int64_t bytes) : state_(new State{device::HostReserve(bytes)}) {}
MemoryReserve::~MemoryReserve() = default;
MemoryReserve::MemoryReserve(MemoryReserve&&) noexcept = default;
MemoryReserve& MemoryReserve::operator=(MemoryReserve&&) noexcept = default;

void MemoryReserve::grow(int64_t bytes) {
  if (state_) state_->reserve.grow(bytes);
}
bool MemoryReserve::empty() const { return !state_ || state_->reserve.empty(); }

int64_t trim_memory() {
  trim_heap();
  return leave_library_pages();
}

}  // namespace ramet::v0
