#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet {

/// The purpose of a random draw. It is mixed into the key, so that no two purposes share numbers.
enum class RandomPurpose : uint32_t {
  kInit = 1,
  kDropout = 2,
  kMasking = 3,
  kShuffle = 4,
  kSynthetic = 5,
  kRounding = 6,
  kTest = 7,
  kSentencePair = 8,
  kSampling = 9,
  kSweep = 10,
  kDraw = 11,
  kAugmentation = 12
};

/// Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
/// Four independent 32-bit words from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter, const std::array<uint32_t, 2>& key);

/// A stateless source of numbers for one (seed, purpose, step, tensor): draws depend on the logical
/// element only, so any part of a tensor can be drawn anywhere, in any order (docs/architecture.md).
/// The counter is {element block low, block high, step, low half of tensor}, the key is the seed mixed with the
/// purpose and the high half of tensor.
class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t step, uint64_t tensor);
  /// Four 32-bit words of block `block` (a block serves 4 elements of 32 bits, or 8 of 16 bits).
  std::array<uint32_t, 4> block(uint64_t block) const;
  /// 32 random bits for logical element `element` = word element % 4 of block element / 4.
  uint32_t bits(uint64_t element) const { return block(element / 4)[element % 4]; }
  /// 16 random bits for logical element `element`: half-word element % 8 of block element / 8, low half first.
  uint16_t bits16(uint64_t element) const;
  /// Uniform in [0, 1), 24 bits.
  float uniform(uint64_t element) const { return static_cast<float>(bits(element) >> 8) * 0x1p-24f; }
  /// Standard normal by Box-Muller in double, from the pair of words that holds `element`: words (0, 1) make elements
  /// 0 (cosine) and 1 (sine) of a block, words (2, 3) elements 2 and 3. With logarithm, sine and cosine of its own, so
  /// that no bit depends on the C library.
  double normal(uint64_t element) const { return normal_block(element / 4)[element % 4]; }
  /// `normal` of the four elements of a block at once.
  std::array<double, 4> normal_block(uint64_t block) const;
  /// Uniform integer in [0, bound), by multiply-shift of 32 bits. Bound must be in [1, 2^31].
  uint32_t below(uint64_t element, uint32_t bound) const;

  const std::array<uint32_t, 2>& key() const { return key_; }
  uint32_t step() const { return step_; }
  uint32_t tensor() const { return tensor_; }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t step_, tensor_;
};

}  // namespace ramet
