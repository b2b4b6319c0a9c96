#include "ramet/ops/parts.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

/// Factors of parts, of the indices behind them, of a part's rows, and of a row's elements.
struct PartFactors {
  ShardingRule::Operand table, indices, elements;
};
PartFactors part_factors(RuleBuilder& rule, const Shape& table, const Shape& indices, bool sums) {
  PartFactors factors;
  const int parts = rule.factor(table.dim(0));
  factors.indices.push_back({parts});
  for (int i = 1; i < indices.rank(); ++i) factors.indices.push_back({rule.factor(indices.dim(i), sums)});
  factors.table = {{parts}, {rule.factor(table.dim(1), true)}};
  factors.elements = factors.indices;
  for (int i = 2; i < table.rank(); ++i) {
    factors.table.push_back({rule.factor(table.dim(i))});
    factors.elements.push_back(factors.table.back());
  }
  return factors;
}

OpDef gather_parts_op() {
  OpDef op;
  op.name = "gather_parts";
  op.doc =
      "rows [T, n, ...] of each of T parts by its own indices [T, I...] -> [T, I..., ...]; zeros for an index outside "
      "[0, n)";
  op.min_inputs = op.max_inputs = 2;
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_rank(node, 0, "rows", 2);
    require_rank(node, 1, "indices", 1);
    require_dtype(node, 1, "indices", {DType::kI32, DType::kI64});
    const Dims &rows = node.inputs[0].shape.dims(), &indices = node.inputs[1].shape.dims();
    if (rows[0] != indices[0])
      refuse(node, "rows and indices are not of the same parts", node.inputs[1].text(),
             std::to_string(rows[0]) + " parts");
    Dims dims = indices;
    dims.insert(dims.end(), rows.begin() + 2, rows.end());
    require_bounded(node, Shape(dims));
    return {{node.inputs[0].dtype, Shape(std::move(dims))}};
  };
  op.gradient = [](GradientContext& c) {
    const Tensor sums = scatter_parts(c.inputs[1], c.output_gradients[0], c.inputs[0].dim(1));
    return std::vector{cast_to(sums, c.inputs[0].dtype()), Tensor{}};
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    const PartFactors factors = part_factors(rule, node.inputs[0].shape, node.inputs[1].shape, false);
    return rule.input(factors.table).input(factors.indices).output(factors.elements).build();
  };
  op.cost = [](const NodeSignature& node) {
    const int64_t moved = node.outputs[0].bytes();
    return Cost{.flops = 0, .bytes_read = node.inputs[1].bytes() + moved, .bytes_written = moved};
  };
  op.cheap = true;
  return op;
}

OpDef scatter_parts_op() {
  OpDef op;
  op.name = "scatter_parts";
  op.doc =
      "zeros [T, rows, ...] with updates [T, I..., ...] added at each part's own indices [T, I...], in order of index "
      "position, in f32; an index outside [0, rows) adds nothing";
  op.min_inputs = op.max_inputs = 2;
  op.attributes = {required_attribute("rows", Kind::kInt, "of a part")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_rank(node, 0, "indices", 1);
    require_dtype(node, 0, "indices", {DType::kI32, DType::kI64});
    require_floating(node, 1, "updates");
    const Dims &indices = node.inputs[0].shape.dims(), &updates = node.inputs[1].shape.dims();
    if (updates.size() < indices.size() || !std::equal(indices.begin(), indices.end(), updates.begin()))
      refuse(node, "the first dimensions of the updates are not those of the indices", node.inputs[1].text(),
             node.inputs[0].shape.text());
    Dims dims{indices[0], node.attributes.get_int("rows")};
    dims.insert(dims.end(), updates.begin() + static_cast<long>(indices.size()), updates.end());
    require_bounded(node, Shape(dims));
    return {{node.inputs[1].dtype, Shape(std::move(dims))}};
  };
  op.gradient = [](GradientContext& c) {
    return std::vector{Tensor{}, cast_to(gather_parts(c.output_gradients[0], c.inputs[0]), c.inputs[1].dtype())};
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    // A row's sum is one chain: its terms are not added apart.
    const PartFactors factors = part_factors(rule, node.outputs[0].shape, node.inputs[0].shape, true);
    return rule.input(factors.indices).input(factors.elements).output(factors.table).build();
  };
  op.cost = [](const NodeSignature& node) {
    return streaming_cost(node, static_cast<double>(node.inputs[1].elements()));
  };
  return op;
}

}  // namespace

void register_part_ops(OpRegistry& registry) {
  registry.add(gather_parts_op());
  registry.add(scatter_parts_op());
}

Tensor gather_parts(Tensor rows, Tensor indices) { return rows.builder->op("gather_parts", {rows, indices}); }
Tensor scatter_parts(Tensor indices, Tensor updates, int64_t rows) {
  return indices.builder->op("scatter_parts", {indices, updates}, {{"rows", rows}});
}
Tensor exchange_rows(Tensor rows, Tensor send) {
  const Tensor sent = gather_parts(rows, send);  // [q, p, ...]
  std::vector<int64_t> permutation{1, 0};
  for (int i = 2; i < sent.shape().rank(); ++i) permutation.push_back(i);
  return transpose(sent, permutation);
}

HostTensor padded_table(const std::vector<std::vector<int32_t>>& lists) {
  size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  HostTensor table(TensorType{DType::kI32, Shape{static_cast<int64_t>(lists.size()), static_cast<int64_t>(longest)}});
  for (size_t part = 0; part < lists.size(); ++part)
    for (size_t i = 0; i < longest; ++i)
      table.set(static_cast<int64_t>(part * longest + i),
                i < lists[part].size() ? lists[part][i] : static_cast<double>(kNoRow));
  return table;
}

double padding_of(const HostTensor& table) {
  int64_t padding = 0;
  for (int64_t i = 0; i < table.elements(); ++i) padding += table.get(i) == static_cast<double>(kNoRow);
  return static_cast<double>(padding) / static_cast<double>(std::max<int64_t>(1, table.elements()));
}

}  // namespace ramet::ops
