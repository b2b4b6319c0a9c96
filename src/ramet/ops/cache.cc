#include "ramet/base/error.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

// Ops of decoding: rows of a cache are written where the new positions are, and attention reads the positions so far.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

// --- write_rows ---

OpDef write_rows_op() {
  OpDef op;
  op.name = "write_rows";
  op.doc =
      "a table [B, R, ...], rows [B, n, ...] of its type and first i32[B] -> the table with row i of sample b at "
      "position first[b] + i; rows whose position is not in [0, R) are left out";
  op.min_inputs = op.max_inputs = 3;
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const TensorType &table = node.inputs[0], &rows = node.inputs[1];
    require_rank(node, 0, "the table", 2);
    std::vector<int64_t> wanted = table.shape.dims();
    if (rows.shape.rank() == table.shape.rank()) wanted[1] = rows.shape[1];
    require_type(node, 1, "rows", {table.dtype, Shape(wanted)});
    require_type(node, 2, "first", {DType::kI32, Shape{table.shape[0]}});
    return {table};
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    const int batch = rule.factor(node.inputs[0].shape[0]);
    ShardingRule::Operand table{{batch}, {rule.factor(node.inputs[0].shape[1], true)}};
    ShardingRule::Operand rows{{batch}, {rule.factor(node.inputs[1].shape[1], true)}};
    for (int dim = 2; dim < node.inputs[0].shape.rank(); ++dim) {
      table.push_back({rule.factor(node.inputs[0].shape[dim])});
      rows.push_back(table.back());
    }
    return rule.input(table).input(rows).input({{batch}}).output(table).build();
  };
  // The table itself is neither read nor written but for the rows.
  op.cost = [](const NodeSignature& node) {
    return Cost{.bytes_read = node.inputs[1].bytes() + node.inputs[2].bytes(), .bytes_written = node.inputs[1].bytes()};
  };
  return op;
}

// --- cached_attention ---

OpDef cached_attention_op() {
  OpDef op;
  op.name = "cached_attention";
  op.doc =
      "query [B,n,heads,D], keys and values [B,R,heads,D] and first i32[B] -> softmax(scale q k^T) v [B,n,heads,D]: "
      "query i of sample b stands at position first[b] + i and sees the keys of positions 0 to its own, with the bits "
      "of a causal `attention` over them";
  op.min_inputs = op.max_inputs = 4;
  op.attributes = {required_attribute("scale", Kind::kFloat, "what q k^T is multiplied by")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    cached_attention_form(node);
    return {node.inputs[0]};
  };
  op.sharding = [](const NodeSignature& node) {
    return ShardingRule::parse("([b,!s,h,!d],[b,!k,h,!d],[b,!k,h,!d],[b])->[b,!s,h,!d]", node);
  };
  // As if all positions were written: how many are is not known before the program runs.
  op.cost = [](const NodeSignature& node) {
    const AttentionForm form = cached_attention_form(node);
    const double pairs = static_cast<double>(form.batch * form.heads) * static_cast<double>(form.sequence) *
                         static_cast<double>(form.keys);
    return streaming_cost(node, pairs * (4.0 * static_cast<double>(form.head_size) + 8.0));
  };
  op.products = [](const NodeSignature& node) -> std::vector<MatrixProduct> {
    const AttentionForm form = cached_attention_form(node);
    const int64_t batch = form.batch * form.heads;
    return {{batch, form.sequence, form.head_size, form.keys, form.dtype},
            {batch, form.sequence, form.keys, form.head_size, form.dtype}};
  };
  op.precision = OpDef::Precision::kLow;
  return op;
}

}  // namespace

AttentionForm cached_attention_form(const NodeSignature& node) {
  const TensorType &query = node.inputs[0], &keys = node.inputs[1];
  require_floating(node, 0, "query");
  require_rank(node, 0, "query", 4, 4);
  require_rank(node, 1, "keys", 4, 4);
  AttentionForm form;
  form.causal = true;
  form.scale = node.attributes.get_float("scale");
  form.dtype = query.dtype;
  form.batch = query.shape[0], form.sequence = query.shape[1];
  form.heads = query.shape[2], form.head_size = query.shape[3];
  form.keys = keys.shape[1];
  form.key = 1, form.value = 2, form.first = 3;
  form.logical_heads = form.batch * form.heads;
  if (form.head_size == 0) refuse(node, "heads have no size", query.text());
  const TensorType positions{query.dtype, Shape{form.batch, form.keys, form.heads, form.head_size}};
  require_type(node, 1, "keys", positions);
  require_type(node, 2, "values", positions);
  require_type(node, 3, "first", {DType::kI32, Shape{form.batch}});
  return form;
}

void register_cache_ops(OpRegistry& registry) {
  registry.add(write_rows_op());
  registry.add(cached_attention_op());
}

Tensor write_rows(Tensor table, Tensor rows, Tensor first) {
  return table.builder->op("write_rows", {table, rows, first});
}

Tensor cached_attention(Tensor query, Tensor keys, Tensor values, Tensor first, double scale) {
  return query.builder->op("cached_attention", {query, keys, values, first}, {{"scale", scale}});
}

}  // namespace ramet::ops
