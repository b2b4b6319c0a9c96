#pragma once

#include <cstdint>

#include "ramet/kernel/cpu/attention_tile.h"

namespace ramet::kernel {

/// The 16-bit types that Hopper's tensor cores multiply.
enum class HopperType { kBf16, kF16 };

/// Products that one step of a tensor core of Hopper (sm_90) adds to one element of its result.
inline constexpr int64_t kHopperStep = 16;

/// What such a step (mma.sync or wgmma with f32 accumulators) makes of `c` and of the products of the 16 pairs a[k],
/// b[k]: the products and c are aligned to the greatest exponent of them, cut towards zero to 25 fractional bits, and
/// added without error; the sum is cut towards zero to f32. No order within the 16 shows. The exponent of a product is
/// the sum of its factors' exponents, that of zero is -126; subnormal numbers take part. A result of zero
/// has no sign; NaN has the bits 7fffffff.
///
/// The arithmetic is that of MMA-Sim (Li et al., arXiv 2511.10909, section 4; microsoft/MMA-Sim), whose authors
/// compared it with a card.
float hopper_step(HopperType type, const uint16_t* a, const uint16_t* b, float c);

/// c (+)= a x b, where the 32-bit units of a and b are pairs of `type`, each element by steps over k in order. A last
/// step of fewer than 16 has zeros behind. All columns are computed by AVX-512 where the processor has it.
void hopper_product(HopperType type, const TileProduct& product);

/// The two ways of `hopper_product`, with the same bits. The second is only for processors with AVX-512.
void hopper_product_plain(HopperType type, const TileProduct& product);
void hopper_product_avx512(HopperType type, const TileProduct& product);

}  // namespace ramet::kernel
