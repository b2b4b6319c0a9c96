// ONNX's reductions and running results.
#include <algorithm>
#include <limits>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

using Reduce = Tensor (*)(Tensor, const std::vector<int64_t>&, bool);

/// What a reduction of ONNX does: `before` each element, the reduction, `behind` its result.
struct Form {
  Reduce reduce;
  Tensor (*before)(Tensor) = nullptr;
  Tensor (*behind)(Tensor) = nullptr;
  bool floats = false;  ///< integers are computed in f64
  int extreme = 0;      ///< 1: the greatest; -1: the least
};

/// No axes and noop_with_empty_axes: nothing is reduced. Without axes otherwise: all are.
struct Axes {
  std::vector<int64_t> axes{};
  bool none = false;
};
Axes axes_of_reduction(const OnnxCall& at, int rank) {
  Axes made{checked_axes(at.integers_of(1, "axes"), rank)};
  if (!made.axes.empty()) return made;
  made.none = at.flag("noop_with_empty_axes");
  for (int i = 0; i < rank; ++i) made.axes.push_back(i);
  return made;
}

/// The greatest of no elements is the least number of the type, and the reverse.
Tensor extreme_of_nothing(const OnnxCall& at, Tensor a, const std::vector<int64_t>& axes, DType dtype, int extreme) {
  std::vector<int64_t> dims;
  for (int i = 0; i < a.shape().rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced || at.flag("keepdims", true)) dims.push_back(reduced ? 1 : a.dim(i));
  }
  const double infinite = std::numeric_limits<double>::infinity();
  const bool floats = is_floating(dtype);
  const double value = extreme > 0 ? (floats ? -infinite : lowest_of(dtype)) : (floats ? infinite : greatest_of(dtype));
  return at.full(a.dtype(), Shape(dims), value);
}

Values reduce(const OnnxCall& at, const Form& form) {
  Tensor a = at.input(0);
  const DType dtype = a.dtype();
  if (!is_floating(dtype) && form.floats) a = cast(a, DType::kF64);
  if (dtype == DType::kBool) a = cast(a, DType::kU8);
  a = at_least_f32(a);
  const Axes axes = axes_of_reduction(at, a.shape().rank());
  if (form.before) a = form.before(a);
  const bool empty = a.shape().elements() == 0 && form.extreme != 0 && !axes.none;
  if (empty)
    a = extreme_of_nothing(at, a, axes.axes, dtype, form.extreme);
  else if (!axes.none && a.shape().rank() > 0)
    a = form.reduce(a, axes.axes, at.flag("keepdims", true));
  if (form.behind) a = form.behind(a);
  return {in_type(a, dtype)};
}

Tensor absolute(Tensor a) { return map_unary("abs", a); }
Tensor square(Tensor a) { return map_unary("square", a); }

Values reduce_sum(const OnnxCall& at) { return reduce(at, {ops::reduce_sum}); }
Values reduce_mean(const OnnxCall& at) { return reduce(at, {ops::reduce_mean, nullptr, nullptr, true}); }
Values reduce_prod(const OnnxCall& at) { return reduce(at, {ops::reduce_prod}); }
Values reduce_max(const OnnxCall& at) { return reduce(at, {ops::reduce_max, nullptr, nullptr, false, 1}); }
Values reduce_min(const OnnxCall& at) { return reduce(at, {ops::reduce_min, nullptr, nullptr, false, -1}); }
Values reduce_l1(const OnnxCall& at) { return reduce(at, {ops::reduce_sum, absolute}); }
Values reduce_l2(const OnnxCall& at) { return reduce(at, {ops::reduce_sum, square, ops::sqrt, true}); }
Values reduce_sum_square(const OnnxCall& at) { return reduce(at, {ops::reduce_sum, square}); }
Values reduce_log_sum(const OnnxCall& at) { return reduce(at, {ops::reduce_sum, nullptr, ops::log, true}); }
Values reduce_log_sum_exp(const OnnxCall& at) { return reduce(at, {log_sum_exp, nullptr, nullptr, true, 1}); }

/// i64 places of the greatest (least) elements along an axis.
Values arg_extreme(const OnnxCall& at, bool greatest) {
  Tensor a = at.input(0);
  const int rank = a.shape().rank(), axis = at.axis("axis", rank, 0);
  const bool last = at.flag("select_last_index");
  if (last) a = flip(a, {axis});
  Tensor made = as_i64(greatest ? argmax(a, axis) : argmin(a, axis));
  if (last) made = subtract(at.integer_constant({}, {a.dim(axis) - 1}), made);
  if (!at.flag("keepdims", true)) return {made};
  std::vector<int64_t> dims = a.shape().dims();
  dims[static_cast<size_t>(axis)] = 1;
  return {reshape(made, Shape(dims))};
}
Values arg_max(const OnnxCall& at) { return arg_extreme(at, true); }
Values arg_min(const OnnxCall& at) { return arg_extreme(at, false); }

using Running = Tensor (*)(Tensor, int64_t, const RunningOptions&);
Values running(const OnnxCall& at, Running compute) {
  const Tensor a = at.input(0);
  const int64_t axis = normalize_axis(at.known_integer(1, "an axis"), a.shape().rank(), "axis");
  const RunningOptions options{.reverse = at.flag("reverse"), .exclusive = at.flag("exclusive")};
  return {through_f32(a, [&](Tensor b) { return compute(b, axis, options); })};
}
Values cum_sum(const OnnxCall& at) { return running(at, ops::cumsum); }
Values cum_prod(const OnnxCall& at) { return running(at, ops::cumprod); }

Values top_k(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int axis = at.axis("axis", a.shape().rank(), -1);
  const int64_t k = at.version() < 10 ? at.integer("k") : at.known_integer(1, "the number of elements");
  const auto [values, indices] = ops::top_k(a, k, axis, at.flag("largest", true));
  return {values, as_i64(indices)};
}

// --- counts of n-grams ---

/// The n-grams of one length that TfIdfVectorizer counts.
struct Grams {
  int64_t length = 1;
  std::vector<int64_t> items{};    ///< one n-gram behind the other
  std::vector<int64_t> columns{};  ///< of the result
  std::vector<double> weights{};
  int64_t count() const { return static_cast<int64_t>(columns.size()); }
};

/// The n-grams of the lengths that the call counts.
std::vector<Grams> grams_of(const OnnxCall& at) {
  if (at.has("pool_strings")) at.refuse("strings are not supported");
  constexpr int64_t kMostColumns = 1 << 16;
  const std::vector<int64_t> pool = at.integers("pool_int64s"), starts = at.integers("ngram_counts"),
                             columns = at.integers("ngram_indexes");
  const std::vector<double> weights = at.numbers("weights");
  const int64_t least = at.integer("min_gram_length"), most = at.integer("max_gram_length");
  if (!weights.empty() && weights.size() != columns.size()) at.refuse("there is not one weight an n-gram");
  std::vector<Grams> made;
  size_t next = 0;  // n-gram
  for (size_t i = 0; i < starts.size(); ++i) {
    Grams grams{.length = static_cast<int64_t>(i) + 1};
    const int64_t from = starts[i], to = i + 1 < starts.size() ? starts[i + 1] : std::ssize(pool);
    if (from < 0 || to < from || to > std::ssize(pool) || (to - from) % grams.length != 0)
      at.refuse("ngram_counts does not fit pool_int64s");
    for (int64_t first = from; first < to; first += grams.length, ++next) {
      if (next >= columns.size() || columns[next] < 0 || columns[next] >= kMostColumns)
        at.refuse("ngram_indexes does not fit pool_int64s");
      grams.items.insert(grams.items.end(), pool.begin() + first, pool.begin() + first + grams.length);
      grams.columns.push_back(columns[next]);
      grams.weights.push_back(weights.empty() ? 1 : weights[next]);
    }
    if (grams.length >= least && grams.length <= most && grams.count() > 0) made.push_back(std::move(grams));
  }
  return made;
}

/// How often each n-gram stands in each row of a [rows, size], with items `distance` apart: f32 [rows, n-grams].
Tensor counts_of(const OnnxCall& at, Tensor a, const Grams& grams, int64_t distance) {
  const int64_t places = a.dim(1) - distance * (grams.length - 1);
  if (places < 1) return at.full(DType::kF32, {a.dim(0), grams.count()}, 0);
  Tensor found;
  for (int64_t i = 0; i < grams.length; ++i) {
    std::vector<int64_t> items;
    for (int64_t gram = 0; gram < grams.count(); ++gram)
      items.push_back(grams.items[static_cast<size_t>(gram * grams.length + i)]);
    const Tensor part = reshape(slice_axis(a, 1, i * distance, i * distance + places), {a.dim(0), places, 1});
    const Tensor same = equal(part, at.integer_constant({1, 1, grams.count()}, items));
    found = found.valid() ? map_binary("logical_and", found, same) : same;
  }
  return ops::reduce_sum(cast(found, DType::kF32), {1});
}

/// Counts of n-grams of integers, weighted. Items of an n-gram may be max_skip_count items apart, all equally.
Values tf_idf(const OnnxCall& at) {
  const Tensor given = at.input(0);
  const int rank = given.shape().rank();
  if (rank < 1 || rank > 2 || is_floating(given.dtype())) at.refuse("the operand must be rows of integers");
  const std::string mode = at.text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") at.refuse("mode '" + mode + "' is not known");
  const int64_t skips = at.integer("max_skip_count");
  if (skips < 0 || skips > 1024) at.refuse("more than 1,024 skips are not supported");
  const Tensor a = in_type(rank == 1 ? reshape(given, {1, given.dim(0)}) : given, DType::kI64);
  const std::vector<int64_t> all = at.integers("ngram_indexes");
  const int64_t width = all.empty() ? 0 : *std::max_element(all.begin(), all.end()) + 1;
  Tensor made = at.full(DType::kF32, {a.dim(0), width}, 0);
  for (const Grams& grams : grams_of(at)) {
    Tensor counts;
    for (int64_t distance = 1; distance <= (grams.length == 1 ? 1 : skips + 1); ++distance) {
      const Tensor more = counts_of(at, a, grams, distance);
      counts = counts.valid() ? add(counts, more) : more;
    }
    if (mode == "IDF") counts = cast(less(at.full(DType::kF32, {}, 0), counts), DType::kF32);
    std::vector<double> places(static_cast<size_t>(grams.count() * width), 0);  // [n-grams, width]
    for (int64_t gram = 0; gram < grams.count(); ++gram)
      places[static_cast<size_t>(gram * width + grams.columns[static_cast<size_t>(gram)])] =
          mode == "TF" ? 1 : grams.weights[static_cast<size_t>(gram)];
    made = add(made, matmul(counts, at.constant(DType::kF32, {grams.count(), width}, places)));
  }
  return {rank == 1 ? reshape(made, {width}) : made};
}

constexpr OnnxEntry kEntries[] = {
    {"ArgMax", arg_max},
    {"ArgMin", arg_min},
    {"CumProd", cum_prod},
    {"CumSum", cum_sum},
    {"ReduceL1", reduce_l1},
    {"ReduceL2", reduce_l2},
    {"ReduceLogSum", reduce_log_sum},
    {"ReduceLogSumExp", reduce_log_sum_exp},
    {"ReduceMax", reduce_max},
    {"ReduceMean", reduce_mean},
    {"ReduceMin", reduce_min},
    {"ReduceProd", reduce_prod},
    {"ReduceSum", reduce_sum},
    {"ReduceSumSquare", reduce_sum_square},
    {"TopK", top_k},
    {"TfIdfVectorizer", tf_idf},
};

}  // namespace

std::span<const OnnxEntry> onnx_reduction_operators() { return kEntries; }

}  // namespace ramet::front
