#pragma once

#include <cstddef>
#include <cstdint>

#include "ramet/base/thread_team.h"
#include "ramet/device/device.h"

// Work on host memory, shared out to a team: what devices do whose kernels run on the host.

namespace ramet::device {

void copy_bytes(ThreadTeam& team, void* to, const void* from, int64_t bytes);
void fill_bytes(ThreadTeam& team, void* to, uint8_t value, int64_t bytes);
/// As Queue::transpose.
void transpose_runs(ThreadTeam& team, void* to, const void* from, int64_t rows, int64_t columns, int64_t bytes);
/// As Queue::add. Throws Error for a type that is not summed.
void add_elements(ThreadTeam& team, void* to, const void* from, DType dtype, int64_t count);
/// Throws Error where `add_elements` would.
void check_sum_type(DType dtype);

/// Sums of f16 for processors with AVX2 and F16C (add_f16_avx2.cc): the bits of the plain loop.
void add_f16_avx2(uint16_t* to, const uint16_t* from, int64_t count);

/// Seconds of the host's steady clock.
double host_seconds();

}  // namespace ramet::device
