#include "queue_arguments.h"

#include "convert.cuh"
#include "kernel.cuh"

#ifdef RAMET_FAKE_CUDA
#include <time.h>
#endif

namespace ramet_device {

// --- transposition of runs ---

struct alignas(16) Word16 {
  unsigned long long low, high;
};

/// In the order of `to`: writes are dense, and so are reads where runs are long.
template <typename Word>
__device__ __forceinline__ void transpose(const TransposeArguments& a) {
  const Word* from = static_cast<const Word*>(a.from);
  Word* to = static_cast<Word*>(a.to);
  const Index count = a.rows * a.columns * a.words;
  for (Index i = first_index(); i < count; i += index_step()) {
    const Index run = i / a.words, column = run / a.rows, row = run % a.rows;
    to[i] = from[(row * a.columns + column) * a.words + i % a.words];
  }
}

RAMET_KERNEL(256, transpose_1, TransposeArguments, a) { transpose<unsigned char>(a); }
RAMET_KERNEL(256, transpose_2, TransposeArguments, a) { transpose<unsigned short>(a); }
RAMET_KERNEL(256, transpose_4, TransposeArguments, a) { transpose<unsigned>(a); }
RAMET_KERNEL(256, transpose_8, TransposeArguments, a) { transpose<unsigned long long>(a); }
RAMET_KERNEL(256, transpose_16, TransposeArguments, a) { transpose<Word16>(a); }

// --- sums ---

struct AddF32 {
  __device__ __forceinline__ float operator()(float to, float from) const { return to + from; }
};
struct AddBf16 {
  __device__ __forceinline__ Bits16 operator()(Bits16 to, Bits16 from) const {
    return narrow_bf16(widen_bf16(to) + widen_bf16(from));
  }
};
struct AddF16 {
  __device__ __forceinline__ Bits16 operator()(Bits16 to, Bits16 from) const {
    return narrow_f16(widen_f16(to) + widen_f16(from));
  }
};
/// Integers wrap, which only unsigned ones may.
template <typename T>
struct AddInteger {
  __device__ __forceinline__ T operator()(T to, T from) const { return to + from; }
};

template <typename T, typename Sum>
__device__ __forceinline__ void add(const AddArguments& a, const Sum& sum) {
  const T* from = static_cast<const T*>(a.from);
  T* to = static_cast<T*>(a.to);
  for (Index i = first_index(); i < a.count; i += index_step()) to[i] = sum(to[i], from[i]);
}

RAMET_KERNEL(256, add_f32, AddArguments, a) { add<float>(a, AddF32{}); }
RAMET_KERNEL(256, add_bf16, AddArguments, a) { add<Bits16>(a, AddBf16{}); }
RAMET_KERNEL(256, add_f16, AddArguments, a) { add<Bits16>(a, AddF16{}); }
RAMET_KERNEL(256, add_i32, AddArguments, a) { add<unsigned>(a, AddInteger<unsigned>{}); }
RAMET_KERNEL(256, add_i64, AddArguments, a) { add<unsigned long long>(a, AddInteger<unsigned long long>{}); }

// --- the clock ---

RAMET_KERNEL(1, stamp, StampArguments, a) {
#ifdef RAMET_FAKE_CUDA
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  *a.nanoseconds =
      static_cast<unsigned long long>(now.tv_sec) * 1000000000ull + static_cast<unsigned long long>(now.tv_nsec);
#else
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  *a.nanoseconds = nanoseconds;
#endif
}

}  // namespace ramet_device
