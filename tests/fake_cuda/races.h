#pragma once

#include <cstddef>
#include <cstdint>

// With RAMET_FAKE_CUDA_RACES=1 device code is compiled so that each access to memory is seen here. Two accesses of
// which one is a write race where nothing orders them: threads of a block are ordered by __syncthreads, lanes of a warp
// by __syncwarp too (shuffles do not order memory), and blocks of a launch by nothing. Which of two racing threads the
// fake card runs first is chance, so that results alone would not show a race. Atomic operations take part in none.

namespace ramet_fake {

/// Whether the environment asks for it.
bool watches_races();

/// Where the running thread is in the order of its block.
struct Turn {
  uint64_t block = 0;                       ///< number of the block that runs; 0: none does
  unsigned thread = 0;                      ///< within the block
  unsigned barriers = 0;                    ///< __syncthreads that the block has passed
  uintptr_t stack = 0, stack_end = 0;       ///< the thread's own
  const unsigned* warp_barriers = nullptr;  ///< by warp, since the last of those
};
/// Of the launch that begins; `name` is its kernel's. Accesses of earlier ones are past.
void begin_watch(const char* name, uint64_t first_block);
void end_watch();
/// Where the block's runner tells how far it is.
extern Turn turn;

}  // namespace ramet_fake
