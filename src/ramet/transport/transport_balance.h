#pragma once

#include <cstdint>
#include <span>

#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

/// A device of a crowded host, as seen by a device that is about to block.
struct CrowdedDevice {
  int processor = -1;    ///< where it runs, or ran last; -1: not known
  bool at_work = false;  ///< it runs, or stands in line for a processor
  bool in_line = false;  ///< it is certainly runnable: the event that it waited for has come, and it has not run since
};
/// The neighbour that should move to `processor`, which is about to become idle: one of two or more devices that share
/// another processor, preferably a runnable one; -1 when no device gains.
int to_be_moved(std::span<const CrowdedDevice> neighbours, int processor);

/// Whether a device sleeps on a word that has changed: it would go on if it had a processor, and were not halted.
bool stands_in_line(const SharedWorld& world, const ProgressSlot& slot);

/// A device's sleep on a word, as its peers see it. On a crowded host (more devices than processors), a device that
/// blocks gives its processor to a runnable device. Linux would do so only at its next tick, every few milliseconds,
/// which costs pipelines a tenth of their time.
class Sleep {
 public:
  Sleep(SharedWorld& world, int device, const WaitWord& word, uint32_t seen);
  ~Sleep();
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;

 private:
  void leave_processor();

  SharedWorld& world_;
  ProgressSlot& slot_;
  int device_;
};

}  // namespace ramet::transport
