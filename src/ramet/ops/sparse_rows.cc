// Rows of block-sparse matrices: softmax over them, rows as embeddings; attention over stored blocks.

#include <algorithm>

#include "ramet/ops/build_sparse.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/sparse.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

/// Products and rows of cells are free. Where a part of the matrix is kept, rows must know where they are.
ShardingRule softmax_rule(const NodeSignature& node) {
  const SparseSoftmaxForm form = sparse_softmax_form(node);
  RuleBuilder rule;
  ShardingRule::Operand values, index;
  if (node.inputs[0].shape.rank() == 6) values.push_back({rule.factor(form.groups.count)});
  if (form.groups.own_index) index = values;
  for (const int factor : {rule.factor(form.grid.cells_down, form.keep != SparseKeep::kAll),
                           rule.factor(form.grid.cells_across, true), rule.factor(form.grid.slots, true)})
    values.push_back({factor}), index.push_back({factor});
  values.push_back({rule.factor(form.grid.block_rows, true)});
  values.push_back({rule.factor(form.grid.block_columns, true)});
  for (size_t input = 0; input + 1 < node.inputs.size(); ++input) rule.input(values);
  return rule.input(index).output(values).build();
}

std::vector<Tensor> softmax_gradient(GradientContext& context) {
  const Tensor y = context.outputs[0], dy = cast_to(context.output_gradients[0], y.dtype());
  std::vector<Tensor> gradients(2);
  gradients[0] = context.build.op("sparse_softmax_grad", {y, dy, context.inputs[1]}, context.node.attributes);
  return gradients;
}

std::vector<TensorType> infer_softmax(const NodeSignature& node) {
  sparse_softmax_form(node);
  if (node.inputs.size() == 3 && node.inputs[0] != node.inputs[1])
    refuse(node, "the result and its gradient differ", node.inputs[0].text() + " and " + node.inputs[1].text());
  return {node.inputs[0]};
}

/// Numbers are free, and so are cells. Where a part of the rows of cells is looked at, the parts' results add up.
ShardingRule rows_rule(const NodeSignature& node, bool gathers) {
  const SparseGrid grid = sparse_rows_form(node).grid;
  RuleBuilder rule;
  ShardingRule::Operand numbers, rows, values, index;
  using Reduce = ShardingRule::Reduce;
  const Reduce over_numbers = gathers ? Reduce::kNone : Reduce::kSum,
               over_rows = gathers ? Reduce::kSum : Reduce::kNone;
  for (const int64_t extent : node.inputs[0].shape.dims())
    numbers.push_back({rule.factor(extent, !gathers, over_numbers)});
  // Devices add no f64 and no u16.
  const DType dtype = node.outputs[0].dtype;
  const bool adds = !gathers || (is_floating(dtype) && dtype != DType::kF64);
  const int r = rule.factor(grid.cells_down, !adds, adds ? over_rows : Reduce::kNone);
  const int c = rule.factor(grid.cells_across);
  rows = numbers;
  rows.push_back({c, rule.factor(grid.cell_columns, true)});
  for (const int factor : {r, c, rule.factor(grid.slots, true)}) values.push_back({factor}), index.push_back({factor});
  values.push_back({rule.factor(grid.block_rows, true)}), values.push_back({rule.factor(grid.block_columns, true)});
  rule.input(numbers).input(gathers ? values : rows).input(index);
  return rule.output(gathers ? rows : values).build();
}

std::vector<TensorType> infer_gather(const NodeSignature& node) {
  const SparseRowsForm form = sparse_rows_form(node);
  Dims dims = node.inputs[0].shape.dims();
  dims.push_back(form.grid.columns());
  require_bounded(node, Shape(dims));
  return {{node.inputs[1].dtype, Shape(std::move(dims))}};
}

std::vector<TensorType> infer_scatter(const NodeSignature& node) {
  const SparseGrid grid = sparse_rows_form(node).grid;
  return {{DType::kF32, Shape{grid.cells_down, grid.cells_across, grid.slots, grid.block_rows, grid.block_columns}}};
}

std::vector<Tensor> gather_gradient(GradientContext& context) {
  const SparseGrid grid = sparse_rows_form(context.node).grid;
  const Tensor sums = sparse_scatter_add(context.inputs[0], context.output_gradients[0], context.inputs[2],
                                         {grid.cell_rows, grid.cell_columns}, grid.block_rows, grid.block_columns);
  return {Tensor{}, cast_to(sums, context.inputs[1].dtype()), Tensor{}};
}

std::vector<Tensor> scatter_gradient(GradientContext& context) {
  const Tensor values = cast_to(context.output_gradients[0], context.inputs[1].dtype());
  const Dims& cell = context.node.attributes.get_ints("cell");
  return {Tensor{}, sparse_gather(context.inputs[0], values, context.inputs[2], {cell[0], cell[1]}), Tensor{}};
}

/// The index is read whole, of the values those of the rows.
Cost gather_cost(const NodeSignature& node) {
  const SparseRowsForm form = sparse_rows_form(node);
  const int64_t of_rows = form.numbers * form.grid.stored_elements() / std::max<int64_t>(1, form.grid.rows());
  const int64_t values =
      std::min(of_rows, form.grid.stored_elements()) * static_cast<int64_t>(size_of(node.inputs[1].dtype));
  return {.bytes_read = node.inputs[0].bytes() + node.inputs[2].bytes() + values,
          .bytes_written = node.outputs[0].bytes()};
}

void register_softmax(OpRegistry& registry, const AttributeSpec& cell) {
  const AttributeSpec keep =
      optional_attribute("keep", Kind::kString, "all; lower: columns up to the row; upper: from the row on (all)");
  const auto cost = [](const NodeSignature& node) {
    return streaming_cost(node, 5.0 * static_cast<double>(node.inputs[0].elements()));
  };
  registry.add({.name = "sparse_softmax",
                .doc =
                    "softmax over the stored elements of each row: values [R,C,slots,i,j] (or [G,R,C,slots,i,j] of G "
                    "matrices) at the blocks of index i32 [R,C,slots] -> the same shape; elements that are not kept "
                    "become 0",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {cell, keep},
                .infer = infer_softmax,
                .gradient = softmax_gradient,
                .sharding = softmax_rule,
                .cost = cost,
                .cheap = true});
  registry.add({.name = "sparse_softmax_grad",
                .doc = "(y, dy, index) -> y (dy - sum over the row of y dy), of the y that sparse_softmax gave",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {cell, keep},
                .infer = infer_softmax,
                .gradient = {},
                .sharding = softmax_rule,
                .cost = cost});
}

}  // namespace

void register_sparse_row_ops(OpRegistry& registry) {
  const AttributeSpec cell = required_attribute("cell", Kind::kInts, "rows and columns of a cell");
  register_softmax(registry, cell);
  registry.add(
      {.name = "sparse_gather",
       .doc = "rows of a sparse table by numbers [I...]: values [R,C,slots,i,j] at the blocks of index i32 "
              "[R,C,slots] -> [I...,columns]; a number outside of the table is an error at run time. A part of the "
              "cells' rows gives rows of -0 for numbers of other parts",
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = {cell, optional_attribute("padding", Kind::kInt, "rows at the end that mean nothing (0)")},
       .infer = infer_gather,
       .gradient = gather_gradient,
       .sharding = [](const NodeSignature& node) { return rows_rule(node, true); },
       .cost = gather_cost,
       .positional = 1});
  registry.add({.name = "sparse_scatter_add",
                .doc = "rows [I...,columns] added at the rows numbers [I...] of a sparse table, where index i32 "
                       "[R,C,slots] stores blocks -> f32 [R,C,slots,i,j]; sums in order of position",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {cell, required_attribute("block", Kind::kInts, "rows and columns of a block")},
                .infer = infer_scatter,
                .gradient = scatter_gradient,
                .sharding = [](const NodeSignature& node) { return rows_rule(node, false); },
                .cost =
                    [](const NodeSignature& node) {
                      return streaming_cost(node, static_cast<double>(node.inputs[1].elements()));
                    },
                .positional = OpDef::kPositionalOutput});
}

Tensor sparse_softmax(Tensor values, Tensor index, const SparseCell& cell, const std::string& keep) {
  Attributes attributes{{"cell", Dims{cell.rows, cell.columns}}};
  if (keep != "all") attributes.set("keep", keep);
  return values.builder->op("sparse_softmax", {values, index}, std::move(attributes));
}

Tensor sparse_gather(Tensor numbers, Tensor values, Tensor index, const SparseCell& cell) {
  Attributes attributes{{"cell", Dims{cell.rows, cell.columns}}};
  if (cell.padding > 0) attributes.set("padding", cell.padding);
  return numbers.builder->op("sparse_gather", {numbers, values, index}, std::move(attributes));
}

Tensor sparse_scatter_add(Tensor numbers, Tensor rows, Tensor index, const SparseCell& cell, int64_t block_rows,
                          int64_t block_columns) {
  return numbers.builder->op("sparse_scatter_add", {numbers, rows, index},
                             {{"cell", Dims{cell.rows, cell.columns}}, {"block", Dims{block_rows, block_columns}}});
}

Tensor sparse_attention(Tensor q, Tensor k, Tensor v, Tensor index, const SparseCell& cell, int64_t block_rows,
                        int64_t block_columns, double factor, const std::string& keep) {
  // Features are the tokens of the products: queries and keys are the rows and columns of the sparse matrix.
  const auto turned = [](Tensor a) {
    const Shape& shape = a.shape();
    return transpose(reshape(a, Shape{-1, shape.dim(-2), shape.dim(-1)}), {0, 2, 1});
  };
  const Tensor scores = sparse_outer(turned(q), turned(k), index, cell, block_rows, block_columns, true);
  const Tensor shares = cast_to(sparse_softmax(scale(scores, factor), index, cell, keep), v.dtype());
  const Tensor y = transpose(sparse_matmul(turned(v), shares, index, cell), {0, 2, 1});
  Dims dims = q.shape().dims();
  dims.back() = v.shape().dim(-1);
  return reshape(y, Shape(std::move(dims)));
}

}  // namespace ramet::ops
