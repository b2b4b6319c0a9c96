#pragma once

#include <cstddef>
#include <cstdint>

#include "ramet/base/thread_team.h"

namespace ramet::runtime {

/// The one allocation of a device: `bytes` of zeroed memory, aligned to 2 MiB and backed by huge pages where the system
/// has them. Every page is touched before the constructor returns, so that memory that is not there is missed now.
class Arena {
 public:
  static constexpr const char* kDeviceMemory = "device memory";

  /// Throws Error when the machine has not so much memory left. `what` is whose memory it is, in that message.
  Arena(int64_t bytes, ThreadTeam& team, const char* what = kDeviceMemory);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace ramet::runtime
