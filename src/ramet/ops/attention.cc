#include "ramet/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

bool is_gradient(const NodeSignature& node) { return node.op->name == "attention_grad"; }

std::vector<TensorType> infer_attention(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  return {{form.dtype, Shape{form.batch, form.sequence, form.heads, form.value_size}},
          {DType::kF32, Shape{form.batch, form.heads, form.sequence}}};
}

std::vector<TensorType> infer_attention_grad(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  std::vector<TensorType> gradients(node.inputs.begin(), node.inputs.begin() + (form.joint ? 1 : 3));
  if (form.bias_gradient) gradients.push_back({DType::kF32, form.bias_shape});
  return gradients;
}

std::vector<Tensor> attention_gradient(GradientContext& context) {
  if (context.output_gradients[1].valid())
    refuse(context.node, "output 1 (lse) has no gradient", "", "", "Write the attention with matmul and softmax");
  const AttentionForm form = attention_form(context.node);
  std::vector<Tensor> inputs(context.inputs.begin(), context.inputs.end());
  inputs.push_back(context.outputs[0]);
  inputs.push_back(context.outputs[1]);
  inputs.push_back(cast_to(context.output_gradients[0], form.dtype));
  Attributes attributes = context.node.attributes;
  const bool of_bias = form.bias >= 0 && context.needed[static_cast<size_t>(form.bias)];
  if (of_bias) attributes.set("bias_gradient", true);
  std::vector<Tensor> gradients = context.build.ops("attention_grad", inputs, std::move(attributes));
  const Tensor of_scores = of_bias ? gradients.back() : Tensor();
  gradients.resize(form.joint ? 1 : 3);
  gradients.resize(context.inputs.size());
  if (of_bias) gradients[static_cast<size_t>(form.bias)] = of_scores;
  return gradients;
}

/// Heads of keys for which the gradient of the bias may be a sum of chunks; 0 where it sums over no heads.
int64_t chunked_heads(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  return form.bias_sums_heads() ? form.key_heads : 0;
}

/// The factors of an attention, and its operands made of them. Samples and heads of keys, each with its group of query
/// heads, are free; positions and head sizes are whole, as every query meets every key. Where the gradient of the bias
/// is a sum over samples, these are whole too; where over heads, only its chunks are free.
class AttentionRule {
 public:
  explicit AttentionRule(const AttentionForm& form) : form_(form) {
    const auto sum = ShardingRule::Reduce::kSum;
    sample_ = add("b", form.batch, form.bias_sums_samples(), form.bias_sums_samples() ? sum : kNoReduce);
    query_ = add("s", form.sequence, true, sum);
    key_ =
        form.keys == form.sequence && form.first < 0 ? query_ : add(form.first < 0 ? "t" : "k", form.keys, true, sum);
    const bool sums = form.bias_sums_heads();
    if (form.chunks > 1) key_heads_.push_back(add("c", form.chunks, false, sums ? sum : kNoReduce));
    const std::string name = form.group() == 1 && form.chunks == 1 ? "h" : "g";
    key_heads_.push_back(add(name, form.key_heads / form.chunks, sums, sums ? sum : kNoReduce));
    heads_ = key_heads_;
    if (form.group() > 1) heads_.push_back(add("r", form.group(), true, sum));
    size_ = add("d", form.head_size, true, sum);
    value_size_ = form.value_size == form.head_size ? size_ : add("e", form.value_size, true, sum);
    if (form.joint) part_ = add("p", 3, true, sum);
    if (form.counter >= 0) counter_ = add("n", 2, true, sum);
  }

  ShardingRule::Operand part(int which) const {
    if (form_.joint) return {{sample_}, {query_}, {part_}, heads_, {size_}};
    if (which == 0) return {{sample_}, {query_}, heads_, {size_}};
    return {{sample_}, {key_}, key_heads_, {which == 1 ? size_ : value_size_}};
  }
  ShardingRule::Operand out() const { return {{sample_}, {query_}, heads_, {value_size_}}; }
  ShardingRule::Operand lse() const { return {{sample_}, heads_, {query_}}; }
  ShardingRule::Operand slopes() const { return {heads_}; }
  ShardingRule::Operand first() const { return {{sample_}}; }
  ShardingRule::Operand counter() const { return {{counter_}}; }
  /// An operand that broadcasts to the scores.
  ShardingRule::Operand scores(const Shape& shape) const {
    if (shape.rank() == 2) return {{sample_}, {key_}};
    const std::vector<ShardingRule::Dim> whole{{sample_}, heads_, {query_}, {key_}};
    const int64_t extents[4] = {form_.batch, form_.heads, form_.sequence, form_.keys};
    ShardingRule::Operand operand;
    for (int dim = 0; dim < 4; ++dim)
      operand.push_back(shape[dim] == extents[dim] ? whole[static_cast<size_t>(dim)] : ShardingRule::Dim{});
    return operand;
  }
  ShardingRule build(const std::vector<ShardingRule::Operand>& inputs,
                     const std::vector<ShardingRule::Operand>& outputs) {
    for (const auto& operand : inputs) rule_.input(operand);
    for (const auto& operand : outputs) rule_.output(operand);
    return rule_.build();
  }

 private:
  static constexpr auto kNoReduce = ShardingRule::Reduce::kNone;

  int add(const std::string& name, int64_t size, bool whole, ShardingRule::Reduce reduce = kNoReduce) {
    const int index = rule_.factor(size, whole, reduce);
    rule_.at(index).name = name;
    return index;
  }

  const AttentionForm& form_;
  RuleBuilder rule_;
  ShardingRule::Dim key_heads_, heads_;
  int sample_ = 0, query_ = 0, key_ = 0, size_ = 0, value_size_ = 0, part_ = 0, counter_ = 0;
};

/// The operands of a node in their order (number_inputs in attention_form.cc).
ShardingRule rule_of(const NodeSignature& node, const AttentionForm& form) {
  AttentionRule rule(form);
  std::vector<ShardingRule::Operand> inputs(node.inputs.size());
  const auto put = [&](int index, ShardingRule::Operand operand) {
    if (index >= 0) inputs[static_cast<size_t>(index)] = std::move(operand);
  };
  const auto type = [&](int index) { return node.inputs[static_cast<size_t>(index)].shape; };
  for (int part = 0; part < (form.joint ? 1 : 3); ++part) put(part, rule.part(part));
  if (form.bias >= 0) put(form.bias, rule.scores(type(form.bias)));
  if (form.mask >= 0) put(form.mask, rule.scores(type(form.mask)));
  put(form.slopes, rule.slopes());
  put(form.first, rule.first());
  put(form.counter, rule.counter());
  put(form.out, rule.out());
  put(form.lse, rule.lse());
  put(form.dout, rule.out());
  if (form.first >= 0) return rule.build(inputs, {rule.out()});
  if (!is_gradient(node)) return rule.build(inputs, {rule.out(), rule.lse()});
  std::vector<ShardingRule::Operand> outputs;
  for (int part = 0; part < (form.joint ? 1 : 3); ++part) outputs.push_back(rule.part(part));
  if (form.bias_gradient) outputs.push_back(rule.scores(form.bias_shape));
  return rule.build(inputs, outputs);
}

ShardingRule attention_sharding(const NodeSignature& node) { return rule_of(node, attention_form(node)); }

/// Products of S x T by a head size in the forward pass are two, in the backward pass five.
Cost attention_cost(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  const double pairs = static_cast<double>(form.batch * form.heads) * form.visible_pairs();
  const auto d = static_cast<double>(form.head_size), e = static_cast<double>(form.value_size);
  const double sizes = is_gradient(node) ? 3 * d + 2 * e : d + e;
  return streaming_cost(node, pairs * (2.0 * sizes + (form.adjusts_scores() ? 12.0 : 8.0)));
}

/// Keys that a query meets, where a window hides most.
int64_t keys_met(const AttentionForm& form) {
  if ((form.left < 0 && form.right < 0) || form.sequence == 0) return form.keys;
  return std::min(form.keys,
                  static_cast<int64_t>(std::ceil(form.visible_pairs() / static_cast<double>(form.sequence))));
}

/// q k^T and P v; backward q k^T again, then dv, dP, dq and dk.
std::vector<MatrixProduct> attention_products(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  const int64_t batch = form.batch * form.heads, s = form.sequence, d = form.head_size, e = form.value_size;
  const int64_t t = keys_met(form);
  const MatrixProduct scores{batch, s, d, t, form.dtype}, values{batch, s, t, e, form.dtype};
  if (!is_gradient(node)) return {scores, values};
  const MatrixProduct dp{batch, s, e, t, form.dtype}, dq{batch, s, t, d, form.dtype};
  return {scores, {batch, t, s, e, form.dtype}, dp, dq, {batch, t, s, d, form.dtype}};
}

std::vector<AttributeSpec> attention_attributes() {
  return {{"packed", Kind::kBool, true, "one input [B,S,3,heads,D] instead of three"},
          {"scale", Kind::kFloat, true, "what q k^T is multiplied by"},
          {"soft_cap", Kind::kFloat, false, "scores s become cap tanh(s / cap) before bias and mask"},
          {"biased", Kind::kBool, false, "the input bias follows: it broadcasts to the scores [B,heads,S,T]"},
          {"alibi", Kind::kBool, false, "the input slopes f32[heads] follows: scores lose slope times distance"},
          {"causal", Kind::kBool, false, "hide keys after the query"},
          {"bottom_right", Kind::kBool, false, "the last query stands at the last key, not the first at the first"},
          {"window_left", Kind::kInt, false, "hide keys more than so many positions before the query"},
          {"window_right", Kind::kInt, false, "hide keys more than so many positions after the query"},
          {"masked", Kind::kBool, false, "an input [B,T] of keys, or one that broadcasts to the scores; 0 = hidden"},
          {"segments", Kind::kBool, false, "the mask numbers sequences, each of which sees itself alone"},
          {"dropout", Kind::kFloat, false, "rate on the probabilities; the input counter i64[2] follows"},
          {"seed", Kind::kInt, false, "of the dropout's random numbers"},
          {"tensor", Kind::kInt, false, "id of the dropout's logical tensor"}};
}

std::vector<AttributeSpec> attention_grad_attributes() {
  std::vector<AttributeSpec> all = attention_attributes();
  all.push_back({"bias_gradient", Kind::kBool, false, "the gradient of the bias follows, f32"});
  all.push_back({"chunks", Kind::kInt, false, "equal parts of heads for that gradient's sum over heads (1)"});
  return all;
}

// --- how attention spreads ---

/// Means over queries and keys of a random attention.
struct Mixing {
  double own = 0;     ///< mean over queries of the sum of P^2
  double shared = 0;  ///< mean over pairs of queries of the sum of P P'
};

/// Logits are normal with a deviation over the keys, of which all queries share a part; a softmax over n of them has
/// sum P^2 = e^v / (n - 1 + e^v).
Mixing mixing_of(const AttentionForm& form, const Amplitude& query, const Amplitude& key) {
  const double width = static_cast<double>(form.head_size);
  const double variance =
      std::min(form.scale * form.scale * width * query.rms * query.rms * key.rms * key.rms * (1 - key.in_sample), 20.0);
  const double peak = std::exp(variance), common = std::exp(variance * query.in_sample);
  const int64_t n = form.keys;
  const auto mean_square = [](double top, double keys) { return top / (keys - 1 + top); };
  if (!form.causal) return {mean_square(peak, static_cast<double>(n)), mean_square(common, static_cast<double>(n))};
  Mixing mixing;
  double pairs = 0;
  for (int64_t i = 1; i <= n; ++i) {
    const auto keys = static_cast<double>(i);
    mixing.own += mean_square(peak, keys) / static_cast<double>(n);
    mixing.shared += (keys - 1) * mean_square(common, keys);
    pairs += keys - 1;
  }
  if (pairs > 0) mixing.shared /= pairs;
  return mixing;
}

/// Unit scaling knows how queries and keys spread, not what a bias, a window or a cap makes of their scores.
AttentionForm plain_form(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  if (form.adjusts_scores() || form.keys != form.sequence || form.value_size != form.head_size)
    refuse(node, "unit scaling has no rule for an attention with a bias, a window, a soft cap or other lengths", "", "",
           "Train this model without unit scaling");
  return form;
}

/// The common part of all values stays; the rest is averaged.
std::vector<Amplitude> attention_spread(const ScalingContext& context) {
  const AttentionForm form = plain_form(context.node);
  const auto input = [&](int index) { return context.inputs[static_cast<size_t>(index)]; };
  const Amplitude query = input(0), key = input(form.key), value = input(form.value);
  const Mixing mixing = mixing_of(form, query, key);
  const double alike = value.in_sample, apart = 1 - alike;
  const double square = alike + apart * mixing.own;
  Amplitude out;
  out.rms = value.rms * std::sqrt(square);
  out.in_sample = (alike + apart * mixing.shared) / square;
  out.across = value.across / square;
  out.weight = query.weight * std::sqrt(square);
  return {out, exact_spread()};
}

/// dV = P^T g, dS = P (g V^T - its mean), dQ = scale dS K, dK = scale dS^T Q.
std::vector<Amplitude> attention_gradient_spread(const ScalingContext& context, std::span<const Amplitude> gradients) {
  const AttentionForm form = plain_form(context.node);
  const auto input = [&](int index) { return context.inputs[static_cast<size_t>(index)]; };
  const Amplitude query = input(0), key = input(form.key), value = input(form.value), &g = gradients[0];
  const Mixing mixing = mixing_of(form, query, key);
  const double others = static_cast<double>(form.sequence - 1), n = static_cast<double>(form.sequence);
  const double scores =
      form.scale * form.scale * static_cast<double>(form.head_size) * value.rms * value.rms * (1 - value.in_sample);
  const double dq = scores * key.rms * key.rms * (1 - key.in_sample) * mixing.own;
  const auto group = static_cast<double>(form.group());  // query heads whose gradients a head of keys sums
  const double dk =
      group * scores * query.rms * query.rms * (mixing.own + others * mixing.shared * g.in_sample * query.in_sample);
  const double dv = group * (mixing.own + others * mixing.shared * g.in_sample);
  const auto spread = [&](double square, double in_sample, double across) {
    Amplitude result;
    result.rms = g.rms * std::sqrt(square);
    result.in_sample = std::clamp(in_sample, 0.0, 1.0), result.across = std::clamp(across, 0.0, 1.0);
    return result;
  };
  const double q_alike = mixing.own > 0 ? g.in_sample * mixing.shared / mixing.own : 0;
  const double v_alike = dv > 0 ? (1 / n + g.in_sample * (1 - 1 / n)) / dv : 0, v_across = dv > 0 ? g.across / dv : 0;
  std::vector<Amplitude> result(context.inputs.size(), Amplitude{.rms = 0});
  if (!form.joint) {
    result[0] = spread(dq, q_alike, 0);
    result[static_cast<size_t>(form.key)] = spread(dk, 0, 0);
    result[static_cast<size_t>(form.value)] = spread(dv, v_alike, v_across);
    return result;
  }
  const double sum = dq + dk + dv;
  result[0] = spread(sum / 3, sum > 0 ? (dq * q_alike + dv * v_alike) / sum : 0, sum > 0 ? dv * v_across / sum : 0);
  return result;
}

ScalingRule attention_scaling() {
  ScalingRule rule;
  rule.forward = attention_spread;
  rule.backward = attention_gradient_spread;
  rule.u_mup = [](const NodeSignature& node, double multiplier) {
    Attributes attributes = node.attributes;
    return attributes.set("scale", multiplier / static_cast<double>(attention_form(node).head_size));
  };
  return rule;
}

// --- cached attention ---

OpDef cached_attention_op() {
  OpDef op;
  op.name = "cached_attention";
  op.doc =
      "query [B,n,heads,D], keys [B,R,key heads,D], values [B,R,key heads,E], first i32[B], bias and slopes -> "
      "softmax(scale q k^T + bias) v [B,n,heads,E]: query i of sample b stands at position first[b] + i and sees the "
      "keys of positions 0 to its own, with the bits of a causal `attention` over them";
  op.min_inputs = 4;
  op.max_inputs = 6;
  for (const AttributeSpec& spec : attention_attributes())
    for (const char* name : {"scale", "soft_cap", "biased", "alibi", "window_left"})
      if (spec.name == name) op.attributes.push_back(spec);
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const AttentionForm form = cached_attention_form(node);
    return {{form.dtype, Shape{form.batch, form.sequence, form.heads, form.value_size}}};
  };
  op.sharding = [](const NodeSignature& node) { return rule_of(node, cached_attention_form(node)); };
  // As if all positions were written: how many are is not known before the program runs.
  op.cost = [](const NodeSignature& node) {
    const AttentionForm form = cached_attention_form(node);
    const double pairs = static_cast<double>(form.batch * form.heads) * form.visible_pairs();
    const auto sizes = static_cast<double>(form.head_size + form.value_size);
    return streaming_cost(node, pairs * (2.0 * sizes + (form.adjusts_scores() ? 12.0 : 8.0)));
  };
  op.products = [](const NodeSignature& node) -> std::vector<MatrixProduct> {
    const AttentionForm form = cached_attention_form(node);
    const int64_t batch = form.batch * form.heads, keys = keys_met(form);
    return {{batch, form.sequence, form.head_size, keys, form.dtype},
            {batch, form.sequence, keys, form.value_size, form.dtype}};
  };
  op.precision = OpDef::Precision::kLow;
  op.full_inputs = {4, 5};
  return op;
}

// --- dropout ---

std::vector<TensorType> infer_dropout(const NodeSignature& node) {
  require_floating(node, 0, "a");
  require_type(node, 1, "counter", {DType::kI64, Shape{2}});
  check_dropout_rate(node, node.attributes.get_float("rate"));
  return {node.inputs[0]};
}

/// The same op on the gradient: it draws the same bits again, so no mask is stored.
std::vector<Tensor> dropout_gradient(GradientContext& context) {
  return {context.build.op("dropout", {context.output_gradients[0], context.inputs[1]}, context.node.attributes), {}};
}

ShardingRule dropout_sharding(const NodeSignature& node) {
  const std::string dims = factor_names("d", node.inputs[0].shape.rank());
  return ShardingRule::parse("([" + dims + "],[!c])->[" + dims + "]", node);
}

void check_random_name(const std::string& op, const std::string& name, Tensor counter) {
  if (name.empty())
    throw Error({.what = "dropout needs the name of its logical random tensor",
                 .where = op,
                 .remedy = "Give random_name, unique in the model"});
  if (!counter.valid())
    throw Error({.what = "dropout needs the input 'counter'",
                 .where = op + " '" + name + "'",
                 .expected = "an i64[2] scalar input {step, micro-batch index}"});
}

int64_t tensor_id(const std::string& name) { return static_cast<int64_t>(hash64(name)); }

}  // namespace

void register_attention_ops(OpRegistry& registry) {
  registry.add({.name = "attention",
                .doc =
                    "(q [B,S,heads,D], k [B,T,key heads,D], v [B,T,key heads,E] or qkv [B,S,3,heads,D], bias, slopes, "
                    "mask, counter) -> softmax(scale q k^T + bias) v [B,S,heads,E], lse f32[B,heads,S]",
                .min_inputs = 1,
                .max_inputs = 7,
                .attributes = attention_attributes(),
                .infer = infer_attention,
                .gradient = attention_gradient,
                .sharding = attention_sharding,
                .cost = attention_cost,
                .products = attention_products,
                .precision = OpDef::Precision::kLow,
                .positional = 0,
                .full_inputs = {3, 4},  // bias and slopes, where they are
                .scaling = attention_scaling()});
  registry.add({.name = "attention_grad",
                .doc = "(inputs of attention, out, lse, dout) -> dqkv, or dq, dk, dv; and dbias f32",
                .min_inputs = 4,
                .max_inputs = 10,
                .attributes = attention_grad_attributes(),
                .infer = infer_attention_grad,
                .gradient = {},
                .sharding = attention_sharding,
                .localize = localize_chunks,
                .chunked_extent = chunked_heads,
                .cost = attention_cost,
                .products = attention_products,
                .positional = 0});
  registry.add(cached_attention_op());
  registry.add({.name = "dropout",
                .doc = "(a, counter i64[2]) -> each element kept with probability 1 - rate and scaled by 1/(1 - rate)",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"rate", Kind::kFloat, true, "share of the elements that become 0"},
                               {"seed", Kind::kInt, true, "of the random numbers"},
                               {"tensor", Kind::kInt, true, "id of the logical tensor"}},
                .infer = infer_dropout,
                .gradient = dropout_gradient,
                .sharding = dropout_sharding,
                .cost =
                    [](const NodeSignature& node) {
                      return streaming_cost(node, 2.0 * static_cast<double>(node.inputs[0].elements()));
                    },
                .map_op = "dropout",
                .cheap = true,
                .positional = 0,
                // Evaluation is without dropout, and must have the same factors: its noise is not scaled away.
                .scaling = passing_rule()});
}

namespace {

/// A tensor that broadcasts to the scores, with four dimensions.
Tensor of_four(Tensor a, const std::string& operand) {
  if (a.shape().rank() == 4) return a;
  if (a.shape().rank() > 4)
    throw Error({.what = operand + " has too many dimensions",
                 .where = "attention in '" + a.builder->scope_path() + "'",
                 .found = a.type().text(),
                 .expected = "at most [batch,heads,queries,keys]"});
  std::vector<int64_t> dims(static_cast<size_t>(4 - a.shape().rank()), 1);
  dims.insert(dims.end(), a.shape().dims().begin(), a.shape().dims().end());
  return reshape(a, Shape(dims));
}

/// The attributes and inputs of what is added to scores.
void add_terms(const ScoreOptions& scores, Attributes& attributes, std::vector<Tensor>& inputs) {
  if (scores.bias.valid()) attributes.set("biased", true), inputs.push_back(of_four(scores.bias, "the bias"));
  if (scores.slopes.valid()) attributes.set("alibi", true), inputs.push_back(scores.slopes);
  if (scores.window_left >= 0) attributes.set("window_left", scores.window_left);
  if (scores.window_right >= 0) attributes.set("window_right", scores.window_right);
  if (scores.soft_cap != 0) attributes.set("soft_cap", scores.soft_cap);
}

/// q, k and v of [B,S,3,heads,D], each [B,S,heads,D].
std::vector<Tensor> unpacked(Tensor qkv) {
  const Shape& shape = qkv.shape();
  if (shape.rank() != 5) return {qkv, qkv, qkv};  // the type rule says what is wrong
  std::vector<Tensor> parts;
  for (const Tensor& part : split(qkv, {1, 1, 1}, 2))
    parts.push_back(reshape(part, {shape[0], shape[1], shape[3], shape[4]}));
  return parts;
}

}  // namespace

Tensor attention(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor counter, const AttentionOptions& options) {
  return attention_with(query, key, value, {.key_mask = mask}, options, counter);
}

Tensor attention_with(Tensor query, Tensor key, Tensor value, const ScoreOptions& scores,
                      const AttentionOptions& options, Tensor counter) {
  const auto where = [&] { return "attention in '" + query.builder->scope_path() + "'"; };
  if (key.valid() != value.valid())
    throw Error({.what = "attention has a key without a value, or the reverse",
                 .where = where(),
                 .remedy = "Give both, or neither and a packed [B,S,3,heads,D]"});
  if (scores.mask.valid() && scores.key_mask.valid())
    throw Error({.what = "attention has two masks",
                 .where = where(),
                 .remedy = "Give the product of both as `mask`, or hide keys by a bias of -infinity"});
  std::vector<Tensor> inputs{query};
  if (key.valid()) inputs.insert(inputs.end(), {key, value});
  if (!key.valid() && (scores.bias.valid() || scores.slopes.valid())) inputs = unpacked(query);
  Attributes attributes{{"packed", inputs.size() == 1}};
  const double head_size = query.shape().rank() > 0 ? static_cast<double>(query.dim(-1)) : 1.0;
  attributes.set("scale", options.scale != 0 ? options.scale : 1.0 / std::sqrt(head_size));
  if (options.causal) attributes.set("causal", true);
  if (scores.bottom_right) attributes.set("bottom_right", true);
  add_terms(scores, attributes, inputs);
  if (scores.key_mask.valid()) attributes.set("masked", true), inputs.push_back(scores.key_mask);
  if (scores.mask.valid()) attributes.set("masked", true), inputs.push_back(of_four(scores.mask, "the mask"));
  if (options.segments) attributes.set("segments", true);
  if (options.dropout != 0) {
    check_random_name("attention", options.random_name, counter);
    attributes.set("dropout", options.dropout).set("seed", options.seed).set("tensor", tensor_id(options.random_name));
    inputs.push_back(counter);
  }
  return query.builder->ops("attention", inputs, std::move(attributes))[0];
}

Tensor cached_attention(Tensor query, Tensor keys, Tensor values, Tensor first, double scale) {
  return cached_attention(query, keys, values, first, scale, {});
}

Tensor cached_attention(Tensor query, Tensor keys, Tensor values, Tensor first, double scale,
                        const ScoreOptions& scores) {
  if (scores.mask.valid() || scores.key_mask.valid() || scores.bottom_right)
    throw Error({.what = "cached attention takes no mask and no other position of the queries",
                 .where = "cached_attention in '" + query.builder->scope_path() + "'",
                 .remedy = "Hide keys by a bias of -infinity"});
  Attributes attributes{{"scale", scale}};
  std::vector<Tensor> inputs{query, keys, values, first};
  add_terms(scores, attributes, inputs);
  return query.builder->ops("cached_attention", inputs, std::move(attributes))[0];
}

Tensor dropout(Tensor a, Tensor counter, double rate, int64_t seed, const std::string& random_name) {
  if (rate == 0) return a;
  check_random_name("dropout", random_name, counter);
  return a.builder->op("dropout", {a, counter}, {{"rate", rate}, {"seed", seed}, {"tensor", tensor_id(random_name)}});
}

}  // namespace ramet::ops
