// Sums, products and softmax over the edges of graphs. Features lie along vectors and edges follow one another, so that
// neither the width of vectors nor threads change a bit. Products sum in 16 strided lanes, as rows do elsewhere.

#include "ramet/kernel/cpu/neighbors.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/halo.h"
#include "ramet/ops/neighbors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/neighbors.cc"
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

using cpu::EdgeProducts;
using cpu::EdgeSoftmax;
using cpu::EdgeSums;

constexpr int kVectors = 4;    // of features of narrow heads that one pass over the edges sums
constexpr int64_t kAhead = 8;  // places from a row that is fetched to the one that is added
constexpr int kFetched = 4;  // least vectors of a row that is fetched: the processor looks far enough ahead over fewer

/// What the sums of a call may count on.
enum class SumForm {
  kPlain,  ///< places name rows of x, and features are whole vectors
  kAny
};

/// Features [first, first + count) of rows [begin, end), kCount vectors of them: chains over the rows' places.
template <bool kWeighted, SumForm kForm>
struct SumFeatures {
  template <int kCount>
  static void run(const EdgeSums& call, int64_t begin, int64_t end, int64_t head, int64_t first, int64_t count) {
    constexpr bool kPlain = kForm == SumForm::kPlain;
    const Df d;
    const int64_t lanes = vector_lanes(), width = call.width, near = call.near, stop = call.ptr[end];
    const int32_t *const from = call.from, *const edges = call.edge;
    const float *const rows = call.x + (kPlain ? first : 0), *const far = call.far;
    const auto last = last_features(kCount, count);
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
        const float* const x = features(k);
        if (kCount >= kFetched && from && k + kAhead < stop) {
          const float* const next = features(k + kAhead);
          RAMET_UNROLL
          for (int v = 0; v < kCount; ++v) hwy::Prefetch(next + v * lanes);
        }
        Vf weight = hn::Zero(d);
        if (kWeighted) weight = hn::Set(d, call.weight[(edges ? int64_t{edges[k]} : k) * call.heads + head]);
        RAMET_UNROLL
        for (int v = 0; v < kCount; ++v) {
          const bool whole = kPlain || v + 1 < kCount;
          const Vf value = whole ? hn::LoadU(d, x + v * lanes) : hn::MaskedLoad(last, d, x + v * lanes);
          sums[v] = kWeighted ? hn::MulAdd(weight, value, sums[v]) : hn::Add(sums[v], value);
        }
      }
      if (call.mean) {
        const Vf divisor = hn::Set(d, static_cast<float>(std::max<int64_t>(1, row_end - row_begin)));
        RAMET_UNROLL
        for (int v = 0; v < kCount; ++v) sums[v] = hn::Div(sums[v], divisor);
      }
      store_sums<kPlain>(sums, last, call.out + row * width + first);
    }
  }
};

using HeadIndices = decltype(hn::SetTableIndices(Df(), static_cast<const int32_t*>(nullptr)));

/// The same where features of several heads share vectors: lane l of vector v takes the weight of head indices[v][l].
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
    const auto weighted = hn::FirstN(d, static_cast<size_t>(heads));
    for (int64_t row = begin, k = call.ptr[begin]; row < end; ++row) {
      Vf sums[kCount];
      clear_sums(sums);
      for (const int64_t row_end = call.ptr[row + 1]; k < row_end; ++k) {
        const int64_t from = call.from ? int64_t{call.from[k]} : k;
        const float* const x = (from < near ? call.x + from * width : call.far + (from - near) * width) + first;
        const Vf weights = hn::MaskedLoad(weighted, d, call.weight + (call.edge ? int64_t{call.edge[k]} : k) * heads);
        RAMET_UNROLL
        for (int v = 0; v < kCount; ++v) {
          const Vf value = v + 1 < kCount ? hn::LoadU(d, x + v * lanes) : hn::MaskedLoad(last, d, x + v * lanes);
          sums[v] = hn::MulAdd(hn::TableLookupLanes(weights, indices[v]), value, sums[v]);
        }
      }
      store_sums(sums, last, call.out + row * width + first);
    }
  }
};

/// Rows [begin, end) of sums whose heads are narrower than kVectors vectors.
void sum_narrow_heads(const EdgeSums& call, int64_t begin, int64_t end) {
  each_features(call.width, [&](int64_t first, int64_t count, int64_t vectors) {
    loop_of<SumHeads, kMostVectors>(vectors)(call, begin, end, first, count);
  });
}

/// The loop that sums the features of `vectors` vectors.
template <bool kWeighted>
auto sum_of(int64_t vectors, bool plain) {
  return plain ? loop_of<SumFeatures<kWeighted, SumForm::kPlain>, kMostVectors>(vectors)
               : loop_of<SumFeatures<kWeighted, SumForm::kAny>, kMostVectors>(vectors);
}

/// The softmax of one row.
void softmax_row(const EdgeSoftmax& call, int64_t row) {
  const Df d;
  const int64_t first = call.ptr[row], last = call.ptr[row + 1];
  if (first == last) return;
  walk_vectors(call.width, [&](int64_t f, int64_t count) {
    Vf most = load_part(call.x + first * call.width + f, count);
    for (int64_t e = first + 1; e < last; ++e) most = hn::Max(most, load_part(call.x + e * call.width + f, count));
    Vf sum = hn::Zero(d);
    for (int64_t e = first; e < last; ++e) {
      const Vf power = Exp(d, hn::Sub(load_part(call.x + e * call.width + f, count), most));
      sum = hn::Add(sum, power);
      store_part(power, call.out + e * call.width + f, count);
    }
    for (int64_t e = first; e < last; ++e)
      store_part(hn::Div(load_part(call.out + e * call.width + f, count), sum), call.out + e * call.width + f, count);
  });
}

constexpr int64_t kGroup = 2048;  // elements of rows whose powers and quotients are computed in whole vectors

/// The softmax of rows [begin, end), which are narrower than a vector and have at most kGroup elements together.
void softmax_group(const EdgeSoftmax& call, int64_t begin, int64_t end) {
  const Df d;
  const int64_t width = call.width, first = call.ptr[begin], elements = (call.ptr[end] - first) * width;
  const float* const x = call.x + first * width;
  float* const out = call.out + first * width;
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
      for (int64_t i = from; i < to; ++i) out[i] = x[i] - most;
      return;
    }
    Vf most = load_part(x + from, width);
    for (int64_t i = from + width; i < to; i += width) most = hn::Max(most, load_part(x + i, width));
    for (int64_t i = from; i < to; i += width) store_part(hn::Sub(load_part(x + i, width), most), out + i, width);
  });
  walk_vectors(elements,
               [&](int64_t i, int64_t count) { store_part(Exp(d, load_part(out + i, count)), out + i, count); });
  each_row([&](int64_t from, int64_t to) {
    if (width == 1) {
      float sum = 0;
      for (int64_t i = from; i < to; ++i) sum += out[i];
      std::fill(divisors + from, divisors + to, sum);
      return;
    }
    Vf sum = hn::Zero(d);
    for (int64_t i = from; i < to; i += width) sum = hn::Add(sum, load_part(out + i, width));
    for (int64_t i = from; i < to; i += width) store_part(sum, divisors + i, width);
  });
  walk_vectors(elements, [&](int64_t i, int64_t count) {
    store_part(hn::Div(load_part(out + i, count), load_part(divisors + i, count)), out + i, count);
  });
}

}  // namespace

/// Rows [begin, end) of the sums.
void SumEdges(const EdgeSums& call, int64_t begin, int64_t end) {
  if (call.weight && call.heads > 1 && call.heads <= vector_lanes() &&
      call.width / call.heads < kVectors * vector_lanes())
    return sum_narrow_heads(call, begin, end);
  const int64_t size = call.width / call.heads;
  for (int64_t head = 0; head < call.heads; ++head)
    each_features(size, [&](int64_t first, int64_t count, int64_t vectors) {
      const bool plain = call.from && !call.far && count % vector_lanes() == 0;
      const auto sum = call.weight ? sum_of<true>(vectors, plain) : sum_of<false>(vectors, plain);
      sum(call, begin, end, head, head * size + first, count);
    });
}

/// The products of the edges of rows [begin, end).
void MultiplyEdges(const EdgeProducts& call, int64_t begin, int64_t end) {
  const int64_t width = call.width, near = call.near, size = width / call.heads;
  const float *const a = call.a, *const b = call.b, *const far = call.far;
  const int32_t* const source = call.source;
  fold_edges({.ptr = call.ptr,
              .begin = begin,
              .end = end,
              .heads = call.heads,
              .size = size,
              .a_step = size,
              .b_step = size,
              .out = call.out},
             [=](int64_t row, int64_t edge) {
               const int64_t from = source[edge];
               return std::pair(a + row * width, from < near ? b + from * width : far + (from - near) * width);
             });
}

/// The softmax over the edges of rows [begin, end).
void SoftmaxEdges(const EdgeSoftmax& call, int64_t begin, int64_t end) {
  const bool narrow = call.width < vector_lanes();
  for (int64_t row = begin; row < end;) {
    int64_t next = row;
    while (narrow && next < end && (call.ptr[next + 1] - call.ptr[row]) * call.width <= kGroup) ++next;
    if (next > row)
      softmax_group(call, row, next);
    else
      softmax_row(call, next++);
    row = next;
  }
}

/// Whether all of `count` numbers are in [0, bound).
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

/// Whether `count` pointers ascend.
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
HWY_EXPORT(SumEdges);
HWY_EXPORT(MultiplyEdges);
HWY_EXPORT(SoftmaxEdges);
HWY_EXPORT(AllBelow);
HWY_EXPORT(AllAscend);

void cpu::split_rows(ThreadTeam& team, const int32_t* ptr, int64_t rows,
                     const std::function<void(int64_t, int64_t)>& body) {
  const int64_t work = rows + ptr[rows];
  if (team.size() == 1 || work < 256) return body(0, rows);
  const auto cut = [&](int64_t part) {
    const int64_t least = work * part / team.size();
    int64_t low = 0, high = rows;  // the first row before which there is that much work
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (middle + ptr[middle] < least)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  team.run([&](int rank) {
    const int64_t begin = cut(rank), end = rank + 1 == team.size() ? rows : cut(rank + 1);
    if (begin < end) body(begin, end);
  });
}

void cpu::clear_tail(ThreadTeam& team, float* out, const int32_t* ptr, int64_t rows, int64_t edges, int64_t width) {
  constexpr int64_t kGrain = 16384;  // floats that are worth a thread's waking
  float* const tail = out + ptr[rows] * width;
  team.split((edges - ptr[rows]) * width, kGrain,
             [&](int64_t begin, int64_t end, int) { std::fill(tail + begin, tail + end, 0.0f); });
}

namespace {

using cpu::clear_tail;
using cpu::EdgeProducts;
using cpu::EdgeSoftmax;
using cpu::EdgeSums;
using cpu::split_rows;
using ops::NeighborForm;
using ops::NeighborPointers;
using ops::SegmentForm;

const int32_t* table(const KernelContext& context, size_t input) {
  return static_cast<const int32_t*>(context.inputs[input]);
}
const float* floats(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.inputs[input]);
}

SegmentForm checked_form(const NodeSignature& node, const KernelContext& context, bool expands = false) {
  const SegmentForm form = expands ? ops::expand_form(node) : ops::segment_form(node);
  ops::check_segments(node, table(context, 1), form.batch, form.rows, form.edges);
  return form;
}

void run_segment_sum(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context);
  for (int64_t b = 0; b < form.batch; ++b) {
    EdgeSums call{.x = floats(context, 0) + b * form.edges * form.width,
                  .width = form.width,
                  .mean = node.attributes.get_bool_or("mean", false),
                  .ptr = table(context, 1) + b * (form.rows + 1),
                  .out = static_cast<float*>(context.outputs[0]) + b * form.rows * form.width};
    split_rows(context.team, call.ptr, form.rows,
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(SumEdges)(call, begin, end); });
  }
}

void run_segment_extreme(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context);
  const float sign = node.attributes.get_bool_or("least", false) ? -1.0f : 1.0f;
  for (int64_t b = 0; b < form.batch; ++b) {
    const float* const x = floats(context, 0) + b * form.edges * form.width;
    const int32_t* const ptr = table(context, 1) + b * (form.rows + 1);
    float* const values = static_cast<float*>(context.outputs[0]) + b * form.rows * form.width;
    int32_t* const places = static_cast<int32_t*>(context.outputs[1]) + b * form.rows * form.width;
    split_rows(context.team, ptr, form.rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* value = values + row * form.width;
        int32_t* place = places + row * form.width;
        const int64_t first = ptr[row], last = ptr[row + 1];
        for (int64_t f = 0; f < form.width; ++f)
          value[f] = first < last ? x[first * form.width + f] : 0.0f,
          place[f] = first < last ? static_cast<int32_t>(first) : -1;
        for (int64_t e = first + 1; e < last; ++e)
          for (int64_t f = 0; f < form.width; ++f) {
            const float next = x[e * form.width + f];
            const bool better = std::isnan(next) ? !std::isnan(value[f]) : next * sign > value[f] * sign;
            value[f] = better ? next : value[f];
            place[f] = better ? static_cast<int32_t>(e) : place[f];
          }
      }
    });
  }
}

void run_segment_softmax(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context);
  for (int64_t b = 0; b < form.batch; ++b) {
    const EdgeSoftmax call{.x = floats(context, 0) + b * form.edges * form.width,
                           .width = form.width,
                           .ptr = table(context, 1) + b * (form.rows + 1),
                           .out = static_cast<float*>(context.outputs[0]) + b * form.edges * form.width};
    split_rows(context.team, call.ptr, form.rows,
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(SoftmaxEdges)(call, begin, end); });
    clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, form.width);
  }
}

void run_segment_expand(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context, true);
  const auto bytes = static_cast<size_t>(form.width) * size_of(node.inputs[0].dtype);
  for (int64_t b = 0; b < form.batch; ++b) {
    const auto* const from = static_cast<const char*>(context.inputs[0]) + static_cast<size_t>(b * form.rows) * bytes;
    auto* const to = static_cast<char*>(context.outputs[0]) + static_cast<size_t>(b * form.edges) * bytes;
    const int32_t* const ptr = table(context, 1) + b * (form.rows + 1);
    split_rows(context.team, ptr, form.rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t e = ptr[row]; e < ptr[row + 1]; ++e)
          std::memcpy(to + static_cast<size_t>(e) * bytes, from + static_cast<size_t>(row) * bytes, bytes);
    });
    std::memset(to + static_cast<size_t>(ptr[form.rows]) * bytes, 0,
                static_cast<size_t>(form.edges - ptr[form.rows]) * bytes);
  }
}

/// Calls `whole(begin, end)` for parts of `count` numbers that threads share; whether all of them are true.
bool all_parts(ThreadTeam& team, int64_t count, const std::function<bool(int64_t, int64_t)>& whole) {
  constexpr int64_t kGrain = 32768;  // of numbers that are worth a thread's waking
  std::atomic<bool> all{true};
  team.split(count, kGrain, [&](int64_t begin, int64_t end, int) {
    if (!whole(begin, end)) all.store(false, std::memory_order_relaxed);
  });
  return all;
}

/// Whether pointers of `rows` rows ascend from 0 to at most `edges`, and the numbers of each list are in its bound.
bool right_list(ThreadTeam& team, const int32_t* ptr, int64_t rows, int64_t edges,
                std::initializer_list<std::pair<const int32_t*, int64_t>> numbers) {
  if (ptr[0] != 0 || ptr[rows] > edges || !HWY_DYNAMIC_DISPATCH(AllAscend)(ptr, rows + 1)) return false;
  return all_parts(team, ptr[rows], [&](int64_t begin, int64_t end) {
    return std::ranges::all_of(numbers, [&](const auto& list) {
      return HWY_DYNAMIC_DISPATCH(AllBelow)(list.first + begin, end - begin, list.second);
    });
  });
}

/// ops::check_neighbors, by vectors and by all threads; where a list is wrong, that one says what is.
void check_lists(const NodeSignature& node, const NeighborForm& form, const NeighborPointers& lists, ThreadTeam& team) {
  bool right = true;
  for (int64_t b = 0; b < form.batch; ++b) {
    const int64_t at = b * form.edges;
    right = right && right_list(team, lists.ptr + b * (form.targets + 1), form.targets, form.edges,
                                {{lists.source + at, form.sources}});
    right = right && right_list(team, lists.source_ptr + b * (form.sources + 1), form.sources, form.edges,
                                {{lists.target + at, form.targets}, {lists.by_source + at, form.edges}});
  }
  if (!right) ops::check_neighbors(node, form, lists);
}

NeighborPointers lists_at(const KernelContext& context, size_t first) {
  return {table(context, first), table(context, first + 1), table(context, first + 2), table(context, first + 3),
          table(context, first + 4)};
}

void run_neighbor_sum(const NodeSignature& node, const KernelContext& context) {
  const NeighborForm form = ops::neighbor_sum_form(node);
  const NeighborPointers lists = lists_at(context, 1);
  check_lists(node, form, lists, context.team);
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t b = 0; b < form.batch; ++b) {
    const EdgeSums call{
        .x = floats(context, 0) + b * form.from() * form.width,
        .width = form.width,
        .from = (form.transposed ? lists.target : lists.source) + b * form.edges,
        .edge = form.transposed ? lists.by_source + b * form.edges : nullptr,
        .weight = form.weighted ? floats(context, 6) + b * form.edges * heads : nullptr,
        .heads = heads,
        .ptr = form.transposed ? lists.source_ptr + b * (form.sources + 1) : lists.ptr + b * (form.targets + 1),
        .out = static_cast<float*>(context.outputs[0]) + b * form.to() * form.width};
    split_rows(context.team, call.ptr, form.to(),
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(SumEdges)(call, begin, end); });
  }
}

void run_neighbor_dot(const NodeSignature& node, const KernelContext& context) {
  const NeighborForm form = ops::neighbor_dot_form(node);
  const NeighborPointers lists = lists_at(context, 2);
  check_lists(node, form, lists, context.team);
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t b = 0; b < form.batch; ++b) {
    const EdgeProducts call{.a = floats(context, 0) + b * form.targets * form.width,
                            .b = floats(context, 1) + b * form.sources * form.width,
                            .width = form.width,
                            .heads = heads,
                            .source = lists.source + b * form.edges,
                            .ptr = lists.ptr + b * (form.targets + 1),
                            .out = static_cast<float*>(context.outputs[0]) + b * form.edges * heads};
    split_rows(context.team, call.ptr, form.targets,
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(MultiplyEdges)(call, begin, end); });
    clear_tail(context.team, call.out, call.ptr, form.targets, form.edges, heads);
  }
}

void run_halo_sum(const NodeSignature& node, const KernelContext& context) {
  const ops::HaloForm form = ops::halo_sum_form(node);
  ops::check_halo(node, form, table(context, 2), table(context, 3));
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t k = 0; k < form.clusters; ++k) {
    const EdgeSums call{.x = floats(context, 0) + k * form.rows * form.width,
                        .width = form.width,
                        .from = table(context, 2) + k * form.edges,
                        .far = floats(context, 1) + k * form.far * form.width,
                        .near = form.rows,
                        .weight = form.weighted ? floats(context, 6) + k * form.edges * heads : nullptr,
                        .heads = heads,
                        .ptr = table(context, 3) + k * (form.rows + 1),
                        .out = static_cast<float*>(context.outputs[0]) + k * form.rows * form.width};
    split_rows(context.team, call.ptr, form.rows,
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(SumEdges)(call, begin, end); });
  }
}

void run_halo_dot(const NodeSignature& node, const KernelContext& context) {
  const ops::HaloForm form = ops::halo_dot_form(node);
  ops::check_halo(node, form, table(context, 3), table(context, 4));
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t k = 0; k < form.clusters; ++k) {
    const EdgeProducts call{.a = floats(context, 0) + k * form.rows * form.width,
                            .b = floats(context, 1) + k * form.rows * form.width,
                            .width = form.width,
                            .heads = heads,
                            .far = floats(context, 2) + k * form.far * form.width,
                            .near = form.rows,
                            .source = table(context, 3) + k * form.edges,
                            .ptr = table(context, 4) + k * (form.rows + 1),
                            .out = static_cast<float*>(context.outputs[0]) + k * form.edges * heads};
    split_rows(context.team, call.ptr, form.rows,
               [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(MultiplyEdges)(call, begin, end); });
    clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, heads);
  }
}

/// Rows of `count` places, one after another: row(place) gives the bytes of one, or null for zeros.
template <typename Row>
void copy_rows(const KernelContext& context, int64_t count, int64_t bytes, const Row& row) {
  auto* const out = static_cast<std::byte*>(context.outputs[0]);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, bytes));
  context.team.split(count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      if (const std::byte* from = row(i))
        std::memcpy(out + i * bytes, from, static_cast<size_t>(bytes));
      else
        std::memset(out + i * bytes, 0, static_cast<size_t>(bytes));
  });
}

int64_t row_bytes(const NodeSignature& node, int64_t width) {
  return width * static_cast<int64_t>(size_of(node.inputs[0].dtype));
}

std::function<void(const KernelContext&)> make_halo_rows(const NodeSignature& node) {
  return [node, form = ops::halo_rows_form(node)](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    const int64_t bytes = row_bytes(node, form.width);
    copy_rows(context, form.clusters * form.places, bytes,
              [&](int64_t i) { return form.table[i] < 0 ? nullptr : x + form.table[i] * bytes; });
  };
}

std::function<void(const KernelContext&)> make_halo_pack(const NodeSignature& node) {
  return [node, form = ops::halo_pack_form(node)](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    const int64_t bytes = row_bytes(node, form.width);
    copy_rows(context, form.devices * form.places, bytes,
              [&](int64_t i) { return form.send[i] < 0 ? nullptr : x + form.send[i] * bytes; });
  };
}

std::function<void(const KernelContext&)> make_halo_unpack(const NodeSignature& node) {
  return [node, form = ops::halo_unpack_form(node)](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    const auto* const came = static_cast<const std::byte*>(context.inputs[1]);
    const int64_t bytes = row_bytes(node, form.width);
    copy_rows(context, form.clusters * form.places, bytes, [&](int64_t i) -> const std::byte* {
      const int64_t at = form.place[i];
      return at == 0 ? nullptr : at > 0 ? came + (at - 1) * bytes : x + (-at - 1) * bytes;
    });
  };
}

void add_rows(Backend& backend, const std::string& op,
              std::function<void(const KernelContext&)> (*make)(const NodeSignature&)) {
  cpu::add_hwy(backend, op, {}, [make](const NodeSignature& node, int) { return make(node); }, {}, {}, true);
}

void add(Backend& backend, const std::string& op, void (*run)(const NodeSignature&, const KernelContext&),
         bool any_type = false) {
  cpu::add_hwy(
      backend, op,
      [any_type](const NodeSignature& node) {
        return any_type || node.inputs[0].dtype == DType::kF32 ? "" : "it computes f32";
      },
      [run](const NodeSignature& node, int) {
        cpu_level();
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      {}, {}, any_type);
}

}  // namespace

void add_cpu_neighbors(Backend& backend) {
  add(backend, "segment_sum", run_segment_sum);
  add(backend, "segment_extreme", run_segment_extreme);
  add(backend, "segment_softmax", run_segment_softmax);
  add(backend, "segment_expand", run_segment_expand, true);
  add(backend, "neighbor_sum", run_neighbor_sum);
  add(backend, "neighbor_dot", run_neighbor_dot);
  add(backend, "halo_sum", run_halo_sum);
  add(backend, "halo_dot", run_halo_dot);
  add_rows(backend, "halo_rows", make_halo_rows);
  add_rows(backend, "halo_pack", make_halo_pack);
  add_rows(backend, "halo_unpack", make_halo_unpack);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
