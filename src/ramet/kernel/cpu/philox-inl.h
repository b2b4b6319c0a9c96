// Philox 4x32-10 for as many blocks at a time as a vector has lanes, the same numbers as base/rng.h.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_PHILOX_INL_H_
#undef RAMET_PHILOX_INL_H_
#else
#define RAMET_PHILOX_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "ramet/base/rng.h"

HWY_BEFORE_NAMESPACE();
namespace ramet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The four words of a block, one block a lane.
template <class DU>
struct PhiloxWords {
  hn::Vec<DU> word[4];
};

/// Blocks of the stream whose indices are low + 2^32 high.
template <class DU>
HWY_INLINE PhiloxWords<DU> PhiloxBlocks(DU du, const RandomStream& stream, hn::Vec<DU> low, hn::Vec<DU> high) {
#if HWY_TARGET == HWY_SCALAR
  const auto words = philox({hn::GetLane(low), hn::GetLane(high), stream.step(), stream.tensor()}, stream.key());
  return {{hn::Set(du, words[0]), hn::Set(du, words[1]), hn::Set(du, words[2]), hn::Set(du, words[3])}};
#else
  // Even and odd lanes apart, each in the low half of 64 bits: products read no more, so what stands above is left
  // there.
  const hn::RepartitionToWide<DU> dw;
  const auto upper = [&](auto wide) HWY_ATTR { return hn::BitCast(du, hn::ShiftRight<32>(wide)); };
  const auto step = hn::Set(du, stream.step()), tensor = hn::Set(du, stream.tensor());
  const auto m0 = hn::Set(du, 0xD2511F53u), m1 = hn::Set(du, 0xCD9E8D57u);
  auto even0 = low, even1 = high, even2 = step, even3 = tensor;
  auto odd0 = upper(hn::BitCast(dw, low)), odd1 = upper(hn::BitCast(dw, high)), odd2 = step, odd3 = tensor;
  uint32_t k0 = stream.key()[0], k1 = stream.key()[1];
  for (int round = 0; round < 10; ++round) {
    const auto key0 = hn::Set(du, k0), key1 = hn::Set(du, k1);
    const auto even_a = hn::MulEven(even0, m0), even_b = hn::MulEven(even2, m1);
    const auto odd_a = hn::MulEven(odd0, m0), odd_b = hn::MulEven(odd2, m1);
    even0 = hn::Xor3(upper(even_b), even1, key0);
    even2 = hn::Xor3(upper(even_a), even3, key1);
    odd0 = hn::Xor3(upper(odd_b), odd1, key0);
    odd2 = hn::Xor3(upper(odd_a), odd3, key1);
    even1 = hn::BitCast(du, even_b), even3 = hn::BitCast(du, even_a);
    odd1 = hn::BitCast(du, odd_b), odd3 = hn::BitCast(du, odd_a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const auto join = [&](auto even, auto odd) HWY_ATTR {
    return hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(hn::BitCast(dw, odd))), even);
  };
  return {{join(even0, odd0), join(even1, odd1), join(even2, odd2), join(even3, odd3)}};
#endif
}

/// Blocks first, first + stride, ... one a lane.
template <class DU>
HWY_INLINE PhiloxWords<DU> PhiloxBlocksFrom(DU du, const RandomStream& stream, uint64_t first, uint64_t stride = 1) {
  // Strides are small: the offsets of the lanes fit 32 bits, and a low half that wrapped carries 1.
  const auto start = hn::Set(du, static_cast<uint32_t>(first));
  const auto low = hn::Add(start, hn::Mul(hn::Iota(du, 0u), hn::Set(du, static_cast<uint32_t>(stride))));
  const auto carry = hn::IfThenElseZero(hn::Lt(low, start), hn::Set(du, 1u));
  return PhiloxBlocks(du, stream, low, hn::Add(hn::Set(du, static_cast<uint32_t>(first >> 32)), carry));
}

/// Most halves that PhiloxBits16 may write beyond the asked ones.
constexpr int64_t kPhiloxSlack = 8 * 16 + 8;

/// stream.bits16(first + i) for i in [0, count) -> out; `out` has room for count + kPhiloxSlack, and only what the
/// returned pointer (within `out`) begins is the answer: it starts inside a block.
inline const uint16_t* PhiloxBits16(const RandomStream& stream, uint64_t first, int64_t count, uint16_t* out) {
  const hn::ScalableTag<uint32_t> du;
  const uint64_t begin = first / 8, end = (first + static_cast<uint64_t>(count) + 7) / 8;
  uint16_t* to = out;
  for (uint64_t block = begin; block < end; block += hn::Lanes(du), to += 8 * hn::Lanes(du)) {
    const auto words = PhiloxBlocksFrom(du, stream, block);
#if HWY_TARGET == HWY_SCALAR
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = hn::GetLane(words.word[i]);
      std::memcpy(to + 2 * i, &word, 4);
    }
#else
    hn::StoreInterleaved4(words.word[0], words.word[1], words.word[2], words.word[3], du,
                          reinterpret_cast<uint32_t*>(to));
#endif
  }
  return out + first % 8;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet
HWY_AFTER_NAMESPACE();

#endif  // RAMET_PHILOX_INL_H_
