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
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The four words of a block, one block a lane.
template <class DU>
struct PhiloxWords {
  hn::Vec<DU> word[4];
};

/// Keys of the rounds.
struct PhiloxKeys {
  uint32_t of[10][2];
  explicit PhiloxKeys(const RandomStream& stream) {
    for (uint32_t round = 0; round < 10; ++round) {
      of[round][0] = stream.key()[0] + round * 0x9E3779B9u;
      of[round][1] = stream.key()[1] + round * 0xBB67AE85u;
    }
  }
};

#if HWY_TARGET != HWY_SCALAR
/// The ten rounds, of as many blocks as there are lanes of 64 bits in each of `even` and `odd`. Words stand in the low
/// halves: products read no more, so what stands above is left there.
template <class DU>
HWY_INLINE void PhiloxRounds(DU du, const PhiloxKeys& keys, PhiloxWords<DU>& even, PhiloxWords<DU>& odd) {
  const auto m0 = hn::Set(du, 0xD2511F53u), m1 = hn::Set(du, 0xCD9E8D57u);
  HWY_UNROLL(10)
  for (int round = 0; round < 10; ++round) {
    const auto key0 = hn::Set(du, keys.of[round][0]), key1 = hn::Set(du, keys.of[round][1]);
    const auto mix = [&](auto& word) HWY_ATTR {
      const auto a = hn::MulEven(word[0], m0), b = hn::MulEven(word[2], m1);
      word[0] = hn::Xor3(hn::BitCast(du, hn::ShiftRight<32>(b)), word[1], key0);
      word[2] = hn::Xor3(hn::BitCast(du, hn::ShiftRight<32>(a)), word[3], key1);
      word[1] = hn::BitCast(du, b), word[3] = hn::BitCast(du, a);
    };
    mix(even.word);
    mix(odd.word);
  }
}

/// Low halves of `low`, and those of `high` above them.
template <class DU>
HWY_INLINE hn::Vec<DU> JoinWords(DU du, hn::Vec<DU> low, hn::Vec<DU> high) {
  const hn::RepartitionToWide<DU> dw;
  return hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(hn::BitCast(dw, high))), low);
}
#endif

/// Blocks of the stream whose indices are low + 2^32 high.
template <class DU>
HWY_INLINE PhiloxWords<DU> PhiloxBlocks(DU du, const RandomStream& stream, hn::Vec<DU> low, hn::Vec<DU> high) {
#if HWY_TARGET == HWY_SCALAR
  const auto words = philox({hn::GetLane(low), hn::GetLane(high), stream.step(), stream.tensor()}, stream.key());
  return {{hn::Set(du, words[0]), hn::Set(du, words[1]), hn::Set(du, words[2]), hn::Set(du, words[3])}};
#else
  const hn::RepartitionToWide<DU> dw;
  const auto upper = [&](auto wide) HWY_ATTR { return hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, wide))); };
  const auto step = hn::Set(du, stream.step()), tensor = hn::Set(du, stream.tensor());
  PhiloxWords<DU> even{{low, high, step, tensor}}, odd{{upper(low), upper(high), step, tensor}};
  PhiloxRounds(du, PhiloxKeys(stream), even, odd);
  PhiloxWords<DU> words;
  for (int i = 0; i < 4; ++i) words.word[i] = JoinWords(du, even.word[i], odd.word[i]);
  return words;
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

/// The halves of blocks begin to end - 1 (or up to kPhiloxSlack halves more) of the stream whose keys they are, in
/// their order. Apart from its caller, so that keys are read where they are used and not made anew.
HWY_NOINLINE inline void PhiloxFill(const RandomStream& stream, const PhiloxKeys& keys, uint64_t begin, uint64_t end,
                                    uint16_t* to) {
#if HWY_TARGET == HWY_SCALAR
  (void)keys;
  for (uint64_t block = begin; block < end; ++block, to += 8) {
    const auto words = stream.block(block);
    std::memcpy(to, words.data(), 16);
  }
#else
  using Du = hn::ScalableTag<uint32_t>;
  const Du du;
  const hn::RepartitionToWide<Du> dw;
  // Lanes take the blocks in such an order that pairs of words, interleaved within 128 bits, are in theirs.
  const uint64_t lanes = hn::Lanes(dw);
  const auto index = hn::Iota(dw, uint64_t{0}), one = hn::Set(dw, uint64_t{1});
  const auto second = hn::IfThenElseZero(hn::Eq(hn::And(index, one), one), hn::Set(dw, lanes / 2));
  const auto order = hn::Add(hn::ShiftRight<1>(index), second);
  const auto step = hn::Set(du, stream.step()), tensor = hn::Set(du, stream.tensor());
  const auto words_of = [&](auto block) HWY_ATTR {
    return PhiloxWords<Du>{{hn::BitCast(du, block), hn::BitCast(du, hn::ShiftRight<32>(block)), step, tensor}};
  };
  const auto store = [&](const auto& words, uint16_t* at) HWY_ATTR {
    const auto front = hn::BitCast(dw, JoinWords(du, words.word[0], words.word[1]));
    const auto back = hn::BitCast(dw, JoinWords(du, words.word[2], words.word[3]));
    hn::StoreU(hn::InterleaveLower(dw, front, back), dw, reinterpret_cast<uint64_t*>(at));
    hn::StoreU(hn::InterleaveUpper(dw, front, back), dw, reinterpret_cast<uint64_t*>(at + 4 * lanes));
  };
  for (uint64_t block = begin; block < end; block += 2 * lanes, to += 16 * lanes) {
    const auto blocks = hn::Add(hn::Set(dw, block), order);
    auto even = words_of(blocks), odd = words_of(hn::Add(blocks, hn::Set(dw, lanes)));
    PhiloxRounds(du, keys, even, odd);
    store(even, to);
    store(odd, to + 8 * lanes);
  }
#endif
}

/// stream.bits16(first + i) for i in [0, count) -> out; `out` has room for count + kPhiloxSlack, and only what the
/// returned pointer (within `out`) begins is the answer: it starts inside a block.
inline const uint16_t* PhiloxBits16(const RandomStream& stream, uint64_t first, int64_t count, uint16_t* out) {
  PhiloxFill(stream, PhiloxKeys(stream), first / 8, (first + static_cast<uint64_t>(count) + 7) / 8, out);
  return out + first % 8;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_PHILOX_INL_H_
