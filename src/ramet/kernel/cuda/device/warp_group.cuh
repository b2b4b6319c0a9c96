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

/// Slots of shared memory that are filled and used in turn. One thread fills, `users` arrive when they are done.
template <int kSlots>
struct Ring {
  unsigned full, empty;  ///< the first of kSlots barriers each
  int slot = 0, round = 0;

  static constexpr int kBytes = kSlots * 16;
  __device__ __forceinline__ explicit Ring(unsigned barriers) : full(barriers), empty(barriers + kSlots * 8) {}
  __device__ __forceinline__ void init(int users) const {
    for (int i = 0; i < kSlots; ++i) {
      init_barrier(full + i * 8, 1);
      init_barrier(empty + i * 8, users);
    }
    publish_barriers();
  }
  __device__ __forceinline__ void next() {
    if (++slot == kSlots) slot = 0, round ^= 1;
  }
  __device__ __forceinline__ void wait_empty() const { wait_for(empty + slot * 8, round ^ 1); }
  __device__ __forceinline__ void wait_full() const { wait_for(full + slot * 8, round); }
  /// Gives back the slot before this one.
  __device__ __forceinline__ void release_last() const { arrive(empty + (slot == 0 ? kSlots - 1 : slot - 1) * 8); }
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
/// Keeps the compiler from using sums before this point.
template <int kCount>
__device__ __forceinline__ void hold(float (&sums)[kCount]) {
  RAMET_UNROLL
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

}  // namespace ramet_device
