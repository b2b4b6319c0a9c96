#include "ramet/ops/sparse.h"

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build_sparse.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

std::string times(int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); }

/// Product of all dimensions but the last, which must be `width`, and the first of several products, which must be
/// their number.
int64_t tokens_of(const NodeSignature& node, int input, const std::string& operand, int64_t width,
                  const SparseGroups& groups, bool grouped) {
  require_floating(node, input, operand);
  require_rank(node, input, operand, grouped ? 2 : 1);
  const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
  if (shape.dim(-1) != width)
    refuse(node, "the last dimension of " + operand + " does not fit the sparse matrix", std::to_string(shape.dim(-1)),
           std::to_string(width));
  if (grouped && shape[0] != groups.count)
    refuse(node, "the first dimension of " + operand + " is not the number of products", std::to_string(shape[0]),
           std::to_string(groups.count));
  int64_t tokens = 1;
  for (int axis = grouped; axis + 1 < shape.rank(); ++axis) tokens *= shape[axis];
  return tokens;
}

/// The tokens of an operand in panels, which says how many there are in one.
int64_t tokens_of_panels(const NodeSignature& node, int input, const std::string& operand, bool grouped,
                         SparseActivation& lies) {
  require_floating(node, input, operand);
  require_rank(node, input, operand, 3);
  if (grouped) refuse(node, "panels are for one product", operand, "rows of tokens");
  const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
  if (shape[1] != lies.features)
    refuse(node, "the middle dimension of " + operand + " does not fit the sparse matrix", std::to_string(shape[1]),
           std::to_string(lies.features));
  lies.panel = shape[2];
  return shape[0] * shape[2];
}

Shape with_last(const Shape& shape, int64_t last) {
  Dims dims = shape.dims();
  dims.back() = last;
  return Shape(std::move(dims));
}

void require_same_type(const NodeSignature& node, const std::string& names) {
  if (node.inputs[0].dtype != node.inputs[1].dtype)
    refuse(node, names + " are of different types", node.inputs[0].text() + " and " + node.inputs[1].text(), "one type",
           "Cast one of them");
}

}  // namespace

std::vector<int64_t> sparse_pair(const NodeSignature& node, const std::string& name) {
  const Dims& pair = node.attributes.get_ints(name);
  if (pair.size() != 2 || pair[0] < 1 || pair[1] < 1)
    refuse(node, name + " must be two positive numbers: rows and columns", std::to_string(pair.size()) + " numbers");
  return pair;
}

SparseGrid sparse_grid_of(const NodeSignature& node, size_t at, const Dims& cell, int64_t block_rows,
                          int64_t block_columns, SparseGroups* groups) {
  require_dtype(node, static_cast<int>(at), "index", {DType::kI32});
  require_rank(node, static_cast<int>(at), "index", 3, groups ? 4 : 3);
  const Shape& shape = node.inputs[at].shape;
  SparseGrid grid{shape.dim(-3), shape.dim(-2), cell[0], cell[1], block_rows, block_columns, shape.dim(-1)};
  if (block_rows < 1 || block_columns < 1 || grid.cell_rows % block_rows != 0 || grid.cell_columns % block_columns != 0)
    refuse(node, "blocks must divide a cell", "blocks of " + times(block_rows, block_columns),
           "divisors of a cell of " + times(cell[0], cell[1]));
  if (grid.cells() < 1) refuse(node, "the index has no cell", shape.text(), "at least one cell");
  if (grid.slots > grid.blocks())
    refuse(node, "a cell stores more blocks than it has", std::to_string(grid.slots),
           "at most " + std::to_string(grid.blocks()));
  if (groups) {
    groups->own_index = shape.rank() == 4;
    if (groups->own_index) groups->count = shape[0];
  }
  return grid;
}

namespace {

/// The grid of the values in input `at` and the index in the last input; `groups`: they may be those of several
/// products.
SparseGrid grid_of_values(const NodeSignature& node, int at, const std::string& operand, SparseGroups* groups) {
  require_rank(node, at, operand, 5, groups ? 6 : 5);
  const Shape& values = node.inputs[static_cast<size_t>(at)].shape;
  const bool grouped = values.rank() == 6;
  const SparseGrid grid = sparse_grid_of(node, node.inputs.size() - 1, sparse_pair(node, "cell"), values.dim(-2),
                                         values.dim(-1), grouped ? groups : nullptr);
  Dims expected{grid.cells_down, grid.cells_across, grid.slots, grid.block_rows, grid.block_columns};
  if (grouped) {
    if (!groups->own_index) groups->count = values[0];
    expected.insert(expected.begin(), groups->count);
  }
  require_shape(node, at, operand, Shape(expected));
  return grid;
}

/// The attribute `padding`; of a part of a table it may be more than the part's rows.
int64_t sparse_padding(const NodeSignature& node) {
  const int64_t padding = node.attributes.get_int_or("padding", 0);
  if (padding < 0) refuse(node, "a negative number of rows", "padding=" + std::to_string(padding), "0 or more");
  return padding;
}

/// The shape of a product's result.
Shape output_shape(const NodeSignature& node, const SparseMatmulForm& form, bool grouped) {
  const int64_t panel = form.y.panel;
  if (panel == 0) return form.x.panel ? Shape{form.tokens, form.out()} : with_last(node.inputs[0].shape, form.out());
  if (grouped) refuse(node, "panels are for one product", "y_panel=" + std::to_string(panel), "no y_panel");
  if (panel < 0 || form.tokens % panel != 0)
    refuse(node, "panels must divide the tokens", "y_panel=" + std::to_string(panel),
           "a divisor of " + std::to_string(form.tokens));
  return Shape{form.tokens / panel, form.out(), panel};
}

}  // namespace

SparseActivationNames sparse_activations(const NodeSignature& node) {
  if (node.op->name == "sparse_matmul") return {{"x"}, true};
  if (node.op->name == "sparse_outer") return {{"a", "b"}, false};
  return {};
}

SparseMatmulForm sparse_matmul_form(const NodeSignature& node) {
  require_floating(node, 1, "values");
  require_same_type(node, "x and values");
  SparseMatmulForm form;
  form.grid = grid_of_values(node, 1, "values", &form.groups);
  form.grid.padding = sparse_padding(node);
  form.transpose = node.attributes.get_bool_or("transpose", false);
  form.fixed = node.attributes.get_bool_or("fixed", false);
  form.x.features = form.in(), form.y.features = form.out();
  const bool grouped = node.inputs[1].shape.rank() == 6;
  form.tokens = node.attributes.get_bool_or("x_panels", false)
                    ? tokens_of_panels(node, 0, "x", grouped, form.x)
                    : tokens_of(node, 0, "x", form.in(), form.groups, grouped);
  const DType dtype = node.attributes.has("dtype") ? node.attributes.get_dtype("dtype") : node.inputs[0].dtype;
  if (!is_floating(dtype)) refuse(node, "the output must be floating", "dtype=" + std::string(name_of(dtype)));
  form.y.panel = node.attributes.get_int_or("y_panel", 0);
  form.output = {dtype, output_shape(node, form, grouped)};
  return form;
}

SparseOuterForm sparse_outer_form(const NodeSignature& node) {
  require_same_type(node, "a and b");
  const Dims block = sparse_pair(node, "block");
  const bool grouped = node.attributes.get_bool_or("grouped", false);
  SparseOuterForm form;
  form.fixed = node.attributes.get_bool_or("fixed", false);
  form.grid = sparse_grid_of(node, 2, sparse_pair(node, "cell"), block[0], block[1], grouped ? &form.groups : nullptr);
  if (grouped && !form.groups.own_index && node.inputs[0].shape.rank() > 0) form.groups.count = node.inputs[0].shape[0];
  form.a.features = form.grid.rows(), form.b.features = form.grid.columns();
  const auto tokens_in = [&](int input, const std::string& name, SparseActivation& lies) {
    if (node.attributes.get_bool_or(name + "_panels", false)) return tokens_of_panels(node, input, name, grouped, lies);
    return tokens_of(node, input, name, lies.features, form.groups, grouped);
  };
  form.tokens = tokens_in(0, "a", form.a);
  const int64_t tokens = tokens_in(1, "b", form.b);
  const Dims &a = node.inputs[0].shape.dims(), &b = node.inputs[1].shape.dims();
  const bool in_rows = form.a.panel == 0 && form.b.panel == 0;
  if (tokens != form.tokens || (in_rows && (a.size() != b.size() || !std::equal(a.begin(), a.end() - 1, b.begin()))))
    refuse(node, "the leading dimensions of a and b differ", node.inputs[0].text() + " and " + node.inputs[1].text());
  return form;
}

SparseSoftmaxForm sparse_softmax_form(const NodeSignature& node) {
  require_floating(node, 0, "values");
  SparseSoftmaxForm form;
  form.grid = grid_of_values(node, 0, "values", &form.groups);
  const std::string keep = node.attributes.has("keep") ? node.attributes.get_string("keep") : "all";
  if (keep != "all" && keep != "lower" && keep != "upper")
    refuse(node, "unknown part of a matrix", "keep=" + keep, "all, lower or upper");
  form.keep = keep == "all" ? SparseKeep::kAll : keep == "lower" ? SparseKeep::kLower : SparseKeep::kUpper;
  return form;
}

SparseRowsForm sparse_rows_form(const NodeSignature& node) {
  require_dtype(node, 0, "numbers", {DType::kI32, DType::kI64});
  SparseRowsForm form{.grid = {}, .numbers = node.inputs[0].shape.elements()};
  if (!node.attributes.has("block")) {
    // Numbers in two halves are looked up one half after the other.
    if (node.inputs[1].dtype != DType::kU16) require_floating(node, 1, "values");
    form.grid = grid_of_values(node, 1, "values", nullptr);
    form.grid.padding = sparse_padding(node);
    return form;
  }
  const Dims block = sparse_pair(node, "block");
  form.grid = sparse_grid_of(node, 2, sparse_pair(node, "cell"), block[0], block[1], nullptr);
  Dims rows = node.inputs[0].shape.dims();
  rows.push_back(form.grid.columns());
  require_floating(node, 1, "rows");
  require_shape(node, 1, "rows", Shape(std::move(rows)));
  return form;
}

void check_sparse_index(const NodeSignature& node, const SparseGrid& grid, const int32_t* index, int64_t patterns) {
  const int64_t blocks = grid.blocks();
  for (int64_t cell = 0; cell < patterns * grid.cells(); ++cell, index += grid.slots) {
    int64_t before = -1;
    bool ends = false;
    for (int64_t slot = 0; slot < grid.slots; ++slot) {
      ends = ends || index[slot] == kUnusedSlot;
      if (ends ? index[slot] == kUnusedSlot : index[slot] > before && index[slot] < blocks) {
        before = index[slot];
        continue;
      }
      throw Error({.what = "the numbers of stored blocks must ascend, and lie in their cell",
                   .where = node.text() + ", cell " + std::to_string(cell) + ", slot " + std::to_string(slot),
                   .found = std::to_string(index[slot]) + " behind " + std::to_string(before),
                   .expected = ends ? "no number behind an unused slot"
                                    : "a greater number, at most " + std::to_string(blocks - 1)},
                  ErrorKind::kFailure);
    }
  }
}

int64_t used_slots(const SparseGrid& grid, const int32_t* index) {
  int64_t used = grid.slots;
  while (used > 0 && index[used - 1] == kUnusedSlot) --used;
  return used;
}

std::optional<SparseWork> sparse_work(const NodeSignature& node) {
  if (node.op->name == "sparse_matmul") {
    const SparseMatmulForm form = sparse_matmul_form(node);
    return SparseWork{.grid = form.grid,
                      .groups = form.groups.count,
                      .tokens = form.tokens,
                      .fixed = form.fixed,
                      .operands = node.inputs[0].dtype};
  }
  if (node.op->name == "sparse_outer") {
    const SparseOuterForm form = sparse_outer_form(node);
    return SparseWork{.grid = form.grid,
                      .groups = form.groups.count,
                      .tokens = form.tokens,
                      .sampled = true,
                      .fixed = form.fixed,
                      .operands = node.inputs[0].dtype};
  }
  return std::nullopt;
}

int64_t sparse_row_here(const NodeSignature& node, const Position& position, const SparseGrid& grid, int64_t i,
                        int64_t number) {
  const int64_t rows = position.logical()[0] * grid.cell_rows;
  if (number >= 0 && number < rows) {
    const int64_t cell = position.local_coordinate(0, number / grid.cell_rows);
    return cell < 0 ? -1 : cell * grid.cell_rows + number % grid.cell_rows;
  }
  throw Error({.what = "a number of a row is outside of the sparse table",
               .where = node.text() + ", number " + std::to_string(i),
               .found = std::to_string(number),
               .expected = "at least 0 and less than " + std::to_string(rows)},
              ErrorKind::kFailure);
}

namespace {

/// Factors of the grid in a rule: cells and the elements of a cell, each down and across.
struct GridFactors {
  int r, c, cell_rows, cell_columns;
};
GridFactors grid_factors(RuleBuilder& rule, const SparseGrid& grid, ShardingRule::Reduce down,
                         ShardingRule::Reduce across) {
  GridFactors factors{};
  factors.r = rule.factor(grid.cells_down, false, down);
  factors.c = rule.factor(grid.cells_across, false, across);
  factors.cell_rows = rule.factor(grid.cell_rows, true, down);
  factors.cell_columns = rule.factor(grid.cell_columns, true, across);
  return factors;
}

/// Nothing is cut: activations come to lie in panels behind all cuts (program/keep_panels.h).
ShardingRule whole_rule(const NodeSignature& node, RuleBuilder& rule) {
  const auto whole = [&](const Shape& shape) {
    ShardingRule::Operand operand;
    for (const int64_t extent : shape.dims())
      operand.push_back({rule.factor(extent, true, ShardingRule::Reduce::kSum)});
    return operand;
  };
  for (const TensorType& input : node.inputs) rule.input(whole(input.shape));
  return rule.output(whole(node.outputs[0].shape)).build();
}

/// Cells are free, across and down; where a product sums over them, shards hold partial sums of whole cells.
ShardingRule matmul_rule(const NodeSignature& node) {
  using Reduce = ShardingRule::Reduce;
  const SparseMatmulForm form = sparse_matmul_form(node);
  RuleBuilder rule;
  ShardingRule::Operand x, values, index;
  const Shape& shape = node.inputs[0].shape;
  if (form.x.panel || form.y.panel) return whole_rule(node, rule);
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) x.push_back({rule.factor(shape[axis])});
  if (node.inputs[1].shape.rank() == 6) values.push_back(x[0]);
  if (form.groups.own_index) index.push_back(x[0]);
  ShardingRule::Operand y = x;
  const GridFactors grid = grid_factors(rule, form.grid, form.transpose ? Reduce::kSum : Reduce::kNone,
                                        form.transpose ? Reduce::kNone : Reduce::kSum);
  const ShardingRule::Dim rows{grid.r, grid.cell_rows}, columns{grid.c, grid.cell_columns};
  x.push_back(form.transpose ? rows : columns);
  y.push_back(form.transpose ? columns : rows);
  const int slots = rule.factor(form.grid.slots, true, Reduce::kSum);
  const int i = rule.factor(form.grid.block_rows, true, Reduce::kSum);
  const int j = rule.factor(form.grid.block_columns, true, Reduce::kSum);
  for (const int factor : {grid.r, grid.c, slots}) values.push_back({factor}), index.push_back({factor});
  values.push_back({i}), values.push_back({j});
  return rule.input(x).input(values).input(index).output(y).build();
}

/// Tokens are never cut: they are the samples of a micro-batch.
ShardingRule outer_rule(const NodeSignature& node) {
  using Reduce = ShardingRule::Reduce;
  const SparseOuterForm form = sparse_outer_form(node);
  RuleBuilder rule;
  ShardingRule::Operand a, b, index, out;
  const Shape& shape = node.inputs[0].shape;
  if (form.a.panel || form.b.panel) return whole_rule(node, rule);
  const bool grouped = node.attributes.get_bool_or("grouped", false);
  if (grouped) out.push_back({rule.factor(form.groups.count)});
  if (form.groups.own_index) index = out;
  a = out;
  for (int axis = grouped; axis + 1 < shape.rank(); ++axis) a.push_back({rule.factor(shape[axis], true, Reduce::kSum)});
  b = a;
  const int r = rule.factor(form.grid.cells_down), c = rule.factor(form.grid.cells_across);
  a.push_back({r, rule.factor(form.grid.cell_rows, true, Reduce::kSum)});
  b.push_back({c, rule.factor(form.grid.cell_columns, true, Reduce::kSum)});
  const int slots = rule.factor(form.grid.slots, true);
  for (const int factor : {r, c, slots}) index.push_back({factor}), out.push_back({factor});
  out.push_back({rule.factor(form.grid.block_rows, true)}), out.push_back({rule.factor(form.grid.block_columns, true)});
  return rule.input(a).input(b).input(index).output(out).build();
}

void refuse_panels(const NodeSignature& node, bool in_panels) {
  if (in_panels) refuse(node, "no gradient", "activations in panels", "activations in rows");
}

std::vector<Tensor> matmul_gradient(GradientContext& context) {
  const SparseMatmulForm form = sparse_matmul_form(context.node);
  refuse_panels(context.node, form.x.panel || form.y.panel);
  const Tensor x = context.inputs[0], values = context.inputs[1], index = context.inputs[2];
  const Tensor dy = cast_to(context.output_gradients[0], x.dtype());
  const SparseCell cell{form.grid.cell_rows, form.grid.cell_columns, form.fixed};
  std::vector<Tensor> gradients(3);
  if (context.needed[0]) gradients[0] = sparse_matmul(dy, values, index, cell, !form.transpose);
  if (context.needed[1])
    gradients[1] = sparse_outer(form.transpose ? x : dy, form.transpose ? dy : x, index, cell, form.grid.block_rows,
                                form.grid.block_columns, values.shape().rank() == 6);
  return gradients;
}

std::vector<Tensor> outer_gradient(GradientContext& context) {
  const SparseOuterForm form = sparse_outer_form(context.node);
  refuse_panels(context.node, form.a.panel || form.b.panel);
  const Tensor a = context.inputs[0], b = context.inputs[1], index = context.inputs[2];
  const Tensor values = cast_to(context.output_gradients[0], a.dtype());
  const SparseCell cell{form.grid.cell_rows, form.grid.cell_columns, form.fixed};
  std::vector<Tensor> gradients(3);
  if (context.needed[0]) gradients[0] = sparse_matmul(b, values, index, cell);
  if (context.needed[1]) gradients[1] = sparse_matmul(a, values, index, cell, true);
  return gradients;
}

Cost product_cost(const NodeSignature& node, int64_t tokens, const SparseGrid& grid) {
  return streaming_cost(node, 2.0 * static_cast<double>(tokens) * static_cast<double>(grid.stored_elements()));
}
Cost matmul_cost(const NodeSignature& node) {
  const SparseMatmulForm form = sparse_matmul_form(node);
  return product_cost(node, form.groups.count * form.tokens, form.grid);
}
Cost outer_cost(const NodeSignature& node) {
  const SparseOuterForm form = sparse_outer_form(node);
  return product_cost(node, form.groups.count * form.tokens, form.grid);
}

/// The sum in f32, then its rounding.
Tensor sum_apart(SimplifyContext& context) {
  const SparseMatmulForm form = sparse_matmul_form(context.node);
  if (form.output.dtype == DType::kF32) return {};
  Attributes attributes = context.node.attributes;
  attributes.set("dtype", DType::kF32);
  const std::vector<Tensor> inputs(context.inputs.begin(), context.inputs.end());
  return cast(context.build.ops("sparse_matmul", inputs, std::move(attributes)).at(0), form.output.dtype);
}

}  // namespace

void register_sparse_ops(OpRegistry& registry) {
  const AttributeSpec cell = required_attribute("cell", Kind::kInts, "rows and columns of a cell");
  const AttributeSpec fixed =
      optional_attribute("fixed", Kind::kBool, "the index never changes: for machines that place blocks (false)");
  registry.add(
      {.name = "sparse_matmul",
       .doc = "x [...,columns] x (block-sparse matrix)^T -> [...,rows]: values [R,C,slots,i,j] at the blocks of "
              "index i32 [R,C,slots], numbers in their cell; sums are f32, in order. Values [G,R,C,slots,i,j] are "
              "those of G products, as is then the first dimension of x; the index may be [G,R,C,slots]",
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = {cell, fixed,
                      optional_attribute("transpose", Kind::kBool, "x [...,rows] x matrix -> [...,columns] (false)"),
                      optional_attribute("padding", Kind::kInt, "rows at the end that mean nothing (0)"),
                      optional_attribute("dtype", Kind::kDType, "of the output (x's)"),
                      optional_attribute("x_panels", Kind::kBool, "x is [panels,columns,tokens of a panel] (false)"),
                      optional_attribute("y_panel", Kind::kInt,
                                         "tokens of a panel of the output, [panels,rows,tokens of a panel] (0: rows)")},
       .infer = [](const NodeSignature& node) { return std::vector{sparse_matmul_form(node).output}; },
       .gradient = matmul_gradient,
       .apart = sum_apart,
       .sharding = matmul_rule,
       .cost = matmul_cost,
       .precision = OpDef::Precision::kLow});
  registry.add({.name = "sparse_outer",
                .doc =
                    "a [...,rows], b [...,columns] -> f32 [R,C,slots,i,j]: sums over the leading dimensions of the "
                    "products at the stored blocks of index i32 [R,C,slots]; with grouped=true the first dimension of "
                    "a, b and the result (and of an index of 4 dimensions) is the product's number",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {cell, fixed, required_attribute("block", Kind::kInts, "rows and columns of a block"),
                               optional_attribute("grouped", Kind::kBool, "several products (false)"),
                               optional_attribute("a_panels", Kind::kBool, "a is [panels,rows,tokens] (false)"),
                               optional_attribute("b_panels", Kind::kBool, "b is [panels,columns,tokens] (false)")},
                .infer =
                    [](const NodeSignature& node) {
                      const SparseOuterForm form = sparse_outer_form(node);
                      const SparseGrid& grid = form.grid;
                      Dims dims{grid.cells_down, grid.cells_across, grid.slots, grid.block_rows, grid.block_columns};
                      if (node.attributes.get_bool_or("grouped", false)) dims.insert(dims.begin(), form.groups.count);
                      return std::vector<TensorType>{{DType::kF32, Shape(std::move(dims))}};
                    },
                .gradient = outer_gradient,
                .sharding = outer_rule,
                .cost = outer_cost,
                .precision = OpDef::Precision::kLow});
}

Tensor sparse_matmul(Tensor x, Tensor values, Tensor index, const SparseCell& cell, bool transpose,
                     std::optional<DType> dtype) {
  Attributes attributes{{"cell", Dims{cell.rows, cell.columns}}};
  if (transpose) attributes.set("transpose", true);
  if (cell.fixed) attributes.set("fixed", true);
  if (cell.padding > 0) attributes.set("padding", cell.padding);
  if (dtype && *dtype != x.dtype()) attributes.set("dtype", *dtype);
  return x.builder->op("sparse_matmul", {x, values, index}, std::move(attributes));
}

Tensor sparse_outer(Tensor a, Tensor b, Tensor index, const SparseCell& cell, int64_t block_rows, int64_t block_columns,
                    bool grouped) {
  Attributes attributes{{"cell", Dims{cell.rows, cell.columns}}, {"block", Dims{block_rows, block_columns}}};
  if (grouped) attributes.set("grouped", true);
  if (cell.fixed) attributes.set("fixed", true);
  return a.builder->op("sparse_outer", {a, b, index}, std::move(attributes));
}

}  // namespace ramet::ops
