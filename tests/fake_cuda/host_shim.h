#pragma once

// What device code means on the fake card: kernel.cuh includes this in place of CUDA's own words. The compiler of the
// fake card (compiler.cc) puts it in front of every text. Blocks run one after the other; the threads of a block are
// fibers (block.h) that hand over where CUDA's threads wait for each other. All state is in libfake_cuda.so.
//
// A warp operation takes full warps only, and all lanes must come to the same one; a launch that breaks this fails.

// C's own headers: the C++ forms take longer than most device texts.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <stdint.h>
#include <string.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __align__(bytes) alignas(bytes)
#define RAMET_UNROLL

namespace ramet_fake {

struct Place {
  unsigned x, y, z;
};
struct DeviceFunction {  ///< what the driver finds beside a kernel of a module, under the name NAME_function
  void (*run)(const void* arguments);
  unsigned arguments_bytes, most_threads;
};
enum Meeting : unsigned { kSyncWarp = 1, kShuffle, kVote, kMultiplyBf16, kMultiplyF16 };

extern unsigned long long block_number;  // of all blocks that ever ran; never 0
void meet_block();
/// Waits for the warp's lanes; then what each of them gave. The list stays until the lane's next meeting but one.
const uint64_t* meet_warp(Meeting meeting, uint64_t value);
/// Ends the launch as a failed one.
[[noreturn]] void fail(const char* why);
/// The first time in a block: fills a shared array with garbage, and counts its bytes.
void share(void* array, unsigned bytes, unsigned long long* last_block);
unsigned char* dynamic_shared();
void multiply_add(bool bf16, float* d, const unsigned* a, const unsigned* b);

}  // namespace ramet_fake

extern ramet_fake::Place threadIdx, blockIdx, blockDim, gridDim;

#define RAMET_KERNEL(threads, name, Arguments, a) RAMET_FAKE_KERNEL(threads, name, Arguments, a)
#define RAMET_FAKE_KERNEL(threads, name, Arguments, a)                                                     \
  static void name(const Arguments& a);                                                                    \
  extern "C" __attribute__((visibility("default"))) const ::ramet_fake::DeviceFunction name##_function;    \
  const ::ramet_fake::DeviceFunction name##_function = {                                                   \
      [](const void* bytes) { name(*static_cast<const Arguments*>(bytes)); }, sizeof(Arguments), threads}; \
  static void name(const Arguments& a)

#define RAMET_SHARED(type, name, count)        \
  alignas(128) static type name[count];        \
  static unsigned long long name##_last_block; \
  if (name##_last_block != ::ramet_fake::block_number) ::ramet_fake::share(name, sizeof(name), &name##_last_block)
#define RAMET_DYNAMIC_SHARED(name) unsigned char* const name = ::ramet_fake::dynamic_shared()

// Vectors, as loads and stores of several values use them.
#define RAMET_FAKE_VECTORS(type, name, alignment)                  \
  struct alignas(sizeof(type) * 2) name##2 { type x, y; };         \
  struct alignas(alignment) name##4 { type x, y, z, w; };          \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
RAMET_FAKE_VECTORS(int, int, 16)
RAMET_FAKE_VECTORS(unsigned, uint, 16)
RAMET_FAKE_VECTORS(float, float, 16)
RAMET_FAKE_VECTORS(unsigned short, ushort, 8)
RAMET_FAKE_VECTORS(unsigned char, uchar, 4)
RAMET_FAKE_VECTORS(double, double, 16)
#undef RAMET_FAKE_VECTORS

// Arithmetic. The compiler contracts nothing (-ffp-contract=off).
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
inline long long __double_as_longlong(double value) { return __builtin_bit_cast(long long, value); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __ll2float_rn(long long a) { return static_cast<float>(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __clz(int a) { return a == 0 ? 32 : __builtin_clz(static_cast<unsigned>(a)); }
inline int __clzll(long long a) { return a == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(a)); }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (by & 31));
}
template <typename T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
inline T max(T a, T b) {
  return a < b ? b : a;
}
inline float min(float a, float b) { return __builtin_fminf(a, b); }
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
template <typename T>
inline T __ldg(const T* from) {
  return *from;
}
[[noreturn]] inline void __trap() { ::ramet_fake::fail("__trap"); }

// Threads that wait for each other.
inline void __syncthreads() { ::ramet_fake::meet_block(); }
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace ramet_fake {

constexpr unsigned kAllLanes = ~0u;
inline void check_mask(unsigned mask) {
  if (mask != kAllLanes) fail("a warp operation of some lanes only (the mask is not 0xffffffff)");
}
template <typename T>
inline const uint64_t* give(unsigned mask, Meeting meeting, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  check_mask(mask);
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return meet_warp(meeting, bits);
}
/// The value of lane `from`, or one's own where `own`.
template <typename T>
inline T shuffle(unsigned mask, T value, int from, bool own) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint64_t* values = give(mask, kShuffle, value);
  T result;
  memcpy(&result, &values[own ? lane : from], sizeof(T));
  return result;
}

}  // namespace ramet_fake

inline void __syncwarp(unsigned mask = ~0u) { ::ramet_fake::give(mask, ::ramet_fake::kSyncWarp, 0); }
template <typename T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return ::ramet_fake::shuffle(mask, value, (lane & -width) | (from & (width - 1)), false);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x % 32), from = lane ^ by;
  return ::ramet_fake::shuffle(mask, value, from, from > (lane | (width - 1)));
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x % 32), from = lane + static_cast<int>(by);
  return ::ramet_fake::shuffle(mask, value, from, from > (lane | (width - 1)));
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x % 32), from = lane - static_cast<int>(by);
  return ::ramet_fake::shuffle(mask, value, from, from < (lane & -width));
}
inline unsigned __ballot_sync(unsigned mask, int yes) {
  const uint64_t* values = ::ramet_fake::give(mask, ::ramet_fake::kVote, yes);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= (values[lane] != 0 ? 1u : 0u) << lane;
  return votes;
}
inline int __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
inline int __all_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) == ~0u; }

// Atomics: threads take turns anyway.
namespace ramet_fake {
template <typename T, typename Change>
__attribute__((no_sanitize("thread"))) inline T atomic(T* at, Change change) {
  const T old = *at;
  *at = change(old);
  return old;
}
}  // namespace ramet_fake
#define RAMET_FAKE_ATOMICS(type)                                                              \
  inline type atomicExch(type* at, type value) {                                              \
    return ::ramet_fake::atomic(at, [&](type) { return value; });                             \
  }                                                                                           \
  inline type atomicMin(type* at, type value) {                                               \
    return ::ramet_fake::atomic(at, [&](type old) { return value < old ? value : old; });     \
  }                                                                                           \
  inline type atomicMax(type* at, type value) {                                               \
    return ::ramet_fake::atomic(at, [&](type old) { return old < value ? value : old; });     \
  }                                                                                           \
  inline type atomicCAS(type* at, type expected, type value) {                                \
    return ::ramet_fake::atomic(at, [&](type old) { return old == expected ? value : old; }); \
  }
RAMET_FAKE_ATOMICS(int)
RAMET_FAKE_ATOMICS(unsigned)
RAMET_FAKE_ATOMICS(unsigned long long)
#undef RAMET_FAKE_ATOMICS
inline int atomicAdd(int* at, int value) {
  return ::ramet_fake::atomic(
      at, [&](int old) { return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)); });
}
#define RAMET_FAKE_ATOMICS(type)                                            \
  inline type atomicAdd(type* at, type value) {                             \
    return ::ramet_fake::atomic(at, [&](type old) { return old + value; }); \
  }                                                                         \
  inline type atomicAnd(type* at, type value) {                             \
    return ::ramet_fake::atomic(at, [&](type old) { return old & value; }); \
  }                                                                         \
  inline type atomicOr(type* at, type value) {                              \
    return ::ramet_fake::atomic(at, [&](type old) { return old | value; }); \
  }                                                                         \
  inline type atomicXor(type* at, type value) {                             \
    return ::ramet_fake::atomic(at, [&](type old) { return old ^ value; }); \
  }
RAMET_FAKE_ATOMICS(unsigned)
RAMET_FAKE_ATOMICS(unsigned long long)
#undef RAMET_FAKE_ATOMICS

/// Tensor cores, for device/tensor_core.cuh: the warp's d += a x b of m16n8k16, in the bits of kernel/hopper. Fragments
/// lie in lanes as mma.sync has them.
inline void fake_mma_16x8x16(bool f16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  ::ramet_fake::multiply_add(!f16, d, a, b);
}
/// The card's clock in nanoseconds, as %globaltimer.
unsigned long long fake_globaltimer();
