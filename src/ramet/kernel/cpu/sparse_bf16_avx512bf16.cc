// GCC 12 warns of its own header: _mm512_undefined_epi32 is undefined on purpose (GCC's bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "ramet/kernel/cpu/sparse.h"
#include "ramet/kernel/cpu/sparse_bf16.h"
#include "ramet/kernel/cpu/unroll.h"

namespace ramet::kernel::cpu {
namespace {

/// sums + the products of the upper halves, then of the lower ones: by the instruction, or in f32.
template <bool kInstruction>
inline __m512 add_pairs(__m512 sums, __m512i a, __m512i b) {
  if constexpr (kInstruction) {
    return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  } else {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    sums = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, upper)),
                           _mm512_castsi512_ps(_mm512_and_si512(b, upper)), sums);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)),
                           sums);
  }
}

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }
inline __m512i spread(const void* pair) {
  uint32_t bits;
  __builtin_memcpy(&bits, pair, 4);
  return _mm512_set1_epi32(static_cast<int>(bits));
}

/// rows[j] lane i = rows[i] lane j.
inline void turn(__m512i (&rows)[16]) {
  __m512i a[16];
  RAMET_UNROLL
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  RAMET_UNROLL
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]), rows[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]), rows[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // Each vector has a column of 4 x 4 in each of its blocks of 4 lanes.
  RAMET_UNROLL
  for (int c = 0; c < 4; ++c) {
    const __m512i even = _mm512_shuffle_i32x4(rows[c], rows[c + 4], 0x88);
    const __m512i odd = _mm512_shuffle_i32x4(rows[c], rows[c + 4], 0xdd);
    const __m512i even_below = _mm512_shuffle_i32x4(rows[c + 8], rows[c + 12], 0x88);
    const __m512i odd_below = _mm512_shuffle_i32x4(rows[c + 8], rows[c + 12], 0xdd);
    rows[c] = _mm512_shuffle_i32x4(even, even_below, 0x88), rows[c + 8] = _mm512_shuffle_i32x4(even, even_below, 0xdd);
    rows[c + 4] = _mm512_shuffle_i32x4(odd, odd_below, 0x88), rows[c + 12] = _mm512_shuffle_i32x4(odd, odd_below, 0xdd);
  }
}

/// The least bits of each lane of 16 bits.
class Least {
 public:
  explicit Least(__m512i bits = _mm512_set1_epi16(-1)) : bits_(bits) {}
  void see(__m512i values) {
    const __m512i magnitude = _mm512_and_si512(values, _mm512_set1_epi16(0x7fff));
    bits_ = _mm512_min_epu16(bits_, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
  }
  __m512i bits() const { return bits_; }
  LeastBits of_all() const {
    const __m256i half = _mm256_min_epu16(_mm512_castsi512_si256(bits_), _mm512_extracti64x4_epi64(bits_, 1));
    const __m128i eight = _mm_min_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return static_cast<LeastBits>(_mm_extract_epi16(_mm_minpos_epu16(eight), 0));
  }

 private:
  __m512i bits_;
};

/// Stores the kept numbers of 16 bits; whole vectors past the caches, if wanted.
inline void store_result(uint16_t* to, __mmask32 kept, __m512i numbers, bool past_caches) {
  if (past_caches && kept == ~0u)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), numbers);
  else
    _mm512_mask_storeu_epi16(to, kept, numbers);
}

inline __mmask32 first_of_32(int64_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// 32 tokens as rows of features, two tokens a lane: lane l has token lanes[l] below and the next one above. Row f is
/// at to + f * stride.
template <typename Row>
inline void turn_32_tokens(const Row& row, const int (&lanes)[16], int64_t count, uint16_t* to, int64_t stride,
                           Least& least) {
  for (int upper = 0; upper < 2; ++upper) {
    // The lanes of 8 features are apart: unpacking takes 4 of them, below or above.
    if (4 * upper >= count) return;
    __m512i pairs[16];
    RAMET_UNROLL
    for (int l = 0; l < 16; ++l) {
      const __m512i first = row(lanes[l]), second = row(lanes[l] + 1);
      if (upper == 0) least.see(first), least.see(second);
      pairs[l] = upper ? _mm512_unpackhi_epi16(first, second) : _mm512_unpacklo_epi16(first, second);
    }
    turn(pairs);
    RAMET_UNROLL
    for (int i = 0; i < 16; ++i) {
      const int64_t feature = i / 4 * 8 + i % 4 + 4 * upper;
      if (feature < count) _mm512_storeu_si512(to + feature * stride, pairs[i]);
    }
  }
}

/// Rows of x: 32 features of token t, zeros beyond the last token or feature.
struct Rows {
  const uint16_t* x;
  int64_t width, tokens;
  __mmask32 kept;
  __m512i operator()(int64_t token) const {
    return token < tokens ? _mm512_maskz_loadu_epi16(kept, x + token * width) : _mm512_setzero_si512();
  }
};

template <bool kInstruction, int kCount, int kWide>
void run_line(const Bf16Line& line) {
  const int64_t high = line.lines.high, size = line.pairs * high;
  for (int64_t t = 0; t < kPanelTokens; t += kWide * 16) {
    const auto* panel = static_cast<const uint32_t*>(line.panel) + t;
    __m512 sums[kCount][kWide];
    RAMET_UNROLL
    for (int i = 0; i < kCount; ++i) {
      RAMET_UNROLL
      for (int u = 0; u < kWide; ++u) sums[i][u] = _mm512_setzero_ps();
    }
    for (int64_t e = line.begin; e < line.end; ++e) {
      const uint32_t* x = panel + line.lines.other[e] / 2 * kPanelTokens;
      const uint32_t* value = line.values + line.lines.block[e] * size;
      const uint32_t* later = panel + line.lines.other[e + kAhead] / 2 * kPanelTokens;
      const uint32_t* later_value = line.values + line.lines.block[e + kAhead] * size;
      for (int64_t i = 0; i < size; i += 16) _mm_prefetch(later_value + i, _MM_HINT_T0);
      for (int64_t j = 0; j < line.pairs; ++j, x += kPanelTokens, later += kPanelTokens, value += high) {
        __m512i tokens[kWide];
        RAMET_UNROLL
        for (int u = 0; u < kWide; ++u) {
          tokens[u] = load(x + u * 16);
          _mm_prefetch(later + u * 16, _MM_HINT_T0);
        }
        RAMET_UNROLL
        for (int i = 0; i < kCount; ++i) {
          const __m512i factor = spread(value + i);
          RAMET_UNROLL
          for (int u = 0; u < kWide; ++u) sums[i][u] = add_pairs<kInstruction>(sums[i][u], factor, tokens[u]);
        }
      }
    }
    RAMET_UNROLL
    for (int i = 0; i < kCount; ++i) {
      RAMET_UNROLL
      for (int u = 0; u < kWide; ++u) _mm512_storeu_ps(line.out + i * kPanelTokens + t + u * 16, sums[i][u]);
    }
  }
}

template <bool kInstruction>
void run_count(const Bf16Line& line, int64_t count) {
  switch (count) {
    case 1: return run_line<kInstruction, 1, 4>(line);
    case 2: return run_line<kInstruction, 2, 4>(line);
    case 3: return run_line<kInstruction, 3, 4>(line);
    case 4: return run_line<kInstruction, 4, 4>(line);
    default: return run_line<kInstruction, 8, 2>(line);
  }
}

template <bool kInstruction>
void run_singles(const Bf16Line& line) {
  const auto* panel = static_cast<const uint16_t*>(line.panel);
  __m512 sums[4];
  RAMET_UNROLL
  for (int u = 0; u < 4; ++u) sums[u] = _mm512_setzero_ps();
  const auto meet = [&](const SparseSingle* e, int u, __m512i first, __m512i second) {
    const __m512i factor = spread(&e->value);
    sums[u] = add_pairs<kInstruction>(sums[u], factor, _mm512_unpacklo_epi16(second, first));
    sums[u + 1] = add_pairs<kInstruction>(sums[u + 1], factor, _mm512_unpackhi_epi16(second, first));
  };
  const SparseSingle *e = line.lines.singles + line.begin, *last = line.lines.singles + line.end;
  for (; e + 1 < last; e += 2) {
    const uint16_t *first = panel + e[0].at, *second = panel + e[1].at;
    meet(e, 0, load(first), load(second));
    meet(e, 2, load(first + 32), load(second + 32));
  }
  if (e < last) {
    meet(e, 0, load(panel + e->at), _mm512_setzero_si512());
    meet(e, 2, load(panel + e->at + 32), _mm512_setzero_si512());
  }
  RAMET_UNROLL
  for (int u = 0; u < 4; ++u) _mm512_storeu_ps(line.out + u * 16, sums[u]);
}

/// The sums of the lanes of 16 vectors, each as lane l += lane l + 8, + 4, + 2, + 1: each level adds the halves of two
/// vectors' lanes, side by side in one vector.
inline __m512 sums_of_lanes(__m512 (&sums)[16]) {
  const auto blocks = [](__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  };
  RAMET_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m512 left = blocks(sums[i], sums[i + 4]), right = blocks(sums[i + 8], sums[i + 12]);
    sums[i] = _mm512_add_ps(_mm512_shuffle_f32x4(left, right, 0x88), _mm512_shuffle_f32x4(left, right, 0xdd));
  }
  const auto lanes = [](__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  };
  const __m512 low = lanes(sums[0], sums[1]), high = lanes(sums[2], sums[3]);
  return _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x88), _mm512_shuffle_ps(low, high, 0xdd));
}

template <bool kInstruction, int kA, int kB>
void run_outer(const Bf16Outer& outer, float* out) {
  static_assert(kA * kB == 16);
  __m512 sums[16];
  RAMET_UNROLL
  for (int i = 0; i < 16; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t t = 0; t < outer.tokens; t += 32) {
    RAMET_UNROLL
    for (int j = 0; j < kB; ++j) _mm_prefetch(outer.next[j] + t, _MM_HINT_T0);
    if constexpr (kA == 1) {
      const __m512i left = load(outer.a[0] + t);
      RAMET_UNROLL
      for (int j = 0; j < kB; ++j) sums[j] = add_pairs<kInstruction>(sums[j], left, load(outer.b[j] + t));
    } else {
      __m512i right[kB];
      RAMET_UNROLL
      for (int j = 0; j < kB; ++j) right[j] = load(outer.b[j] + t);
      RAMET_UNROLL
      for (int i = 0; i < kA; ++i) {
        const __m512i left = load(outer.a[i] + t);
        RAMET_UNROLL
        for (int j = 0; j < kB; ++j) sums[i * kB + j] = add_pairs<kInstruction>(sums[i * kB + j], left, right[j]);
      }
    }
  }
  _mm512_storeu_ps(out, sums_of_lanes(sums));
}

}  // namespace

LeastBits pack_feature_pairs(const uint16_t* x, int64_t width, int64_t tokens, void* panel) {
  Least least;
  auto* to = static_cast<uint32_t*>(panel);
  for (int64_t t = 0; t < kPanelTokens; t += 16)
    for (int64_t f = 0; f < width; f += 32) {
      const Rows row{x + f, width, tokens, first_of_32(width - f)};
      __m512i rows[16];
      RAMET_UNROLL
      for (int i = 0; i < 16; ++i) {
        const __m512i values = row(t + i);
        least.see(values);
        rows[i] = _mm512_rol_epi32(values, 16);
      }
      turn(rows);
      const int64_t pairs = (width - f) / 2;
      RAMET_UNROLL
      for (int i = 0; i < 16; ++i)
        if (i < pairs) _mm512_storeu_si512(to + (f / 2 + i) * kPanelTokens + t, rows[i]);
    }
  return least.of_all();
}

namespace {
/// Unpacking the first four tokens of each 8 of two rows gives tokens 0 to 15, the others 16 to 31.
constexpr int kSingleLanes[16] = {0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30};
}  // namespace

LeastBits pack_single_features(const uint16_t* x, int64_t width, int64_t tokens, void* panel) {
  Least least;
  auto* to = static_cast<uint16_t*>(panel);
  for (int64_t t = 0; t < kPanelTokens; t += 32)
    for (int64_t f = 0; f < width; f += 32) {
      const Rows row{x + t * width + f, width, tokens - t, first_of_32(width - f)};
      turn_32_tokens(row, kSingleLanes, width - f, to + f * kPanelTokens + t, kPanelTokens, least);
    }
  return least.of_all();
}

namespace {

/// Calls take(feature, token, 32 tokens of the feature, those of the next) for features 0, kStep, ... of 64 tokens.
template <int kStep, typename Take>
LeastBits take_features(const uint16_t* x, int64_t stride, int64_t width, const Take& take) {
  constexpr int64_t kRowsAhead = 16;
  Least least;
  for (int64_t f = 0; f < width; f += kStep)
    for (int64_t t = 0; t < kPanelTokens; t += 32) {
      __m512i rows[kStep];
      RAMET_UNROLL
      for (int i = 0; i < kStep; ++i) {
        const uint16_t* row = x + (f + i) * stride + t;
        rows[i] = load(row);
        least.see(rows[i]);
        _mm_prefetch(row + kRowsAhead * stride, _MM_HINT_T0);
      }
      take(f, t, rows);
    }
  return least.of_all();
}

}  // namespace

LeastBits take_feature_pairs(const uint16_t* x, int64_t stride, int64_t width, void* panel) {
  alignas(64) uint16_t order[32];
  for (int l = 0; l < 32; ++l) order[l] = static_cast<uint16_t>(l / 2 + 32 * (l % 2));
  const __m512i lower = _mm512_load_si512(order), upper = _mm512_add_epi16(lower, _mm512_set1_epi16(16));
  auto* to = static_cast<uint32_t*>(panel);
  return take_features<2>(x, stride, width, [&](int64_t f, int64_t t, const __m512i(&rows)[2]) {
    uint32_t* pairs = to + f / 2 * kPanelTokens + t;
    _mm512_storeu_si512(pairs, _mm512_permutex2var_epi16(rows[1], lower, rows[0]));
    _mm512_storeu_si512(pairs + 16, _mm512_permutex2var_epi16(rows[1], upper, rows[0]));
  });
}

LeastBits take_single_features(const uint16_t* x, int64_t stride, int64_t width, void* panel) {
  alignas(64) int32_t order[16];
  for (int l = 0; l < 16; ++l) order[l] = kSingleLanes[l] / 2;
  const __m512i lanes = _mm512_load_si512(order);
  auto* to = static_cast<uint16_t*>(panel);
  return take_features<1>(x, stride, width, [&](int64_t f, int64_t t, const __m512i(&rows)[1]) {
    _mm512_storeu_si512(to + f * kPanelTokens + t, _mm512_permutexvar_epi32(lanes, rows[0]));
  });
}

void see_token_pairs(const uint16_t* x, int64_t stride, int64_t count, int64_t tokens, LeastBits* least) {
  for (int64_t f = 0; f < count; ++f) {
    Least found;
    for (int64_t t = 0; t < tokens; t += 32) found.see(load(x + f * stride + t));
    least[f] = std::min(least[f], found.of_all());
  }
}

void pack_token_pairs(const uint16_t* x, int64_t width, int64_t count, int64_t tokens, uint16_t* to, int64_t stride,
                      LeastBits* least) {
  constexpr int kLanes[16] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  constexpr int64_t kStrip = 256;  // features whose rows are written together
  for (int64_t strip = 0; strip < count; strip += kStrip)
    for (int64_t t = 0; t < tokens; t += 32)
      for (int64_t f = strip; f < std::min(count, strip + kStrip); f += 32) {
        const __mmask32 kept = first_of_32(count - f);
        Least found(_mm512_mask_loadu_epi16(_mm512_set1_epi16(-1), kept, least + f));
        turn_32_tokens(Rows{x + t * width + f, width, tokens - t, kept}, kLanes, count - f, to + f * stride + t, stride,
                       found);
        _mm512_mask_storeu_epi16(least + f, kept, found.bits());
      }
}

void unpack_bf16_panel(const float* panel, int64_t count, int64_t tokens, uint16_t* y, int64_t width,
                       bool past_caches) {
  // Lane l of 32 bits takes number l of the first 16 below and of the second 16 above.
  alignas(64) uint16_t order[32];
  for (int l = 0; l < 32; ++l) order[l] = static_cast<uint16_t>(l / 2 + 16 * (l % 2));
  const __m512i sides = _mm512_load_si512(order);
  for (int64_t t = 0; t < tokens; t += 16)
    for (int64_t f = 0; f < count; f += 32) {
      const float* from = panel + f * kPanelTokens + t;
      const int64_t some = count - f;
      const auto sums = [&](int64_t i) { return i < some ? _mm512_loadu_ps(from + i * kPanelTokens) : __m512{}; };
      __m512i rows[16];
      RAMET_UNROLL
      for (int i = 0; i < 16; ++i)
        rows[i] = _mm512_permutexvar_epi16(
            sides, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(sums(2 * i + 1), sums(2 * i))));
      turn(rows);
      const __mmask32 kept = first_of_32(some);
      uint16_t* to = y + t * width + f;
      RAMET_UNROLL
      for (int i = 0; i < 16; ++i)
        if (t + i < tokens) store_result(to + i * width, kept, rows[i], past_caches);
    }
}

void put_bf16_panel(const float* panel, int64_t count, uint16_t* y, int64_t stride, bool past_caches) {
  for (int64_t f = 0; f < count; ++f, panel += kPanelTokens, y += stride) {
    RAMET_UNROLL
    for (int t = 0; t < kPanelTokens; t += 32)
      store_result(
          y + t, ~0u,
          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(panel + t + 16), _mm512_loadu_ps(panel + t))),
          past_caches);
  }
}

void run_bf16_line(const Bf16Line& line, int64_t count) {
  line.instruction ? run_count<true>(line, count) : run_count<false>(line, count);
}
void run_bf16_singles(const Bf16Line& line) { line.instruction ? run_singles<true>(line) : run_singles<false>(line); }
void run_bf16_tile(const Bf16Outer& outer, float* out) {
  outer.instruction ? run_outer<true, 4, 4>(outer, out) : run_outer<false, 4, 4>(outer, out);
}
void run_bf16_group(const Bf16Outer& outer, float* out) {
  outer.instruction ? run_outer<true, 1, 16>(outer, out) : run_outer<false, 1, 16>(outer, out);
}

void add_bf16_pairs(const uint32_t* a, const uint32_t* b, float* sums) {
  _mm512_storeu_ps(sums, add_pairs<true>(_mm512_loadu_ps(sums), load(a), load(b)));
}

}  // namespace ramet::kernel::cpu
