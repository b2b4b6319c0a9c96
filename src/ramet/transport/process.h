#pragma once

#include <cstdint>

#include "ramet/device/host_memory.h"  // available_memory

namespace ramet::transport {

/// Most bytes that this process has had resident so far (VmHWM); 0 where the system does not tell.
int64_t measured_peak_bytes();
/// Bytes resident now (VmRSS).
int64_t resident_bytes();
/// Where a thread of a process runs, or stands in line to run; -1 where the system does not tell.
int processor_of_thread(int process, int thread);

}  // namespace ramet::transport
