#include "ramet/base/rng.h"

#include <cmath>

namespace ramet {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

/// SplitMix64's finaliser (Steele et al. 2014): spreads seed and purpose over all key bits.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter, const std::array<uint32_t, 2>& key) {
  std::array<uint32_t, 4> c = counter;
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t step, uint64_t tensor)
    : step_(static_cast<uint32_t>(step)), tensor_(static_cast<uint32_t>(tensor ^ (tensor >> 32))) {
  const uint64_t key = mix(seed + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(purpose));
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

std::array<uint32_t, 4> RandomStream::block(uint64_t block) const {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step_, tensor_}, key_);
}

uint16_t RandomStream::bits16(uint64_t element) const {
  const uint32_t word = block(element / 8)[element % 8 / 2];
  return static_cast<uint16_t>(element % 2 ? word >> 16 : word);
}

double RandomStream::normal(uint64_t element) const {
  const auto words = block(element / 4);
  const uint64_t pair = element % 4 & ~1ull;
  const double u1 = (words[pair] + 1.0) * 0x1p-32, u2 = words[pair + 1] * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(u1)), angle = 2 * M_PI * u2;
  return element % 2 ? radius * std::sin(angle) : radius * std::cos(angle);
}

uint32_t RandomStream::below(uint64_t element, uint32_t bound) const {
  return static_cast<uint32_t>(static_cast<uint64_t>(bits(element)) * bound >> 32);
}

}  // namespace ramet
