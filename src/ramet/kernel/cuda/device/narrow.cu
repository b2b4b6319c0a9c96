// Whole tensors rounded, alone or as a sum of two. Compiled with Sum, Term and Result, types of convert.cuh; kRandom (0
// or 1): whether numbers are rounded by random bits; kBounded (0 or 1): whether overflow gives the greatest number.

#include "states.cuh"

namespace ramet_device {

RAMET_KERNEL(256, narrow, NarrowArguments, a) {
  constexpr bool kDrawn = kRandom != 0, kSaturates = kBounded != 0;
  const DrawSource<kDrawn> source(a.rounding);
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    float term[kGroup], sum[kGroup] = {};
    load_state<Term, kPlain>(a.term, group, term);
    if (a.sum) load_state<Sum, kPlain>(a.sum, group, sum);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) {
      const float scaled = a.scale * term[k];
      sum[k] = a.sum ? sum[k] + scaled : scaled;
    }
    store_state<Result, kPlain, kDrawn, kSaturates>(sum, a.out, group, source.of(group), 1u);
  }
}

RAMET_KERNEL(256, join_halves, HalvesArguments, a) {
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    float whole[kGroup];
    load_weight<BF16, true>(a.high, a.low, group, whole);
    store_state<F32, kPlain, false>(whole, a.whole, group, {}, 1u);
  }
}

RAMET_KERNEL(256, split_halves, HalvesArguments, a) {
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    float whole[kGroup];
    load_state<F32, kPlain>(a.whole, group, whole);
    store_weight<BF16, true, false>(whole, a.high, a.low, group, {});
  }
}

}  // namespace ramet_device
