// Distances between rows and columns, and their gradients. Features lie along vectors: a distance sums them in 16
// strided lanes, and a gradient is one chain a feature, so that neither the width of vectors nor threads change a bit.

#include "ramet/kernel/cpu/pairs.h"

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/pairs.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::PairCall;
using ops::PairNorm;

constexpr int64_t kSumLanes = 16;
constexpr int kColumns = 4;  // whose distances from one row are summed together

/// -1, 0 or 1.
HWY_INLINE Vf sign_of(Vf x) {
  const Df d;
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Zero(d), hn::CopySign(hn::Set(d, 1.0f), x));
}

/// The difference of a row and a column in a vector of features; `terms` fixes T where it is 1 or 0 (no weights).
template <int kTerms>
HWY_INLINE Vf difference(const PairCall& call, const float* a, const float* b, const float* w, int64_t count) {
  Vf x = load_part(a, count);
  if constexpr (kTerms == 0) return hn::Sub(x, load_part(b, count));
  const int64_t terms = kTerms == 1 ? 1 : call.form.terms;
  for (int64_t t = 0; t < terms; ++t)
    x = hn::NegMulAdd(load_part(w + t * call.form.width, count), load_part(b + t * call.form.width, count), x);
  return x;
}

struct L1 {
  static HWY_INLINE Vf value(Vf x, Vf) { return hn::Abs(x); }
  static HWY_INLINE Vf slope(Vf x, Vf) { return sign_of(x); }
};
struct Squares {
  static HWY_INLINE Vf value(Vf x, Vf) { return hn::Mul(x, x); }
  static HWY_INLINE Vf slope(Vf x, Vf) { return hn::Add(x, x); }
};
struct Box {
  static HWY_INLINE Vf value(Vf x, Vf w) {
    const Df d;
    const Vf size = hn::Abs(x), half = hn::Set(d, 0.5f), more = hn::Add(w, hn::Set(d, 1.0f));
    const Vf inverse = hn::Div(hn::Set(d, 1.0f), more);
    const Vf outside = hn::Sub(hn::Mul(size, more), hn::Mul(hn::Mul(w, half), hn::Sub(more, inverse)));
    return hn::IfThenElse(hn::Le(size, hn::Mul(w, half)), hn::Mul(size, inverse), outside);
  }
  static HWY_INLINE Vf slope(Vf x, Vf w) {
    const Df d;
    const Vf more = hn::Add(w, hn::Set(d, 1.0f));
    const Vf rate =
        hn::IfThenElse(hn::Le(hn::Abs(x), hn::Mul(w, hn::Set(d, 0.5f))), hn::Div(hn::Set(d, 1.0f), more), more);
    return hn::Mul(sign_of(x), rate);
  }
  static HWY_INLINE Vf width_slope(Vf x, Vf w) {
    const Df d;
    const Vf size = hn::Abs(x), half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f), more = hn::Add(w, one);
    const Vf inverse = hn::Div(one, more), square = hn::Mul(inverse, inverse);
    const Vf shift = hn::Add(hn::Sub(more, inverse), hn::Mul(w, hn::Add(one, square)));
    return hn::IfThenElse(hn::Le(size, hn::Mul(w, half)), hn::Neg(hn::Mul(size, square)),
                          hn::Sub(size, hn::Mul(half, shift)));
  }
};

/// The norm of one vector of features of a pair; kComplex: of the halves.
template <PairNorm kNorm, int kTerms>
HWY_INLINE Vf norm_part(const PairCall& call, const float* a, const float* b, const float* w, int64_t count) {
  if constexpr (kNorm == PairNorm::kComplex) {
    const int64_t half = call.form.width / 2;
    const Vf re = difference<kTerms>(call, a, b, w, count);
    const Vf im = difference<kTerms>(call, a + half, b + half, w + half, count);
    return hn::Sqrt(hn::MulAdd(im, im, hn::Mul(re, re)));
  } else if constexpr (kNorm == PairNorm::kBox) {
    return Box::value(difference<0>(call, a, b, w, count), load_part(w, count));
  } else {
    const Vf x = difference<kTerms>(call, a, b, w, count);
    if constexpr (kNorm == PairNorm::kL1) return L1::value(x, x);
    return Squares::value(x, x);
  }
}

/// Distances of row `m` from columns [k, k + count), count at most kColumns.
template <PairNorm kNorm, int kTerms>
HWY_INLINE void distances(const PairCall& call, int64_t m, int64_t k, int count) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Df()));
  constexpr int kPieces = static_cast<int>(std::max<int64_t>(1, kSumLanes / kLanes));
  const Df d;
  const auto& form = call.form;
  const int64_t features = kNorm == PairNorm::kComplex ? form.width / 2 : form.width, wide = form.column_width();
  const float* a = call.a + m * form.width;
  const float* w = call.w ? call.w + m * wide : a;
  Vf sums[kColumns][kPieces];
  RAMET_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) sums[c][p] = hn::Zero(d);
  }
  for (int64_t at = 0; at < features; at += kSumLanes) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      const int64_t first = at + p * kLanes;
      if (first >= features) continue;
      RAMET_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        // Surplus columns repeat the last one; their sums are not stored.
        const float* b = call.b + (k + std::min(c, count - 1)) * wide + first;
        sums[c][p] = hn::Add(sums[c][p], norm_part<kNorm, kTerms>(call, a + first, b, w + first, features - first));
      }
    }
  }
  HWY_ALIGN float lane[std::max(kSumLanes, kLanes)];
  for (int c = 0; c < count; ++c) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) hn::Store(sums[c][p], d, lane + p * kLanes);
    for (int64_t width = kSumLanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    call.out[m * form.columns + k + c] = lane[0];
  }
}

/// g times the derivative by the differences of a vector of features; kComplex: of both halves.
struct Slopes {
  Vf first, second;
};
template <PairNorm kNorm, int kTerms>
HWY_INLINE Slopes slopes_of(const PairCall& call, Vf g, const float* a, const float* b, const float* w, int64_t count) {
  if constexpr (kNorm == PairNorm::kComplex) {
    const Df d;
    const int64_t half = call.form.width / 2;
    const Vf re = difference<kTerms>(call, a, b, w, count);
    const Vf im = difference<kTerms>(call, a + half, b + half, w + half, count);
    const Vf modulus = hn::Sqrt(hn::MulAdd(im, im, hn::Mul(re, re)));
    const Vf rate = hn::IfThenZeroElse(hn::Eq(modulus, hn::Zero(d)), hn::Div(g, modulus));
    return {hn::Mul(re, rate), hn::Mul(im, rate)};
  } else {
    const Vf x = difference < kNorm == PairNorm::kBox ? 0 : kTerms > (call, a, b, w, count);
    Vf slope;
    if constexpr (kNorm == PairNorm::kL1) slope = L1::slope(x, x);
    if constexpr (kNorm == PairNorm::kSquares) slope = Squares::slope(x, x);
    if constexpr (kNorm == PairNorm::kBox) slope = Box::slope(x, load_part(w, count));
    return {hn::Mul(g, slope), slope};
  }
}

template <PairNorm kNorm>
constexpr int halves() {
  return kNorm == PairNorm::kComplex ? 2 : 1;
}

/// The gradients of features [at, at + count) of row `m`; of complex numbers in both halves.
template <PairNorm kNorm, int kTerms>
HWY_INLINE void row_gradient(const PairCall& call, int64_t m, int64_t at, int64_t count) {
  const Df d;
  const auto& form = call.form;
  const int64_t wide = form.column_width(), half = form.width / 2;
  const float* a = call.a + m * form.width + at;
  const float* w = call.w ? call.w + m * wide + at : a;
  Vf sums[2] = {hn::Zero(d), hn::Zero(d)}, weights[2] = {hn::Zero(d), hn::Zero(d)};
  for (int64_t k = 0; k < form.columns; ++k) {
    const float* b = call.b + k * wide + at;
    const Vf g = hn::Set(d, call.g[m * form.columns + k]);
    const Slopes slopes = slopes_of<kNorm, kTerms>(call, g, a, b, w, count);
    const Vf slope[2] = {slopes.first, slopes.second};
    RAMET_UNROLL
    for (int h = 0; h < halves<kNorm>(); ++h) {
      sums[h] = hn::Add(sums[h], slope[h]);
      if constexpr (kNorm == PairNorm::kBox)
        weights[h] =
            hn::MulAdd(g, Box::width_slope(difference<0>(call, a, b, w, count), load_part(w, count)), weights[h]);
      else if constexpr (kTerms == 1)
        weights[h] = hn::NegMulAdd(slope[h], load_part(b + h * half, count), weights[h]);
    }
  }
  for (int h = 0; h < halves<kNorm>(); ++h) {
    store_part(sums[h], call.out + m * form.width + at + h * half, count);
    if (kTerms == 1 || kNorm == PairNorm::kBox)
      store_part(weights[h], call.weight_out + m * wide + at + h * half, count);
  }
  if constexpr (kTerms <= 1) return;
  for (int64_t t = 0; t < form.terms; ++t)
    for (int h = 0; h < halves<kNorm>(); ++h) {
      Vf sum = hn::Zero(d);
      for (int64_t k = 0; k < form.columns; ++k) {
        const float* b = call.b + k * wide + at;
        const Slopes slopes = slopes_of<kNorm, kTerms>(call, hn::Set(d, call.g[m * form.columns + k]), a, b, w, count);
        sum =
            hn::NegMulAdd(h == 0 ? slopes.first : slopes.second, load_part(b + t * form.width + h * half, count), sum);
      }
      store_part(sum, call.weight_out + m * wide + t * form.width + at + h * half, count);
    }
}

/// The gradients of features [at, at + count) of column `k`, in all terms; of complex numbers in both halves.
template <PairNorm kNorm, int kTerms>
HWY_INLINE void column_gradient(const PairCall& call, int64_t k, int64_t at, int64_t count) {
  const Df d;
  const auto& form = call.form;
  const int64_t wide = form.column_width(), half = form.width / 2;
  const float* b = call.b + k * wide + at;
  const int64_t terms = kTerms <= 1 ? 1 : form.terms;
  for (int64_t t = 0; t < terms; ++t) {
    Vf sums[2] = {hn::Zero(d), hn::Zero(d)};
    for (int64_t m = 0; m < form.rows; ++m) {
      const float* a = call.a + m * form.width + at;
      const float* w = call.w ? call.w + m * wide + at : a;
      const Slopes slopes = slopes_of<kNorm, kTerms>(call, hn::Set(d, call.g[m * form.columns + k]), a, b, w, count);
      const Vf slope[2] = {slopes.first, slopes.second};
      RAMET_UNROLL
      for (int h = 0; h < halves<kNorm>(); ++h)
        sums[h] = kTerms == 0 || kNorm == PairNorm::kBox
                      ? hn::Sub(sums[h], slope[h])
                      : hn::NegMulAdd(slope[h], load_part(w + t * form.width + h * half, count), sums[h]);
    }
    for (int h = 0; h < halves<kNorm>(); ++h)
      store_part(sums[h], call.out + k * wide + t * form.width + at + h * half, count);
  }
}

enum class Job { kDistances, kRows, kColumns };

template <PairNorm kNorm, int kTerms>
void run_job(const PairCall& call, Job job, int64_t begin, int64_t end) {
  const auto& form = call.form;
  if (job == Job::kDistances) {
    // A few columns stay in the nearest cache while all rows pass.
    for (int64_t k = 0; k < form.columns; k += kColumns)
      for (int64_t m = begin; m < end; ++m)
        distances<kNorm, kTerms>(call, m, k, static_cast<int>(std::min<int64_t>(kColumns, form.columns - k)));
    return;
  }
  const int64_t features = kNorm == PairNorm::kComplex ? form.width / 2 : form.width;
  for (int64_t row = begin; row < end; ++row)
    walk_vectors(features, [&](int64_t at, int64_t) {
      if (job == Job::kRows)
        row_gradient<kNorm, kTerms>(call, row, at, features - at);
      else
        column_gradient<kNorm, kTerms>(call, row, at, features - at);
    });
}

template <PairNorm kNorm>
void run_norm(const PairCall& call, Job job, int64_t begin, int64_t end) {
  if (!call.form.weighted) return run_job<kNorm, 0>(call, job, begin, end);
  if (call.form.terms == 1) return run_job<kNorm, 1>(call, job, begin, end);
  return run_job<kNorm, 2>(call, job, begin, end);
}

void run_pairs(const PairCall& call, Job job, int64_t begin, int64_t end) {
  switch (call.form.norm) {
    case PairNorm::kL1: return run_norm<PairNorm::kL1>(call, job, begin, end);
    case PairNorm::kSquares: return run_norm<PairNorm::kSquares>(call, job, begin, end);
    case PairNorm::kComplex: return run_norm<PairNorm::kComplex>(call, job, begin, end);
    case PairNorm::kBox: return run_job<PairNorm::kBox, 1>(call, job, begin, end);
  }
}

}  // namespace

/// Distances of rows [begin, end).
void PairDistances(const PairCall& call, int64_t begin, int64_t end) { run_pairs(call, Job::kDistances, begin, end); }
/// Gradients of rows, or of columns, [begin, end).
void PairRows(const PairCall& call, int64_t begin, int64_t end) { run_pairs(call, Job::kRows, begin, end); }
void PairColumns(const PairCall& call, int64_t begin, int64_t end) { run_pairs(call, Job::kColumns, begin, end); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(PairDistances);
HWY_EXPORT(PairRows);
HWY_EXPORT(PairColumns);

namespace {

using cpu::PairCall;
using ops::PairForm;

/// Group `group`'s part of operands that begin with input `first`.
PairCall call_of(const PairForm& form, const KernelContext& context, size_t first, int64_t group) {
  PairCall call{.form = form};
  const auto floats = [&](size_t input) { return static_cast<const float*>(context.inputs[input]); };
  if (first > 0) call.g = floats(0) + group * form.rows * form.columns;
  call.a = floats(first) + group * form.rows * form.width;
  call.b = floats(first + 1) + group * form.columns * form.column_width();
  if (form.weighted) call.w = floats(first + 2) + group * form.rows * form.column_width();
  return call;
}

/// Calls `body(group, begin, end)` for runs of the `rows` rows of each group.
template <typename Body>
void split_groups(const KernelContext& context, int64_t groups, int64_t rows, const Body& body) {
  context.team.split(groups * rows, 1, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t group = begin / rows, last = std::min(end, (group + 1) * rows);
      body(group, begin - group * rows, last - group * rows);
      begin = last;
    }
  });
}

void run_distance(const PairForm& form, const KernelContext& context) {
  split_groups(context, form.groups, form.rows, [&](int64_t group, int64_t begin, int64_t end) {
    PairCall call = call_of(form, context, 0, group);
    call.out = static_cast<float*>(context.outputs[0]) + group * form.rows * form.columns;
    HWY_DYNAMIC_DISPATCH(PairDistances)(call, begin, end);
  });
}

void run_row_grad(const PairForm& form, const KernelContext& context) {
  split_groups(context, form.groups, form.rows, [&](int64_t group, int64_t begin, int64_t end) {
    PairCall call = call_of(form, context, 1, group);
    call.out = static_cast<float*>(context.outputs[0]) + group * form.rows * form.width;
    if (form.weighted)
      call.weight_out = static_cast<float*>(context.outputs[1]) + group * form.rows * form.column_width();
    HWY_DYNAMIC_DISPATCH(PairRows)(call, begin, end);
  });
}

void run_column_grad(const PairForm& form, const KernelContext& context) {
  split_groups(context, form.groups, form.columns, [&](int64_t group, int64_t begin, int64_t end) {
    PairCall call = call_of(form, context, 1, group);
    call.out = static_cast<float*>(context.outputs[0]) + group * form.columns * form.column_width();
    HWY_DYNAMIC_DISPATCH(PairColumns)(call, begin, end);
  });
}

void add(Backend& backend, const std::string& op, void (*run)(const PairForm&, const KernelContext&)) {
  cpu::add_hwy(
      backend, op,
      [](const NodeSignature& node) {
        for (const TensorType& type : node.inputs)
          if (type.dtype != DType::kF32) return "it computes f32";
        return "";
      },
      [run](const NodeSignature& node, int) {
        cpu_level();
        return [form = ops::pair_form(node), run](const KernelContext& context) { run(form, context); };
      });
}

}  // namespace

void add_cpu_pairs(Backend& backend) {
  add(backend, "pair_distance", run_distance);
  add(backend, "pair_row_grad", run_row_grad);
  add(backend, "pair_column_grad", run_column_grad);
}

}  // namespace ramet::kernel
#endif
