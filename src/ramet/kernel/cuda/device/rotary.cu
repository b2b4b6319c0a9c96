#include "divider.cuh"
#include "packs.cuh"
#include "rotary_arguments.h"

// Rotation of pairs in the heads of queries and keys. Definitions: Type, kPairs (that a thread has), kNeighbours,
// kEvenHeads (heads begin at even elements), kFewPacks.

namespace ramet_device {

/// The pairs from `first` on of a head.
__device__ __forceinline__ void rotate_pairs(const RotaryArguments& a, Index head, Index angle, Index first) {
  float cosine[kPairs], sine[kPairs], from[2 * kPairs], to[2 * kPairs];
  load_pack<F32, kPairs>(a.cosine, angle + first, kPairs, cosine);
  load_pack<F32, kPairs>(a.sine, angle + first, kPairs, sine);
  if (kNeighbours && kEvenHeads) {
    load_pack<Type, 2 * kPairs>(a.a, head + 2 * first, 2 * kPairs, from);
  } else if (kNeighbours) {
    load_strided<Type, 2 * kPairs>(a.a, head + 2 * first, 1, 2 * kPairs, from);
  } else {
    load_pack<Type, kPairs>(a.a, head + first, kPairs, from);
    load_pack<Type, kPairs>(a.a, head + a.pairs + first, kPairs, from + kPairs);
  }
  RAMET_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    const int one = kNeighbours ? 2 * i : i, other = kNeighbours ? one + 1 : i + kPairs;
    const float x = from[one], y = from[other], s = sine[i] * a.sign;
    to[one] = __fmaf_rn(-y, s, x * cosine[i]);
    to[other] = __fmaf_rn(x, s, y * cosine[i]);
  }
  if (kNeighbours && kEvenHeads) {
    store_pack<Type, 2 * kPairs>(a.out, head + 2 * first, 2 * kPairs, to);
  } else if (kNeighbours) {
    RAMET_UNROLL
    for (int i = 0; i < 2 * kPairs; ++i) store_one<Type>(a.out, head + 2 * first + i, to[i]);
  } else {
    store_pack<Type, kPairs>(a.out, head + first, kPairs, to);
    store_pack<Type, kPairs>(a.out, head + a.pairs + first, kPairs, to + kPairs);
  }
}

RAMET_KERNEL(256, rotate, RotaryArguments, a) {
  const Index pair_packs = a.pairs / kPairs;
  for (Index work = first_index(); work < a.packs; work += index_step()) {
    Index head = work;  // of all positions
    const Index pack = take_digit<kFewPacks>(head, a.head_packs);
    Index sample = quotient<kFewPacks>(head, a.heads);
    const Index place = take_digit<kFewPacks>(sample, a.sequence);
    const Index at = head * a.head_size;
    if (pack < pair_packs) {
      rotate_pairs(a, at, sample * a.sample_stride + place * a.pairs, pack * kPairs);
      continue;
    }
    const auto* from = static_cast<const Type::Stored*>(a.a) + at;
    auto* to = static_cast<Type::Stored*>(a.out) + at;
    const Index first = 2 * a.pairs + (pack - pair_packs) * kPairs;
    for (Index i = first; i < first + kPairs && i < a.head_size; ++i) to[i] = from[i];
  }
}

}  // namespace ramet_device
