#include "ramet/kernel/cpu/sparse_bf16.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::kernel::cpu {

bool takes_bf16_pairs(DType left, DType right, int64_t along, bool single) {
  return left == DType::kBF16 && right == DType::kBF16 && (single || along % 2 == 0) &&
         cpu_level() == CpuLevel::kAvx512Bf16;
}

bool stays_normal(LeastBits a, LeastBits b) {
  if (a == kNoLeast || b == kNoLeast) return true;
  // A number of bf16 with exponent e (as stored) is a multiple of 2^(e - 134).
  const int first = (a + 1) >> 7, second = (b + 1) >> 7;
  return first > 0 && second > 0 && first + second >= 2 * 134 - 126;
}

namespace {

/// Whether the instruction gives the bits of two multiply-adds for 16 lanes of random numbers and sums of their size:
/// exponents up to `spread` apart.
bool agrees(uint64_t round, uint32_t spread) {
  const RandomStream random(round, RandomPurpose::kTest, 0, 3);
  uint32_t at = 0;
  const auto bf16 = [&](uint32_t least) {
    const uint32_t bits = random.bits(at++), exponent = least + (bits >> 8) % spread;
    // Every eighth number is a zero.
    return bits >> 29 == 0 ? bits & 0x8000u : (bits & 0x807fu) | exponent << 7;
  };
  uint32_t a[16], b[16];
  float sums[16], expected[16];
  for (int l = 0; l < 16; ++l) {
    a[l] = bf16(110) << 16 | bf16(110);
    b[l] = bf16(115) << 16 | bf16(115);
    sums[l] = std::bit_cast<float>(bf16(98) << 16) * 1.7320508f;
    // Chains begin at +0 and never come to -0.
    if (sums[l] == 0) sums[l] = 0;
    const auto upper = [](uint32_t bits) { return std::bit_cast<float>(bits & 0xffff0000u); };
    // Every fourth sum is what a product takes away.
    if (l % 4 == 0) sums[l] = 0.0f - upper(a[l]) * upper(b[l]);
    expected[l] = std::fma(upper(a[l] << 16), upper(b[l] << 16), std::fma(upper(a[l]), upper(b[l]), sums[l]));
  }
  add_bf16_pairs(a, b, sums);
  for (int l = 0; l < 16; ++l)
    if (std::bit_cast<uint32_t>(sums[l]) != std::bit_cast<uint32_t>(expected[l])) return false;
  return true;
}

}  // namespace

bool pairs_are_chains() {
  static const bool found = [] {
    for (uint64_t round = 0; round < 128; ++round)
      for (const uint32_t spread : {1u, 6u, 30u})
        if (!agrees(3 * round + spread, spread)) return false;
    return true;
  }();
  return found;
}

LeastBits pair_values(const ops::SparseGrid& grid, bool transpose, const uint16_t* values, int64_t begin, int64_t end,
                      uint32_t* to) {
  const int64_t along = transpose ? grid.block_rows : grid.block_columns, size = grid.block_elements();
  const int64_t high = size / along;
  const int64_t line_stride = transpose ? 1 : along, sum_stride = transpose ? high : 1;
  uint16_t least = kNoLeast;
  for (int64_t block = begin; block < end; ++block) {
    const uint16_t* from = values + block * size;
    uint32_t* pairs = to + block * size / 2;
    for (int64_t k = 0; k < along; k += 2)
      for (int64_t i = 0; i < high; ++i) {
        const uint16_t first = from[k * sum_stride + i * line_stride];
        const uint16_t second = from[(k + 1) * sum_stride + i * line_stride];
        least = std::min({least, least_bits(first), least_bits(second)});
        *pairs++ = uint32_t{first} << 16 | second;
      }
  }
  return least;
}

LeastBits pair_singles(const SparseLines& lines, int64_t begin, int64_t end, SparseSingle* singles) {
  LeastBits least = kNoLeast;
  for (int64_t part = begin; part < end; ++part)
    for (int64_t e = lines.first[part]; e < lines.first[part + 1]; e += 2) {
      const bool last = e + 1 == lines.first[part + 1];
      const auto first = std::bit_cast<uint32_t>(singles[e].value) >> 16;
      const auto second = last ? 0 : std::bit_cast<uint32_t>(singles[e + 1].value) >> 16;
      least = std::min({least, least_bits(static_cast<uint16_t>(first)), least_bits(static_cast<uint16_t>(second))});
      singles[e].value = std::bit_cast<float>(first << 16 | second);
    }
  return least;
}

#if !defined(__x86_64__)
namespace {
[[noreturn]] void missing(const char* what) { internal_error(what, "no such instructions here"); }
}  // namespace
LeastBits pack_feature_pairs(const uint16_t*, int64_t, int64_t, void*) { missing("pack_feature_pairs"); }
LeastBits pack_single_features(const uint16_t*, int64_t, int64_t, void*) { missing("pack_single_features"); }
LeastBits take_feature_pairs(const uint16_t*, int64_t, int64_t, void*) { missing("take_feature_pairs"); }
LeastBits take_single_features(const uint16_t*, int64_t, int64_t, void*) { missing("take_single_features"); }
void see_token_pairs(const uint16_t*, int64_t, int64_t, int64_t, LeastBits*) { missing("see_token_pairs"); }
void pack_token_pairs(const uint16_t*, int64_t, int64_t, int64_t, uint16_t*, int64_t, LeastBits*) {
  missing("pack_token_pairs");
}
void unpack_bf16_panel(const float*, int64_t, int64_t, uint16_t*, int64_t, bool) { missing("unpack_bf16_panel"); }
void put_bf16_panel(const float*, int64_t, uint16_t*, int64_t, bool) { missing("put_bf16_panel"); }
void run_bf16_line(const Bf16Line&, int64_t) { missing("run_bf16_line"); }
void run_bf16_singles(const Bf16Line&) { missing("run_bf16_singles"); }
void run_bf16_tile(const Bf16Outer&, float*) { missing("run_bf16_tile"); }
void run_bf16_group(const Bf16Outer&, float*) { missing("run_bf16_group"); }
void add_bf16_pairs(const uint32_t*, const uint32_t*, float*) { missing("add_bf16_pairs"); }
#endif

}  // namespace ramet::kernel::cpu
