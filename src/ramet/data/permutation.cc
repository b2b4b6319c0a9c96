#include "ramet/data/permutation.h"

#include "ramet/base/error.h"
#include "ramet/base/rng.h"

namespace ramet::data {

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t step, uint64_t tag) : size_(size) {
  if (size < 1) internal_error("Permutation", "size " + std::to_string(size));
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < static_cast<uint64_t>(size)) ++half_bits_;
  const RandomStream stream(seed, RandomPurpose::kShuffle, step, tag);
  for (size_t round = 0; round < kRounds; ++round) {
    const auto words = stream.block(round);
    keys_[round] = static_cast<uint64_t>(words[0]) << 32 | words[1];
  }
}

int64_t Permutation::operator()(int64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto x = static_cast<uint64_t>(index);
  do {
    uint64_t left = x >> half_bits_, right = x & mask;
    for (const uint64_t key : keys_) {
      // SplitMix64's finaliser (Steele et al. 2014) as the round function.
      uint64_t f = right + key;
      f = (f ^ f >> 30) * 0xBF58476D1CE4E5B9ull;
      f = (f ^ f >> 27) * 0x94D049BB133111EBull;
      f ^= f >> 31;
      const uint64_t next = (left ^ f) & mask;
      left = right;
      right = next;
    }
    x = left << half_bits_ | right;
  } while (x >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(x);
}

}  // namespace ramet::data
