#pragma once

#include <cstdint>
#include <span>

#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

/// What a device of a crowded host looks like to one that is about to sleep.
struct CrowdedDevice {
  int processor = -1;    ///< where it runs, or ran last; -1: not known
  bool at_work = false;  ///< it runs, or stands in line for a processor
  bool in_line = false;  ///< it stands in line for sure: what it slept for has come, and it has not run since
};
/// Which neighbour should go on with its work on `processor`, which its last device is about to leave idle: one of two
/// or more that are on one other processor, rather one that stands in line; -1 where nobody is better off.
int to_be_moved(std::span<const CrowdedDevice> neighbours, int processor);

/// Whether a device sleeps on a word that has changed: it would go on if it had a processor, and were not halted.
bool stands_in_line(const SharedWorld& world, const ProgressSlot& slot);

/// A device's sleep on a word, as its peers see it. In a crowded host (more devices than processors) who goes to sleep
/// sees to it that its processor does not stand idle while others queue for another one: Linux looks after that only
/// every few milliseconds (a tick), which costs pipelines a tenth of their time.
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
