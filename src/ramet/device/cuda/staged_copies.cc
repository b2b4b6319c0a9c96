#include "ramet/device/cuda/staged_copies.h"

#include <cstring>

namespace ramet::device {

PinnedBuffer::PinnedBuffer(size_t bytes) { cuda_driver().mem_host_alloc(&data_, bytes, kCuHostPortable); }
PinnedBuffer::~PinnedBuffer() { cuda_driver().mem_free_host.attempt(data_); }

const void* StagedCopies::stage(CudaTimeline& timeline, const void* from, int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  if (used_ + bytes > kMost) {
    halves_[half_].done = timeline.mark();
    half_ = 1 - half_;
    used_ = 0;
    timeline.reach(halves_[half_].done);
  }
  Half& half = halves_[half_];
  if (!half.memory) half.memory = std::make_unique<PinnedBuffer>(static_cast<size_t>(kMost));
  std::byte* place = half.memory->data() + used_;
  std::memcpy(place, from, static_cast<size_t>(bytes));
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

}  // namespace ramet::device
