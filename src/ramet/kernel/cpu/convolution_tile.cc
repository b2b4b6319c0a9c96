#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/convolution_tile.cc"
#include "ramet/kernel/cpu/targets.h"

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

HWY_INLINE Vf Relu(Vf a) { return hn::IfThenElse(hn::Lt(a, hn::Zero(Df())), hn::Zero(Df()), a); }

/// Rows of sums, `t.width` apart, as `t.out` wants them.
template <class T>
void StoreRows(const ConvolutionTile& t, const float* sums) {
  for (int64_t i = 0; i < t.rows; ++i)
    walk_vectors(t.columns, [&](int64_t j, int64_t count) {
      char* const row = t.out[i] + t.out_offset;
      Vf sum = hn::LoadU(Df(), sums + i * t.width + j);
      if (t.bias) sum = hn::Add(sum, load_part(t.bias + j, count));
      if (t.adds) sum = hn::Add(sum, load_part(reinterpret_cast<const float*>(row + t.addend) + j, count));
      store_part(t.relu ? Relu(sum) : sum, reinterpret_cast<T*>(row) + j, count);
    });
}

/// The same of whole rows of f32, from registers.
template <bool kAdds, bool kRelu, int kRows, int kVectors>
HWY_INLINE void StoreTile(const ConvolutionTile& t, const Vf (&sums)[kRows][kVectors]) {
  const Df d;
  Vf bias[kVectors];
  RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) bias[j] = t.bias ? hn::LoadU(d, t.bias + j * kLanes) : hn::Zero(d);
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    auto* const to = reinterpret_cast<float*>(t.out[i] + t.out_offset);
    const auto* const addend = reinterpret_cast<const float*>(t.out[i] + t.out_offset + t.addend);
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      Vf sum = t.bias ? hn::Add(sums[i][j], bias[j]) : sums[i][j];
      if (kAdds) sum = hn::Add(sum, hn::LoadU(d, addend + j * kLanes));
      hn::StoreU(kRelu ? Relu(sum) : sum, d, to + j * kLanes);
    }
  }
}

/// Brings to the caches where row `i` of the result goes, what is added to it, and what the next tile reads first.
HWY_INLINE void Ahead(const ConvolutionTile& t, int64_t i, int64_t tap) {
  if (t.out) {
    const char* to = t.out[i] + t.out_offset;
    for (int64_t at = 0; at < 4 * t.columns; at += 64) {
      __builtin_prefetch(to + at, 1);
      if (t.adds) __builtin_prefetch(to + t.addend + at);
    }
  }
  if (i < t.next) {
    const char* from = t.reads[tap * t.reads_stride + t.rows + i] + t.reads_offset;
    for (int64_t at = 0; at < 4 * t.units; at += 64) __builtin_prefetch(from + at);
  }
}

template <int kRows, int kVectors>
HWY_INLINE void Finish(const ConvolutionTile& t, const Vf (&sums)[kRows][kVectors]) {
  const Df d;
  if (t.out && t.columns == t.width && t.type == DType::kF32) {
    if (t.adds) return t.relu ? StoreTile<true, true>(t, sums) : StoreTile<true, false>(t, sums);
    return t.relu ? StoreTile<false, true>(t, sums) : StoreTile<false, false>(t, sums);
  }
  HWY_ALIGN float rows[kRows * kVectors * kLanes];
  float* to = t.out ? rows : t.sums;
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], d, to + i * t.width + j * kLanes);
  }
  if (!t.out) return;
  t.type == DType::kF32 ? StoreRows<float>(t, rows) : StoreRows<Bf16>(t, rows);
}

template <int kRows, int kVectors>
void Tile(const ConvolutionTile& t) {
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
    for (int i = 0; i < kRows; ++i) a[i] = t.reads[tap * t.reads_stride + i] + t.reads_offset;
    const auto* b = reinterpret_cast<const float*>(t.panel + t.tap_units[tap]);
    int64_t k = 0;
    if (tap + 1 == t.taps)
      for (int i = 0; i < kRows; ++i) {
        Ahead(t, i, tap);
        for (const int64_t end = t.units * (i + 1) / kRows; k < end; ++k)
          Step<kRows, kVectors>(a, 4 * k, b + k * kVectors * kLanes, sums);
      }
    for (; k < t.units; ++k) Step<kRows, kVectors>(a, 4 * k, b + k * kVectors * kLanes, sums);
  }
  Finish<kRows, kVectors>(t, sums);
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

template <int kVectors, int kMost, class T>
void OfRows(const T& t) {
  if (t.rows != kMost) {
    if constexpr (kMost > 1) OfRows<kVectors, kMost - 1>(t);
    return;
  }
  if constexpr (requires { t.panel; })
    Tile<kMost, kVectors>(t);
  else
    Strip<kMost, kVectors>(t);
}

template <class T>
void OfWidth(const T& t) {
  const int64_t vectors = t.width / kLanes;
  if (vectors == kMostVectors) return OfRows<kMostVectors, kMostRows>(t);
  if constexpr (kLanes >= 16) {
    if (vectors == 3) return OfRows<3, kMostRows>(t);
    if (vectors == 2) return OfRows<2, kMostRows>(t);
    OfRows<1, kMostRows>(t);
  }
}

void ConvolutionTileOf(const ConvolutionTile& tile) { OfWidth(tile); }
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
