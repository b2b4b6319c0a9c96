#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/depthwise_tile.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ramet/kernel/cpu/depthwise.h"
#include "ramet/kernel/cpu/rows-inl.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int kTile = static_cast<int>(kDepthwiseTile);

/// A vector of which all lanes are there, or `count`.
template <bool kWhole, typename T>
HWY_INLINE Vf Load(const T* from, int64_t count) {
  const Df d;
  if constexpr (kWhole) return LoadF32(d, from);
  return load_part(from, count);
}
template <bool kWhole, typename T>
HWY_INLINE void Store(Vf value, T* to, int64_t count) {
  const Df d;
  if constexpr (kWhole)
    StoreF32(d, value, to);
  else
    store_part(value, to, count);
}

/// All positions of a full tile for a vector of channels, with taps and a step that the compiler knows: each activation
/// is loaded once a row.
template <bool kWhole, int kTaps, int kStep, class In, class Out>
HWY_INLINE void FullVector(const DepthwiseTile& t, int64_t c, int64_t count) {
  const Df d;
  Vf sums[kTile];
  RAMET_UNROLL
  for (int i = 0; i < kTile; ++i) sums[i] = hn::Zero(d);
  for (int64_t row = 0; row < t.rows; ++row) {
    const char* const* reads = t.reads + row * t.reads_stride;
    const float* filter = t.filter + row * kTaps * t.channels + c;
    Vf weights[kTaps];
    RAMET_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) weights[tap] = Load<kWhole>(filter + tap * t.channels, count);
#pragma GCC unroll 32
    for (int at = 0; at < (kTile - 1) * kStep + kTaps; ++at) {
      const Vf value = Load<kWhole>(reinterpret_cast<const In*>(reads[at]) + c, count);
      RAMET_UNROLL
      for (int i = 0; i < kTile; ++i) {
        const int tap = at - i * kStep;
        if (tap >= 0 && tap < kTaps) sums[i] = hn::MulAdd(value, weights[tap], sums[i]);
      }
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kTile; ++i) {
    const Vf value = t.bias ? hn::Add(sums[i], Load<kWhole>(t.bias + c, count)) : sums[i];
    Store<kWhole>(value, reinterpret_cast<Out*>(t.out[i]) + c, count);
  }
}

template <int kTaps, int kStep, class In, class Out>
void FullTile(const DepthwiseTile& t) {
  const int64_t lanes = vector_lanes();
  int64_t c = 0;
  for (; c + lanes <= t.channels; c += lanes) FullVector<true, kTaps, kStep, In, Out>(t, c, lanes);
  if (c < t.channels) FullVector<false, kTaps, kStep, In, Out>(t, c, t.channels - c);
}

template <class In, class Out>
void AnyTile(const DepthwiseTile& t) {
  const Df d;
  for (int64_t i = 0; i < t.count; ++i)
    walk_vectors(t.channels, [&](int64_t c, int64_t count) HWY_ATTR {
      Vf sum = hn::Zero(d);
      for (int64_t row = 0; row < t.rows; ++row)
        for (int64_t tap = 0; tap < t.taps; ++tap) {
          const auto* from = reinterpret_cast<const In*>(t.reads[row * t.reads_stride + i * t.step + tap * t.gap]) + c;
          const float* filter = t.filter + (row * t.taps + tap) * t.channels + c;
          sum = hn::MulAdd(load_part(from, count), load_part(filter, count), sum);
        }
      if (t.bias) sum = hn::Add(sum, load_part(t.bias + c, count));
      store_part(sum, reinterpret_cast<Out*>(t.out[i]) + c, count);
    });
}

template <class In, class Out>
void TileOf(const DepthwiseTile& t) {
  const bool full = t.count == kTile && (t.gap == 1 || t.taps == 1);
  if (full && t.step == 1) switch (t.taps) {
      case 1: return FullTile<1, 1, In, Out>(t);
      case 2: return FullTile<2, 1, In, Out>(t);
      case 3: return FullTile<3, 1, In, Out>(t);
      case 5: return FullTile<5, 1, In, Out>(t);
      case 7: return FullTile<7, 1, In, Out>(t);
      default: break;
    }
  if (full && t.step == 2) switch (t.taps) {
      case 3: return FullTile<3, 2, In, Out>(t);
      case 5: return FullTile<5, 2, In, Out>(t);
      default: break;
    }
  AnyTile<In, Out>(t);
}

/// `kVectors` vectors of channels from c on.
template <bool kWhole, int kTaps, int kVectors, class T>
HWY_INLINE void RowOfTaps(const DepthwiseRow& r, int64_t c, int64_t count, int64_t first_tap) {
  const Df d;
  const int64_t lanes = vector_lanes();
  Vf sums[kTaps][kVectors];
  RAMET_UNROLL
  for (int tap = 0; tap < kTaps; ++tap) {
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[tap][v] = hn::Zero(d);
  }
  const T* gradient = reinterpret_cast<const T*>(r.gradient) + c;
  for (int64_t i = 0; i < r.positions; ++i, gradient += r.channels) {
    Vf slope[kVectors];
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v) slope[v] = Load<kWhole>(gradient + v * lanes, count);
    const char* const* reads = r.reads + i * r.step + first_tap * r.gap;
    RAMET_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) {
      const T* from = reinterpret_cast<const T*>(reads[tap * r.gap]) + c;
      RAMET_UNROLL
      for (int v = 0; v < kVectors; ++v)
        sums[tap][v] = hn::MulAdd(Load<kWhole>(from + v * lanes, count), slope[v], sums[tap][v]);
    }
  }
  RAMET_UNROLL
  for (int tap = 0; tap < kTaps; ++tap) {
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* total = r.total + (first_tap + tap) * r.channels + c + v * lanes;
      Store<kWhole>(hn::Add(Load<kWhole>(total, count), sums[tap][v]), total, count);
    }
  }
}

template <int kTaps, int kVectors, class T>
void RowOf(const DepthwiseRow& r, int64_t first_tap) {
  const int64_t lanes = vector_lanes();
  int64_t c = r.begin;
  for (; c + kVectors * lanes <= r.end; c += kVectors * lanes)
    RowOfTaps<true, kTaps, kVectors, T>(r, c, lanes, first_tap);
  for (; c + lanes <= r.end; c += lanes) RowOfTaps<true, kTaps, 1, T>(r, c, lanes, first_tap);
  if (c < r.end) RowOfTaps<false, kTaps, 1, T>(r, c, r.end - c, first_tap);
}

template <class T>
void AnyRow(const DepthwiseRow& r) {
  switch (r.taps) {
    case 1: return RowOf<1, 4, T>(r, 0);
    case 2: return RowOf<2, 4, T>(r, 0);
    case 3: return RowOf<3, 4, T>(r, 0);
    case 5: return RowOf<5, 2, T>(r, 0);
    case 7: return RowOf<7, 2, T>(r, 0);
    default: break;
  }
  for (int64_t tap = 0; tap < r.taps; ++tap) RowOf<1, 4, T>(r, tap);
}

template <class Body>
void WithType(DType type, const Body& body) {
  if (type == DType::kF32) return body(float());
  if (type == DType::kBF16) return body(Bf16());
  body(F16());
}

void Tile(const DepthwiseTile& t) {
  WithType(t.in_type,
           [&](auto in) { WithType(t.out_type, [&](auto out) { TileOf<decltype(in), decltype(out)>(t); }); });
}
void Row(const DepthwiseRow& r) {
  WithType(r.type, [&](auto type) { AnyRow<decltype(type)>(r); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(Tile);
HWY_EXPORT(Row);
void depthwise_tile(const DepthwiseTile& tile) { HWY_DYNAMIC_DISPATCH(Tile)(tile); }
void depthwise_row(const DepthwiseRow& row) { HWY_DYNAMIC_DISPATCH(Row)(row); }
}  // namespace ramet::kernel
#endif
