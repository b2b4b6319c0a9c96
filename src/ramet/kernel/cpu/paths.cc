// Messages of edges with relations, their statistics and gradients. Threads divide features, and each walks over all
// edges for a few vectors of features: rows of one vector's width stay in the nearest caches, and every sum is one
// chain over the edges in order. So neither the width of vectors nor threads change a bit.

#include "ramet/kernel/cpu/paths.h"

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/paths.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::PathCall;
using cpu::PathGradientCall;
using ops::PathForm;
using ops::PathMessage;

using Di = hn::Rebind<int32_t, Df>;
using Vi = hn::Vec<Di>;

constexpr int kVectors = 2;  // of features that one walk over the edges takes; of complex numbers one of each part

/// Places are moved as the bits of floats.
HWY_INLINE Vi load_places(const int32_t* from, int64_t count) {
  return hn::BitCast(Di(), load_part(reinterpret_cast<const float*>(from), count));
}
HWY_INLINE void store_places(Vi value, int32_t* to, int64_t count) {
  store_part(hn::BitCast(Df(), value), reinterpret_cast<float*>(to), count);
}

/// Where the vectors of a walk begin in a row, and how many features each has.
struct Span {
  int64_t first[kVectors], count[kVectors];
  bool whole() const { return count[0] >= vector_lanes() && count[1] >= vector_lanes(); }
};

/// The vectors of a walk. kWhole: all lanes are features.
template <bool kWhole>
struct Rows {
  const Span& span;
  template <typename Visit>
  HWY_INLINE void each(const Visit& visit) const {
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v)
      if (kWhole || span.count[v] > 0) visit(v);
  }
  HWY_INLINE Vf load(const float* row, int v) const {
    return kWhole ? hn::LoadU(Df(), row + span.first[v]) : load_part(row + span.first[v], span.count[v]);
  }
  HWY_INLINE void store(Vf value, float* row, int v) const {
    if (kWhole)
      hn::StoreU(value, Df(), row + span.first[v]);
    else
      store_part(value, row + span.first[v], span.count[v]);
  }
  HWY_INLINE Vi load(const int32_t* row, int v) const {
    return kWhole ? hn::LoadU(Di(), row + span.first[v]) : load_places(row + span.first[v], span.count[v]);
  }
  HWY_INLINE void store(Vi value, int32_t* row, int v) const {
    if (kWhole)
      hn::StoreU(value, Di(), row + span.first[v]);
    else
      store_places(value, row + span.first[v], span.count[v]);
  }
};

/// Messages of the source's row x and the relation's row r.
template <PathMessage kMessage>
HWY_INLINE void message_of(const Vf (&x)[kVectors], const Vf (&r)[kVectors], Vf (&m)[kVectors]) {
  if constexpr (kMessage == PathMessage::kRotation) {
    m[0] = hn::NegMulAdd(x[1], r[1], hn::Mul(x[0], r[0]));
    m[1] = hn::MulAdd(x[1], r[0], hn::Mul(x[0], r[1]));
  } else {
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v) m[v] = kMessage == PathMessage::kSum ? hn::Add(x[v], r[v]) : hn::Mul(x[v], r[v]);
  }
}

/// Adds to `sum` the gradient of one factor of a message from what flows into it, g, and the other factor.
template <PathMessage kMessage>
HWY_INLINE void add_gradient(const Vf (&g)[kVectors], const Vf (&other)[kVectors], Vf (&sum)[kVectors]) {
  if constexpr (kMessage == PathMessage::kRotation) {
    sum[0] = hn::Add(sum[0], hn::MulAdd(g[1], other[1], hn::Mul(g[0], other[0])));
    sum[1] = hn::Add(sum[1], hn::NegMulAdd(g[0], other[1], hn::Mul(g[1], other[0])));
  } else {
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v)
      sum[v] = kMessage == PathMessage::kSum ? hn::Add(sum[v], g[v]) : hn::MulAdd(g[v], other[v], sum[v]);
  }
}

template <PathMessage kMessage, bool kStatistics, bool kWhole>
void walk_messages(const PathCall& call, const Span& span) {
  const Rows<kWhole> rows{span};
  const int64_t width = call.form.features;
  for (int64_t row = 0; row < call.form.rows; ++row) {
    Vf sum[kVectors], squares[kVectors], most[kVectors], least[kVectors];
    Vi most_place[kVectors], least_place[kVectors];
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = kWhole || span.count[v] > 0 ? rows.load(call.own + row * width, v) : hn::Zero(Df());
      if constexpr (kStatistics) {
        squares[v] = hn::Mul(sum[v], sum[v]);
        most[v] = least[v] = sum[v];
        most_place[v] = least_place[v] = hn::Set(Di(), -1);
      }
    }
    for (int64_t e = call.lists.ptr[row]; e < call.lists.ptr[row + 1]; ++e) {
      const float *const from = call.x + call.lists.source[e] * width, *const by = call.relations +
                                                                                   call.lists.relation[e] * width;
      Vf x[kVectors] = {hn::Zero(Df()), hn::Zero(Df())}, r[kVectors] = {hn::Zero(Df()), hn::Zero(Df())}, m[kVectors];
      rows.each([&](int v) { x[v] = rows.load(from, v), r[v] = rows.load(by, v); });
      message_of<kMessage>(x, r, m);
      const Vi place = hn::Set(Di(), static_cast<int32_t>(e));
      RAMET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = hn::Add(sum[v], m[v]);
        if constexpr (kStatistics) {
          squares[v] = hn::MulAdd(m[v], m[v], squares[v]);
          const auto more = hn::Gt(m[v], most[v]), less = hn::Lt(m[v], least[v]);
          most[v] = hn::IfThenElse(more, m[v], most[v]), least[v] = hn::IfThenElse(less, m[v], least[v]);
          most_place[v] = hn::IfThenElse(hn::RebindMask(Di(), more), place, most_place[v]);
          least_place[v] = hn::IfThenElse(hn::RebindMask(Di(), less), place, least_place[v]);
        }
      }
    }
    rows.each([&](int v) {
      rows.store(sum[v], call.sum + row * width, v);
      if constexpr (kStatistics) {
        rows.store(squares[v], call.squares + row * width, v);
        rows.store(most[v], call.most + row * width, v), rows.store(least[v], call.least + row * width, v);
        rows.store(most_place[v], call.most_place + row * width, v);
        rows.store(least_place[v], call.least_place + row * width, v);
      }
    });
  }
}

template <PathMessage kMessage, bool kStatistics, bool kWhole>
void walk_gradients(const PathGradientCall& call, const Span& span) {
  const Rows<kWhole> rows{span};
  const int64_t width = call.form.features;
  const auto clear = [&](float* to, int64_t count) {
    for (int64_t row = 0; row < count; ++row)
      rows.each([&](int v) { rows.store(hn::Zero(Df()), to + row * width, v); });
  };
  clear(call.of_x, call.form.rows), clear(call.of_relations, call.form.relations);
  for (int64_t row = 0; row < call.form.rows; ++row) {
    if (call.lists.ptr[row] == call.lists.ptr[row + 1]) continue;
    Vf sum[kVectors] = {hn::Zero(Df()), hn::Zero(Df())}, squares[kVectors], most[kVectors], least[kVectors];
    Vi most_place[kVectors], least_place[kVectors];
    rows.each([&](int v) { sum[v] = rows.load(call.sum + row * width, v); });
    if constexpr (kStatistics) {
      RAMET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        squares[v] = most[v] = least[v] = hn::Zero(Df());
        most_place[v] = least_place[v] = hn::Set(Di(), -1);
      }
      rows.each([&](int v) {
        const Vf square = rows.load(call.squares + row * width, v);
        squares[v] = hn::Add(square, square);
        most[v] = rows.load(call.most + row * width, v), least[v] = rows.load(call.least + row * width, v);
        most_place[v] = rows.load(call.most_place + row * width, v);
        least_place[v] = rows.load(call.least_place + row * width, v);
      });
    }
    for (int64_t e = call.lists.ptr[row]; e < call.lists.ptr[row + 1]; ++e) {
      const int64_t from = call.lists.source[e] * width, by = call.lists.relation[e] * width;
      Vf x[kVectors], r[kVectors], g[kVectors], of_x[kVectors], of_relation[kVectors];
      RAMET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        x[v] = r[v] = of_x[v] = of_relation[v] = hn::Zero(Df());
        g[v] = sum[v];
      }
      rows.each([&](int v) {
        x[v] = rows.load(call.x + from, v), r[v] = rows.load(call.relations + by, v);
        of_x[v] = rows.load(call.of_x + from, v), of_relation[v] = rows.load(call.of_relations + by, v);
      });
      if constexpr (kStatistics) {
        Vf m[kVectors];
        message_of<kMessage>(x, r, m);
        const Vi place = hn::Set(Di(), static_cast<int32_t>(e));
        RAMET_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          g[v] = hn::MulAdd(m[v], squares[v], g[v]);
          g[v] = hn::Add(g[v], hn::IfThenElseZero(hn::RebindMask(Df(), hn::Eq(most_place[v], place)), most[v]));
          g[v] = hn::Add(g[v], hn::IfThenElseZero(hn::RebindMask(Df(), hn::Eq(least_place[v], place)), least[v]));
        }
      }
      add_gradient<kMessage>(g, r, of_x), add_gradient<kMessage>(g, x, of_relation);
      rows.each([&](int v) {
        rows.store(of_x[v], call.of_x + from, v), rows.store(of_relation[v], call.of_relations + by, v);
      });
    }
  }
}

/// Spans of a row: of complex numbers those of all real parts, each with its imaginary ones.
int64_t spans_of(const PathForm& form) {
  const int64_t lanes = vector_lanes();
  if (form.message != PathMessage::kRotation) return (form.features + kVectors * lanes - 1) / (kVectors * lanes);
  return form.features / form.width * ((form.width / 2 + lanes - 1) / lanes);
}

Span span_at(const PathForm& form, int64_t number) {
  const int64_t lanes = vector_lanes();
  if (form.message != PathMessage::kRotation) {
    const int64_t first = number * kVectors * lanes;
    return {{first, first + lanes}, {form.features - first, form.features - first - lanes}};
  }
  const int64_t half = form.width / 2, each = (half + lanes - 1) / lanes, at = number % each * lanes;
  const int64_t first = number / each * form.width + at;
  return {{first, first + half}, {half - at, half - at}};
}

template <PathMessage kMessage, bool kStatistics, bool kWhole>
void walk(const PathCall& call, const Span& span) {
  walk_messages<kMessage, kStatistics, kWhole>(call, span);
}
template <PathMessage kMessage, bool kStatistics, bool kWhole>
void walk(const PathGradientCall& call, const Span& span) {
  walk_gradients<kMessage, kStatistics, kWhole>(call, span);
}

template <PathMessage kMessage, typename Call>
void walk_spans(const Call& call, int64_t begin, int64_t end) {
  for (int64_t number = begin; number < end; ++number) {
    const Span span = span_at(call.form, number);
    if (call.form.statistics)
      span.whole() ? walk<kMessage, true, true>(call, span) : walk<kMessage, true, false>(call, span);
    else
      span.whole() ? walk<kMessage, false, true>(call, span) : walk<kMessage, false, false>(call, span);
  }
}

template <typename Call>
void walk_paths(const Call& call, int64_t begin, int64_t end) {
  switch (call.form.message) {
    case PathMessage::kProduct: return walk_spans<PathMessage::kProduct>(call, begin, end);
    case PathMessage::kSum: return walk_spans<PathMessage::kSum>(call, begin, end);
    case PathMessage::kRotation: return walk_spans<PathMessage::kRotation>(call, begin, end);
  }
}

}  // namespace

/// How many spans of features threads may divide, and spans [begin, end) of messages or gradients.
int64_t PathSpans(const PathForm& form) { return spans_of(form); }
void PathMessages(const PathCall& call, int64_t begin, int64_t end) { walk_paths(call, begin, end); }
void PathGradients(const PathGradientCall& call, int64_t begin, int64_t end) { walk_paths(call, begin, end); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(PathSpans);
HWY_EXPORT(PathMessages);
HWY_EXPORT(PathGradients);

namespace {

using cpu::PathCall;
using cpu::PathGradientCall;
using ops::PathForm;
using ops::PathPointers;

/// Operands of one sample.
struct Sample {
  const PathForm& form;
  const KernelContext& context;
  int64_t number;

  template <typename T>
  const T* in(size_t input, int64_t rows, int64_t width) const {
    return static_cast<const T*>(context.inputs[input]) + number * rows * width;
  }
  const float* nodes(size_t input) const { return in<float>(input, form.rows, form.features); }
  const int32_t* places(size_t input) const { return in<int32_t>(input, form.rows, form.features); }
  template <typename T>
  T* out(size_t output, int64_t rows) const {
    return static_cast<T*>(context.outputs[output]) + number * rows * form.features;
  }
  PathPointers lists(size_t first) const {
    return {in<int32_t>(first, form.edges, 1), in<int32_t>(first + 1, form.edges, 1),
            in<int32_t>(first + 2, form.rows + 1, 1)};
  }
};

/// Calls `body(sample, begin, end)` for runs of the spans of each sample's features.
template <typename Body>
void split_spans(const PathForm& form, const KernelContext& context, const Body& body) {
  const int64_t spans = HWY_DYNAMIC_DISPATCH(PathSpans)(form);
  context.team.split(form.batch * spans, 1, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t number = begin / spans, last = std::min(end, (number + 1) * spans);
      body(Sample{form, context, number}, begin - number * spans, last - number * spans);
      begin = last;
    }
  });
}

void run_messages(const PathForm& form, const KernelContext& context) {
  split_spans(form, context, [&](const Sample& sample, int64_t begin, int64_t end) {
    PathCall call{.form = form,
                  .lists = sample.lists(3),
                  .own = sample.nodes(0),
                  .x = sample.nodes(1),
                  .relations = sample.in<float>(2, form.relations, form.features),
                  .sum = sample.out<float>(0, form.rows)};
    if (form.statistics) {
      call.squares = sample.out<float>(1, form.rows);
      call.most = sample.out<float>(2, form.rows), call.least = sample.out<float>(3, form.rows);
      call.most_place = sample.out<int32_t>(4, form.rows), call.least_place = sample.out<int32_t>(5, form.rows);
    }
    HWY_DYNAMIC_DISPATCH(PathMessages)(call, begin, end);
  });
}

void run_gradients(const PathForm& form, const KernelContext& context) {
  split_spans(form, context, [&](const Sample& sample, int64_t begin, int64_t end) {
    PathGradientCall call{.form = form,
                          .lists = sample.lists(2),
                          .x = sample.nodes(0),
                          .relations = sample.in<float>(1, form.relations, form.features),
                          .sum = sample.nodes(5),
                          .of_x = sample.out<float>(0, form.rows),
                          .of_relations = sample.out<float>(1, form.relations)};
    if (form.statistics) {
      call.squares = sample.nodes(6), call.most = sample.nodes(7), call.least = sample.nodes(8);
      call.most_place = sample.places(9), call.least_place = sample.places(10);
    }
    HWY_DYNAMIC_DISPATCH(PathGradients)(call, begin, end);
  });
}

/// `lists`: the input that is the list of sources.
void add(Backend& backend, const std::string& op, size_t lists, void (*run)(const PathForm&, const KernelContext&)) {
  cpu::add_hwy(
      backend, op, [](const NodeSignature&) { return ""; },
      [lists, run](const NodeSignature& node, int) {
        cpu_level();
        return [node, lists, form = ops::path_form(node), run](const KernelContext& context) {
          const auto table = [&](size_t input) { return static_cast<const int32_t*>(context.inputs[input]); };
          ops::check_paths(node, form, {table(lists), table(lists + 1), table(lists + 2)});
          run(form, context);
        };
      });
}

}  // namespace

void add_cpu_paths(Backend& backend) {
  add(backend, "path_sum", 3, run_messages);
  add(backend, "path_statistics", 3, run_messages);
  add(backend, "path_gradient", 2, run_gradients);
}

}  // namespace ramet::kernel
#endif
