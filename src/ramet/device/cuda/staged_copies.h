#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ramet/device/cuda/timeline.h"

namespace ramet::device {

/// Pinned memory of the driver.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Small pieces of plain memory on their way to the card: they are copied to pinned memory, which the card reads when
/// it gets there. Two halves take turns; a half is used again when the card is done with it.
class StagedCopies {
 public:
  static constexpr int64_t kMost = 4 << 20;
  /// A copy of at most kMost bytes, for the stream's next work.
  const void* stage(CudaTimeline& timeline, const void* from, int64_t bytes);

 private:
  struct Half {
    std::unique_ptr<PinnedBuffer> memory;
    uint64_t done = 0;  ///< place in the queue's work behind which it is free
  };
  std::array<Half, 2> halves_;
  size_t half_ = 0;
  int64_t used_ = 0;  // of the half
};

}  // namespace ramet::device
