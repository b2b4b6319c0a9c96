#pragma once

// Hopper's copies of tiles by hardware and its products by groups of four warps (wgmma). Only for true cards.
// Addresses of shared memory are those of PTX, 32 bits.

#include "product_wgmma_arguments.h"
#include "tensor_core.cuh"

namespace ramet_device {

// --- barriers in shared memory: a phase ends when all arrivals and all announced bytes have come ---

__device__ __forceinline__ void init_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes new barriers known to the copies.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive_expecting(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Waits for the end of the phase of that parity; one before the first has parity 1 and has ended.
__device__ __forceinline__ void wait_for(unsigned barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra DONE;\n"
      "bra AGAIN;\n"
      "DONE:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// --- clusters: blocks that run side by side and reach each other's shared memory ---

__device__ __forceinline__ int rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
/// Waits for all threads of the cluster.
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// Arrives at the barrier that stands at this address in block `rank` of the cluster.
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Slots of shared memory that are filled and used in turn, in all blocks of a cluster alike. One thread fills, and
/// every user arrives in every block when it is done.
template <int kSlots, int kBlocks>
struct Ring {
  unsigned full, empty;  ///< the first of kSlots barriers each
  int slot = 0, round = 0;

  __device__ __forceinline__ explicit Ring(unsigned barriers) : full(barriers), empty(barriers + kSlots * 8) {}
  /// By one thread; `users` in each block.
  __device__ __forceinline__ void init(int users) const {
    for (int i = 0; i < kSlots; ++i) {
      init_barrier(full + i * 8, 1);
      init_barrier(empty + i * 8, users * kBlocks);
    }
    publish_barriers();
  }
  __device__ __forceinline__ void next() {
    if (++slot == kSlots) slot = 0, round ^= 1;
  }
  __device__ __forceinline__ void wait_empty() const { wait_for(empty + slot * 8, round ^ 1); }
  __device__ __forceinline__ void wait_full() const { wait_for(full + slot * 8, round); }
  /// A user gives back the slot before this one: by its threads 0 to kBlocks - 1.
  __device__ __forceinline__ void release_last(int thread) const {
    const unsigned barrier = empty + (slot == 0 ? kSlots - 1 : slot - 1) * 8;
    if (thread >= kBlocks) return;
    if constexpr (kBlocks == 1)
      arrive(barrier);
    else
      arrive_at(barrier, thread);
  }
};

// --- copies of tiles ---

/// Copies the box at (x, y, z), zeros where it leaves the array; its bytes arrive at the barrier.
__device__ __forceinline__ void copy_box(unsigned to, const TensorMap& map, unsigned barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// The same to these addresses in the blocks of the cluster whose bits are set.
__device__ __forceinline__ void copy_box_to_all(unsigned to, const TensorMap& map, unsigned barrier, unsigned blocks,
                                                int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(static_cast<unsigned short>(blocks))
      : "memory");
}

// --- products ---

/// An operand in shared memory, in rows of 128 bytes with the copies' swizzle of 128 bytes. `next_columns`: bytes to
/// the next 64 of the rows, of an operand whose rows are k (transposed); of another, its rows lie along k.
__device__ __forceinline__ unsigned long long shared_operand(unsigned address, unsigned next_columns) {
  return static_cast<unsigned long long>((address & 0x3ffffu) >> 4) |
         static_cast<unsigned long long>(next_columns >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits for all but the last `kLeft` groups of products.
template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
/// Lets the 128 threads of another group go on from `wait_for_start`; by all 128 threads of one.
__device__ __forceinline__ void give_start() { asm volatile("bar.arrive 1, 256;" ::: "memory"); }
__device__ __forceinline__ void wait_for_start() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/// Keeps the compiler from using sums before this point.
template <int kCount>
__device__ __forceinline__ void hold(float (&sums)[kCount]) {
  RAMET_UNROLL
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

}  // namespace ramet_device
