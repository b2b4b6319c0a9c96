// Pooling: vectors over channels where these are last, and over the outputs of a row where they are not. Both sum in
// the order of taps, and gradients in the order of outputs, so that the layouts have the same bits.

#include "ramet/kernel/cpu/pooling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/pooling.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/channels-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::PoolArguments;
using cpu::PoolTable;
using Di = hn::RebindToSigned<Df>;
using Vi = hn::Vec<Di>;

HWY_INLINE Vi load_index(const PoolArguments& call, int64_t at, int64_t count) {
  const Di d;
  HWY_ALIGN int32_t tail[hn::MaxLanes(Df())];
  if (call.wide_index) {
    const auto* from = static_cast<const int32_t*>(call.given_index) + at;
    if (count >= vector_lanes()) return hn::LoadU(d, from);
    for (int64_t i = 0; i < vector_lanes(); ++i) tail[i] = i < count ? from[i] : -1;
    return hn::Load(d, tail);
  }
  const auto* from = static_cast<const uint8_t*>(call.given_index) + at;
  if (count >= vector_lanes()) return hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, Df>(), from));
  for (int64_t i = 0; i < vector_lanes(); ++i) tail[i] = i < count ? from[i] : -1;
  return hn::Load(d, tail);
}

HWY_INLINE void store_index(const PoolArguments& call, Vi index, int64_t at, int64_t count) {
  const Di d;
  const bool whole = count >= vector_lanes();
  if (call.wide_index && whole) return hn::StoreU(index, d, static_cast<int32_t*>(call.made_index) + at);
  auto* bytes = static_cast<uint8_t*>(call.made_index) + at;
  if (!call.wide_index && whole) {
    const hn::Rebind<uint8_t, Df> d8;
    return hn::StoreU(hn::DemoteTo(d8, index), d8, bytes);
  }
  HWY_ALIGN int32_t tail[hn::MaxLanes(Df())];
  hn::Store(index, d, tail);
  for (int64_t i = 0; i < count; ++i) {
    if (call.wide_index)
      static_cast<int32_t*>(call.made_index)[at + i] = tail[i];
    else
      bytes[i] = static_cast<uint8_t>(tail[i]);
  }
}

/// What a maximum is replaced by: greater numbers, and NaN.
HWY_INLINE hn::Mask<Df> beats(Vf value, Vf most) { return hn::Or(hn::Gt(value, most), hn::IsNaN(value)); }

/// A row of the result: the sample (or the channel of a sample) and the position in the first two dimensions.
struct Row {
  int64_t image, at0, at1;
};
Row row_of(int64_t row, int64_t extent0, int64_t extent1) {
  return {row / (extent0 * extent1), row / extent1 % extent0, row % extent1};
}

float divisor_of(const PoolArguments& call, const Row& row, int64_t o2) {
  if (call.divisor != 0) return call.divisor;
  const auto counted = [&](int axis, int64_t o) {
    return static_cast<float>(call.axes[static_cast<size_t>(axis)]->counted[static_cast<size_t>(o)]);
  };
  return counted(0, row.at0) * counted(1, row.at1) * counted(2, o2);
}

/// Channels last: kVectors vectors of channels from channel c on, or one part of a vector.
template <class T>
struct LastLoops {
  template <int kVectors>
  static HWY_INLINE Vf load(const PoolArguments& call, const T* from, int v, int64_t count) {
    return kVectors > 1 ? LoadF32(Df(), from + v * vector_lanes()) : load_within(from, count, call.end);
  }

  /// The taps of a window, or the windows over an element, in order: where they lie in the tensor that is read, their
  /// indices, and the share of a gradient that they give.
  struct List {
    int64_t* offset;
    int32_t* code;
    float* share;
    int64_t count = 0;
    explicit List(const PoolArguments& call)
        : offset(reinterpret_cast<int64_t*>(call.scratch)),
          code(reinterpret_cast<int32_t*>(offset + call.capacity)),
          share(reinterpret_cast<float*>(code + call.capacity)) {}
  };

  static void list_taps(const PoolArguments& call, const Row& row, int64_t o2, List& list) {
    const PoolTable &x0 = *call.axes[0], &x1 = *call.axes[1], &x2 = *call.axes[2];
    const auto i0 = static_cast<size_t>(row.at0), i1 = static_cast<size_t>(row.at1), i2 = static_cast<size_t>(o2);
    const int64_t channel_size = x0.axis.input * x1.axis.input * x2.axis.input;
    list.count = 0;
    for (int64_t t0 = 0; t0 < x0.count[i0]; ++t0)
      for (int64_t t1 = 0; t1 < x1.count[i1]; ++t1) {
        const int64_t p0 = x0.first[i0] + t0 * x0.axis.dilation, p1 = x1.first[i1] + t1 * x1.axis.dilation;
        const int64_t line = (p0 * x1.axis.input + p1) * x2.axis.input;
        const int64_t tap = ((x0.tap[i0] + t0) * x1.axis.taps + x1.tap[i1] + t1) * x2.axis.taps + x2.tap[i2];
        for (int64_t t2 = 0; t2 < x2.count[i2]; ++t2) {
          const int64_t position = line + x2.first[i2] + t2 * x2.axis.dilation;
          list.offset[list.count] = (row.image * channel_size + position) * call.channels;
          list.code[list.count++] = static_cast<int32_t>(call.flat ? position : tap + t2);
        }
      }
  }

  static void list_windows(const PoolArguments& call, const Row& row, int64_t i2, List& list) {
    const PoolTable &x0 = *call.axes[0], &x1 = *call.axes[1], &x2 = *call.axes[2];
    const auto begin = [](const PoolTable& table, int64_t input) {
      return table.cover_begin[static_cast<size_t>(input)];
    };
    const int64_t pooled_size = x0.axis.output * x1.axis.output * x2.axis.output;
    const int64_t position = (row.at0 * x1.axis.input + row.at1) * x2.axis.input + i2;
    list.count = 0;
    for (int32_t k0 = begin(x0, row.at0); k0 < begin(x0, row.at0 + 1); ++k0)
      for (int32_t k1 = begin(x1, row.at1); k1 < begin(x1, row.at1 + 1); ++k1)
        for (int32_t k2 = begin(x2, i2); k2 < begin(x2, i2 + 1); ++k2) {
          const PoolTable::Cover &c0 = x0.covers[static_cast<size_t>(k0)], &c1 = x1.covers[static_cast<size_t>(k1)],
                                 &c2 = x2.covers[static_cast<size_t>(k2)];
          const int64_t pooled = (c0.output * x1.axis.output + c1.output) * x2.axis.output + c2.output;
          const int64_t tap = (c0.tap * x1.axis.taps + c1.tap) * x2.axis.taps + c2.tap;
          list.offset[list.count] = (row.image * pooled_size + pooled) * call.channels;
          list.code[list.count] = static_cast<int32_t>(call.flat ? position : tap);
          list.share[list.count++] = 1.0f / divisor_of(call, {row.image, c0.output, c1.output}, c2.output);
        }
  }

  template <bool kMax, int kVectors>
  static HWY_INLINE void pool_tile(const PoolArguments& call, const List& list, float divisor, int64_t at, int64_t c,
                                   int64_t count) {
    const Df d;
    const Di di;
    const T* base = static_cast<const T*>(call.a) + c;
    Vf sum[kVectors];
    Vi best[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::Set(d, kMax ? -INFINITY : 0.0f);
      best[v] = hn::Set(di, list.code[0]);
    }
    for (int64_t tap = 0; tap < list.count; ++tap) {
      const T* from = base + list.offset[tap];
      const Vi code = hn::Set(di, list.code[tap]);
      for (int v = 0; v < kVectors; ++v) {
        if (kVectors > 1 && call.ahead > 0) hwy::Prefetch(from + call.ahead + v * vector_lanes());
        const Vf value = load<kVectors>(call, from, v, count);
        if (!kMax) {
          sum[v] = hn::Add(sum[v], value);
          continue;
        }
        const auto better = beats(value, sum[v]);
        sum[v] = hn::IfThenElse(better, value, sum[v]);
        best[v] = hn::IfThenElse(hn::RebindMask(di, better), code, best[v]);
      }
    }
    // A power of two divides as its reciprocal multiplies.
    const bool multiplies = (std::bit_cast<uint32_t>(divisor) & 0x7fffff) == 0;
    const Vf by = hn::Set(d, multiplies ? 1.0f / divisor : divisor);
    T* out = static_cast<T*>(call.out) + at + c;
    for (int v = 0; v < kVectors; ++v) {
      store_part(kMax         ? sum[v]
                 : multiplies ? hn::Mul(sum[v], by)
                              : hn::Div(sum[v], by),
                 out + v * vector_lanes(), count);
      if (kMax) store_index(call, best[v], at + c + v * vector_lanes(), count);
    }
  }

  template <bool kMax>
  static void pool(const PoolArguments& call, int64_t begin, int64_t end) {
    const int64_t outputs = call.axes[2]->axis.output, step = vector_lanes();
    List list(call);
    for (int64_t index = begin; index < end; ++index) {
      const Row row = row_of(index, call.axes[0]->axis.output, call.axes[1]->axis.output);
      for (int64_t o2 = 0; o2 < outputs; ++o2) {
        const int64_t at = (index * outputs + o2) * call.channels;
        const float divisor = kMax ? 1.0f : divisor_of(call, row, o2);
        list_taps(call, row, o2, list);
        int64_t c = 0;
        for (; c + 4 * step <= call.channels; c += 4 * step) pool_tile<kMax, 4>(call, list, divisor, at, c, step);
        for (; c < call.channels; c += step)
          pool_tile<kMax, 1>(call, list, divisor, at, c, std::min(step, call.channels - c));
      }
    }
  }

  /// The sum of what the windows over one element give it, in order of windows.
  template <bool kMax, int kVectors>
  static HWY_INLINE void grad_tile(const PoolArguments& call, const List& list, int64_t at, int64_t c, int64_t count) {
    const Df d;
    const Di di;
    Vf sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
    for (int64_t window = 0; window < list.count; ++window) {
      const int64_t from = list.offset[window] + c;
      const T* dy = static_cast<const T*>(call.a) + from;
      const Vi code = hn::Set(di, list.code[window]);
      const Vf share = hn::Set(d, list.share[window]);
      for (int v = 0; v < kVectors; ++v) {
        const Vf value = load<kVectors>(call, dy, v, count);
        if (!kMax) {
          sum[v] = hn::Add(sum[v], hn::Mul(value, share));
          continue;
        }
        const auto chosen = hn::Eq(load_index(call, from + v * vector_lanes(), count), code);
        sum[v] = hn::Add(sum[v], hn::IfThenElseZero(hn::RebindMask(d, chosen), value));
      }
    }
    T* out = static_cast<T*>(call.out) + at + c;
    for (int v = 0; v < kVectors; ++v) store_part(sum[v], out + v * vector_lanes(), count);
  }

  template <bool kMax>
  static void grad(const PoolArguments& call, int64_t begin, int64_t end) {
    const int64_t inputs = call.axes[2]->axis.input, step = vector_lanes();
    List list(call);
    for (int64_t index = begin; index < end; ++index) {
      const Row row = row_of(index, call.axes[0]->axis.input, call.axes[1]->axis.input);
      for (int64_t i2 = 0; i2 < inputs; ++i2) {
        const int64_t at = (index * inputs + i2) * call.channels;
        list_windows(call, row, i2, list);
        int64_t c = 0;
        for (; c + 4 * step <= call.channels; c += 4 * step) grad_tile<kMax, 4>(call, list, at, c, step);
        for (; c < call.channels; c += step) grad_tile<kMax, 1>(call, list, at, c, std::min(step, call.channels - c));
      }
    }
  }
};

/// Channels first: a row of outputs at a time, its sums in scratch.
template <class T>
struct FirstLoops {
  /// Scratch of a thread, cut up.
  struct Buffers {
    float *line, *phases, *sums;
    int32_t* best;
    explicit Buffers(const PoolArguments& call) {
      const PoolTable& row = *call.axes[2];
      const int64_t pad = kRowLanes, outputs = row.axis.output + pad;
      line = call.scratch;
      phases = line + std::max(row.axis.input, row.axis.output) + pad;
      sums = phases + static_cast<int64_t>(row.phase.size()) * row.length;
      best = reinterpret_cast<int32_t*>(sums + outputs);
    }
  };

  static void widen(const T* from, int64_t count, float* to) {
    walk_vectors(count, [&](int64_t i, int64_t part) HWY_ATTR { store_part(load_part(from + i, part), to + i, part); });
  }

  /// Fills the phases from a line of the input, and `outside` where there is none.
  static void fill_phases(const PoolTable& row, const float* line, float outside, float* phases) {
    const int64_t stride = row.axis.stride;
    for (size_t slot = 0; slot < row.phase.size(); ++slot) {
      float* to = phases + static_cast<int64_t>(slot) * row.length;
      const int64_t start = row.phase[slot];
      const int64_t inside = start < row.axis.input ? (row.axis.input - start + stride - 1) / stride : 0;
      const int64_t copied = std::min(inside, row.length - row.lead);
      std::fill(to, to + row.lead, outside);
      if (stride == 1)
        std::memcpy(to + row.lead, line, static_cast<size_t>(copied) * sizeof(float));
      else
        for (int64_t j = 0; j < copied; ++j) to[row.lead + j] = line[start + j * stride];
      std::fill(to + row.lead + copied, to + row.length, outside);
    }
  }

  /// Two phases at once, which lie alternately in the line.
  static void fill_two_phases(const PoolTable& row, const float* line, float outside, float* phases) {
    const Df d;
    const int64_t inputs = row.axis.input, pairs = inputs / 2, step = vector_lanes();
    float* to[2] = {phases + (row.phase[0] == 0 ? 0 : row.length), phases + (row.phase[0] == 0 ? row.length : 0)};
    for (float* each : to) {
      std::fill(each, each + row.lead, outside);
      std::fill(each + row.lead + pairs, each + row.length, outside);
    }
    int64_t j = 0;
    for (; j + step <= pairs; j += step) {
      Vf even, odd;
      hn::LoadInterleaved2(d, line + 2 * j, even, odd);
      hn::StoreU(even, d, to[0] + row.lead + j);
      hn::StoreU(odd, d, to[1] + row.lead + j);
    }
    for (; j < pairs; ++j) {
      to[0][row.lead + j] = line[2 * j];
      to[1][row.lead + j] = line[2 * j + 1];
    }
    if (inputs % 2 != 0) to[0][row.lead + pairs] = line[inputs - 1];
  }

  /// One line of the input under a row of outputs: `tap` is the number of its tap 0.
  template <bool kMax>
  static void add_line(const PoolArguments& call, const Buffers& use, int64_t tap) {
    const Df d;
    const Di di;
    const PoolTable& row = *call.axes[2];
    const bool two = row.axis.stride == 2 && row.phase.size() == 2 && row.length - row.lead > row.axis.input / 2;
    (two ? fill_two_phases : fill_phases)(row, use.line, kMax ? -INFINITY : 0.0f, use.phases);
    for (int64_t t = 0; t < row.axis.taps; ++t) {
      const auto at = static_cast<size_t>(t);
      const float* from = use.phases + row.slot[at] * row.length + row.shift[at];
      const Vi code = hn::Set(di, static_cast<int32_t>(tap + t));
      for (int64_t o = 0; o < row.axis.output; o += vector_lanes()) {
        const Vf value = hn::LoadU(d, from + o), sum = hn::LoadU(d, use.sums + o);
        if (!kMax) {
          hn::StoreU(hn::Add(sum, value), d, use.sums + o);
          continue;
        }
        const auto better = beats(value, sum);
        hn::StoreU(hn::IfThenElse(better, value, sum), d, use.sums + o);
        hn::StoreU(hn::IfThenElse(hn::RebindMask(di, better), code, hn::LoadU(di, use.best + o)), di, use.best + o);
      }
    }
  }

  /// The same with windows of different extents, one after another.
  template <bool kMax>
  static void add_line_adaptively(const PoolArguments& call, const Buffers& use, int64_t tap) {
    const PoolTable& row = *call.axes[2];
    for (int64_t o = 0; o < row.axis.output; ++o)
      for (int64_t t = 0; t < row.count[static_cast<size_t>(o)]; ++t) {
        const float value = use.line[row.first[static_cast<size_t>(o)] + t];
        if (!kMax) {
          use.sums[o] += value;
        } else if (value > use.sums[o] || value != value) {
          use.sums[o] = value;
          use.best[o] = static_cast<int32_t>(tap + t);
        }
      }
  }

  static int32_t flat_position(const PoolArguments& call, const Row& row, int64_t o2, int64_t tap) {
    const PoolTable &x0 = *call.axes[0], &x1 = *call.axes[1], &x2 = *call.axes[2];
    const int64_t t2 = tap % x2.axis.taps, t1 = tap / x2.axis.taps % x1.axis.taps,
                  t0 = tap / (x2.axis.taps * x1.axis.taps);
    const int64_t p0 = x0.axis.start(row.at0) + t0 * x0.axis.dilation,
                  p1 = x1.axis.start(row.at1) + t1 * x1.axis.dilation, p2 = x2.axis.start(o2) + t2 * x2.axis.dilation;
    return static_cast<int32_t>((p0 * x1.axis.input + p1) * x2.axis.input + p2);
  }

  template <bool kMax>
  static void pool(const PoolArguments& call, int64_t begin, int64_t end) {
    const Df d;
    const PoolTable &x0 = *call.axes[0], &x1 = *call.axes[1], &x2 = *call.axes[2];
    const Buffers use(call);
    const int64_t outputs = x2.axis.output;
    for (int64_t index = begin; index < end; ++index) {
      const Row row = row_of(index, x0.axis.output, x1.axis.output);
      const auto i0 = static_cast<size_t>(row.at0), i1 = static_cast<size_t>(row.at1);
      const int64_t first = (x0.tap[i0] * x1.axis.taps + x1.tap[i1]) * x2.axis.taps;
      std::fill(use.sums, use.sums + outputs + kRowLanes, kMax ? -INFINITY : 0.0f);
      if (kMax)
        for (int64_t o = 0; o < outputs; ++o)
          use.best[o] = static_cast<int32_t>(first + x2.tap[static_cast<size_t>(o)]);
      for (int64_t t0 = 0; t0 < x0.count[i0]; ++t0)
        for (int64_t t1 = 0; t1 < x1.count[i1]; ++t1) {
          const int64_t p0 = x0.first[i0] + t0 * x0.axis.dilation, p1 = x1.first[i1] + t1 * x1.axis.dilation;
          const int64_t line = ((row.image * x0.axis.input + p0) * x1.axis.input + p1) * x2.axis.input;
          widen(static_cast<const T*>(call.a) + line, x2.axis.input, use.line);
          const int64_t tap = ((x0.tap[i0] + t0) * x1.axis.taps + x1.tap[i1] + t1) * x2.axis.taps;
          (x2.axis.adaptive ? add_line_adaptively<kMax> : add_line<kMax>)(call, use, tap);
        }
      T* out = static_cast<T*>(call.out) + index * outputs;
      if (!kMax)
        for (int64_t o = 0; o < outputs; ++o) use.sums[o] /= divisor_of(call, row, o);
      walk_vectors(outputs,
                   [&](int64_t o, int64_t part) HWY_ATTR { store_part(hn::LoadU(d, use.sums + o), out + o, part); });
      if (!kMax) continue;
      if (call.flat)
        for (int64_t o = 0; o < outputs; ++o) use.best[o] = flat_position(call, row, o, use.best[o]);
      walk_vectors(outputs, [&](int64_t o, int64_t part) HWY_ATTR {
        store_index(call, hn::LoadU(Di(), use.best + o), index * outputs + o, part);
      });
    }
  }

  /// A line of the pooled gradient, as f32 in `line`, shared out: to the phases, taps last to first, so that each
  /// element adds what it gets in order of outputs. `code` is the index of tap 0 of output 0; `slope` is what an output
  /// adds to it.
  template <bool kMax>
  static void spread_line(const PoolArguments& call, const Buffers& use, int64_t code, int64_t slope) {
    const Df d;
    const Di di;
    const PoolTable& row = *call.axes[2];
    const Vi slopes = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(slope)));
    for (int64_t t = row.axis.taps - 1; t >= 0; --t) {
      const auto at = static_cast<size_t>(t);
      float* to = use.phases + row.slot[at] * row.length + row.shift[at];
      const int64_t code_of_tap = code + (call.flat ? t * row.axis.dilation : t);
      for (int64_t o = 0; o < row.axis.output; o += vector_lanes()) {
        Vf value = hn::LoadU(d, use.line + o);
        if (kMax) {
          const Vi wanted = hn::Add(slopes, hn::Set(di, static_cast<int32_t>(code_of_tap + o * slope)));
          value = hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(hn::LoadU(di, use.best + o), wanted)), value);
        }
        hn::StoreU(hn::Add(hn::LoadU(d, to + o), value), d, to + o);
      }
    }
  }

  template <bool kMax>
  static void spread_line_adaptively(const PoolArguments& call, const Buffers& use, int64_t code) {
    const PoolTable& row = *call.axes[2];
    for (int64_t o = 0; o < row.axis.output; ++o)
      for (int64_t t = 0; t < row.count[static_cast<size_t>(o)]; ++t) {
        const int64_t position = row.first[static_cast<size_t>(o)] + t;
        const int64_t wanted = call.flat ? code + position : code + t;
        if (!kMax || use.best[o] == wanted) use.phases[position] += use.line[o];
      }
  }

  template <bool kMax>
  static void grad(const PoolArguments& call, int64_t begin, int64_t end) {
    const Df d;
    const PoolTable &x0 = *call.axes[0], &x1 = *call.axes[1], &x2 = *call.axes[2];
    const Buffers use(call);
    const int64_t inputs = x2.axis.input, outputs = x2.axis.output, stride = x2.axis.stride;
    const int64_t all_phases = static_cast<int64_t>(x2.phase.size()) * x2.length;
    for (int64_t index = begin; index < end; ++index) {
      const Row row = row_of(index, x0.axis.input, x1.axis.input);
      const auto i0 = static_cast<size_t>(row.at0), i1 = static_cast<size_t>(row.at1);
      std::fill(use.phases, use.phases + all_phases, 0.0f);
      for (int32_t k0 = x0.cover_begin[i0]; k0 < x0.cover_begin[i0 + 1]; ++k0)
        for (int32_t k1 = x1.cover_begin[i1]; k1 < x1.cover_begin[i1 + 1]; ++k1) {
          const PoolTable::Cover c0 = x0.covers[static_cast<size_t>(k0)], c1 = x1.covers[static_cast<size_t>(k1)];
          const int64_t line = ((row.image * x0.axis.output + c0.output) * x1.axis.output + c1.output) * outputs;
          widen(static_cast<const T*>(call.a) + line, outputs, use.line);
          std::fill(use.line + outputs, use.line + outputs + kRowLanes, 0.0f);
          if (kMax)
            walk_vectors(outputs, [&](int64_t o, int64_t part)
                                      HWY_ATTR { hn::StoreU(load_index(call, line + o, part), Di(), use.best + o); });
          else
            for (int64_t o = 0; o < outputs; ++o)
              use.line[o] *= 1.0f / divisor_of(call, {row.image, c0.output, c1.output}, o);
          const int64_t position = (row.at0 * x1.axis.input + row.at1) * inputs;
          const int64_t tap = (c0.tap * x1.axis.taps + c1.tap) * x2.axis.taps;
          if (x2.axis.adaptive)
            spread_line_adaptively<kMax>(call, use, call.flat ? position : tap);
          else if (call.flat)
            spread_line<kMax>(call, use, position - x2.axis.low, stride);
          else
            spread_line<kMax>(call, use, tap, 0);
        }
      const float* sums = use.phases;
      if (!x2.axis.adaptive && stride == 1) {
        sums = use.phases + x2.lead;
      } else if (!x2.axis.adaptive) {
        std::fill(use.line, use.line + inputs, 0.0f);
        for (size_t slot = 0; slot < x2.phase.size(); ++slot) {
          const float* from = use.phases + static_cast<int64_t>(slot) * x2.length + x2.lead;
          for (int64_t i = x2.phase[slot], j = 0; i < inputs; i += stride, ++j) use.line[i] = from[j];
        }
        sums = use.line;
      }
      T* out = static_cast<T*>(call.out) + index * inputs;
      walk_vectors(inputs,
                   [&](int64_t i, int64_t part) HWY_ATTR { store_part(hn::LoadU(d, sums + i), out + i, part); });
    }
  }
};

template <class T>
constexpr cpu::PoolLoops kPoolTable{{FirstLoops<T>::template pool<true>, LastLoops<T>::template pool<true>},
                                    {FirstLoops<T>::template pool<false>, LastLoops<T>::template pool<false>},
                                    {FirstLoops<T>::template grad<true>, LastLoops<T>::template grad<true>},
                                    {FirstLoops<T>::template grad<false>, LastLoops<T>::template grad<false>}};

}  // namespace

const cpu::PoolLoops* GetPoolLoops(DType dtype) {
  if (dtype == DType::kF32) return &kPoolTable<float>;
  return dtype == DType::kBF16 ? &kPoolTable<Bf16> : &kPoolTable<F16>;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetPoolLoops);

const cpu::PoolLoops& cpu::pool_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetPoolLoops)(dtype);
}

namespace {

using cpu::PoolArguments;
using cpu::PoolTable;

/// Elements of scratch beyond a buffer's end that whole vectors may touch.
constexpr int64_t kVectorRoom = 64;
/// Rows that need more scratch than this are left to the reference.
constexpr int64_t kMostScratch = int64_t{1} << 22;

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

cpu::PoolTable::PoolTable(const PoolAxis& of, bool count_padding) : axis(of) {
  std::vector<std::vector<Cover>> windows_of(static_cast<size_t>(axis.input));
  for (int64_t o = 0; o < axis.output; ++o) {
    const int64_t from = axis.first_tap(o), to = axis.last_tap(o);
    first.push_back(static_cast<int32_t>(axis.start(o) + from * axis.dilation));
    tap.push_back(static_cast<int32_t>(from));
    count.push_back(static_cast<int32_t>(to - from));
    counted.push_back(static_cast<int32_t>(axis.counted(o, count_padding)));
    for (int64_t t = from; t < to; ++t)
      windows_of[static_cast<size_t>(axis.start(o) + t * axis.dilation)].push_back(
          {static_cast<int32_t>(o), static_cast<int32_t>(t)});
  }
  for (const auto& windows : windows_of) {
    cover_begin.push_back(static_cast<int32_t>(covers.size()));
    covers.insert(covers.end(), windows.begin(), windows.end());
  }
  cover_begin.push_back(static_cast<int32_t>(covers.size()));

  if (axis.adaptive) {  // the one phase is the row itself
    phase = {0};
    length = axis.input + kVectorRoom;
    return;
  }
  lead = -floor_divide(-axis.low, axis.stride);
  int64_t most = 0;
  for (int64_t t = 0; t < axis.taps; ++t) {
    const int64_t from = t * axis.dilation - axis.low, steps = floor_divide(from, axis.stride);
    const auto start = static_cast<int32_t>(from - steps * axis.stride);
    const auto known = std::find(phase.begin(), phase.end(), start);
    slot.push_back(static_cast<int32_t>(known - phase.begin()));
    if (known == phase.end()) phase.push_back(start);
    shift.push_back(static_cast<int32_t>(steps + lead));
    most = std::max(most, steps + lead);
  }
  length = std::max(axis.output + most, lead + axis.input / axis.stride + 1) + kVectorRoom;
}

int64_t cpu::pool_scratch(const PoolTable& row) {
  const int64_t line = std::max(row.axis.input, row.axis.output) + kVectorRoom;
  return line + static_cast<int64_t>(row.phase.size()) * row.length + 2 * (row.axis.output + kVectorRoom);
}

namespace {

/// Most taps of a window, or windows over an element.
int64_t capacity_of(const PoolForm& form) {
  int64_t capacity = 1;
  for (const PoolAxis& axis : form.axes)
    capacity *= axis.adaptive ? std::max(axis.taps, axis.output / axis.input + 2) : axis.taps;
  return capacity;
}

/// A pooling of any number of dimensions with the tables of three.
struct Prepared {
  NodeSignature node;
  PoolForm form;
  std::vector<PoolTable> tables;
  int64_t rows[2] = {0, 0};  ///< of the input and of the pooled tensor

  explicit Prepared(const NodeSignature& of) : node(of), form(pool_form(of)) {
    while (form.axes.size() < 3) form.axes.insert(form.axes.begin(), PoolAxis{.input = 1, .output = 1});
    for (const PoolAxis& axis : form.axes) tables.emplace_back(axis, form.count_padding);
    const int64_t images = form.samples * (form.channels_last ? 1 : form.channels);
    rows[0] = images * form.axes[0].input * form.axes[1].input;
    rows[1] = images * form.axes[0].output * form.axes[1].output;
  }
  PoolArguments arguments(const KernelContext& context) const {
    PoolArguments call;
    call.axes = {&tables[0], &tables[1], &tables[2]};
    call.channels = form.channels;
    call.capacity = capacity_of(form);
    call.divisor = static_cast<float>(form.divisor);
    call.flat = form.flat;
    const PoolAxis& row = form.axes[2];
    if (!row.adaptive && row.stride >= row.taps) call.ahead = 2 * row.stride * form.channels;
    call.a = context.inputs[0];
    call.end = static_cast<const char*>(call.a) + node.inputs[0].bytes();
    call.out = context.outputs[0];
    return call;
  }
};

std::string refuse_pool(const NodeSignature& node) {
  if (!cpu::has_vector_loads(node.inputs[0].dtype)) return "neither f32, bf16 nor f16";
  const PoolForm form = pool_form(node);
  if (form.channels_last) return capacity_of(form) * 4 > kMostScratch ? "windows of too many taps" : "";
  const PoolAxis& row = form.axes.back();
  const int64_t phases = std::min(row.taps, row.stride);
  const int64_t length = row.output + (row.taps * row.dilation + row.low) / row.stride + row.input / row.stride;
  if (!row.adaptive && phases * (length + kVectorRoom) > kMostScratch) return "rows that need too much scratch";
  return "";
}

/// Rows that are worth a thread's waking.
int64_t row_grain(int64_t elements) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, elements)); }

int64_t scratch_elements(const NodeSignature& node) {
  const PoolForm form = pool_form(node);
  if (form.channels_last) return (capacity_of(form) * 4 + 15) / 16 * 16;
  return (cpu::pool_scratch(PoolTable(form.axes.back(), form.count_padding)) + 15) / 16 * 16;
}

std::function<void(const KernelContext&)> make_pool(const NodeSignature& node, bool max, bool gradient) {
  return [prepared = Prepared(node), scratch = scratch_elements(node), max, gradient](const KernelContext& context) {
    const NodeSignature& of = prepared.node;
    PoolArguments call = prepared.arguments(context);
    if (max && gradient) call.given_index = context.inputs[1];
    if (max && !gradient) call.made_index = context.outputs[1];
    if (max) call.wide_index = (gradient ? of.inputs[1] : of.outputs[1]).dtype == DType::kI32;
    const cpu::PoolLoops& loops = cpu::pool_loops(of.inputs[0].dtype);
    const auto& both = gradient ? (max ? loops.max_grad : loops.average_grad) : (max ? loops.max : loops.average);
    const auto loop = both[prepared.form.channels_last ? 1 : 0];
    const PoolAxis& row = prepared.form.axes[2];
    const int64_t elements =
        (gradient ? row.input : row.output) * (prepared.form.channels_last ? prepared.form.channels : 1);
    if (elements == 0) return;
    context.team.split(prepared.rows[gradient ? 0 : 1], row_grain(elements), [&](int64_t begin, int64_t end, int rank) {
      PoolArguments own = call;
      own.scratch = static_cast<float*>(context.scratch) + rank * scratch;
      loop(own, begin, end);
    });
  };
}

}  // namespace

void add_cpu_pooling(Backend& backend) {
  for (const bool max : {true, false})
    for (const bool gradient : {false, true})
      cpu::add_hwy(
          backend, std::string(max ? "max_pool" : "average_pool") + (gradient ? "_grad" : ""), refuse_pool,
          [=](const NodeSignature& node, int) { return make_pool(node, max, gradient); },
          [](const NodeSignature& node, int threads) { return threads * scratch_elements(node) * 4; });
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
