// ONNX's attention, rotary positions, linear attention and its causal convolution.
#include <cmath>
#include <limits>

#include "ramet/base/error_types.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// [B, S, H D] -> [B, H, S, D]; four dimensions stay.
Tensor by_heads(const OnnxCall& at, Tensor a, const char* heads) {
  if (a.shape().rank() == 4) return a;
  if (a.shape().rank() != 3) at.refuse("operands must have three or four dimensions");
  const int64_t count = at.integer(heads);
  if (count < 1 || a.dim(2) % count != 0) at.refuse("the width is no multiple of the heads");
  return transpose(reshape(a, {a.dim(0), a.dim(1), count, a.dim(2) / count}), {0, 2, 1, 3});
}

/// Each of the heads of keys for all heads of queries that share it.
Tensor for_queries(const OnnxCall& at, Tensor a, int64_t heads) {
  if (a.dim(1) == heads) return a;
  if (a.dim(1) < 1 || heads % a.dim(1) != 0) at.refuse("the heads of queries are no multiple of those of keys");
  return repeat_interleave(a, heads / a.dim(1), 1);
}

/// What ONNX's Attention is given.
struct Given {
  Tensor query, key, value;  ///< [B, H, S, D]; keys and values with those of the past
  Tensor mask, lengths;      ///< or invalid
  int64_t past = 0;          ///< positions before the queries
  double scale = 1, soft_cap = 0;
  bool causal = false;
  int64_t left = -1, right = -1;

  int64_t queries() const { return query.dim(2); }
  int64_t keys() const { return key.dim(2); }
};

/// Whether query i may see key j, by position: bool [S, T], or [B, 1, S, T] where samples differ in length. Invalid
/// where all are seen.
Tensor seen_by_position(const OnnxCall& at, const Given& given) {
  const int64_t queries = given.queries(), keys = given.keys();
  const Tensor key = iota(at.build(), DType::kI64, {1, keys}, 1);
  Tensor query = add(iota(at.build(), DType::kI64, {queries, 1}, 0), at.integer_constant({}, {given.past}));
  Tensor lengths;
  if (given.lengths.valid()) {
    lengths = reshape(as_i64(given.lengths), {given.lengths.shape().elements(), 1, 1, 1});
    query = add(query, subtract(lengths, at.integer_constant({}, {queries})));
  }
  Tensor seen;
  const auto narrow = [&](Tensor condition) { seen = seen.valid() ? logical_and(seen, condition) : condition; };
  const auto from = [&](int64_t distance) { return add(query, at.integer_constant({}, {distance})); };
  if (given.causal) narrow(map_binary("less_equal", key, query));
  if (given.left >= 0) narrow(map_binary("greater_equal", key, from(-given.left)));
  if (given.right >= 0) narrow(map_binary("less_equal", key, from(given.right)));
  if (lengths.valid()) narrow(less(key, lengths));
  return seen;
}

/// What is added to the scores, or invalid.
Tensor bias_of(const OnnxCall& at, const Given& given) {
  const DType dtype = given.query.dtype();
  const Tensor zero = at.full(dtype, {}, 0), hidden = at.full(dtype, {}, kHidden);
  Tensor bias;
  if (given.mask.valid()) {
    Tensor mask = given.mask;
    bias = mask.dtype() == DType::kBool ? select(mask, zero, hidden) : in_type(mask, dtype);
    if (const int64_t missing = given.keys() - bias.dim(-1); missing > 0 && bias.shape().rank() > 0) {
      std::vector<int64_t> low(static_cast<size_t>(bias.shape().rank()), 0), high = low;
      high.back() = missing;
      bias = pad(bias, low, high, kHidden);
    }
  }
  if (const Tensor seen = seen_by_position(at, given); seen.valid()) {
    const Tensor positions = select(seen, zero, hidden);
    bias = bias.valid() ? add(bias, positions) : positions;
  }
  return bias;
}

Tensor capped(Tensor a, double cap) { return cap > 0 ? scale(tanh(scale(a, 1 / cap)), cap) : a; }

/// Attention as one op, where nothing but its result is wanted.
Tensor fused_attention(const Given& given) {
  const auto by_position = [](Tensor a) { return transpose(a, {0, 2, 1, 3}); };
  ScoreOptions scores{.window_left = given.left, .window_right = given.right, .soft_cap = given.soft_cap};
  if (given.mask.valid()) {
    if (given.mask.dtype() == DType::kBool)
      scores.mask = given.mask;
    else
      scores.bias = given.mask;
  }
  const Tensor made = attention_with(by_position(given.query), by_position(given.key), by_position(given.value), scores,
                                     {.causal = given.causal, .scale = given.scale});
  return by_position(made);
}

Values attention(const OnnxCall& at) {
  const bool packed = at.input(0).shape().rank() == 3;
  Given given{.query = by_heads(at, at.input(0), "q_num_heads"),
              .key = by_heads(at, at.input(1), "kv_num_heads"),
              .value = by_heads(at, at.input(2), "kv_num_heads"),
              .mask = at.input_if(3),
              .lengths = at.input_if(6)};
  const Tensor past_key = at.input_if(4), past_value = at.input_if(5);
  for (const Tensor past : {past_key, past_value})
    if (past.valid() && past.shape().rank() != 4) at.refuse("keys and values of the past must have four dimensions");
  if (given.mask.valid() && given.mask.shape().rank() == 0) at.refuse("the mask has no dimensions");
  if (given.query.shape().rank() != 4 || given.key.shape().rank() != 4 || given.value.shape().rank() != 4)
    at.refuse("operands must have three or four dimensions");
  if (past_key.valid()) given.past = past_key.dim(2), given.key = concat({past_key, given.key}, 2);
  if (past_value.valid()) given.value = concat({past_value, given.value}, 2);
  const DType dtype = given.query.dtype();
  given.scale = at.number("scale", 1 / std::sqrt(static_cast<double>(given.query.dim(3))));
  given.soft_cap = at.number("softcap", 0);
  given.causal = at.flag("is_causal");
  given.left = at.integer("left_window_size", -1), given.right = at.integer("right_window_size", -1);
  const DType precision = at.dtype("softmax_precision", dtype);
  Tensor output, scores_out;
  const bool plain = !past_key.valid() && !given.lengths.valid() && !at.wants(3) && precision == DType::kF32 &&
                     dtype == DType::kF32 && given.value.dtype() == dtype &&
                     (!given.mask.valid() || given.mask.dim(-1) == given.keys());
  if (plain) {
    output = fused_attention(given);
  } else {
    // Each step is rounded to the type of the queries, as in ONNX's function.
    const double root = HostTensor::of(dtype, {}, {std::sqrt(given.scale)}).get(0);
    const Tensor bias = bias_of(at, given);
    const Tensor keys = for_queries(at, given.key, given.query.dim(1)),
                 values = for_queries(at, given.value, given.query.dim(1));
    const auto rounded = [&](Tensor a) { return in_type(rounded_to(at_least_f32(a), dtype), dtype); };
    Tensor scores = matmul(rounded(scale(given.query, root)), rounded(scale(keys, root)), false, true);
    const int64_t mode = at.integer("qk_matmul_output_mode", 0);
    if (mode == 0) scores_out = scores;
    scores = rounded(capped(scores, given.soft_cap));
    if (mode == 1) scores_out = scores;
    if (bias.valid()) scores = rounded(add(scores, bias));
    if (mode == 2) scores_out = scores;
    Tensor probabilities = guarded_softmax(in_type(scores, precision), -1, precision, 0);
    if (mode == 3) scores_out = in_type(probabilities, dtype);
    probabilities = in_type(probabilities, dtype);
    output = in_type(matmul(probabilities, in_type(values, dtype)), given.value.dtype());
    output = in_type(output, dtype);
  }
  if (packed) {
    output = transpose(output, {0, 2, 1, 3});
    output = reshape(output, {output.dim(0), output.dim(1), output.dim(2) * output.dim(3)});
  }
  return {output, given.key, given.value, scores_out};
}

/// Attention whose scores and probabilities inner graphs change.
Values flex_attention(const OnnxCall& at) {
  const Tensor query = at.input(0);
  if (query.shape().rank() != 4 || at.input(1).shape().rank() != 4 || at.input(2).shape().rank() != 4)
    at.refuse("operands must have four dimensions");
  const Tensor key = for_queries(at, at.input(1), query.dim(1)), value = for_queries(at, at.input(2), query.dim(1));
  const double root = std::sqrt(at.number("scale", 1 / std::sqrt(static_cast<double>(query.dim(3)))));
  const DType natural = size_of(query.dtype()) < 4 ? DType::kF32 : query.dtype();
  const DType precision = at.dtype("softmax_precision", natural);
  Tensor scores = in_type(matmul(scale(query, root), scale(key, root), false, true), precision);
  const auto changed = [&](const char* graph, Tensor a) {
    if (!at.has(graph)) return a;
    const Values made = at.importer().run_inner(at.graph(graph), at.scope(), {a});
    if (made.size() != 1 || !made[0].tensor.valid() || made[0].tensor.shape() != a.shape())
      at.refuse(std::string(graph) + " does not give a tensor of its input's shape");
    return in_type(made[0].tensor, precision);
  };
  scores = changed("score_mod", scores);
  const Tensor probabilities = changed("prob_mod", softmax(scores, -1));
  return {in_type(matmul(probabilities, in_type(value, precision)), value.dtype())};
}

/// Rotary positions of [B, H, S, D] by tables [B or 1, S, R / 2] that may have gradients, in the operands' type.
Tensor rotated_by_parts(Tensor a, Tensor cosine, Tensor sine, bool interleaved) {
  const int64_t size = a.dim(3), rotated = 2 * cosine.dim(2);
  const auto for_heads = [](Tensor table) { return reshape(table, {table.dim(0), 1, table.dim(1), table.dim(2)}); };
  cosine = for_heads(cosine), sine = for_heads(sine);
  const Tensor part = slice_axis(a, 3, 0, rotated), rest = slice_axis(a, 3, rotated, size);
  const Tensor first = interleaved ? slice_axis(part, 3, 0, rotated, 2) : slice_axis(part, 3, 0, rotated / 2);
  const Tensor second = interleaved ? slice_axis(part, 3, 1, rotated, 2) : slice_axis(part, 3, rotated / 2, rotated);
  const Tensor real = subtract(multiply(cosine, first), multiply(sine, second));
  const Tensor imaginary = add(multiply(sine, first), multiply(cosine, second));
  const Tensor made = interleaved ? reshape(stack({real, imaginary}, 4), part.shape()) : concat({real, imaginary}, 3);
  return rotated < size ? concat({made, rest}, 3) : made;
}

Values rotary_embedding(const OnnxCall& at) {
  const Tensor input = at.input(0);
  const Tensor a = by_heads(at, input, "num_heads");  // [B, H, S, D]
  const int64_t size = a.dim(3), wanted = at.integer("rotary_embedding_dim", 0), rotated = wanted == 0 ? size : wanted;
  if (rotated < 2 || rotated > size || rotated % 2 != 0) at.refuse("the rotated part has no two halves");
  const auto table = [&](size_t index) {
    Tensor cache = at.input(index);
    if (at.has(3)) cache = index_select(cache, as_i64(at.input(3)), 0, true);
    if (cache.shape().rank() != 3 || cache.dim(2) != rotated / 2) at.refuse("a table has another number of angles");
    return cache;
  };
  const Tensor cosine = table(1), sine = table(2);
  const bool interleaved = at.flag("interleaved");
  const bool one = cosine.dim(0) == 1, fits = one || cosine.dim(0) == a.dim(0);
  // The fused op gives its tables no gradient.
  const bool fixed = at.known(at.input(1)) && at.known(at.input(2));
  Tensor made;
  if (fixed && a.dtype() == DType::kF32 && cosine.dtype() == DType::kF32 && cosine.type() == sine.type() && fits &&
      cosine.dim(1) == a.dim(2)) {
    const auto rows = [&](Tensor b) { return one ? reshape(b, {b.dim(1), b.dim(2)}) : b; };
    made = rotary(transpose(a, {0, 2, 1, 3}), {rows(cosine), rows(sine)},
                  interleaved ? RotaryPairs::kNeighbours : RotaryPairs::kHalves);
    made = transpose(made, {0, 2, 1, 3});
  } else {
    made = rotated_by_parts(a, cosine, sine, interleaved);
  }
  if (input.shape().rank() == 3) made = reshape(transpose(made, {0, 2, 1, 3}), input.shape());
  return {made};
}

/// The recurrence of linear attention, step by step.
Values linear_attention(const OnnxCall& at) {
  const std::string rule = at.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") at.refuse("update_rule '" + rule + "' is not known");
  const DType dtype = at.input(0).dtype();
  const auto operand = [&](size_t index, const char* heads) {
    return by_heads(at, in_type(at.input(index), DType::kF32), heads);
  };
  const Tensor query = operand(0, "q_num_heads"), key = operand(1, "kv_num_heads"), value = operand(2, "kv_num_heads");
  const int64_t samples = key.dim(0), heads = key.dim(1), steps = key.dim(2), width = key.dim(3), out = value.dim(3);
  if (steps > 4096) at.refuse("linear attention over more than 4,096 steps is not supported");
  Tensor decay, rate;
  if (gated) {
    const Tensor given = in_type(at.input(4), DType::kF32);
    if (given.shape().rank() != 3) at.refuse("the decay must have three dimensions");
    decay = transpose(reshape(given, {samples, steps, heads, given.dim(2) / heads}), {0, 2, 1, 3});
  }
  if (delta) {
    const Tensor given = in_type(at.input(5), DType::kF32);
    if (given.shape().rank() != 3) at.refuse("the rate must have three dimensions");
    rate = transpose(reshape(given, {samples, steps, given.dim(2), 1}), {0, 2, 1, 3});
  }
  const Tensor past = at.input_if(3);
  Tensor state = past.valid() ? in_type(past, DType::kF32) : at.full(DType::kF32, {samples, heads, width, out}, 0);
  double factor = at.number("scale", 0);
  if (factor == 0) factor = 1 / std::sqrt(static_cast<double>(width));
  std::vector<Tensor> results;
  for (int64_t i = 0; i < steps; ++i) {
    const auto column = [&](Tensor a) {  // [B, H, D, 1]
      return reshape(slice_axis(a, 2, i, i + 1), {a.dim(0), a.dim(1), a.dim(3), 1});
    };
    const auto row = [&](Tensor a) { return slice_axis(a, 2, i, i + 1); };  // [B, H, 1, D]
    if (gated) state = multiply(state, exp(column(decay)));
    Tensor added = row(value);
    if (delta) added = multiply(row(rate), subtract(added, matmul(row(key), state)));
    state = add(state, multiply(column(key), added));
    results.push_back(scale(matmul(row(query), for_queries(at, state, query.dim(1))), factor));
  }
  const Tensor joined = results.size() == 1 ? results[0] : concat(results, 2);
  const Tensor output = reshape(transpose(joined, {0, 2, 1, 3}), {samples, steps, query.dim(1) * out});
  return {in_type(output, dtype), in_type(state, past.valid() ? past.dtype() : dtype)};
}

Values causal_convolution(const OnnxCall& at) {
  const Tensor a = at.input(0), filter = at.input(1), past = at.input_if(3);
  if (a.shape().rank() != 3 || filter.shape().rank() != 3) at.refuse("operands must have three dimensions");
  const int64_t before = filter.dim(2) - 1;
  if (before < 0 || (past.valid() && past.shape().rank() != 3)) at.refuse("operands must have three dimensions");
  const Tensor whole = past.valid() ? concat({in_type(past, a.dtype()), a}, 2) : pad(a, {0, 0, before}, {0, 0, 0});
  Tensor made = convolution(whole, filter, at.input_if(2), {.groups = a.dim(1)});
  const std::string activation = at.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    made = silu(made);
  else if (activation != "none")
    at.refuse("activation '" + activation + "' is not known");
  return {made, slice_axis(whole, 2, whole.dim(2) - before, whole.dim(2))};
}

Values swiglu(const OnnxCall& at) {
  const Tensor gate = at.input(0), value = at.input(1);
  const double alpha = at.number("alpha", 1);
  if (alpha == 1) return {ops::swiglu(gate, value)};
  return {multiply(multiply(gate, sigmoid(scale(gate, alpha))), value)};
}

constexpr OnnxEntry kEntries[] = {
    {"Attention", attention},
    {"CausalConvWithState", causal_convolution},
    {"LinearAttention", linear_attention},
    {"RotaryEmbedding", rotary_embedding},
    {"SwiGLU", swiglu},
    {"ai.onnx.preview.FlexAttention", flex_attention},
};

}  // namespace

std::span<const OnnxEntry> onnx_attention_operators() { return kEntries; }

}  // namespace ramet::front
