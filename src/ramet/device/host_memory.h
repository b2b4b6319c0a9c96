#pragma once

#include <cstddef>
#include <cstdint>

#include "ramet/base/thread_team.h"

namespace ramet::device {

/// Bytes that this process can still take without swapping, within the system's free memory and the cgroups' limits,
/// and those that a HostReserve holds for it. Large when unknown.
int64_t available_memory();

/// A block of the host's memory: `bytes`, zeroed, aligned to 2 MiB and backed by huge pages where the system has them.
/// Every page is touched before the constructor returns, so that memory that is not there is missed now.
class HostMemory {
 public:
  static constexpr const char* kDeviceMemory = "device memory";

  /// Throws Error (kFailure) when the machine has not so much memory left. `what` is whose memory it is, in that
  /// message.
  HostMemory(int64_t bytes, ThreadTeam& team, const char* what = kDeviceMemory);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace ramet::device
