// Sums, products, softmax and extremes over the edges of graphs. Features lie along vectors and edges follow one
// another, so that neither the width of vectors nor threads change a bit. Products sum in 16 strided lanes, as rows do
// elsewhere.

#include <algorithm>
#include <type_traits>
#include <utility>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/neighbors.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/edge_loops.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/feature_sums-inl.h"
#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/product_folds-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::EdgeExtremes;
using cpu::EdgeProducts;
using cpu::EdgeSoftmax;
using cpu::EdgeSums;

constexpr int kVectors = 4;    // of features of narrow heads that one pass over the edges sums
constexpr int64_t kAhead = 8;  // places from a row that is fetched to the one that is added
constexpr int kFetched = 4;  // least vectors of a row that is fetched: the processor looks far enough ahead over fewer

/// What the sums of a call may count on.
enum class SumForm {
  kPlain,  ///< places name rows of x, and features are whole vectors of f32
  kAny
};

/// Features [first, first + count) of rows [begin, end), kCount vectors of them: chains over the rows' places.
template <typename T, bool kWeighted, SumForm kForm>
struct SumFeatures {
  template <int kCount>
  static void run(const EdgeSums& call, int64_t begin, int64_t end, int64_t head, int64_t first, int64_t count) {
    constexpr bool kPlain = kForm == SumForm::kPlain;
    const Df d;
    const int64_t lanes = vector_lanes(), width = call.width, near = call.near, stop = call.ptr[end];
    const int32_t *const from = call.from, *const edges = call.edge;
    const T *const rows = static_cast<const T*>(call.x) + (kPlain ? first : 0), *const far =
                                                                                    static_cast<const T*>(call.far);
    const T* const weights = static_cast<const T*>(call.weight);
    T* const out = static_cast<T*>(call.out) + first;
    const auto last = last_features(kCount, count);
    const int64_t lasting = last_count(kCount, count);
    const auto features = [&](int64_t place) {
      if (kPlain) return rows + int64_t{from[place]} * width;
      const int64_t row = from ? int64_t{from[place]} : place;
      return (row < near ? rows + row * width : far + (row - near) * width) + first;
    };
    for (int64_t row = begin, k = call.ptr[begin]; row < end; ++row) {
      const int64_t row_begin = k, row_end = call.ptr[row + 1];
      Vf sums[kCount];
      clear_sums(sums);
      for (; k < row_end; ++k) {
        const T* const x = features(k);
        if (kCount >= kFetched && from && k + kAhead < stop) {
          const T* const next = features(k + kAhead);
          RAMET_UNROLL
          for (int v = 0; v < kCount; ++v) hwy::Prefetch(next + v * lanes);
        }
        Vf weight = hn::Zero(d);
        if (kWeighted) weight = hn::Set(d, value_at(weights + (edges ? int64_t{edges[k]} : k) * call.heads + head));
        RAMET_UNROLL
        for (int v = 0; v < kCount; ++v) {
          const T* const at = x + v * lanes;
          const Vf value = kPlain || v + 1 < kCount ? LoadF32(d, at) : load_lanes(at, last, lasting);
          sums[v] = kWeighted ? hn::MulAdd(weight, value, sums[v]) : hn::Add(sums[v], value);
        }
      }
      if (call.mean) {
        const Vf divisor = hn::Set(d, static_cast<float>(std::max<int64_t>(1, row_end - row_begin)));
        RAMET_UNROLL
        for (int v = 0; v < kCount; ++v) sums[v] = hn::Div(sums[v], divisor);
      }
      store_sums<kPlain>(sums, last, lasting, out + row * width);
    }
  }
};

using HeadIndices = decltype(hn::SetTableIndices(Df(), static_cast<const int32_t*>(nullptr)));

/// The same where features of several heads share vectors: lane l of vector v takes the weight of head indices[v][l].
template <typename T>
struct SumHeads {
  template <int kCount>
  static void run(const EdgeSums& call, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const Df d;
    const int64_t lanes = vector_lanes(), width = call.width, near = call.near, heads = call.heads;
    HWY_ALIGN int32_t lane_heads[hn::MaxLanes(Df())];
    HeadIndices indices[kCount];
    for (int v = 0; v < kCount; ++v) {
      for (int64_t l = 0; l < lanes; ++l)
        lane_heads[l] = static_cast<int32_t>(std::min((first + v * lanes + l) / (width / heads), heads - 1));
      indices[v] = hn::SetTableIndices(d, lane_heads);
    }
    const auto last = last_features(kCount, count);
    const int64_t lasting = last_count(kCount, count);
    const auto weighted = hn::FirstN(d, static_cast<size_t>(heads));
    const T *const rows = static_cast<const T*>(call.x), *const far = static_cast<const T*>(call.far);
    const T* const all_weights = static_cast<const T*>(call.weight);
    T* const out = static_cast<T*>(call.out) + first;
    for (int64_t row = begin, k = call.ptr[begin]; row < end; ++row) {
      Vf sums[kCount];
      clear_sums(sums);
      for (const int64_t row_end = call.ptr[row + 1]; k < row_end; ++k) {
        const int64_t from = call.from ? int64_t{call.from[k]} : k;
        const T* const x = (from < near ? rows + from * width : far + (from - near) * width) + first;
        const Vf weights = load_lanes(all_weights + (call.edge ? int64_t{call.edge[k]} : k) * heads, weighted, heads);
        RAMET_UNROLL
        for (int v = 0; v < kCount; ++v) {
          const T* const at = x + v * lanes;
          const Vf value = v + 1 < kCount ? LoadF32(d, at) : load_lanes(at, last, lasting);
          sums[v] = hn::MulAdd(hn::TableLookupLanes(weights, indices[v]), value, sums[v]);
        }
      }
      store_sums(sums, last, lasting, out + row * width);
    }
  }
};

/// Rows [begin, end) of sums whose heads are narrower than kVectors vectors.
template <typename T>
void sum_narrow_heads(const EdgeSums& call, int64_t begin, int64_t end) {
  each_features(call.width, [&](int64_t first, int64_t count, int64_t vectors) {
    loop_of<SumHeads<T>, kMostVectors>(vectors)(call, begin, end, first, count);
  });
}

/// The loop that sums the features of `vectors` vectors.
template <typename T, bool kWeighted>
auto sum_of(int64_t vectors, [[maybe_unused]] bool plain) {
  if constexpr (std::is_same_v<T, float>)
    if (plain) return loop_of<SumFeatures<T, kWeighted, SumForm::kPlain>, kMostVectors>(vectors);
  return loop_of<SumFeatures<T, kWeighted, SumForm::kAny>, kMostVectors>(vectors);
}

/// The softmax of one row.
template <typename T>
void softmax_row(const EdgeSoftmax& call, int64_t row) {
  const Df d;
  const int64_t width = call.width, first = call.ptr[row], last = call.ptr[row + 1];
  const T* const x = static_cast<const T*>(call.x);
  T* const out = static_cast<T*>(call.out);
  if (first == last) return;
  walk_vectors(width, [&](int64_t f, int64_t count) {
    Vf most = load_part(x + first * width + f, count);
    for (int64_t e = first + 1; e < last; ++e) most = hn::Max(most, load_part(x + e * width + f, count));
    const auto power = [&](int64_t e) HWY_ATTR { return Exp(d, hn::Sub(load_part(x + e * width + f, count), most)); };
    constexpr bool kKept = std::is_same_v<T, float>;  // else what is kept would be rounded twice
    Vf sum = hn::Zero(d);
    for (int64_t e = first; e < last; ++e) {
      const Vf next = power(e);
      sum = hn::Add(sum, next);
      if (kKept) store_part(next, out + e * width + f, count);
    }
    for (int64_t e = first; e < last; ++e)
      store_part(hn::Div(kKept ? load_part(out + e * width + f, count) : power(e), sum), out + e * width + f, count);
  });
}

constexpr int64_t kGroup = 2048;  // elements of rows whose powers and quotients are computed in whole vectors

/// The softmax of rows [begin, end), which are narrower than a vector and have at most kGroup elements together, from
/// `x` to `powers`, which may be the same, and divided to `out`; all three begin with the first row.
template <typename T>
void softmax_group(const EdgeSoftmax& call, int64_t begin, int64_t end, const float* x, float* powers, T* out) {
  const Df d;
  const int64_t width = call.width, first = call.ptr[begin], elements = (call.ptr[end] - first) * width;
  HWY_ALIGN float divisors[kGroup];
  const auto each_row = [&](const auto& visit) {
    for (int64_t row = begin; row < end; ++row)
      if (call.ptr[row] < call.ptr[row + 1])
        visit((call.ptr[row] - first) * width, (call.ptr[row + 1] - first) * width);
  };
  each_row([&](int64_t from, int64_t to) {
    if (width == 1) {  // numbers alone are faster than parts of vectors
      float most = x[from];
      for (int64_t i = from + 1; i < to; ++i) most = most > x[i] ? most : x[i];
      for (int64_t i = from; i < to; ++i) powers[i] = x[i] - most;
      return;
    }
    Vf most = load_part(x + from, width);
    for (int64_t i = from + width; i < to; i += width) most = hn::Max(most, load_part(x + i, width));
    for (int64_t i = from; i < to; i += width) store_part(hn::Sub(load_part(x + i, width), most), powers + i, width);
  });
  walk_vectors(elements,
               [&](int64_t i, int64_t count) { store_part(Exp(d, load_part(powers + i, count)), powers + i, count); });
  each_row([&](int64_t from, int64_t to) {
    if (width == 1) {
      float sum = 0;
      for (int64_t i = from; i < to; ++i) sum += powers[i];
      std::fill(divisors + from, divisors + to, sum);
      return;
    }
    Vf sum = hn::Zero(d);
    for (int64_t i = from; i < to; i += width) sum = hn::Add(sum, load_part(powers + i, width));
    for (int64_t i = from; i < to; i += width) store_part(sum, divisors + i, width);
  });
  walk_vectors(elements, [&](int64_t i, int64_t count) {
    store_part(hn::Div(load_part(powers + i, count), load_part(divisors + i, count)), out + i, count);
  });
}

template <typename T>
void softmax_rows_together(const EdgeSoftmax& call, int64_t begin, int64_t end) {
  const int64_t first = call.ptr[begin] * call.width;
  const T* const x = static_cast<const T*>(call.x) + first;
  T* const out = static_cast<T*>(call.out) + first;
  if constexpr (std::is_same_v<T, float>) {
    softmax_group(call, begin, end, x, out, out);
  } else {
    HWY_ALIGN float values[kGroup];
    walk_vectors(call.ptr[end] * call.width - first,
                 [&](int64_t i, int64_t count) { store_part(load_part(x + i, count), values + i, count); });
    softmax_group(call, begin, end, values, values, out);
  }
}

/// Loops over rows of T.
template <typename T>
struct Loops {
  static void sum(const EdgeSums& call, int64_t begin, int64_t end) {
    if (call.weight && call.heads > 1 && call.heads <= vector_lanes() &&
        call.width / call.heads < kVectors * vector_lanes())
      return sum_narrow_heads<T>(call, begin, end);
    const int64_t size = call.width / call.heads;
    for (int64_t head = 0; head < call.heads; ++head)
      each_features(size, [&](int64_t first, int64_t count, int64_t vectors) {
        const bool plain = call.from && !call.far && count % vector_lanes() == 0;
        const auto loop = call.weight ? sum_of<T, true>(vectors, plain) : sum_of<T, false>(vectors, plain);
        loop(call, begin, end, head, head * size + first, count);
      });
  }

  static void multiply(const EdgeProducts& call, int64_t begin, int64_t end) {
    const int64_t width = call.width, near = call.near, size = width / call.heads;
    const T *const a = static_cast<const T*>(call.a), *const b = static_cast<const T*>(call.b),
                   *const far = static_cast<const T*>(call.far);
    const int32_t* const source = call.source;
    fold_edges<T>({.ptr = call.ptr,
                   .begin = begin,
                   .end = end,
                   .heads = call.heads,
                   .size = size,
                   .a_step = size,
                   .b_step = size,
                   .out = static_cast<T*>(call.out)},
                  [=](int64_t row, int64_t edge) {
                    const int64_t from = source[edge];
                    return std::pair(a + row * width, from < near ? b + from * width : far + (from - near) * width);
                  });
  }

  static void softmax(const EdgeSoftmax& call, int64_t begin, int64_t end) {
    const bool narrow = call.width < vector_lanes();
    for (int64_t row = begin; row < end;) {
      int64_t next = row;
      while (narrow && next < end && (call.ptr[next + 1] - call.ptr[row]) * call.width <= kGroup) ++next;
      if (next > row)
        softmax_rows_together<T>(call, row, next);
      else
        softmax_row<T>(call, next++);
      row = next;
    }
  }

  static void extremes(const EdgeExtremes& call, int64_t begin, int64_t end) {
    const Df d;
    const hn::RebindToSigned<Df> places;
    const int64_t width = call.width;
    const T* const x = static_cast<const T*>(call.x);
    for (int64_t row = begin; row < end; ++row)
      walk_vectors(width, [&](int64_t f, int64_t count) {
        const int64_t first = call.ptr[row], last = call.ptr[row + 1];
        Vf best = first < last ? load_part(x + first * width + f, count) : hn::Zero(d);
        auto place = hn::Set(places, first < last ? static_cast<int32_t>(first) : -1);
        for (int64_t e = first + 1; e < last; ++e) {
          const Vf next = load_part(x + e * width + f, count);
          const auto beyond = call.least ? hn::Lt(next, best) : hn::Gt(next, best);
          const auto better = hn::Or(beyond, hn::AndNot(hn::IsNaN(best), hn::IsNaN(next)));
          best = hn::IfThenElse(better, next, best);
          place = hn::IfThenElse(hn::RebindMask(places, better), hn::Set(places, static_cast<int32_t>(e)), place);
        }
        store_part(best, static_cast<T*>(call.out) + row * width + f, count);
        hn::BlendedStore(place, hn::FirstN(places, static_cast<size_t>(count)), places, call.places + row * width + f);
      });
  }

  static constexpr cpu::EdgeLoops kTable{sum, multiply, softmax, extremes};
};

}  // namespace

const cpu::EdgeLoops* GetEdgeLoops(DType dtype) { return table_of<Loops>(dtype); }

bool AllBelow(const int32_t* numbers, int64_t count, int64_t bound) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const from = reinterpret_cast<const uint32_t*>(numbers);
  auto most = hn::Zero(d), other = most;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    most = hn::Max(most, hn::LoadU(d, from + i));
    other = hn::Max(other, hn::LoadU(d, from + i + lanes));
  }
  uint32_t greatest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, other)));
  for (; i < count; ++i) greatest = std::max(greatest, from[i]);
  return count <= 0 || greatest < bound;
}

bool AllAscend(const int32_t* ptr, int64_t count) {
  const hn::ScalableTag<int32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto falls = hn::Lt(hn::Zero(d), hn::Zero(d));  // nowhere
  int64_t i = 0;
  for (; i + lanes < count; i += lanes) falls = hn::Or(falls, hn::Lt(hn::LoadU(d, ptr + i + 1), hn::LoadU(d, ptr + i)));
  bool ascend = hn::AllFalse(d, falls);
  for (; i + 1 < count; ++i) ascend = ascend && ptr[i + 1] >= ptr[i];
  return ascend;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetEdgeLoops);
HWY_EXPORT(AllBelow);
HWY_EXPORT(AllAscend);

const cpu::EdgeLoops& cpu::edge_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetEdgeLoops)(dtype);
}
bool cpu::all_below(const int32_t* numbers, int64_t count, int64_t bound) {
  return HWY_DYNAMIC_DISPATCH(AllBelow)(numbers, count, bound);
}
bool cpu::all_ascend(const int32_t* ptr, int64_t count) { return HWY_DYNAMIC_DISPATCH(AllAscend)(ptr, count); }

}  // namespace ramet::kernel
#endif  // HWY_ONCE
