#include "ramet/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/position.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

constexpr int64_t kMostHeads = int64_t{1} << 24;  // samples times heads of one node, listed one by one

bool is_gradient(const NodeSignature& node) { return node.op->name == "attention_grad"; }

/// Numbers the inputs in their order: q, k, v (or qkv), mask, counter, then out, lse, dout.
void number_inputs(const NodeSignature& node, AttentionForm& form) {
  int next = form.joint ? 1 : 3;
  if (!form.joint) form.key = 1, form.value = 2;
  if (node.attributes.get_bool_or("masked", false)) form.mask = next++;
  if (form.dropout > 0) form.counter = next++;
  if (is_gradient(node)) form.out = next++, form.lse = next++, form.dout = next++;
  if (static_cast<int>(node.inputs.size()) != next)
    refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()),
           std::to_string(next) + ": " + (form.joint ? "qkv" : "query, key, value") + (form.mask >= 0 ? ", mask" : "") +
               (form.counter >= 0 ? ", counter" : "") + (form.out >= 0 ? ", out, lse, dout" : ""),
           "packed=true takes one tensor for query, key and value; masked=true a mask; dropout > 0 the counter");
}

void read_shape(const NodeSignature& node, AttentionForm& form) {
  const TensorType& query = node.inputs[0];
  require_floating(node, 0, form.joint ? "qkv" : "query");
  const int rank = form.joint ? 5 : 4;
  if (query.shape.rank() != rank || (form.joint && query.shape[2] != 3))
    refuse(node, form.joint ? "a packed qkv has the wrong shape" : "query has the wrong shape", query.text(),
           form.joint ? "[batch,sequence,3,heads,head size]" : "[batch,sequence,heads,head size]");
  form.dtype = query.dtype;
  form.batch = query.shape[0];
  form.sequence = form.keys = query.shape[1];
  form.heads = query.shape.dim(-2);
  form.head_size = query.shape.dim(-1);
  if (form.head_size == 0) refuse(node, "heads have no size", query.text());
  if (!form.joint) {
    require_type(node, 1, "key", query);
    require_type(node, 2, "value", query);
  }
}

/// Which logical heads the node's are, when its samples or heads are a part of more.
void read_position(const NodeSignature& node, AttentionForm& form) {
  const Position position(node);
  form.logical_heads = form.batch * form.heads;
  if (position.whole()) return;
  const int head_dim = form.joint ? 3 : 2;
  for (int dim = 0; dim < position.local().rank(); ++dim)
    if (dim != 0 && dim != head_dim && position.local()[dim] != position.logical()[dim])
      refuse(node, "a cut of a dimension that attention needs whole", "dimension " + std::to_string(dim),
             "samples (0) or heads (" + std::to_string(head_dim) + ")");
  if (form.batch > kMostHeads / std::max<int64_t>(1, form.heads))
    refuse(node, "too many samples and heads for a cut attention", node.inputs[0].text(),
           "at most " + std::to_string(kMostHeads) + " on a device");
  const int64_t heads = position.logical()[head_dim];
  form.logical_heads = position.logical()[0] * heads;
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t h = 0; h < form.heads; ++h)
      form.logical_head.push_back(position.coordinate(0, b) * heads + position.coordinate(head_dim, h));
}

void check_dropout(const NodeSignature& node, double rate) {
  if (!(rate >= 0 && rate < 1)) refuse(node, "the dropout rate is out of range", std::to_string(rate), "0 <= rate < 1");
}

}  // namespace

AttentionForm attention_form(const NodeSignature& node) {
  AttentionForm form;
  const Attributes& attributes = node.attributes;
  form.joint = attributes.get_bool("packed");
  form.causal = attributes.get_bool_or("causal", false);
  form.segments = attributes.get_bool_or("segments", false);
  form.scale = attributes.get_float("scale");
  form.dropout = attributes.get_float_or("dropout", 0);
  form.seed = attributes.get_int_or("seed", 0);
  form.tensor = attributes.get_int_or("tensor", 0);
  check_dropout(node, form.dropout);
  number_inputs(node, form);
  read_shape(node, form);
  if (form.mask >= 0) {
    const TensorType& mask = node.inputs[static_cast<size_t>(form.mask)];
    form.mask_dtype = mask.dtype;
    if ((mask.dtype != DType::kI32 && mask.dtype != DType::kBool) || mask.shape != Shape{form.batch, form.sequence})
      refuse(node, "the mask has the wrong type", mask.text(),
             "i32 or bool " + Shape{form.batch, form.sequence}.text());
  }
  if (form.counter >= 0) require_type(node, form.counter, "counter", {DType::kI64, Shape{2}});
  if (form.segments && (form.mask < 0 || form.mask_dtype != DType::kI32))
    refuse(node, "segments are numbers in the mask", form.mask < 0 ? "no mask" : "a mask of bools", "a mask of i32",
           "Set masked=true and give the number of the sequence that each position is of, 0 for padding");
  read_position(node, form);
  if (is_gradient(node)) {
    const TensorType out{form.dtype, Shape{form.batch, form.sequence, form.heads, form.head_size}};
    require_type(node, form.out, "out", out);
    require_type(node, form.lse, "lse", {DType::kF32, Shape{form.batch, form.heads, form.sequence}});
    require_type(node, form.dout, "dout", out);
  }
  return form;
}

namespace {

std::vector<TensorType> infer_attention(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  return {{form.dtype, Shape{form.batch, form.sequence, form.heads, form.head_size}},
          {DType::kF32, Shape{form.batch, form.heads, form.sequence}}};
}

std::vector<TensorType> infer_attention_grad(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  return std::vector<TensorType>(form.joint ? 1 : 3, node.inputs[0]);
}

std::vector<Tensor> attention_gradient(GradientContext& context) {
  if (context.output_gradients[1].valid())
    refuse(context.node, "output 1 (lse) has no gradient", "", "", "Write the attention with matmul and softmax");
  const AttentionForm form = attention_form(context.node);
  std::vector<Tensor> inputs(context.inputs.begin(), context.inputs.end());
  inputs.push_back(context.outputs[0]);
  inputs.push_back(context.outputs[1]);
  inputs.push_back(cast_to(context.output_gradients[0], form.dtype));
  std::vector<Tensor> gradients = context.build.ops("attention_grad", inputs, context.node.attributes);
  gradients.resize(context.inputs.size());
  return gradients;
}

/// Samples and heads are free; positions and head size are whole, as every query meets every key.
ShardingRule attention_sharding(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  const std::string part = form.joint ? "[b,!s,!p,h,!d]" : "[b,!s,h,!d]";
  const std::string parts = form.joint ? part : part + "," + part + "," + part;
  std::string inputs = parts;
  if (form.mask >= 0) inputs += ",[b,!s]";
  if (form.counter >= 0) inputs += ",[!c]";
  if (!is_gradient(node)) return ShardingRule::parse("(" + inputs + ")->([b,!s,h,!d],[b,h,!s])", node);
  return ShardingRule::parse("(" + inputs + ",[b,!s,h,!d],[b,h,!s],[b,!s,h,!d])->(" + parts + ")", node);
}

/// Products of S x S by D in the forward pass are two, in the backward pass five.
Cost attention_cost(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  const double pairs = static_cast<double>(form.batch * form.heads) * static_cast<double>(form.sequence) *
                       static_cast<double>(form.sequence) * (form.causal ? 0.5 : 1.0);
  const double products = is_gradient(node) ? 5 : 2;
  return streaming_cost(node, pairs * (2.0 * products * static_cast<double>(form.head_size) + 8.0));
}

/// q k^T and P v; backward q k^T again, then dv, dP, dq and dk.
std::vector<MatrixProduct> attention_products(const NodeSignature& node) {
  const AttentionForm form = attention_form(node);
  const int64_t batch = form.batch * form.heads, s = form.sequence, d = form.head_size;
  const MatrixProduct scores{batch, s, d, s, form.dtype}, values{batch, s, s, d, form.dtype};
  if (!is_gradient(node)) return {scores, values};
  return {scores, values, scores, values, values};
}

std::vector<AttributeSpec> attention_attributes() {
  return {{"packed", Kind::kBool, true, "one input [B,S,3,heads,D] instead of three [B,S,heads,D]"},
          {"scale", Kind::kFloat, true, "what q k^T is multiplied by"},
          {"causal", Kind::kBool, false, "hide keys after the query"},
          {"masked", Kind::kBool, false, "an input [B,S] of keys follows, 0 = hidden"},
          {"segments", Kind::kBool, false, "the mask numbers sequences, each of which sees itself alone"},
          {"dropout", Kind::kFloat, false, "rate on the probabilities; the input counter i64[2] follows"},
          {"seed", Kind::kInt, false, "of the dropout's random numbers"},
          {"tensor", Kind::kInt, false, "id of the dropout's logical tensor"}};
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
  const int64_t n = form.sequence;
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

/// The common part of all values stays; the rest is averaged.
std::vector<Amplitude> attention_spread(const ScalingContext& context) {
  const AttentionForm form = attention_form(context.node);
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
  const AttentionForm form = attention_form(context.node);
  const auto input = [&](int index) { return context.inputs[static_cast<size_t>(index)]; };
  const Amplitude query = input(0), key = input(form.key), value = input(form.value), &g = gradients[0];
  const Mixing mixing = mixing_of(form, query, key);
  const double others = static_cast<double>(form.sequence - 1), n = static_cast<double>(form.sequence);
  const double scores =
      form.scale * form.scale * static_cast<double>(form.head_size) * value.rms * value.rms * (1 - value.in_sample);
  const double dq = scores * key.rms * key.rms * (1 - key.in_sample) * mixing.own;
  const double dk =
      scores * query.rms * query.rms * (mixing.own + others * mixing.shared * g.in_sample * query.in_sample);
  const double dv = mixing.own + others * mixing.shared * g.in_sample;
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

// --- dropout ---

std::vector<TensorType> infer_dropout(const NodeSignature& node) {
  require_floating(node, 0, "a");
  require_type(node, 1, "counter", {DType::kI64, Shape{2}});
  check_dropout(node, node.attributes.get_float("rate"));
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
                .doc = "(q, k, v [B,S,heads,D] or qkv [B,S,3,heads,D], mask, counter) -> softmax(scale q k^T) v "
                       "[B,S,heads,D], lse f32[B,heads,S]",
                .min_inputs = 1,
                .max_inputs = 5,
                .attributes = attention_attributes(),
                .infer = infer_attention,
                .gradient = attention_gradient,
                .sharding = attention_sharding,
                .cost = attention_cost,
                .products = attention_products,
                .precision = OpDef::Precision::kLow,
                .positional = 0,
                .scaling = attention_scaling()});
  registry.add({.name = "attention_grad",
                .doc = "(inputs of attention, out, lse, dout) -> dqkv, or dq, dk, dv",
                .min_inputs = 4,
                .max_inputs = 8,
                .attributes = attention_attributes(),
                .infer = infer_attention_grad,
                .gradient = {},
                .sharding = attention_sharding,
                .cost = attention_cost,
                .products = attention_products,
                .positional = 0});
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

Tensor attention(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor counter, const AttentionOptions& options) {
  if (key.valid() != value.valid())
    throw Error({.what = "attention has a key without a value, or the reverse",
                 .where = "attention in '" + query.builder->scope_path() + "'",
                 .remedy = "Give both, or neither and a packed [B,S,3,heads,D]"});
  Attributes attributes{{"packed", !key.valid()}};
  const double head_size = query.shape().rank() > 0 ? static_cast<double>(query.dim(-1)) : 1.0;
  attributes.set("scale", options.scale != 0 ? options.scale : 1.0 / std::sqrt(head_size));
  if (options.causal) attributes.set("causal", true);
  std::vector<Tensor> inputs{query};
  if (key.valid()) inputs.insert(inputs.end(), {key, value});
  if (mask.valid()) attributes.set("masked", true), inputs.push_back(mask);
  if (options.segments) attributes.set("segments", true);
  if (options.dropout != 0) {
    check_random_name("attention", options.random_name, counter);
    attributes.set("dropout", options.dropout).set("seed", options.seed).set("tensor", tensor_id(options.random_name));
    inputs.push_back(counter);
  }
  return query.builder->ops("attention", inputs, std::move(attributes))[0];
}

Tensor dropout(Tensor a, Tensor counter, double rate, int64_t seed, const std::string& random_name) {
  if (rate == 0) return a;
  check_random_name("dropout", random_name, counter);
  return a.builder->op("dropout", {a, counter}, {{"rate", rate}, {"seed", seed}, {"tensor", tensor_id(random_name)}});
}

}  // namespace ramet::ops
