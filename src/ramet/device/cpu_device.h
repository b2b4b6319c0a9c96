#pragma once

#include <memory>

#include "ramet/device/device.h"

namespace ramet::device {

/// The processors of this host, `threads` of them, as a device: its memory is the host's, its one team of threads does
/// all work, and every call returns when its work is done. Queues share the team, so one thread drives them all.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace ramet::device
