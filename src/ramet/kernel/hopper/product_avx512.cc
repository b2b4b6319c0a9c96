// GCC 12 warns of its own header: _mm512_undefined_epi32 is undefined on purpose (GCC's bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>

#include "ramet/kernel/hopper/product.h"

namespace ramet::kernel {
namespace {

constexpr int kSteps = static_cast<int>(kHopperStep);
constexpr int64_t kUnitsOfStep = kHopperStep / 2;
constexpr int64_t kLanes = 16;
constexpr int64_t kRows = 32;  // rows whose parts are kept for all columns of a step

/// What the vector code needs to know of a type. A product of two significands, the first shifted left by `left` and
/// the second by `right`, has 25 fractional bits.
struct Format {
  int digits, exponent_bits, bias, left, right;
};
constexpr Format kFormats[] = {{7, 8, 127, 4, 7}, {10, 5, 15, 2, 3}};

/// The values of a step of sixteen rows or columns, one a lane: signed significands in the lower 16 bits, exponents.
struct Parts {
  __m512i significand, exponent;
};

/// Of 16-bit values in the lower halves of lanes. `special` gets the lanes that are infinite or NaN, in addition.
inline Parts parts_of(__m512i bits, const Format& format, int shift, __mmask16* special) {
  const __m512i one = _mm512_set1_epi32(1), most = _mm512_set1_epi32((1 << format.exponent_bits) - 1);
  const __m128i digits = _mm_cvtsi32_si128(format.digits);
  const __m512i field = _mm512_and_si512(_mm512_srl_epi32(bits, digits), most);
  const __m512i fraction = _mm512_and_si512(bits, _mm512_set1_epi32((1 << format.digits) - 1));
  const __mmask16 normal = _mm512_test_epi32_mask(field, field);
  const __m512i magnitude = _mm512_mask_or_epi32(fraction, normal, fraction, _mm512_sll_epi32(one, digits));
  *special = static_cast<__mmask16>(*special | _mm512_cmpeq_epi32_mask(field, most));
  const __mmask16 negative = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x8000));
  const __m512i shifted = _mm512_sll_epi32(magnitude, _mm_cvtsi32_si128(shift));
  Parts parts;
  parts.significand = _mm512_and_si512(_mm512_mask_sub_epi32(shifted, negative, _mm512_setzero_si512(), shifted),
                                       _mm512_set1_epi32(0xffff));
  parts.exponent = _mm512_mask_sub_epi32(_mm512_set1_epi32(-126), _mm512_test_epi32_mask(magnitude, magnitude),
                                         _mm512_max_epi32(field, one), _mm512_set1_epi32(format.bias));
  return parts;
}

/// The values that one step takes of some rows.
struct Rows {
  alignas(64) int32_t significands[kRows][kSteps], exponents[kRows][kSteps];
  bool special[kRows];
};

/// Sixteen columns of one step.
struct Columns {
  Parts parts[kSteps];
  __mmask16 special;
};

/// `count` units of the step, zeros behind.
void fill_rows(const TileProduct& p, const Format& format, int64_t first, int64_t rows, int64_t k, int64_t count,
               Rows* to) {
  const __m512i pick = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  const __m512i halves = _mm512_set_epi32(16, 0, 16, 0, 16, 0, 16, 0, 16, 0, 16, 0, 16, 0, 16, 0);
  const auto loaded = static_cast<__mmask16>((1u << count) - 1);
  for (int64_t i = 0; i < rows; ++i) {
    const __m512i units = _mm512_maskz_loadu_epi32(loaded, p.a + (first + i) * p.a_stride + k);
    const __m512i values =
        _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi32(pick, units), halves), _mm512_set1_epi32(0xffff));
    __mmask16 special = 0;
    const Parts parts = parts_of(values, format, format.left, &special);
    _mm512_store_si512(to->significands[i], parts.significand);
    _mm512_store_si512(to->exponents[i], parts.exponent);
    to->special[i] = special != 0;
  }
}

void fill_columns(const uint32_t* b, const Format& format, int64_t count, Columns* to) {
  to->special = 0;
  for (int64_t unit = 0; unit < kUnitsOfStep; ++unit) {
    const __m512i pairs = unit < count ? _mm512_loadu_si512(b + unit * kPanel) : _mm512_setzero_si512();
    to->parts[2 * unit] =
        parts_of(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff)), format, format.right, &to->special);
    to->parts[2 * unit + 1] = parts_of(_mm512_srli_epi32(pairs, 16), format, format.right, &to->special);
  }
}

/// One step of one row and sixteen columns, all finite.
inline __m512 step(const int32_t* significands, const int32_t* exponents, const Columns& columns, __m512 c) {
  const __m512i bits = _mm512_castps_si512(c);
  const __m512i field = _mm512_and_si512(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(255));
  const __m512i fraction = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffff));
  const __m512i own =
      _mm512_mask_or_epi32(fraction, _mm512_test_epi32_mask(field, field), fraction, _mm512_set1_epi32(0x800000));
  const __m512i own_exponent = _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)), _mm512_set1_epi32(127));
  __m512i most = own_exponent;
  for (int k = 0; k < kSteps; ++k)
    most = _mm512_max_epi32(most, _mm512_add_epi32(_mm512_set1_epi32(exponents[k]), columns.parts[k].exponent));
  const __mmask16 own_minus = _mm512_movepi32_mask(bits);
  // A shift by more than 31 gives 0.
  const __m512i own_cut = _mm512_srlv_epi32(_mm512_slli_epi32(own, 2), _mm512_sub_epi32(most, own_exponent));
  __m512i all = own_cut, minuses = _mm512_maskz_mov_epi32(own_minus, own_cut);
  for (int k = 0; k < kSteps; ++k) {
    const __m512i product = _mm512_madd_epi16(_mm512_set1_epi32(significands[k]), columns.parts[k].significand);
    const __m512i exponent = _mm512_add_epi32(_mm512_set1_epi32(exponents[k]), columns.parts[k].exponent);
    const __m512i cut = _mm512_srlv_epi32(_mm512_abs_epi32(product), _mm512_sub_epi32(most, exponent));
    all = _mm512_add_epi32(all, cut);
    minuses = _mm512_mask_add_epi32(minuses, _mm512_movepi32_mask(product), minuses, cut);
  }
  const __m512i pluses = _mm512_sub_epi32(all, minuses);  // `all` is less than 2^32
  const __mmask16 less = _mm512_cmplt_epu32_mask(pluses, minuses);
  const __m512i magnitude = _mm512_mask_sub_epi32(_mm512_sub_epi32(pluses, minuses), less, minuses, pluses);
  constexpr int kCut = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
  const __m512 scale = _mm512_cvtepi32_ps(_mm512_sub_epi32(most, _mm512_set1_epi32(25)));
  const __m512 mantissa = _mm512_cvt_roundepu32_ps(magnitude, kCut);
  __m512 result = _mm512_scalef_round_ps(mantissa, scale, kCut);
  const __mmask16 too_large = _mm512_cmp_ps_mask(_mm512_add_ps(_mm512_maskz_getexp_ps(0xffff, mantissa), scale),
                                                 _mm512_set1_ps(127), _CMP_GT_OQ);
  result = _mm512_mask_mov_ps(result, too_large, _mm512_castsi512_ps(_mm512_set1_epi32(0x7f800000)));
  const __mmask16 negative = _mm512_mask_cmp_ps_mask(less, result, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  const __m512i sign = _mm512_maskz_mov_epi32(negative, _mm512_set1_epi32(static_cast<int>(0x80000000u)));
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(result), sign));
}

/// The plain form of one step for the columns of `lanes`.
__m512 special_step(HopperType type, const uint32_t* a, const uint32_t* b, int64_t count, __mmask16 lanes, __m512 c,
                    __m512 otherwise) {
  alignas(64) float values[kLanes], results[kLanes];
  _mm512_store_ps(values, c);
  _mm512_store_ps(results, otherwise);
  for (int64_t j = 0; j < kLanes; ++j) {
    if (!(lanes >> j & 1)) continue;
    const TileProduct one{.m = 1,
                          .n = 1,
                          .k = count,
                          .a = a,
                          .a_stride = count,
                          .b = b + j,
                          .panel_stride = 0,
                          .c = values + j,
                          .c_stride = 1,
                          .add = true};
    hopper_product_plain(type, one);
    results[j] = values[j];
  }
  return _mm512_load_ps(results);
}

}  // namespace

void hopper_product_avx512(HopperType type, const TileProduct& p) {
  const Format& format = kFormats[static_cast<int>(type)];
  Rows rows;
  Columns columns;
  for (int64_t first = 0; first < p.m; first += kRows) {
    const int64_t height = std::min(kRows, p.m - first);
    if (!p.add)
      for (int64_t i = 0; i < height; ++i) std::fill_n(p.c + (first + i) * p.c_stride, p.n, 0.0f);
    for (int64_t k = 0; k < p.k; k += kUnitsOfStep) {
      const int64_t count = std::min(kUnitsOfStep, p.k - k);
      fill_rows(p, format, first, height, k, count, &rows);
      for (int64_t j = 0; j < p.n; j += kLanes) {
        const uint32_t* b = p.b + j / kPanel * p.panel_stride + k * kPanel + j % kPanel;
        fill_columns(b, format, count, &columns);
        for (int64_t i = 0; i < height; ++i) {
          float* to = p.c + (first + i) * p.c_stride + j;
          const __m512 c = _mm512_loadu_ps(to);
          __m512 sum = step(rows.significands[i], rows.exponents[i], columns, c);
          const __m512i field = _mm512_and_si512(_mm512_castps_si512(c), _mm512_set1_epi32(0x7f800000));
          __mmask16 special = _mm512_cmpeq_epi32_mask(field, _mm512_set1_epi32(0x7f800000));
          special =
              rows.special[i] ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>(special | columns.special);
          if (special) sum = special_step(type, p.a + (first + i) * p.a_stride + k, b, count, special, c, sum);
          _mm512_storeu_ps(to, sum);
        }
      }
    }
  }
}

}  // namespace ramet::kernel
