#pragma once

// Random bits by logical element, the same as base/rng.h. The key of a stream is mixed by the host (RandomStream::key).

#include "kernel.cuh"

namespace ramet_device {

/// Philox 4x32 with 10 rounds.
__device__ __forceinline__ uint4 philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1) {
  RAMET_UNROLL
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// Numbers of one (seed, purpose, step, tensor), as RandomStream.
struct RandomStream {
  unsigned key0, key1, step, tensor;

  /// Four words, which serve 4 elements of 32 bits or 8 of 16.
  __device__ __forceinline__ uint4 block(unsigned long long block) const {
    return philox(static_cast<unsigned>(block), static_cast<unsigned>(block >> 32), step, tensor, key0, key1);
  }
  __device__ __forceinline__ unsigned bits(unsigned long long element) const {
    const uint4 words = block(element / 4);
    const unsigned at = static_cast<unsigned>(element) & 3u;
    return at & 2u ? (at & 1u ? words.w : words.z) : (at & 1u ? words.y : words.x);
  }
  __device__ __forceinline__ unsigned bits16(unsigned long long element) const {
    const uint4 words = block(element / 8);
    const unsigned at = static_cast<unsigned>(element) & 7u;
    const unsigned word = at & 4u ? (at & 2u ? words.w : words.z) : (at & 2u ? words.y : words.x);
    return at & 1u ? word >> 16 : word & 0xffffu;
  }
};

/// The 16 bits of element `at` of a block's eight; `at` had better be a constant.
__device__ __forceinline__ unsigned half_of_block(const uint4& words, int at) {
  const unsigned word = at / 2 == 0 ? words.x : at / 2 == 1 ? words.y : at / 2 == 2 ? words.z : words.w;
  return at % 2 ? word >> 16 : word & 0xffffu;
}

/// Dropout of one node in one micro-batch (ops/random_bits.h, DropoutDraw).
struct DropoutStream {
  unsigned key0, key1, tensor, threshold;
  float scale;
  unsigned padding;
  long long elements;  ///< of the logical tensor

  __device__ __forceinline__ RandomStream stream(const long long* counter) const {
    return {key0, key1, static_cast<unsigned>(counter[0]), tensor};
  }
  /// Logical index, over micro-batches, of the tensor's first element.
  __device__ __forceinline__ unsigned long long first(const long long* counter) const {
    return static_cast<unsigned long long>(counter[1]) * static_cast<unsigned long long>(elements);
  }
  /// What an element of these 16 bits is multiplied by.
  __device__ __forceinline__ float factor(unsigned bits16) const { return bits16 < threshold ? 0.0f : scale; }
};

}  // namespace ramet_device
