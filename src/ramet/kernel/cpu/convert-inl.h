// Loads and stores of the narrow floating types as f32 vectors, the same rounding (nearest even) at every width.
// Included once per target between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE users, as Highway's *-inl.h files are.
#if defined(RAMET_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_CONVERT_INL_H_
#undef RAMET_CONVERT_INL_H_
#else
#define RAMET_CONVERT_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "ramet/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Storage types: an integer of the width, told apart by name.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

struct F8E4M3 {
  uint8_t bits;
};
struct F8E5M2 {
  uint8_t bits;
};

/// Bits of f32 whose upper half is the value as bf16, rounded to nearest even; NaN stays (a quiet) NaN.
template <class DU, class VF>
HWY_INLINE hn::Vec<DU> RoundToBf16(DU du, VF value) {
  const hn::RebindToFloat<DU> df;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(hn::BitCast(df, bits))), quiet, rounded);
}

template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const float* from) {
  return hn::LoadU(df, from);
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const Bf16* from) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint16_t, DF> dh;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, &from->bits))));
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const F16* from) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(df, f16_to_f32(from->bits));
#else
  const hn::Rebind<uint16_t, DF> dh;
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(df, hn::BitCast(d16, hn::LoadU(dh, &from->bits)));
#endif
}

/// 8-bit floats, exactly: the code's exponent and mantissa stand where f32's do and are brought to f32's bias by a
/// product, which makes subnormals normal. Codes from `special` on are infinite or NaN.
template <int kMantissa, class DF>
HWY_INLINE hn::Vec<DF> WidenF8(DF df, const uint8_t* from, float rebias, uint32_t special, uint32_t first_nan) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint8_t, DF> db;
  const auto code = hn::PromoteTo(du, hn::LoadU(db, from));
  const auto magnitude = hn::And(code, hn::Set(du, 0x7fu));
  const auto number = hn::Mul(hn::BitCast(df, hn::ShiftLeft<23 - kMantissa>(magnitude)), hn::Set(df, rebias));
  const auto beyond = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, first_nan - 1)), hn::Set(du, 0x7fc00000u),
                                     hn::Set(du, 0x7f800000u));
  const auto bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, special - 1)), beyond, hn::BitCast(du, number));
  return hn::BitCast(df, hn::Or(bits, hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80u)))));
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const F8E4M3* from) {
  return WidenF8<3>(df, &from->bits, 0x1p120f, 0x7f, 0x7f);
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const F8E5M2* from) {
  return WidenF8<2>(df, &from->bits, 0x1p112f, 0x7c, 0x7d);
}

template <class DF>
HWY_INLINE void StoreF32(DF df, hn::Vec<DF> value, float* to) {
  hn::StoreU(value, df, to);
}
template <class DF>
HWY_INLINE void StoreF32(DF df, hn::Vec<DF> value, Bf16* to) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> dh;
  (void)df;
  // The upper half fits 16 bits, so the saturating demotion is exact.
  const auto upper = hn::BitCast(di, hn::ShiftRight<16>(RoundToBf16(du, value)));
  hn::StoreU(hn::DemoteTo(dh, upper), dh, &to->bits);
}
template <class DF>
HWY_INLINE void StoreF32(DF df, hn::Vec<DF> value, F16* to) {
  (void)df;
#if HWY_TARGET == HWY_SCALAR
  to->bits = f32_to_f16(hn::GetLane(value));  // Highway's one-lane conversion does not round
#else
  const hn::Rebind<uint16_t, DF> dh;
  const hn::Rebind<hwy::float16_t, DF> d16;
  hn::StoreU(hn::BitCast(dh, hn::DemoteTo(d16, value)), dh, &to->bits);
#endif
}

/// The first `count` lanes of a row's tail; the others are zero.
template <class DF, typename T>
HWY_INLINE hn::Vec<DF> LoadF32N(DF df, const T* from, size_t count) {
  HWY_ALIGN T tail[hn::MaxLanes(df)] = {};
  for (size_t i = 0; i < count; ++i) tail[i] = from[i];
  return LoadF32(df, tail);
}
template <class DF, typename T>
HWY_INLINE void StoreF32N(DF df, hn::Vec<DF> value, T* to, size_t count) {
  HWY_ALIGN T tail[hn::MaxLanes(df)];
  StoreF32(df, value, tail);
  for (size_t i = 0; i < count; ++i) to[i] = tail[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_CONVERT_INL_H_
