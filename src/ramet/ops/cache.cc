#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rules.h"

// Rows of a cache are written where the new positions are; `cached_attention` (ops/attention.cc) reads those so far.

namespace ramet::ops {
namespace {

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

}  // namespace

void register_cache_ops(OpRegistry& registry) { registry.add(write_rows_op()); }

Tensor write_rows(Tensor table, Tensor rows, Tensor first) {
  return table.builder->op("write_rows", {table, rows, first});
}

}  // namespace ramet::ops
