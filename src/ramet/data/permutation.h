#pragma once

#include <array>
#include <cstdint>

#include "ramet/base/house.h"

namespace ramet::data {

/// Tags that keep the uses of RandomPurpose::kShuffle apart.
enum ShuffleTag : uint64_t {
  kShuffleDocuments = 1,
  kShuffleSamples = 2,
  kShuffleRows = 3,
  kHoldOut = 4,
  kSweepStrata = 5
};

/// A permutation of [0, size) without stored state, drawn by (seed, step, tag): a balanced Feistel network over the
/// least even number of bits that holds `size`, walked along its cycle until it is back inside (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", CT-RSA 2002).
class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, uint64_t step, uint64_t tag);
  int64_t size() const { return size_; }
  /// Where `index` in [0, size) goes.
  int64_t operator()(int64_t index) const;

 private:
  static constexpr int kRounds = 6;
  int64_t size_;
  int half_bits_ = 1;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace ramet::data
