// Resizing: rows of the leading dimensions of space are combined in f32, then each is mapped along the last one.

#include "ramet/kernel/cpu/resample.h"

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/resize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/resample.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::LineMap;

/// One number at a time, with the arithmetic of vectors.
using One = hn::CappedTag<float, 1>;

template <class T>
struct ResampleLoopsOf {
  static void combine(const void* const* rows, const float* weights, int64_t count, int64_t elements, float* out) {
    const Df d;
    walk_vectors(elements, [&](int64_t i, int64_t lanes) HWY_ATTR {
      Vf sum = hn::Zero(d);
      for (int64_t row = 0; row < count; ++row) {
        const Vf value = load_part(static_cast<const T*>(rows[row]) + i, lanes), weight = hn::Set(d, weights[row]);
        sum = row == 0 ? hn::Mul(weight, value) : hn::MulAdd(weight, value, sum);
      }
      store_part(sum, out + i, lanes);
    });
  }

  /// Elements of the inner dimension are vectors.
  template <class From>
  static void map_inner(const From* from, const LineMap& map, T* out) {
    const Df d;
    for (int64_t o = 0; o < map.outputs; ++o) {
      const int64_t first = map.starts[static_cast<size_t>(o)], end = map.starts[static_cast<size_t>(o) + 1];
      walk_vectors(map.inner, [&](int64_t i, int64_t lanes) HWY_ATTR {
        Vf sum = hn::Zero(d);
        for (int64_t t = first; t < end; ++t) {
          const Vf value = load_part(from + map.taps[static_cast<size_t>(t)] * map.inner + i, lanes),
                   weight = hn::Set(d, map.weights[static_cast<size_t>(t)]);
          sum = t == first ? hn::Mul(weight, value) : hn::MulAdd(weight, value, sum);
        }
        store_part(sum, out + o * map.inner + i, lanes);
      });
    }
  }

  /// Elements `taps` of a line of `inputs`, in ascending order: permutations of one or two vectors where they lie close
  /// together.
  static HWY_INLINE Vf elements_of(const float* from, int64_t inputs, const int32_t* taps) {
    const Df d;
    const hn::RebindToSigned<Df> di;
    const int64_t step = vector_lanes(), span = taps[step - 1] - taps[0];
    const auto index = hn::LoadU(di, taps);
    const bool near = span < step && inputs >= step, twice = !near && span < 2 * step && inputs >= 2 * step;
    if (!near && !twice) return hn::GatherIndex(d, from, index);
    const int64_t base = std::min<int64_t>(taps[0], inputs - (near ? step : 2 * step));
    const auto place = hn::Sub(index, hn::Set(di, static_cast<int32_t>(base)));
    const auto within = hn::IndicesFromVec(d, hn::And(place, hn::Set(di, static_cast<int32_t>(step - 1))));
    const Vf first = hn::TableLookupLanes(hn::LoadU(d, from + base), within);
    if (near) return first;
    const Vf second = hn::TableLookupLanes(hn::LoadU(d, from + base + step), within);
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(place, hn::Set(di, static_cast<int32_t>(step - 1)))), second, first);
  }

  static void map_uniform(const float* from, const LineMap& map, T* out) {
    const Df d;
    const int64_t step = vector_lanes(), whole = map.outputs / step * step;
    for (int64_t i = 0; i < whole; i += step) {
      Vf sum = hn::Zero(d);
      for (int64_t t = 0; t < map.uniform; ++t) {
        const int64_t at = t * map.outputs + i;
        const Vf value = elements_of(from, map.inputs, map.taps.data() + at),
                 weight = hn::LoadU(d, map.weights.data() + at);
        sum = t == 0 ? hn::Mul(weight, value) : hn::MulAdd(weight, value, sum);
      }
      store_part(sum, out + i, step);
    }
    const One one;
    for (int64_t i = whole; i < map.outputs; ++i) {
      auto sum = hn::Zero(one);
      for (int64_t t = 0; t < map.uniform; ++t) {
        const auto at = static_cast<size_t>(t * map.outputs + i);
        const auto value = hn::Set(one, from[map.taps[at]]), weight = hn::Set(one, map.weights[at]);
        sum = t == 0 ? hn::Mul(weight, value) : hn::MulAdd(weight, value, sum);
      }
      store_one(hn::GetLane(sum), out + i);
    }
  }

  static void store_one(float value, T* to) { StoreF32N(Df(), hn::Set(Df(), value), to, 1); }

  static void map_f32(const float* from, const LineMap& map, float* line, void* out) {
    T* to = static_cast<T*>(out);
    if (map.uniform > 0) return map_uniform(from, map, to);
    if (map.inner > 1) return map_inner(from, map, to);
    const One one;
    for (int64_t o = 0; o < map.outputs; ++o) {
      const int64_t first = map.starts[static_cast<size_t>(o)], end = map.starts[static_cast<size_t>(o) + 1];
      auto sum = hn::Zero(one);
      for (int64_t t = first; t < end; ++t) {
        const auto value = hn::Set(one, from[map.taps[static_cast<size_t>(t)]]),
                   weight = hn::Set(one, map.weights[static_cast<size_t>(t)]);
        sum = t == first ? hn::Mul(weight, value) : hn::MulAdd(weight, value, sum);
      }
      line[o] = hn::GetLane(sum);
    }
    walk_vectors(map.outputs,
                 [&](int64_t i, int64_t lanes) HWY_ATTR { store_part(load_part(line + i, lanes), to + i, lanes); });
  }

  static void map(const void* from, const LineMap& map, float* line, void* out) {
    (void)line;
    map_inner(static_cast<const T*>(from), map, static_cast<T*>(out));
  }

  static constexpr cpu::ResampleLoops kTable{combine, map_f32, map};
};

}  // namespace

const cpu::ResampleLoops* GetResampleLoops(DType dtype) {
  if (dtype == DType::kF32) return &ResampleLoopsOf<float>::kTable;
  return dtype == DType::kBF16 ? &ResampleLoopsOf<Bf16>::kTable : &ResampleLoopsOf<F16>::kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetResampleLoops);

const cpu::ResampleLoops& cpu::resample_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetResampleLoops)(dtype);
}

namespace {

cpu::LineMap line_map(const TapTable& table, int64_t inputs, int64_t inner) {
  cpu::LineMap map{inputs, table.outputs(), inner, table.starts, table.taps, table.weights};
  const int64_t outputs = map.outputs, each = outputs == 0 ? 0 : table.starts[1];
  bool uniform = inner == 1 && each >= 1 && each <= 4;
  for (int64_t o = 0; o < outputs; ++o) uniform = uniform && table.starts[static_cast<size_t>(o) + 1] == (o + 1) * each;
  for (int64_t t = each; uniform && t < outputs * each; ++t)
    uniform = table.taps[static_cast<size_t>(t)] >= table.taps[static_cast<size_t>(t - each)];
  if (!uniform) return map;
  map.uniform = each;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t t = 0; t < each; ++t) {
      const auto to = static_cast<size_t>(t * outputs + o), from = static_cast<size_t>(o * each + t);
      map.taps[to] = table.taps[from];
      map.weights[to] = table.weights[from];
    }
  return map;
}

/// Everything about a node that does not change between runs.
struct ResampleCall {
  SpaceForm form;
  std::vector<TapTable> leading;  ///< maps along all dimensions of space but the last
  cpu::LineMap line;
  int64_t from_line = 0, to_line = 0;  ///< elements of a line
  int64_t most_rows = 1;               ///< rows that a result's line may come from
  int64_t size = 4;                    ///< of an element
  cpu::ResampleLoops loops{};

  explicit ResampleCall(const NodeSignature& node) : form(resample_form(node)) {
    leading = resample_tables(node);
    line = line_map(leading.back(), form.from.back(), form.inner);
    leading.pop_back();
    from_line = form.from.back() * form.inner;
    to_line = form.to.back() * form.inner;
    for (const TapTable& table : leading) {
      int64_t most = 0;
      for (int64_t o = 0; o < table.outputs(); ++o)
        most = std::max(most, table.starts[static_cast<size_t>(o) + 1] - table.starts[static_cast<size_t>(o)]);
      most_rows *= std::max<int64_t>(1, most);
    }
    size = static_cast<int64_t>(size_of(node.inputs[0].dtype));
    loops = cpu::resample_loops(node.inputs[0].dtype);
  }

  /// Floats of a thread: a combined line, a mapped one, weights and addresses of rows.
  int64_t floats() const { return padded(from_line) + padded(form.to.back()) + padded(most_rows) * 3; }
  static int64_t padded(int64_t count) { return (count + 15) / 16 * 16; }

  int64_t lines() const {
    int64_t count = form.outer;
    for (size_t axis = 0; axis + 1 < form.to.size(); ++axis) count *= form.to[axis];
    return count;
  }

  /// Rows that line `index` of the result comes from, and their weights; returns their number.
  int64_t rows_of(int64_t index, const char* a, const void** rows, float* weights) const {
    int64_t count = 1, stride = from_line * size;
    int64_t outer = index;
    for (size_t axis = 0; axis < leading.size(); ++axis) outer /= form.to[axis];
    int64_t plane = stride;
    for (size_t axis = 0; axis < leading.size(); ++axis) plane *= form.from[axis];
    rows[0] = a + outer * plane;
    weights[0] = 1;
    for (size_t axis = 0; axis < leading.size(); ++axis) {
      int64_t place = index;
      plane /= form.from[axis];
      for (size_t behind = leading.size() - 1; behind > axis; --behind) place /= form.to[behind];
      place %= form.to[axis];
      const TapTable& table = leading[axis];
      const int64_t first = table.starts[static_cast<size_t>(place)];
      const int64_t taps = table.starts[static_cast<size_t>(place) + 1] - first;
      // From the back, so that each row is read before it is replaced.
      for (int64_t row = count - 1; row >= 0; --row)
        for (int64_t t = taps - 1; t >= 0; --t) {
          const auto tap = static_cast<size_t>(first + t);
          rows[row * taps + t] = static_cast<const char*>(rows[row]) + table.taps[tap] * plane;
          weights[row * taps + t] = weights[row] * table.weights[tap];
        }
      count *= taps;
    }
    return count;
  }
};

std::function<void(const KernelContext&)> make_resample(const NodeSignature& node) {
  return [call = ResampleCall(node)](const KernelContext& context) {
    const auto* a = static_cast<const char*>(context.inputs[0]);
    auto* out = static_cast<char*>(context.outputs[0]);
    const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, call.to_line));
    context.team.split(call.lines(), grain, [&](int64_t begin, int64_t end, int rank) {
      float* combined = static_cast<float*>(context.scratch) + rank * call.floats();
      float* line = combined + ResampleCall::padded(call.from_line);
      float* weights = line + ResampleCall::padded(call.form.to.back());
      auto* rows = reinterpret_cast<const void**>(weights + ResampleCall::padded(call.most_rows));
      for (int64_t index = begin; index < end; ++index) {
        char* to = out + index * call.to_line * call.size;
        const int64_t count = call.rows_of(index, a, rows, weights);
        const bool alone = count == 1 && weights[0] == 1;
        if (alone && call.line.inner > 1) {
          call.loops.map(rows[0], call.line, line, to);
          continue;
        }
        const float* from = combined;
        if (alone && call.size == 4)
          from = static_cast<const float*>(rows[0]);
        else
          call.loops.combine(rows, weights, count, call.from_line, combined);
        call.loops.map_f32(from, call.line, line, to);
      }
    });
  };
}

}  // namespace

void add_cpu_resample(Backend& backend) {
  cpu::add_hwy(
      backend, "resample",
      [](const NodeSignature& node) {
        return std::string(cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "elements are neither f32, bf16 nor f16");
      },
      [](const NodeSignature& node, int) { return make_resample(node); },
      [](const NodeSignature& node, int threads) { return threads * ResampleCall(node).floats() * 4; });
}

}  // namespace ramet::kernel
#endif
