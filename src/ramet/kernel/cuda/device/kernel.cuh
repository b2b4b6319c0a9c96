#pragma once

// What all device code begins with. The same files are compiled by NVRTC for a card, and by the host's compiler for the
// fake card of the tests, where each thread of a block is a fiber and warps meet at every shuffle.
//
// A kernel takes one struct, by the macro. The structs stand in headers of their own, which Ramet's host code includes
// too: they have int, unsigned, long long, float, double, pointers and arrays of them, and nothing else.
//
//   RAMET_KERNEL(256, add_one, AddArguments, a) { ... a.count ... }
//
// No kernel may rely on the order in which blocks run, or add floats atomically. Multiply-adds are never contracted
// (--fmad=false): fma only as __fmaf_rn.

#ifdef RAMET_FAKE_CUDA
#include "host_shim.h"
#else
#define RAMET_KERNEL(threads, name, Arguments, a) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Arguments a)
/// An array of a block, and all of its dynamic memory, aligned to 128 bytes.
#define RAMET_SHARED(type, name, count) __shared__ type name[count]
#define RAMET_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define RAMET_UNROLL _Pragma("unroll")
#endif

namespace ramet_device {

using Index = long long;

/// The first element of this thread, and the distance to its next one, in a loop over the grid.
__device__ __forceinline__ Index first_index() {
  return static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
}
__device__ __forceinline__ Index index_step() {
  return static_cast<Index>(gridDim.x) * static_cast<Index>(blockDim.x);
}

/// bf16 and f16 travel as their bits.
using Bits16 = unsigned short;

__device__ __forceinline__ float widen_bf16(Bits16 bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
/// To nearest even; NaN stays NaN.
__device__ __forceinline__ Bits16 narrow_bf16(float value) {
#ifdef RAMET_FAKE_CUDA
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Bits16>(bits >> 16 | 0x40u);
  return static_cast<Bits16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#else
  Bits16 half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#endif
}

/// As CudaFault of device/cuda/cuda_kernel.h.
struct Fault {
  unsigned kernel, kind;
  long long found, limit;
};
/// Reports that `found` is not below `limit`, unless something was reported before.
__device__ __forceinline__ void report_fault(Fault* faults, unsigned kernel, unsigned kind, long long found,
                                             long long limit) {
  if (atomicCAS(&faults->kernel, 0u, kernel) != 0u) return;
  faults->kind = kind;
  faults->found = found;
  faults->limit = limit;
}

}  // namespace ramet_device
