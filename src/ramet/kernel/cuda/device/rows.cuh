#pragma once

// Walks over rows of f32, bf16 or f16, a warp a row. Sums have the order of kernel/cpu/rows-inl.h: 64 strided lanes,
// lane j adding elements j, j + 64, ..., then lane i += lane i + 32, + 16, ... + 1. A thread has two lanes that lie
// side by side, so that it moves pairs of elements.

#include "convert.cuh"

namespace ramet_device {

constexpr int kRowLanes = 64;

struct Pair {
  float at[2];
};

/// A pair of neighbours as one word, as it lies in memory.
template <class Type>
struct PairWord {
  using Word = unsigned;
  static __device__ __forceinline__ Word join(Bits16 low, Bits16 high) {
    return static_cast<unsigned>(high) << 16 | static_cast<unsigned>(low);
  }
  static __device__ __forceinline__ Pair widen(Word word) {
    return {{Type::widen(static_cast<Bits16>(word & 0xffffu)), Type::widen(static_cast<Bits16>(word >> 16))}};
  }
  static __device__ __forceinline__ Word narrow(Pair value) {
    return join(Type::narrow(value.at[0]), Type::narrow(value.at[1]));
  }
};
#ifndef RAMET_FAKE_CUDA
/// One instruction; the same numbers, but every NaN becomes 7fff.
template <>
__device__ __forceinline__ unsigned PairWord<BF16>::narrow(Pair value) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(value.at[1]), "f"(value.at[0]));
  return word;
}
#endif
template <>
struct PairWord<F32> {
  using Word = unsigned long long;
  static __device__ __forceinline__ Word join(float low, float high) {
    return static_cast<Word>(__float_as_uint(high)) << 32 | __float_as_uint(low);
  }
  static __device__ __forceinline__ Pair widen(Word word) {
    return {{__uint_as_float(static_cast<unsigned>(word)), __uint_as_float(static_cast<unsigned>(word >> 32))}};
  }
  static __device__ __forceinline__ Word narrow(Pair value) { return join(value.at[0], value.at[1]); }
};
template <class Type>
using WordOf = typename PairWord<Type>::Word;

/// `count` is 1 or 2. Where rows are `paired`, each begins at a whole word, and every count is 2.
template <class Type>
__device__ __forceinline__ WordOf<Type> load_word(const typename Type::Stored* from, int count, bool paired) {
  if (paired) return *reinterpret_cast<const WordOf<Type>*>(from);
  return PairWord<Type>::join(from[0], count > 1 ? from[1] : from[0]);
}
template <class Type>
__device__ __forceinline__ Pair load_pair(const void* row, int element, int count, bool paired) {
  return PairWord<Type>::widen(
      load_word<Type>(static_cast<const typename Type::Stored*>(row) + element, count, paired));
}
/// The same of what no thread writes while the kernel runs, so that it may be read ahead of stores.
template <class Type>
__device__ __forceinline__ Pair load_constant_pair(const void* row, int element, int count, bool paired) {
#ifndef RAMET_FAKE_CUDA
  const auto* from = static_cast<const typename Type::Stored*>(row) + element;
  if (paired) return PairWord<Type>::widen(__ldg(reinterpret_cast<const WordOf<Type>*>(from)));
#endif
  return load_pair<Type>(row, element, count, paired);
}
template <class Type>
__device__ __forceinline__ void store_pair(Pair value, void* row, int element, int count, bool paired) {
  auto* to = static_cast<typename Type::Stored*>(row) + element;
  if (paired) {
    *reinterpret_cast<WordOf<Type>*>(to) = PairWord<Type>::narrow(value);
  } else {
    to[0] = Type::narrow(value.at[0]);
    if (count > 1) to[1] = Type::narrow(value.at[1]);
  }
}

/// Where row `row` of [rows, width] begins.
template <class Type>
__device__ __forceinline__ const typename Type::Stored* row_at(const void* a, Index row, int width) {
  return static_cast<const typename Type::Stored*>(a) + row * width;
}
template <class Type>
__device__ __forceinline__ typename Type::Stored* row_at(void* a, Index row, int width) {
  return static_cast<typename Type::Stored*>(a) + row * width;
}

/// Pairs of a row that a thread loads before it works on the first of them.
constexpr int kPairsAtOnce = 8;

/// For each pair of this thread of a row: `load(element, count, step, slot)` and then `use`, called likewise. `count`
/// is 2, at the end of an odd row 1; slots are below kPairsAtOnce, and all of them are loaded before they are used, so
/// that stores do not hold loads up. kFixed: the width, where it is known when the code is compiled, else 0.
template <int kFixed, class Load, class Use>
__device__ __forceinline__ void for_each_pair(int width, const Load& load, const Use& use) {
  const int first = 2 * static_cast<int>(threadIdx.x % 32);
  if constexpr (kFixed > 0) {
    RAMET_UNROLL
    for (int step = 0; step < (kFixed + kRowLanes - 1) / kRowLanes; ++step) {
      const int element = first + step * kRowLanes, count = kFixed % 2 == 0 || element + 1 < kFixed ? 2 : 1;
      if ((step + 1) * kRowLanes > kFixed && element >= kFixed) continue;
      load(element, count, step, step % kPairsAtOnce);
      use(element, count, step, step % kPairsAtOnce);
    }
  } else {
    const int whole = width / kRowLanes;
    int step = 0;
    for (; step + kPairsAtOnce <= whole; step += kPairsAtOnce) {
      RAMET_UNROLL
      for (int slot = 0; slot < kPairsAtOnce; ++slot) load(first + (step + slot) * kRowLanes, 2, step + slot, slot);
      RAMET_UNROLL
      for (int slot = 0; slot < kPairsAtOnce; ++slot) use(first + (step + slot) * kRowLanes, 2, step + slot, slot);
    }
    for (int element = first + step * kRowLanes; element < width; element += kRowLanes, ++step) {
      load(element, element + 1 < width ? 2 : 1, step, 0);
      use(element, element + 1 < width ? 2 : 1, step, 0);
    }
  }
}

/// A row as a warp walks it: in registers where its width is known, else read again at every walk.
template <class Type, int kFixed>
struct Row {
  WordOf<Type> words[(kFixed + kRowLanes - 1) / kRowLanes];

  __device__ __forceinline__ Row(const typename Type::Stored* from, int, bool paired) {
    for_each_pair<kFixed>(
        kFixed,
        [&](int element, int count, int step, int) { words[step] = load_word<Type>(from + element, count, paired); },
        [](int, int, int, int) {});
  }
  __device__ __forceinline__ Pair pair(int, int, int step) const { return PairWord<Type>::widen(words[step]); }
};
template <class Type>
struct Row<Type, 0> {
  const typename Type::Stored* from;
  bool paired;

  __device__ __forceinline__ Row(const typename Type::Stored* row, int, bool are_paired)
      : from(row), paired(are_paired) {}
  __device__ __forceinline__ Pair pair(int element, int count, int) const {
    return load_pair<Type>(from, element, count, paired);
  }
};

/// Calls `visit(element, count, value)` for each pair of this thread of a row.
template <class Type, int kFixed, class Visit>
__device__ __forceinline__ void walk_row(const Row<Type, kFixed>& row, int width, const Visit& visit) {
  Pair values[kPairsAtOnce];
  for_each_pair<kFixed>(
      width, [&](int element, int count, int step, int slot) { values[slot] = row.pair(element, count, step); },
      [&](int element, int count, int, int slot) { visit(element, count, values[slot]); });
}
/// The same of two rows.
template <class Type, int kFixed, class Visit>
__device__ __forceinline__ void walk_rows(const Row<Type, kFixed>& first, const Row<Type, kFixed>& second, int width,
                                          const Visit& visit) {
  Pair ones[kPairsAtOnce], others[kPairsAtOnce];
  for_each_pair<kFixed>(
      width,
      [&](int element, int count, int step, int slot) {
        ones[slot] = first.pair(element, count, step);
        others[slot] = second.pair(element, count, step);
      },
      [&](int element, int count, int, int slot) { visit(element, count, ones[slot], others[slot]); });
}

/// The two lanes of this thread.
struct RowLanes {
  float lane[2];

  __device__ __forceinline__ explicit RowLanes(float start) : lane{start, start} {}
  /// All 64 joined, in every thread.
  template <class Join>
  __device__ __forceinline__ float fold(const Join& join) const {
    float low = lane[0], high = lane[1];
    RAMET_UNROLL
    for (int by = 16; by > 0; by /= 2) {
      low = join(low, __shfl_down_sync(~0u, low, static_cast<unsigned>(by)));
      high = join(high, __shfl_down_sync(~0u, high, static_cast<unsigned>(by)));
    }
    return __shfl_sync(~0u, join(low, high), 0);
  }
  __device__ __forceinline__ float sum() const {
    return fold([](float a, float b) { return a + b; });
  }
  __device__ __forceinline__ float most() const {
    return fold([](float a, float b) { return a > b || a != a ? a : b; });
  }
};

/// The first row of this warp, and the distance to its next one, in a loop over the grid.
__device__ __forceinline__ Index first_row() {
  return static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x / 32) + static_cast<Index>(threadIdx.x / 32);
}
__device__ __forceinline__ Index row_step() {
  return static_cast<Index>(gridDim.x) * static_cast<Index>(blockDim.x / 32);
}

}  // namespace ramet_device
