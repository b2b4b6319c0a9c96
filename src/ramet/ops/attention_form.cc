#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/position.h"

// What attention nodes mean: reading of their operands and attributes.

namespace ramet::ops {
namespace {

constexpr int64_t kMostHeads = int64_t{1} << 24;  // samples times heads of one node, listed one by one

bool is_gradient(const NodeSignature& node) { return node.op->name == "attention_grad"; }

void check_number(const NodeSignature& node, const AttentionForm& form, int wanted) {
  if (static_cast<int>(node.inputs.size()) == wanted) return;
  const auto named = [](int index, const char* name) { return index >= 0 ? std::string(", ") + name : std::string(); };
  refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()),
         std::to_string(wanted) + ": " + (form.joint ? "qkv" : "query, key, value") + named(form.first, "first") +
             named(form.bias, "bias") + named(form.slopes, "slopes") + named(form.mask, "mask") +
             named(form.counter, "counter") + (form.out >= 0 ? ", out, lse, dout" : ""),
         form.first >= 0 ? "biased=true takes a bias; alibi=true takes slopes"
                         : "packed=true takes one tensor for query, key and value; biased=true a bias; alibi=true "
                           "slopes; masked=true a mask; dropout > 0 the counter");
}

/// Numbers the inputs in their order: q, k, v (or qkv), bias, slopes, mask, counter, then out, lse, dout.
void number_inputs(const NodeSignature& node, AttentionForm& form) {
  const Attributes& attributes = node.attributes;
  int next = form.joint ? 1 : 3;
  if (!form.joint) form.key = 1, form.value = 2;
  if (attributes.get_bool_or("biased", false)) form.bias = next++;
  if (attributes.get_bool_or("alibi", false)) form.slopes = next++;
  if (form.joint && next > 1)
    refuse(node, "a packed qkv has neither a bias nor slopes", "packed=true", "packed=false",
           "Give query, key and value as three tensors");
  if (attributes.get_bool_or("masked", false)) form.mask = next++;
  if (form.dropout > 0) form.counter = next++;
  if (is_gradient(node)) form.out = next++, form.lse = next++, form.dout = next++;
  check_number(node, form, next);
}

/// Keys and values may have fewer heads, another length, and values another head size.
void read_parts(const NodeSignature& node, AttentionForm& form) {
  const TensorType &query = node.inputs[0], &key = node.inputs[1], &value = node.inputs[2];
  for (int part : {1, 2}) {
    const TensorType& type = node.inputs[static_cast<size_t>(part)];
    const char* name = part == 1 ? "key" : "value";
    if (type.dtype != query.dtype || type.shape.rank() != 4 || type.shape[0] != query.shape[0])
      refuse(node, std::string(name) + " has the wrong type", type.text(),
             std::string(name_of(query.dtype)) + "[" + std::to_string(query.shape[0]) + ",positions,heads,head size]");
  }
  form.keys = key.shape[1], form.key_heads = key.shape[2], form.value_size = value.shape[3];
  if (key.shape[3] != form.head_size)
    refuse(node, "query and key have different head sizes", key.text(), "head size " + std::to_string(form.head_size));
  if (value.shape[1] != form.keys || value.shape[2] != form.key_heads)
    refuse(node, "key and value differ in positions or heads", value.text(), key.text() + " but for the head size");
  if (form.key_heads == 0 ? form.heads != 0 : form.heads % form.key_heads != 0)
    refuse(node, "the heads of keys must divide those of queries", std::to_string(form.key_heads) + " heads",
           "a divisor of " + std::to_string(form.heads));
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
  form.heads = form.key_heads = query.shape.dim(-2);
  form.head_size = form.value_size = query.shape.dim(-1);
  if (!form.joint) read_parts(node, form);
  if (form.head_size == 0 || form.value_size == 0) refuse(node, "heads have no size", query.text());
}

/// Strides of an operand that must broadcast to the scores.
ScoreStrides score_strides(const NodeSignature& node, const AttentionForm& form, const TensorType& type,
                           const std::string& operand, const std::string& types) {
  const Shape scores{form.batch, form.heads, form.sequence, form.keys};
  bool fits = type.shape.rank() == 4;
  for (int dim = 0; fits && dim < 4; ++dim) fits = type.shape[dim] == 1 || type.shape[dim] == scores[dim];
  if (!fits)
    refuse(node, operand + " has the wrong type", type.text(), types + " that broadcasts to " + scores.text(),
           "Give it four dimensions: samples, heads, queries, keys; each whole or 1");
  const auto strides = type.shape.strides();
  const auto stride = [&](int dim) { return type.shape[dim] == 1 ? 0 : strides[static_cast<size_t>(dim)]; };
  return {stride(0), stride(1), stride(2), stride(3)};
}

void read_mask(const NodeSignature& node, AttentionForm& form) {
  const TensorType& mask = node.inputs[static_cast<size_t>(form.mask)];
  form.mask_dtype = mask.dtype;
  form.key_mask = mask.shape.rank() != 4;
  const bool flags = mask.dtype == DType::kI32 || mask.dtype == DType::kBool;
  if (!flags || (form.key_mask && mask.shape != Shape{form.batch, form.keys}))
    refuse(node, "the mask has the wrong type", mask.text(), "i32 or bool " + Shape{form.batch, form.keys}.text(),
           "A mask of four dimensions broadcasts to the scores [batch,heads,queries,keys]");
  form.mask_strides =
      form.key_mask ? ScoreStrides{form.keys, 0, 0, 1} : score_strides(node, form, mask, "the mask", "i32 or bool");
}

/// Bias and slopes.
void read_terms(const NodeSignature& node, AttentionForm& form) {
  if (form.bias >= 0) {
    const TensorType& bias = node.inputs[static_cast<size_t>(form.bias)];
    require_floating(node, form.bias, "bias");
    form.bias_dtype = bias.dtype;
    form.bias_strides = score_strides(node, form, bias, "the bias", "a floating-point type");
    form.bias_shape = bias.shape;
  }
  if (form.slopes >= 0) require_type(node, form.slopes, "slopes", {DType::kF32, Shape{form.heads}});
}

void read_window(const NodeSignature& node, AttentionForm& form) {
  form.left = node.attributes.get_int_or("window_left", -1);
  form.right = node.attributes.get_int_or("window_right", -1);
  for (const auto& [name, size] : {std::pair("window_left", form.left), std::pair("window_right", form.right)})
    if (size < -1)
      refuse(node, "a window cannot be negative", std::string(name) + "=" + std::to_string(size), "0 or more");
  form.soft_cap = node.attributes.get_float_or("soft_cap", 0);
  if (!(form.soft_cap >= 0) || !std::isfinite(form.soft_cap))
    refuse(node, "the soft cap must be positive", std::to_string(form.soft_cap), "a number above 0, or 0 for none");
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

void check_segments(const NodeSignature& node, const AttentionForm& form) {
  if (!form.segments) return;
  if (form.mask < 0 || form.mask_dtype != DType::kI32)
    refuse(node, "segments are numbers in the mask", form.mask < 0 ? "no mask" : "a mask of bools", "a mask of i32",
           "Set masked=true and give the number of the sequence that each position is of, 0 for padding");
  if (!form.key_mask || form.keys != form.sequence)
    refuse(node, "segments number the positions of queries and keys alike", node.inputs[1].text(),
           "as many keys as queries, and a mask " + Shape{form.batch, form.sequence}.text());
}

/// Attributes of the gradient, and the results of the forward pass.
void read_gradient(const NodeSignature& node, AttentionForm& form) {
  const TensorType out{form.dtype, Shape{form.batch, form.sequence, form.heads, form.value_size}};
  require_type(node, form.out, "out", out);
  require_type(node, form.lse, "lse", {DType::kF32, Shape{form.batch, form.heads, form.sequence}});
  require_type(node, form.dout, "dout", out);
  form.bias_gradient = node.attributes.get_bool_or("bias_gradient", false);
  if (form.bias_gradient && form.bias < 0) refuse(node, "there is no bias to give a gradient of", "", "biased=true");
  form.chunks = node.attributes.get_int_or("chunks", 1);
  if (form.chunks < 1 || (form.chunks > 1 && (form.key_heads == 0 || form.key_heads % form.chunks != 0)))
    refuse(node, "chunks must divide the heads of keys", "chunks=" + std::to_string(form.chunks),
           "1, or a divisor of " + std::to_string(form.key_heads));
}

}  // namespace

void check_dropout_rate(const NodeSignature& node, double rate) {
  if (!(rate >= 0 && rate < 1)) refuse(node, "the dropout rate is out of range", std::to_string(rate), "0 <= rate < 1");
}

double AttentionForm::visible_pairs() const {
  const double all = static_cast<double>(sequence) * static_cast<double>(keys);
  if (left < 0 && right < 0 && ahead == 0 && sequence == keys) return all * (causal ? 0.5 : 1.0);
  if (first >= 0 && left < 0) return all;
  double pairs = 0;
  // Of a cache, as if the last query stood at the end.
  const int64_t from = first >= 0 ? keys - sequence : ahead;
  for (int64_t q = 0; q < sequence; ++q)
    pairs += static_cast<double>(std::max<int64_t>(0, end_key(from + q, keys) - first_key(from + q)));
  return pairs;
}

int64_t AttentionForm::sample_blocks() const {
  if (!bias_sums_samples()) return batch;
  constexpr int64_t kMostBlocks = 16, kMostElements = int64_t{1} << 18;  // of partial sums of one head
  const int64_t room = kMostElements / std::max<int64_t>(1, bias_shape[2] * bias_shape[3]);
  return std::min({batch, kMostBlocks, std::max<int64_t>(1, room)});
}

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
  check_dropout_rate(node, form.dropout);
  number_inputs(node, form);
  read_shape(node, form);
  if (attributes.get_bool_or("bottom_right", false)) form.ahead = form.keys - form.sequence;
  if (form.mask >= 0) read_mask(node, form);
  if (form.counter >= 0) require_type(node, form.counter, "counter", {DType::kI64, Shape{2}});
  check_segments(node, form);
  read_terms(node, form);
  read_window(node, form);
  read_position(node, form);
  if (is_gradient(node)) read_gradient(node, form);
  return form;
}

AttentionForm cached_attention_form(const NodeSignature& node) {
  const TensorType& query = node.inputs[0];
  require_floating(node, 0, "query");
  require_rank(node, 0, "query", 4, 4);
  require_rank(node, 1, "keys", 4, 4);
  AttentionForm form;
  form.causal = true;
  form.scale = node.attributes.get_float("scale");
  form.dtype = query.dtype;
  form.batch = query.shape[0], form.sequence = query.shape[1];
  form.heads = query.shape[2], form.head_size = query.shape[3];
  form.key = 1, form.value = 2, form.first = 3;
  form.logical_heads = form.batch * form.heads;
  int next = 4;
  if (node.attributes.get_bool_or("biased", false)) form.bias = next++;
  if (node.attributes.get_bool_or("alibi", false)) form.slopes = next++;
  check_number(node, form, next);
  read_parts(node, form);
  if (form.head_size == 0 || form.value_size == 0) refuse(node, "heads have no size", query.text());
  require_type(node, 3, "first", {DType::kI32, Shape{form.batch}});
  read_terms(node, form);
  read_window(node, form);
  return form;
}

}  // namespace ramet::ops
