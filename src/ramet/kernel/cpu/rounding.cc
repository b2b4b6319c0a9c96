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
namespace ramet {
namespace HWY_NAMESPACE {
namespace {

using Df = hn::ScalableTag<float>;
using Du = hn::RebindToUnsigned<Df>;

/// Elements behind `done` whole vectors: fewer than a vector has lanes.
HWY_INLINE size_t rest_of(int64_t count, int64_t done) {
  return std::min<size_t>(static_cast<size_t>(count - done), hn::MaxLanes(Df()));
}

template <class Format, bool kDraws>
void narrow_to(const float* from, int64_t count, typename Format::Code* to, const uint16_t* draws, bool saturate) {
  using Code = typename Format::Code;
  const Df df;
  const Du du;
  const hn::Rebind<uint16_t, Df> dh;
  const auto over = hn::Set(du, saturate ? Format::kFormat.largest() : Format::kFormat.infinity());
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto codes = [&](const float* at, const uint16_t* bits) HWY_ATTR {
    if constexpr (kDraws) return NarrowCodes<Format, true>(df, hn::LoadU(df, at), hn::PromoteTo(du, hn::LoadU(dh, bits)), over);
    else return NarrowCodes<Format, false>(df, hn::LoadU(df, at), over, over);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) StoreCodes(du, codes(from + i, kDraws ? draws + i : nullptr), to + i);
  if (i >= count) return;
  HWY_ALIGN float rest[hn::MaxLanes(Df())] = {};
  HWY_ALIGN uint16_t bits[hn::MaxLanes(Df())] = {};
  HWY_ALIGN Code out[hn::MaxLanes(Df())];
  const size_t left = rest_of(count, i);
  std::memcpy(rest, from + i, left * 4);
  if (kDraws) std::memcpy(bits, draws + i, left * 2);
  StoreCodes(du, codes(rest, bits), out);
  std::memcpy(to + i, out, left * sizeof(Code));
}

template <class Format>
void narrow_any(const float* from, int64_t count, void* to, const uint16_t* draws, bool saturate) {
  auto* codes = static_cast<typename Format::Code*>(to);
  if (draws)
    narrow_to<Format, true>(from, count, codes, draws, saturate);
  else
    narrow_to<Format, false>(from, count, codes, draws, saturate);
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

template <typename T>
void widen_each(const T* from, int64_t count, float* to) {
  const Df df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadF32(df, from + i), df, to + i);
  if (i >= count) return;
  HWY_ALIGN T rest[hn::MaxLanes(Df())] = {};
  HWY_ALIGN float out[hn::MaxLanes(Df())];
  const size_t left = rest_of(count, i);
  std::memcpy(rest, from + i, left * sizeof(T));
  hn::Store(LoadF32(df, static_cast<const T*>(rest)), df, out);
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

/// Calls `change` on each vector of `values`.
template <typename Change>
void change_each(float* values, int64_t count, const Change& change) {
  const Df df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(change(hn::LoadU(df, values + i)), df, values + i);
  if (i >= count) return;
  HWY_ALIGN float rest[hn::MaxLanes(Df())] = {};
  const size_t left = rest_of(count, i);
  std::memcpy(rest, values + i, left * 4);
  hn::Store(change(hn::Load(df, rest)), df, rest);
  std::memcpy(values + i, rest, left * 4);
}

void half_values(bool square, float* values, int64_t count) {
  const auto scale = hn::Set(Df(), 1 / kHalfStateScale);
  change_each(values, count, [&](hn::Vec<Df> value) HWY_ATTR {
    const auto scaled = hn::Mul(value, scale);
    return square ? hn::Mul(scaled, scaled) : scaled;
  });
}

void half_stored(bool square, float* values, int64_t count) {
  const auto scale = hn::Set(Df(), kHalfStateScale);
  change_each(values, count, [&](hn::Vec<Df> value) HWY_ATTR {
    return hn::Mul(square ? hn::Sqrt(value) : value, scale);
  });
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

constexpr cpu::RoundingLoops kRoundingLoops{narrow, widen, half_values, half_stored, split, join, draw};

}  // namespace

const cpu::RoundingLoops* GetRoundingLoops() { return &kRoundingLoops; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet {
HWY_EXPORT(GetRoundingLoops);

const cpu::RoundingLoops& cpu::rounding_loops() {
  static const RoundingLoops* const loops = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetRoundingLoops)());
  return *loops;
}

}  // namespace ramet
#endif  // HWY_ONCE
