// f32 vectors to and from the codes of narrow floats, as base/rounding.h defines them.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_ROUNDING_INL_H_
#undef RAMET_ROUNDING_INL_H_
#else
#define RAMET_ROUNDING_INL_H_
#endif

#include <type_traits>

#include <hwy/highway.h>

#include "ramet/base/rounding.h"
#include "ramet/kernel/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The formats as types; the numbers are those of base/rounding.cc.
struct HalfFormat {
  static constexpr FloatFormat kFormat{5, 10, 15, true};
  using Code = uint16_t;
};
struct BrainFormat {
  static constexpr FloatFormat kFormat{8, 7, 127, true};
  using Code = uint16_t;
};
struct E4M3Format {
  static constexpr FloatFormat kFormat{4, 3, 7, false};
  using Code = uint8_t;
};
struct E5M2Format {
  static constexpr FloatFormat kFormat{5, 2, 15, true};
  using Code = uint8_t;
};

constexpr float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23); }

/// Codes of f32 numbers, one a lane of 32 bits. `draws` of 16 bits a lane are read when kDraws.
template <class Format, bool kDraws, class DF, class VU = hn::Vec<hn::RebindToUnsigned<DF>>>
HWY_INLINE VU NarrowCodes(DF df, hn::Vec<DF> value, VU draws, VU over) {
  constexpr FloatFormat kFormat = Format::kFormat;
  constexpr int kBits = kFormat.mantissa_bits, kLost = 23 - kBits;
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::ShiftLeft<kFormat.width()>(hn::ShiftRight<31>(bits));
  // Numbers with all mantissa bits: the bits that are dropped carry into those that are kept.
  auto term = draws;
  if constexpr (!kDraws) {
    term = hn::Add(hn::And(hn::ShiftRight<kLost>(magnitude), hn::Set(du, 1u)), hn::Set(du, (1u << (kLost - 1)) - 1));
  } else {
    const auto other = hn::Xor(draws, hn::Set(du, 0xffffu));
    if constexpr (kLost <= 16)
      term = hn::ShiftRight<16 - kLost>(other);
    else
      term = hn::Add(hn::ShiftLeft<kLost - 16>(other), hn::Set(du, (1u << (kLost - 17)) - 1));
  }
  auto code = hn::ShiftRight<kLost>(hn::Add(magnitude, term));
  if constexpr (kFormat.bias != 127) {
    code = hn::Sub(code, hn::Set(du, static_cast<uint32_t>(127 - kFormat.bias) << kBits));
    // Subnormals: the code is the number in units of the least one.
    const auto least = hn::Set(du, static_cast<uint32_t>(127 + kFormat.least_exponent()) << 23);
    // Zeros need no more than this. States of table rows that were not looked up are full of them.
    code = hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(du)), code);
    const auto small = hn::Lt(hn::Sub(magnitude, hn::Set(du, 1u)), hn::Sub(least, hn::Set(du, 1u)));
    if (!hn::AllFalse(du, small)) {
      const auto absolute = hn::BitCast(df, magnitude);
      auto units = code;
      if constexpr (!kDraws) {
        // Beside this number f32 has the unit as its distance, and rounds to nearest even itself.
        const auto base = hn::Set(df, power_of_two(23 + kFormat.least_exponent() - kBits));
        units = hn::Sub(hn::BitCast(du, hn::Add(absolute, base)), hn::BitCast(du, base));
      } else {
        const auto scaled = hn::Mul(absolute, hn::Set(df, power_of_two(kBits - kFormat.least_exponent())));
        const hn::RebindToSigned<DF> di;
        const auto whole = hn::ConvertTo(di, hn::IfThenElseZero(hn::RebindMask(df, small), scaled));
        const auto fraction = hn::Sub(scaled, hn::ConvertTo(df, whole));
        const auto drawn = hn::ConvertTo(df, hn::BitCast(di, hn::Add(hn::Add(draws, draws), hn::Set(du, 1u))));
        const auto limit = hn::Mul(drawn, hn::Set(df, 0x1p-17f));
        const auto up = hn::IfThenElseZero(hn::RebindMask(du, hn::Lt(limit, fraction)), hn::Set(du, 1u));
        units = hn::Add(hn::BitCast(du, whole), up);
      }
      code = hn::IfThenElse(small, units, code);
    }
  }
  const auto infinite = hn::Set(du, 0x7f800000u);
  // An infinity's code is beyond the largest, or, where a wide format wraps, is caught by itself.
  const auto beyond = hn::Or(hn::Gt(code, hn::Set(du, kFormat.largest())), hn::Eq(magnitude, infinite));
  code = hn::IfThenElse(beyond, over, code);
  code = hn::IfThenElse(hn::Gt(magnitude, infinite), hn::Set(du, kFormat.nan()), code);
  return hn::Or(code, sign);
}

/// Stores the low halves or bytes of lanes.
template <class DU>
HWY_INLINE void StoreCodes(DU, hn::Vec<DU> codes, uint16_t* to) {
  const hn::RebindToSigned<DU> di;
  const hn::Rebind<uint16_t, DU> dh;
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, codes)), dh, to);
}
template <class DU>
HWY_INLINE void StoreCodes(DU, hn::Vec<DU> codes, uint8_t* to) {
  const hn::RebindToSigned<DU> di;
  const hn::Rebind<uint8_t, DU> db;
  hn::StoreU(hn::DemoteTo(db, hn::BitCast(di, codes)), db, to);
}

#if HWY_TARGET != HWY_SCALAR
/// The f16 numbers, as f32, that numbers within f16's range are rounded to stochastically: normal ones are carried and
/// cut off, others become multiples of the least one. The same numbers as NarrowCodes', which needs no conversion.
template <class DF, class VU = hn::Vec<hn::RebindToUnsigned<DF>>>
HWY_INLINE hn::Vec<DF> DrawnHalves(DF df, hn::Vec<DF> value, VU draws) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const auto bits = hn::BitCast(du, value), one = hn::Set(du, 1u);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto carried = hn::Add(bits, hn::ShiftRight<3>(hn::Xor(draws, hn::Set(du, 0xffffu))));
  const auto normal = hn::BitCast(df, hn::And(carried, hn::Set(du, ~0x1fffu)));
  const auto small = hn::Lt(hn::Sub(magnitude, one), hn::Sub(hn::Set(du, 0x38800000u), one));  // and not 0
  if (hn::AllFalse(du, small)) return normal;
  const auto scaled = hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p24f));
  const auto whole = hn::Floor(scaled);
  const auto drawn = hn::ConvertTo(df, hn::BitCast(di, hn::Add(hn::Add(draws, draws), one)));
  const auto up = hn::Lt(hn::Mul(drawn, hn::Set(df, 0x1p-17f)), hn::Sub(scaled, whole));
  const auto units = hn::Add(whole, hn::IfThenElseZero(up, hn::Set(df, 1.0f)));
  const auto subnormal = hn::CopySign(hn::Mul(units, hn::Set(df, 0x1p-24f)), value);
  return hn::IfThenElse(hn::RebindMask(df, small), subnormal, normal);
}
#endif

/// Numbers rounded to the format, stored.
template <class Format, bool kDraws, class DF, class VU = hn::Vec<hn::RebindToUnsigned<DF>>>
HWY_INLINE void StoreNarrow(DF df, hn::Vec<DF> value, VU draws, VU over, typename Format::Code* to) {
  const hn::RebindToUnsigned<DF> du;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kDraws && std::is_same_v<Format, HalfFormat>) {
    const auto magnitude = hn::And(hn::BitCast(du, value), hn::Set(du, 0x7fffffffu));
    if (hn::AllFalse(du, hn::Gt(magnitude, hn::Set(du, 0x477fdfffu)))) {  // all below the largest
      const hn::Rebind<uint16_t, DF> dh;
      const hn::Rebind<hwy::float16_t, DF> d16;
      hn::StoreU(hn::BitCast(dh, hn::DemoteTo(d16, DrawnHalves(df, value, draws))), dh, to);
      return;
    }
  }
#endif
  StoreCodes(du, NarrowCodes<Format, kDraws>(df, value, draws, over), to);
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_ROUNDING_INL_H_
