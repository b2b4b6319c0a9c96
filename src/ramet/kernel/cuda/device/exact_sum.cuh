#pragma once

// Sums of squares without any rounding, as ops/exact_sum.h has them: digits of 32 bits, digit k counting 2^(32 k -
// 298), and two counts, of infinities and of NaNs. Integers add up in any order to the same sum.

#include "kernel.cuh"

namespace ramet_device {

constexpr int kExactDigits = 19, kExactInfinities = 19, kExactNaNs = 20, kExactIntegers = 21;

/// Adds to digit `at` of a sum in shared memory; what does not fit goes on to the next ones, so that digits are always
/// less than 2^32.
__device__ __forceinline__ void add_digit(unsigned* digits, int at, unsigned value) {
  while (value != 0u) {
    const unsigned before = atomicAdd(digits + at, value);
    value = before + value < before ? 1u : 0u;
    ++at;
  }
}

/// Adds high 2^64 + low, times 2^(shift - 298).
__device__ inline void add_integer(unsigned* digits, unsigned long long low, unsigned long long high, int shift) {
  const int at = shift >> 5, up = shift & 31;
  unsigned below = 0;
  RAMET_UNROLL
  for (int k = 0; k < 4; ++k) {
    const auto word = static_cast<unsigned>((k < 2 ? low : high) >> (k % 2 * 32));
    const unsigned long long moved = static_cast<unsigned long long>(word) << up;
    add_digit(digits, at + k, static_cast<unsigned>(moved) | below);
    below = static_cast<unsigned>(moved >> 32);
  }
  add_digit(digits, at + 4, below);
}

/// The 24-bit integer of a finite number's magnitude, and its exponent: the square counts 2^(2 exponent - 2 - 298).
__device__ __forceinline__ unsigned whole_of(unsigned magnitude) {
  return magnitude >> 23 ? (magnitude & 0x7fffffu) | 0x800000u : magnitude;
}
__device__ __forceinline__ int exponent_of(unsigned magnitude) {
  const auto exponent = static_cast<int>(magnitude >> 23);
  return exponent > 0 ? exponent : 1;
}

/// One lane's part of a warp's sum of squares. Squares of numbers whose exponents lie in a window of 32 are added in
/// 128 bits; what is smaller goes to the block's digits at once, what is greater moves the window. All lanes of a warp
/// call its functions together, each with its own numbers; all have one window.
class SquareSum {
 public:
  /// `digits`: of the block, in shared memory, zero at first.
  __device__ __forceinline__ explicit SquareSum(unsigned* digits) : digits_(digits) {}

  template <int kCount>
  __device__ __forceinline__ void add(const float (&values)[kCount]) {
    unsigned magnitudes[kCount], most = 0;
    RAMET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      magnitudes[k] = __float_as_uint(values[k]) & 0x7fffffffu;
      most = most > magnitudes[k] ? most : magnitudes[k];
    }
    if (__ballot_sync(0xffffffffu, beyond(most)) != 0u) move(magnitudes);
    bool small = false;
    RAMET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const int shift = 2 * (exponent_of(magnitudes[k]) - base_);
      small = small || (shift < 0 && magnitudes[k] != 0u);
      add_square(shift < 0 ? 0u : whole_of(magnitudes[k]), shift);
    }
    if (small) add_small(magnitudes);
    added_ += kCount;
    if (added_ > kMostAdded - kCount) flush();
  }

  /// Brings what is in registers to the block's digits.
  __device__ inline void flush() {
    added_ = 0;
    if (base_ < 1) return;
    RAMET_UNROLL
    for (int distance = 16; distance > 0; distance /= 2)
      add_pair(__shfl_xor_sync(0xffffffffu, low_, distance), __shfl_xor_sync(0xffffffffu, high_, distance));
    if (threadIdx.x % 32u == 0u) add_integer(digits_, low_, high_, 2 * base_ - 2);
    low_ = high_ = 0;
  }

 private:
  static constexpr int kWindow = 31;               ///< exponents above the base: squares shifted by 62 at most
  static constexpr int kHeadroom = 4;              ///< exponents that a new window has above the greatest number
  static constexpr int kLastBase = 254 - kWindow;  ///< the window then ends at the greatest finite numbers
  static constexpr int kMostAdded = 4096;          ///< 2^12 lanes' squares of 48 + 62 bits, 2^5 lanes: 127 bits

  /// Neither 0 nor within the window or below it. A base of -kWindow - 1 is that of no window.
  __device__ __forceinline__ bool beyond(unsigned magnitude) const {
    return magnitude != 0u && static_cast<int>(magnitude >> 23) > base_ + kWindow;
  }

  __device__ __forceinline__ void add_pair(unsigned long long low, unsigned long long high) {
#ifdef RAMET_FAKE_CUDA
    low_ += low;
    high_ += high + (low_ < low ? 1u : 0u);
#else
    asm("add.cc.u64 %0, %0, %2; addc.u64 %1, %1, %3;" : "+l"(low_), "+l"(high_) : "l"(low), "l"(high));
#endif
  }

  /// The square of a 24-bit integer, times 2^shift, shift < 64; whatever the shift is of 0.
  __device__ __forceinline__ void add_square(unsigned whole, int shift) {
    const unsigned long long square = static_cast<unsigned long long>(whole) * whole;
    const int up = shift & 31;
    const auto middle = static_cast<unsigned>(square >> (32 - up));  // bits 32 and up of the lower word, moved
    const unsigned first = static_cast<unsigned>(square) << up;
    const auto last = static_cast<unsigned>((square >> 32) << up >> 32);
    const bool next = shift >= 32;
    const unsigned word0 = next ? 0u : first, word1 = next ? first : middle, word2 = next ? middle : last,
                   word3 = next ? last : 0u;
    add_pair(static_cast<unsigned long long>(word1) << 32 | word0,
             static_cast<unsigned long long>(word3) << 32 | word2);
  }

  /// A window for greater numbers. Infinities and NaNs are counted, and become 0.
  template <int kCount>
  __device__ inline void move(unsigned (&magnitudes)[kCount]) {
    unsigned most = 0;
    RAMET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (magnitudes[k] >= 0x7f800000u) {
        atomicAdd(digits_ + (magnitudes[k] > 0x7f800000u ? kExactNaNs : kExactInfinities), 1u);
        magnitudes[k] = 0;
      }
      most = most > magnitudes[k] ? most : magnitudes[k];
    }
    RAMET_UNROLL
    for (int distance = 16; distance > 0; distance /= 2) {
      const unsigned other = __shfl_xor_sync(0xffffffffu, most, distance);
      most = most > other ? most : other;
    }
    if (!beyond(most)) return;
    flush();
    const int lowest = exponent_of(most) - (kWindow - kHeadroom);
    base_ = lowest < 1 ? 1 : lowest > kLastBase ? kLastBase : lowest;
  }

  template <int kCount>
  __device__ inline void add_small(const unsigned (&magnitudes)[kCount]) {
    RAMET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const int exponent = exponent_of(magnitudes[k]);
      const unsigned whole = whole_of(magnitudes[k]);
      if (exponent < base_) add_integer(digits_, static_cast<unsigned long long>(whole) * whole, 0, 2 * exponent - 2);
    }
  }

  unsigned* digits_;
  unsigned long long low_ = 0, high_ = 0;
  int base_ = -kWindow - 1, added_ = 0;
};

/// Zeros for `sums` sums of a block; all threads.
__device__ __forceinline__ void clear_sums(unsigned* digits, int sums) {
  for (int i = static_cast<int>(threadIdx.x); i < sums * kExactIntegers; i += static_cast<int>(blockDim.x))
    digits[i] = 0;
  __syncthreads();
}

/// Writes a block's sum: as one of the partial sums of a grid, or, where there is one block, as the result. All
/// threads, behind __syncthreads.
__device__ __forceinline__ void write_sum(const unsigned* digits, unsigned* partials, long long* result) {
  const auto k = static_cast<int>(threadIdx.x);
  if (k >= kExactIntegers) return;
  if (gridDim.x == 1u)
    result[k] = digits[k];
  else
    partials[static_cast<Index>(k) * gridDim.x + blockIdx.x] = digits[k];
}

/// Carries: digits in [0, 2^32) but for the last.
__device__ inline void carry_digits(long long* digits) {
  long long carry = 0;
  for (int k = 0; k + 1 < kExactDigits; ++k) {
    const long long value = digits[k] + carry;
    digits[k] = value & 0xffffffffll;
    carry = value >> 32;
  }
  digits[kExactDigits - 1] += carry;
}

}  // namespace ramet_device
