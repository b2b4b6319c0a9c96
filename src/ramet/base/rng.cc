#include "ramet/base/rng.h"

#include <cmath>
#include <utility>

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

/// Natural logarithm of x in (0, 1], to about an ulp: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and
/// log m = 2 artanh((m - 1) / (m + 1)) by its series.
double logarithm(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  for (int k = 21; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
  constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;  // the high part times e is exact
  return exponent * kLn2High + (2 * s + (2 * s * series + exponent * kLn2Low));
}

/// Cosine and sine of 2 pi word / 2^32, to about an ulp: the nearest quarter turn is taken off exactly, the rest is
/// at most an eighth of a turn and goes through Taylor's series.
std::pair<double, double> turn(uint32_t word) {
  const uint32_t quarter = (word + 0x20000000u) >> 30;
  const double x = static_cast<int32_t>(word - (quarter << 30)) * (0x1.921fb54442d18p+2 * 0x1p-32);
  const double square = x * x;
  double cosine = 1, sine = 1;
  for (int k = 18; k >= 2; k -= 2) cosine = 1 - cosine * square / (k * (k - 1));
  for (int k = 17; k >= 3; k -= 2) sine = 1 - sine * square / (k * (k - 1));
  sine *= x;
  switch (quarter & 3) {
    case 0: return {cosine, sine};
    case 1: return {-sine, cosine};
    case 2: return {-cosine, -sine};
    default: return {sine, -cosine};
  }
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
    : step_(static_cast<uint32_t>(step)), tensor_(static_cast<uint32_t>(tensor)) {
  const uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(purpose)) + (tensor >> 32));
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

std::array<uint32_t, 4> RandomStream::block(uint64_t block) const {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step_, tensor_}, key_);
}

uint16_t RandomStream::bits16(uint64_t element) const {
  const uint32_t word = block(element / 8)[element % 8 / 2];
  return static_cast<uint16_t>(element % 2 ? word >> 16 : word);
}

std::array<double, 4> RandomStream::normal_block(uint64_t block) const {
  const auto words = this->block(block);
  std::array<double, 4> normals;
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2 * logarithm((words[pair] + 1.0) * 0x1p-32));
    const auto [cosine, sine] = turn(words[pair + 1]);
    normals[pair] = radius * cosine;
    normals[pair + 1] = radius * sine;
  }
  return normals;
}

uint32_t RandomStream::below(uint64_t element, uint32_t bound) const {
  return static_cast<uint32_t>(static_cast<uint64_t>(bits(element)) * bound >> 32);
}

}  // namespace ramet
