#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/convolution_tile.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/convolution_tile.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/rows-inl.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int kLanes = static_cast<int>(hn::MaxLanes(Df()));
/// Vectors of the widest tile. Sixteen columns are the least.
constexpr int kMostVectors = kLanes >= 16 ? 4 : 16 / kLanes;
constexpr int kMostRows = 6;

template <int kRows, int kVectors>
HWY_INLINE void Step(const char* const (&a)[kRows], int64_t at, const float* b, Vf (&sums)[kRows][kVectors]) {
  const Df d;
  Vf row[kVectors];
  RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) row[j] = hn::LoadU(d, b + j * kLanes);
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float factor;
    __builtin_memcpy(&factor, a[i] + at, 4);
    const Vf wide = hn::Set(d, factor);
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(wide, row[j], sums[i][j]);
  }
}

/// a < 0 ? 0 : a, so that NaN and -0 stay.
HWY_INLINE Vf Relu(Vf a) {
#if HWY_ARCH_X86
  return hn::Max(hn::Zero(Df()), a);  // of two zeros, and beside NaN, x86 takes the second operand
#else
  return hn::IfThenElse(hn::Lt(a, hn::Zero(Df())), hn::Zero(Df()), a);
#endif
}

/// Sums of `count` rows from `first` on, `t.width` apart, as `t.out` wants them.
template <class T>
void StoreRows(const ConvolutionTile& t, int64_t first, int64_t count, const float* sums) {
  for (int64_t i = 0; i < count; ++i)
    walk_vectors(t.columns, [&](int64_t j, int64_t lanes) {
      char* const row = t.out[first + i] + t.out_offset;
      Vf sum = hn::LoadU(Df(), sums + i * t.width + j);
      if (t.bias) sum = hn::Add(sum, load_part(t.bias + j, lanes));
      if (t.adds) sum = hn::Add(sum, load_part(reinterpret_cast<const float*>(row + t.addend) + j, lanes));
      store_part(t.relu ? Relu(sum) : sum, reinterpret_cast<T*>(row) + j, lanes);
    });
}

/// The same of whole rows of f32, from registers.
template <bool kAdds, bool kRelu, int kRows, int kVectors>
HWY_INLINE void StoreTile(const ConvolutionTile& t, int64_t first, const Vf (&sums)[kRows][kVectors]) {
  const Df d;
  const bool stream = t.stream, biased = t.bias != nullptr;
  const int64_t offset = t.out_offset, addend = t.addend;
  char* const* const out = t.out + first;
  Vf bias[kVectors];
  RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) bias[j] = biased ? hn::LoadU(d, t.bias + j * kLanes) : hn::Zero(d);
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    auto* const to = reinterpret_cast<float*>(out[i] + offset);
    const auto* const added = reinterpret_cast<const float*>(out[i] + offset + addend);
    Vf row[kVectors];
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      row[j] = biased ? hn::Add(sums[i][j], bias[j]) : sums[i][j];
      if (kAdds) row[j] = hn::Add(row[j], hn::LoadU(d, added + j * kLanes));
      if (kRelu) row[j] = Relu(row[j]);
    }
    if (stream) {
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) hn::Stream(row[j], d, to + j * kLanes);
    } else {
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) hn::StoreU(row[j], d, to + j * kLanes);
    }
  }
}

/// Brings to the caches where row `row` of the result goes, and what is added to it.
HWY_INLINE void FetchResult(const ConvolutionTile& t, int64_t row) {
  const char* to = t.out[row] + t.out_offset;
  for (int64_t at = 0; at < 4 * t.columns; at += 64) {
    if (!t.stream) __builtin_prefetch(to + at, 1);
    if (t.adds) __builtin_prefetch(to + t.addend + at);
  }
}

/// The units of the last tap. Meanwhile, a little at a time, since few lines can be on their way at once, fetches for
/// the results of the next rows, and what they read.
template <int kRows, int kVectors>
HWY_INLINE void LastTap(const ConvolutionTile& t, int64_t first, const char* const (&a)[kRows], const float* b,
                        Vf (&sums)[kRows][kVectors]) {
  constexpr int64_t kLine = 16;  // units
  const int64_t next = t.fresh ? HWY_MIN(int64_t{kRows}, t.rows - first - kRows) : 0;
  const char* const* const reads = t.reads + (t.taps - 1) * t.reads_stride + first + kRows;
  const int64_t results = !t.out || (t.stream && !t.adds) ? 0 : HWY_MIN(int64_t{kRows}, t.rows - first - kRows);
  if (results != 0 && first == 0)
    for (int64_t i = 0; i < kRows; ++i) FetchResult(t, i);
  int64_t fetched = 0;
  for (int64_t k = 0; k < t.units;) {
    for (int64_t i = 0; i < next; ++i) __builtin_prefetch(reads[i] + t.reads_offset + 4 * k);
    for (const int64_t end = HWY_MIN(t.units, k + kLine / 2); k < end; ++k)
      Step<kRows, kVectors>(a, 4 * k, b + k * kVectors * kLanes, sums);
    if (fetched < results) FetchResult(t, first + kRows + fetched++);
    for (const int64_t end = HWY_MIN(t.units, k + kLine / 2); k < end; ++k)
      Step<kRows, kVectors>(a, 4 * k, b + k * kVectors * kLanes, sums);
    if (fetched < results) FetchResult(t, first + kRows + fetched++);
  }
  for (; fetched < results; ++fetched) FetchResult(t, first + kRows + fetched);
}

template <int kRows, int kVectors>
HWY_INLINE void Finish(const ConvolutionTile& t, int64_t first, const Vf (&sums)[kRows][kVectors]) {
  const Df d;
  if (t.out && t.columns == t.width && t.type == DType::kF32) {
    if (t.adds) return t.relu ? StoreTile<true, true>(t, first, sums) : StoreTile<true, false>(t, first, sums);
    return t.relu ? StoreTile<false, true>(t, first, sums) : StoreTile<false, false>(t, first, sums);
  }
  HWY_ALIGN float rows[kRows * kVectors * kLanes];
  float* to = t.out ? rows : t.sums + first * t.width;
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], d, to + i * t.width + j * kLanes);
  }
  if (!t.out) return;
  t.type == DType::kF32 ? StoreRows<float>(t, first, kRows, rows) : StoreRows<Bf16>(t, first, kRows, rows);
}

/// kRows rows from `first` on.
template <int kRows, int kVectors>
HWY_INLINE void Tile(const ConvolutionTile& t, int64_t first) {
  const Df d;
  Vf sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::Zero(d);
  }
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const char* a[kRows];
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) a[i] = t.reads[tap * t.reads_stride + first + i] + t.reads_offset;
    const auto* b = reinterpret_cast<const float*>(t.panel + t.tap_units[tap]);
    if (tap + 1 == t.taps)
      LastTap<kRows, kVectors>(t, first, a, b, sums);
    else
      for (int64_t k = 0; k < t.units; ++k) Step<kRows, kVectors>(a, 4 * k, b + k * kVectors * kLanes, sums);
  }
  Finish<kRows, kVectors>(t, first, sums);
}

/// The last rows, at most kMost.
template <int kVectors, int kMost>
void LastRows(const ConvolutionTile& t, int64_t first) {
  if (t.rows - first == kMost)
    Tile<kMost, kVectors>(t, first);
  else if constexpr (kMost > 1)
    LastRows<kVectors, kMost - 1>(t, first);
}

template <int kVectors>
void AllRows(const ConvolutionTile& t) {
  int64_t first = 0;
  for (; first + kMostRows <= t.rows; first += kMostRows) Tile<kMostRows, kVectors>(t, first);
  if constexpr (kMostRows > 1)
    if (first < t.rows) LastRows<kVectors, kMostRows - 1>(t, first);
}

template <int kRows, int kVectors>
void Strip(const StripTile& t) {
  const Df d;
  Vf sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::LoadU(d, t.c + i * t.c_stride + j * kLanes);
  }
  for (int64_t s = 0; s < t.strips; ++s) {
    const char* a[kRows];
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) a[i] = reinterpret_cast<const char*>(t.a + t.a_rows[s] * t.a_row + i);
    const auto* b = reinterpret_cast<const float*>(t.b + t.b_rows[s] * t.b_row);
    for (int64_t k = 0; k < t.units; ++k) Step<kRows, kVectors>(a, 4 * k * t.a_step, b + k * t.b_step, sums);
  }
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], d, t.c + i * t.c_stride + j * kLanes);
  }
}

template <int kVectors, int kMost>
void StripRows(const StripTile& t) {
  if (t.rows == kMost)
    Strip<kMost, kVectors>(t);
  else if constexpr (kMost > 1)
    StripRows<kVectors, kMost - 1>(t);
}

template <int kVectors, class T>
void OfRows(const T& t) {
  if constexpr (requires { t.panel; })
    AllRows<kVectors>(t);
  else
    StripRows<kVectors, kMostRows>(t);
}

template <class T>
void OfWidth(const T& t) {
  const int64_t vectors = t.width / kLanes;
  if (vectors == kMostVectors) return OfRows<kMostVectors>(t);
  if constexpr (kLanes >= 16) {
    if (vectors == 3) return OfRows<3>(t);
    if (vectors == 2) return OfRows<2>(t);
    OfRows<1>(t);
  }
}

void ConvolutionTileOf(const ConvolutionTile& tile) {
  OfWidth(tile);
  if (tile.stream) hwy::FlushStream();
}
void StripTileOf(const StripTile& tile) { OfWidth(tile); }
int64_t ColumnsOf() { return kMostVectors * kLanes; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(ConvolutionTileOf);
HWY_EXPORT(StripTileOf);
HWY_EXPORT(ColumnsOf);

void convolution_tile_f32(const ConvolutionTile& tile) { HWY_DYNAMIC_DISPATCH(ConvolutionTileOf)(tile); }
void strip_tile_f32(const StripTile& tile) { HWY_DYNAMIC_DISPATCH(StripTileOf)(tile); }

#if !defined(__x86_64__)
void convolution_tile_bf16(const ConvolutionTile& tile) { convolution_tile_f32(tile); }
void strip_tile_bf16(const StripTile& tile) { strip_tile_f32(tile); }
#endif

void convolution_tile(DType compute, const ConvolutionTile& tile) {
  compute == DType::kBF16 ? convolution_tile_bf16(tile) : convolution_tile_f32(tile);
}
void strip_tile(DType compute, const StripTile& tile) {
  compute == DType::kBF16 ? strip_tile_bf16(tile) : strip_tile_f32(tile);
}

int64_t tile_columns(DType compute) {
  cpu_level();
  return compute == DType::kBF16 ? 64 : HWY_DYNAMIC_DISPATCH(ColumnsOf)();
}

int64_t tile_positions(DType compute, int64_t width) {
  if (compute == DType::kF32) return 6;
  return width == 64 ? 6 : width == 48 ? 8 : width == 32 ? 12 : 14;
}

}  // namespace ramet::kernel
#endif
