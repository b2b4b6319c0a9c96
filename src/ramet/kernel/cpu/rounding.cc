// Conversions between f32 and narrower floats: bound by memory.

#include "ramet/kernel/cpu/rounding.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/rounding.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/philox-inl.h"
#include "ramet/kernel/cpu/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using Df = hn::ScalableTag<float>;
using Du = hn::RebindToUnsigned<Df>;

/// Elements behind `done` whole vectors: fewer than a vector has lanes.
HWY_INLINE size_t rest_of(int64_t count, int64_t done) {
  return std::min<size_t>(static_cast<size_t>(count - done), hn::MaxLanes(Df()));
}

/// state_stored and state_value (ops/rounding.h) of an f16 state.
template <StateRole kRole>
HWY_INLINE hn::Vec<Df> StateStored(hn::Vec<Df> value) {
  if constexpr (kRole == StateRole::kPlain) return value;
  if constexpr (kRole == StateRole::kSquare) value = hn::Sqrt(value);
  return hn::Mul(value, hn::Set(Df(), kHalfStateScale));
}
template <StateRole kRole>
HWY_INLINE hn::Vec<Df> StateValue(hn::Vec<Df> stored) {
  if constexpr (kRole == StateRole::kPlain) return stored;
  const auto value = hn::Mul(stored, hn::Set(Df(), 1 / kHalfStateScale));
  return kRole == StateRole::kSquare ? hn::Mul(value, value) : value;
}

template <class Format, bool kDraws, StateRole kRole>
void narrow_to(const float* from, int64_t count, typename Format::Code* to, const uint16_t* draws, bool saturate) {
  using Code = typename Format::Code;
  const Df df;
  const Du du;
  const hn::Rebind<uint16_t, Df> dh;
  const auto over = hn::Set(du, saturate ? Format::kFormat.largest() : Format::kFormat.infinity());
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto store = [&](const float* at, const uint16_t* bits, Code* out) HWY_ATTR {
    auto drawn = over;
    if constexpr (kDraws) drawn = hn::PromoteTo(du, hn::LoadU(dh, bits));
    StoreNarrow<Format, kDraws>(df, StateStored<kRole>(hn::LoadU(df, at)), drawn, over, out);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(from + i, kDraws ? draws + i : nullptr, to + i);
  if (i >= count) return;
  HWY_ALIGN float rest[hn::MaxLanes(Df())] = {};
  HWY_ALIGN uint16_t bits[hn::MaxLanes(Df())] = {};
  HWY_ALIGN Code out[hn::MaxLanes(Df())];
  const size_t left = rest_of(count, i);
  std::memcpy(rest, from + i, left * 4);
  if (kDraws) std::memcpy(bits, draws + i, left * 2);
  store(rest, bits, out);
  std::memcpy(to + i, out, left * sizeof(Code));
}

template <class Format, StateRole kRole = StateRole::kPlain>
void narrow_any(const float* from, int64_t count, void* to, const uint16_t* draws, bool saturate) {
  auto* codes = static_cast<typename Format::Code*>(to);
  if (draws)
    narrow_to<Format, true, kRole>(from, count, codes, draws, saturate);
  else
    narrow_to<Format, false, kRole>(from, count, codes, draws, saturate);
}

void narrow(DType type, const float* from, int64_t count, void* to, const uint16_t* draws, bool saturate) {
  switch (type) {
    case DType::kF16: return narrow_any<HalfFormat>(from, count, to, draws, saturate);
    case DType::kBF16: return narrow_any<BrainFormat>(from, count, to, draws, saturate);
    case DType::kF8E4M3: return narrow_any<E4M3Format>(from, count, to, draws, saturate);
    case DType::kF8E5M2: return narrow_any<E5M2Format>(from, count, to, draws, saturate);
    case DType::kF32: std::memcpy(to, from, static_cast<size_t>(count) * 4); return;
    default: internal_error("narrow", "no floating type");
  }
}

void narrow_state(DType type, StateRole role, const float* from, int64_t count, void* to, const uint16_t* draws,
                  bool saturate) {
  if (type != DType::kF16 || role == StateRole::kPlain) return narrow(type, from, count, to, draws, saturate);
  if (role == StateRole::kMoment) return narrow_any<HalfFormat, StateRole::kMoment>(from, count, to, draws, saturate);
  narrow_any<HalfFormat, StateRole::kSquare>(from, count, to, draws, saturate);
}

template <StateRole kRole = StateRole::kPlain, typename T>
void widen_each(const T* from, int64_t count, float* to) {
  const Df df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(StateValue<kRole>(LoadF32(df, from + i)), df, to + i);
  if (i >= count) return;
  HWY_ALIGN T rest[hn::MaxLanes(Df())] = {};
  HWY_ALIGN float out[hn::MaxLanes(Df())];
  const size_t left = rest_of(count, i);
  std::memcpy(rest, from + i, left * sizeof(T));
  hn::Store(StateValue<kRole>(LoadF32(df, static_cast<const T*>(rest))), df, out);
  std::memcpy(to + i, out, left * 4);
}

void widen(DType type, const void* from, int64_t count, float* to) {
  switch (type) {
    case DType::kF32: std::memcpy(to, from, static_cast<size_t>(count) * 4); return;
    case DType::kF16: return widen_each(static_cast<const F16*>(from), count, to);
    case DType::kBF16: return widen_each(static_cast<const Bf16*>(from), count, to);
    case DType::kF8E4M3: return widen_each(static_cast<const F8E4M3*>(from), count, to);
    case DType::kF8E5M2: return widen_each(static_cast<const F8E5M2*>(from), count, to);
    default: internal_error("widen", "no floating type");
  }
}

void widen_state(DType type, StateRole role, const void* from, int64_t count, float* to) {
  if (type != DType::kF16 || role == StateRole::kPlain) return widen(type, from, count, to);
  const auto* codes = static_cast<const F16*>(from);
  if (role == StateRole::kMoment) return widen_each<StateRole::kMoment>(codes, count, to);
  widen_each<StateRole::kSquare>(codes, count, to);
}

void split(const float* from, int64_t count, uint16_t* high, uint16_t* low) {
  const Df df;
  const Du du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(du, hn::LoadU(df, from + i));
    const auto nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7fffffffu)), hn::Set(du, 0x7f800000u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Set(du, 0x8000u)));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    StoreCodes(du, hn::IfThenElse(nan, quiet, rounded), high + i);
    StoreCodes(du, hn::IfThenZeroElse(nan, hn::And(bits, hn::Set(du, 0xffffu))), low + i);
  }
  for (; i < count; ++i) {
    const SplitFloat halves = split_f32(from[i]);
    high[i] = halves.high, low[i] = halves.low;
  }
}

void join(const uint16_t* high, const uint16_t* low, int64_t count, float* to) {
  const Df df;
  const Du du;
  const hn::RebindToSigned<Df> di;
  const hn::Rebind<uint16_t, Df> dh;
  const hn::Rebind<int16_t, Df> ds;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, high + i)));
    const auto lower = hn::PromoteTo(di, hn::BitCast(ds, hn::LoadU(dh, low + i)));
    hn::StoreU(hn::BitCast(df, hn::Add(upper, hn::BitCast(du, lower))), df, to + i);
  }
  for (; i < count; ++i) to[i] = join_f32({high[i], low[i]});
}

const uint16_t* draw(const RandomStream& stream, uint64_t first, int64_t count, uint16_t* room) {
  return PhiloxBits16(stream, first, count, room);
}

void multiply_draws(uint16_t factor, const uint16_t* draws, int64_t count, uint16_t* to) {
  const hn::ScalableTag<uint16_t> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(dh));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(dh, draws + i), hn::Set(dh, factor)), dh, to + i);
  for (; i < count; ++i) to[i] = static_cast<uint16_t>(draws[i] * factor);
}

constexpr cpu::RoundingLoops kRoundingLoops{narrow, widen, narrow_state, widen_state,
                                            split,  join,  draw,         multiply_draws};

}  // namespace

const cpu::RoundingLoops* GetRoundingLoops() { return &kRoundingLoops; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetRoundingLoops);

const cpu::RoundingLoops& cpu::rounding_loops() {
  static const RoundingLoops* const loops = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetRoundingLoops)());
  return *loops;
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
