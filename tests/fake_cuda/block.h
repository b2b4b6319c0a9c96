#pragma once

#include <cstdint>
#include <string>

// Runs the blocks of a kernel on the host. Each thread of a block is a fiber with a stack of its own where it has to
// wait for others, and a plain call where it has not. One launch at a time in the process.

namespace ramet_fake {

struct Grid {
  unsigned x, y, z, threads;
  unsigned dynamic_bytes;
};

/// "" when all blocks have run, or else why the launch has failed. `fault` is then what a card would report: an
/// illegal address, or a launch that never ends.
enum class Fault { kNone, kAddress, kNeverEnds, kTrap };
std::string run_grid(void (*run)(const void*), const void* arguments, const Grid& grid, Fault* fault);

/// Called by a thread of a kernel: memory that the lanes of its warp share, and a meeting of them. The last lane to
/// come calls `last` with that memory before any of them goes on.
inline constexpr unsigned kWarpRoom = 4096;
void* warp_room();
void meet_warp_and(unsigned meeting, void (*last)(void* room));

/// Bytes of static shared memory that the last launch used.
unsigned static_shared_bytes();

}  // namespace ramet_fake
