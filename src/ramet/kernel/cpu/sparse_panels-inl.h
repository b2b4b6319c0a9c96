// Panels of sparse products: a row a feature, tokens along it. Operands have a row a token, so panels are transposes.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_SPARSE_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_SPARSE_PANELS_INL_H_
#undef RAMET_SPARSE_PANELS_INL_H_
#else
#define RAMET_SPARSE_PANELS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <type_traits>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"
#include "ramet/kernel/cpu/sparse.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

constexpr int64_t kSquare = 64;  // features that one transposition in memory takes
constexpr int64_t kTurned = 16;  // rows and columns of a transposition in registers
constexpr bool kTurnsInRegisters = hn::MaxLanes(Df()) == static_cast<size_t>(kTurned);

/// rows[j] lane i = rows[i] lane j, where vectors have 16 lanes.
template <int kCount>
HWY_INLINE void turn_lanes(Vf (&rows)[kCount]) {
#if HWY_TARGET != HWY_SCALAR
  static_assert(kCount == kTurned);
  const Df d;
  const hn::Repartition<double, Df> pairs;
  const auto lower = [&](Vf a, Vf b) {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto upper = [&](Vf a, Vf b) {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  // Squares of 4 x 4, each in the blocks of 4 lanes of four vectors.
  RAMET_UNROLL
  for (int g = 0; g < kCount; g += 4) {
    const Vf a = hn::InterleaveLower(d, rows[g], rows[g + 1]), b = hn::InterleaveUpper(d, rows[g], rows[g + 1]);
    const Vf e = hn::InterleaveLower(d, rows[g + 2], rows[g + 3]), f = hn::InterleaveUpper(d, rows[g + 2], rows[g + 3]);
    rows[g] = lower(a, e), rows[g + 1] = upper(a, e), rows[g + 2] = lower(b, f), rows[g + 3] = upper(b, f);
  }
  // The blocks of vectors c, c + 4, c + 8, c + 12 are a square, too.
  RAMET_UNROLL
  for (int c = 0; c < 4; ++c) {
    const Vf a = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(rows[c + 4]), rows[c]);
    const Vf b = hn::OddEvenBlocks(rows[c + 4], hn::SwapAdjacentBlocks(rows[c]));
    const Vf e = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(rows[c + 12]), rows[c + 8]);
    const Vf f = hn::OddEvenBlocks(rows[c + 12], hn::SwapAdjacentBlocks(rows[c + 8]));
    rows[c] = hn::ConcatLowerLower(d, e, a), rows[c + 4] = hn::ConcatLowerLower(d, f, b);
    rows[c + 8] = hn::ConcatUpperUpper(d, e, a), rows[c + 12] = hn::ConcatUpperUpper(d, f, b);
  }
#else
  (void)rows;
#endif
}

/// 16 rows of `count` features as rows of 16 tokens; a row that is null holds zeros.
template <int kCount, typename T>
HWY_INLINE void pack_rows_in_registers(const T* const (&from)[kCount], bool whole, int64_t count, float* to,
                                       int64_t stride) {
  const Df d;
  int64_t f = 0;
  for (; whole && f + kCount <= count; f += kCount) {
    Vf rows[kCount];
    RAMET_UNROLL
    for (int i = 0; i < kCount; ++i) rows[i] = LoadF32(d, from[i] + f);
    turn_lanes(rows);
    RAMET_UNROLL
    for (int i = 0; i < kCount; ++i) hn::Store(rows[i], d, to + (f + i) * stride);
  }
  for (; f < count; f += kCount) {
    const int64_t some = std::min<int64_t>(kCount, count - f);
    Vf rows[kCount];
    for (int i = 0; i < kCount; ++i) rows[i] = from[i] ? load_part(from[i] + f, some) : hn::Zero(d);
    turn_lanes(rows);
    for (int i = 0; i < some; ++i) hn::Store(rows[i], d, to + (f + i) * stride);
  }
}

/// Features [first, first + count) of 64 tokens as rows of a panel with `stride` tokens. `token(i)` is the row of x for
/// the i-th token of the panel, or -1 for a zero.
template <typename T, typename TokenOf>
void pack_square(const T* x, int64_t width, int64_t first, int64_t count, const TokenOf& token, float* panel,
                 int64_t stride) {
  using cpu::kPanelTokens;
  if constexpr (kTurnsInRegisters) {
    for (int64_t t = 0; t < kPanelTokens; t += kTurned) {
      const T* from[kTurned];
      bool whole = true;
      for (int64_t i = 0; i < kTurned; ++i) {
        const int64_t row = token(t + i);
        from[i] = row < 0 ? nullptr : x + row * width + first;
        whole &= row >= 0;
      }
      pack_rows_in_registers(from, whole, count, panel + first * stride + t, stride);
    }
    return;
  }
  HWY_ALIGN float rows[kPanelTokens * kSquare], turned[kSquare * kPanelTokens];
  for (int64_t f = first; f < first + count; f += kSquare) {
    const int64_t some = std::min(kSquare, first + count - f), rounded = (some + 3) / 4 * 4;
    for (int64_t i = 0; i < kPanelTokens; ++i) {
      const int64_t from = token(i);
      float* row = rows + i * kSquare;
      if (from < 0 || some < kSquare) std::fill_n(row, kSquare, 0.0f);
      if (from >= 0) ConvertRow(x + from * width + f, some, row);
    }
    Transpose32(reinterpret_cast<const uint32_t*>(rows), kSquare, reinterpret_cast<uint32_t*>(turned), kPanelTokens,
                kPanelTokens, rounded);
    for (int64_t i = 0; i < some; ++i) std::copy_n(turned + i * kPanelTokens, kPanelTokens, panel + (f + i) * stride);
  }
}

/// Stores a vector; `past_caches`: f32 at a multiple of 64 bytes is written past the caches.
template <typename T>
HWY_INLINE void store_result(Vf value, T* to, bool past_caches) {
  const Df d;
  if constexpr (std::is_same_v<T, float>)
    if (past_caches) return hn::Stream(value, d, to);
  StoreF32(d, value, to);
}

/// Features [0, count) of `tokens` tokens from a panel [count][64] to rows of y, `width` apart.
template <typename T>
void unpack_panel(const float* panel, int64_t count, int64_t tokens, T* y, int64_t width, bool past_caches) {
  using cpu::kPanelTokens;
  if constexpr (kTurnsInRegisters) {
    const Df d;
    for (int64_t t = 0; t < tokens; t += kTurned)
      for (int64_t f = 0; f < count; f += kTurned) {
        const int64_t some = std::min(kTurned, count - f), rows = std::min(kTurned, tokens - t);
        Vf lanes[kTurned];
        if (some == kTurned && rows == kTurned) {
          RAMET_UNROLL
          for (int i = 0; i < kTurned; ++i) lanes[i] = hn::Load(d, panel + (f + i) * kPanelTokens + t);
          turn_lanes(lanes);
          RAMET_UNROLL
          for (int i = 0; i < kTurned; ++i) store_result(lanes[i], y + (t + i) * width + f, past_caches);
          continue;
        }
        for (int64_t i = 0; i < kTurned; ++i)
          lanes[i] = i < some ? hn::Load(d, panel + (f + i) * kPanelTokens + t) : hn::Zero(d);
        turn_lanes(lanes);
        for (int64_t i = 0; i < rows; ++i) store_part(lanes[i], y + (t + i) * width + f, some);
      }
    return;
  }
  HWY_ALIGN float rows[kPanelTokens * kSquare];
  for (int64_t first = 0; first < count; first += kSquare) {
    const int64_t some = std::min(kSquare, count - first), whole = some / 4 * 4;
    Transpose32(reinterpret_cast<const uint32_t*>(panel + first * kPanelTokens), kPanelTokens,
                reinterpret_cast<uint32_t*>(rows), kSquare, whole, kPanelTokens);
    for (int64_t f = whole; f < some; ++f)
      for (int64_t t = 0; t < tokens; ++t) rows[t * kSquare + f] = panel[(first + f) * kPanelTokens + t];
    for (int64_t t = 0; t < tokens; ++t) ConvertRow<float, T>(rows + t * kSquare, some, y + t * width + first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_SPARSE_PANELS_INL_H_
