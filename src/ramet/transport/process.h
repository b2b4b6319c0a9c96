#pragma once

#include <cstdint>

#include "ramet/base/house.h"

namespace ramet::transport {

/// Most bytes that this process has had resident so far (VmHWM); 0 where the system does not tell.
int64_t measured_peak_bytes();
/// Bytes resident now (VmRSS).
int64_t resident_bytes();
/// Bytes that this process could still take without swapping: what the system has free and the cgroups' limits allow.
/// Large when unknown.
int64_t available_memory();
/// Where a thread of a process runs, or stands in line to run; -1 where the system does not tell.
int processor_of_thread(int process, int thread);

}  // namespace ramet::transport
