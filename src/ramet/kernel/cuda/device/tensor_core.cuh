#pragma once

// Products of tiles of bf16 and f16 by a warp's tensor core, with sums in f32, and what feeds them. All 32 lanes reach
// each of these functions, except copies. On the fake card the shim computes a step as kernel/hopper does.
//
// Fragments are those of mma.sync m16n8k16. With group = lane / 4 and pair = lane % 4 * 2, each register holding two
// neighbours along k:
//   a [16 x 16]: rows group (a[0], a[2]) and group + 8 (a[1], a[3]); k pair (a[0], a[1]) and pair + 8 (a[2], a[3])
//   b [16 x 8]:  column group; k pair (b[0]) and pair + 8 (b[1])
//   d [16 x 8]:  row group (d[0], d[1]) and group + 8 (d[2], d[3]); columns pair and pair + 1

#include "kernel.cuh"

namespace ramet_device {

enum class TensorType : int { kBf16, kF16 };

/// d += a b, one step of the tensor core: sums over 16 k.
template <TensorType kType>
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef RAMET_FAKE_CUDA
  fake_mma_16x8x16(kType == TensorType::kF16, d, a, b);
#else
  if constexpr (kType == TensorType::kBf16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

#ifndef RAMET_FAKE_CUDA
/// Where shared memory is, as PTX counts.
__device__ __forceinline__ unsigned shared_address(const void* in_shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(in_shared));
}
#endif

/// Fragment a of the 16 x 16 values at `tile` in shared memory, rows `stride` elements apart, 16 bytes aligned. Where
/// the rows are columns of b, {r[0], r[2]} and {r[1], r[3]} are fragments of eight columns each.
__device__ __forceinline__ void load_16x16(unsigned (&r)[4], const Bits16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#ifdef RAMET_FAKE_CUDA
  const Bits16* at = tile + lane / 4 * stride + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    const Bits16* pair = at + i % 2 * 8 * stride + i / 2 * 8;
    r[i] = static_cast<unsigned>(pair[0]) | static_cast<unsigned>(pair[1]) << 16;
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(tile + lane % 16 * stride + lane / 16 * 8))
               : "memory");
#endif
}

/// The same of a tile that lies transposed: its rows are k, `stride` elements apart.
__device__ __forceinline__ void load_16x16_transposed(unsigned (&r)[4], const Bits16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#ifdef RAMET_FAKE_CUDA
  const Bits16* at = tile + lane % 4 * 2 * stride + lane / 4;
  for (int i = 0; i < 4; ++i) {
    const Bits16* first = at + i / 2 * 8 * stride + i % 2 * 8;
    r[i] = static_cast<unsigned>(first[0]) | static_cast<unsigned>(first[stride]) << 16;
  }
#else
  const int k = lane % 8 + lane / 16 * 8, row = lane / 8 % 2 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(tile + k * stride + row))
               : "memory");
#endif
}

/// Fragments b of two blocks of eight columns: `tile` holds the 16 columns as rows of 16 k. As the registers that a
/// step reads lie side by side, nothing is moved between.
__device__ __forceinline__ void load_columns(unsigned (&left)[2], unsigned (&right)[2], const Bits16* tile,
                                             int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#ifdef RAMET_FAKE_CUDA
  const Bits16* at = tile + lane / 4 * stride + lane % 4 * 2;
  for (int i = 0; i < 2; ++i) {
    const Bits16 *pair = at + i * 8, *other = pair + 8 * stride;
    left[i] = static_cast<unsigned>(pair[0]) | static_cast<unsigned>(pair[1]) << 16;
    right[i] = static_cast<unsigned>(other[0]) | static_cast<unsigned>(other[1]) << 16;
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(left[0]), "=r"(left[1]), "=r"(right[0]), "=r"(right[1])
               : "r"(shared_address(tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8))
               : "memory");
#endif
}

/// The same where the rows of `tile` are k, of 16 columns.
__device__ __forceinline__ void load_columns_transposed(unsigned (&left)[2], unsigned (&right)[2], const Bits16* tile,
                                                        int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#ifdef RAMET_FAKE_CUDA
  const Bits16* at = tile + lane % 4 * 2 * stride + lane / 4;
  for (int i = 0; i < 2; ++i) {
    const Bits16 *first = at + i * 8 * stride, *second = first + stride;
    left[i] = static_cast<unsigned>(first[0]) | static_cast<unsigned>(second[0]) << 16;
    right[i] = static_cast<unsigned>(first[8]) | static_cast<unsigned>(second[8]) << 16;
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(left[0]), "=r"(left[1]), "=r"(right[0]), "=r"(right[1])
               : "r"(shared_address(tile + lane % 16 * stride + lane / 16 * 8))
               : "memory");
#endif
}

/// 16 bytes of any values.
struct alignas(16) Bytes16 {
  unsigned words[4];
};

/// Copies 16 bytes to shared memory while the thread goes on, or writes zeros where they are not `there`. Both are
/// aligned to 16 bytes; `from` is an address of the card even then.
__device__ __forceinline__ void copy_16_async(void* to, const void* from, bool there) {
#ifdef RAMET_FAKE_CUDA
  *static_cast<Bytes16*>(to) = there ? *static_cast<const Bytes16*>(from) : Bytes16{};
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
#endif
}

/// Closes a group of this thread's copies.
__device__ __forceinline__ void commit_copies() {
#ifndef RAMET_FAKE_CUDA
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the last `kLeft` groups of this thread are done; a barrier then shows them to the block.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
#ifndef RAMET_FAKE_CUDA
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace ramet_device
