// Ops of patterns that change.

#include "ramet/ops/sparse_evolve.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/base/plain_math.h"
#include "ramet/ops/build_sparse.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rounding.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

TensorType index_type(const SparseGrid& grid) {
  return {DType::kI32, Shape{grid.cells_down, grid.cells_across, grid.slots}};
}

/// The grid of an index in input `at` by the attributes `cell` and `block`.
SparseGrid grid_of_index(const NodeSignature& node, size_t at) {
  const Dims block = sparse_pair(node, "block");
  return sparse_grid_of(node, at, sparse_pair(node, "cell"), block[0], block[1], nullptr);
}

/// Cells may be cut; whatever is in a cell may not.
struct CellRule {
  RuleBuilder rule;
  int down, across, slots;
  explicit CellRule(const SparseGrid& grid)
      : down(rule.factor(grid.cells_down)),
        across(rule.factor(grid.cells_across)),
        slots(rule.factor(grid.slots, true)) {}
  ShardingRule::Operand cells() const { return {{down}, {across}}; }
  ShardingRule::Operand index() const { return {{down}, {across}, {slots}}; }
};

ShardingRule evolve_rule(const NodeSignature& node) {
  CellRule cells(sparse_evolve_form(node).grid);
  const int pair = cells.rule.factor(2, true);
  for (const TensorType& type : node.inputs)
    cells.rule.input(type == counter_type()   ? ShardingRule::Operand{{pair}}
                     : type.shape.rank() == 0 ? ShardingRule::Operand{}
                                              : cells.index());
  return cells.rule.output(cells.index()).output(cells.index()).build();
}

std::vector<TensorType> infer_carry(const NodeSignature& node) {
  require_dtype(node, 0, "source", {DType::kI32});
  require_rank(node, 0, "source", 3, 3);
  require_rank(node, 1, "x", 3, 8);
  for (int axis = 0; axis < 3; ++axis)
    if (node.inputs[1].shape[axis] != node.inputs[0].shape[axis])
      refuse(node, "x has other slots than the source", node.inputs[1].text(), node.inputs[0].text());
  require_type(node, 2, "the value of new blocks", {node.inputs[1].dtype, Shape{}});
  return {node.inputs[1]};
}

ShardingRule carry_rule(const NodeSignature& node) {
  RuleBuilder rule;
  const Shape& shape = node.inputs[1].shape;
  ShardingRule::Operand source, x;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int factor = rule.factor(shape[axis], axis == 2);
    x.push_back({factor});
    if (axis < 3) source.push_back({factor});
  }
  return rule.input(source).input(x).input({}).output(x).build();
}

SparseGrid explore_grid(const NodeSignature& node) {
  const SparseGrid grid = grid_of_index(node, 1);
  require_type(node, 0, "explored", {DType::kI32, Shape{grid.cells_down, grid.cells_across, explored_words(grid)}});
  return grid;
}

ShardingRule explore_rule(const NodeSignature& node) {
  const SparseGrid grid = explore_grid(node);
  CellRule cells(grid);
  const int words = cells.rule.factor(explored_words(grid), true);
  ShardingRule::Operand explored = cells.cells();
  explored.push_back({words});
  return cells.rule.input(explored).input(cells.index()).output(explored).output(cells.cells()).build();
}

/// Tokens are never cut: they are the samples of a micro-batch.
ShardingRule candidates_rule(const NodeSignature& node) {
  using Reduce = ShardingRule::Reduce;
  const SparseGrid grid = sparse_candidates_form(node).grid;
  CellRule cells(grid);
  ShardingRule::Operand a;
  const Shape& shape = node.inputs[0].shape;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) a.push_back({cells.rule.factor(shape[axis], true, Reduce::kSum)});
  ShardingRule::Operand b = a;
  a.push_back({cells.down, cells.rule.factor(grid.cell_rows, true, Reduce::kSum)});
  b.push_back({cells.across, cells.rule.factor(grid.cell_columns, true, Reduce::kSum)});
  return cells.rule.input(a).input(b).input(cells.index()).output(cells.index()).build();
}

}  // namespace

SparseEvolveForm sparse_evolve_form(const NodeSignature& node) {
  SparseEvolveForm form;
  const Attributes& attributes = node.attributes;
  form.grid = grid_of_index(node, 0);
  form.prune_ratio = attributes.get_float("prune_ratio");
  form.prune_end = attributes.get_int("prune_end");
  form.first = attributes.get_int("first"), form.last = attributes.get_int("last");
  form.ramp_begin = attributes.get_int("ramp_begin"), form.ramp_end = attributes.get_int("ramp_end");
  form.by_gradient = node.inputs.size() == 4;
  form.regrow_pruned = attributes.get_bool_or("regrow_pruned", false);
  form.seed = static_cast<uint64_t>(attributes.get_int("seed"));
  form.tensor = static_cast<uint64_t>(attributes.get_int("tensor"));
  const std::string& schedule = attributes.get_string("prune_schedule");
  using Schedule = SparseEvolveForm::Schedule;
  if (schedule != "cosine" && schedule != "linear" && schedule != "constant")
    refuse(node, "unknown schedule of the prune ratio", schedule, "cosine, linear or constant");
  form.schedule = schedule == "cosine"   ? Schedule::kCosine
                  : schedule == "linear" ? Schedule::kLinear
                                         : Schedule::kConstant;
  if (!(form.prune_ratio >= 0 && form.prune_ratio <= 1))
    refuse(node, "a prune ratio is a share", std::to_string(form.prune_ratio), "0 to 1");
  if (form.ramp_begin < 0 || form.ramp_end < form.ramp_begin)
    refuse(node, "the number of stored blocks changes between impossible steps",
           std::to_string(form.ramp_begin) + " to " + std::to_string(form.ramp_end), "0 or more, in order");
  for (const int64_t stored : {form.first, form.last})
    if (stored < 0 || stored > form.grid.slots)
      refuse(node, "a cell stores no more blocks than it has slots", std::to_string(stored),
             "0 to " + std::to_string(form.grid.slots));
  if (form.by_gradient && form.regrow_pruned)
    refuse(node, "candidates by gradient are blocks that were not stored before", "regrow_pruned=true", "false");
  require_type(node, 1, "scores", {DType::kF32, index_type(form.grid).shape});
  require_type(node, 2, "counter", counter_type());
  if (form.by_gradient) require_type(node, 3, "candidates", index_type(form.grid));
  return form;
}

double prune_ratio_at(const SparseEvolveForm& form, int64_t done) {
  using Schedule = SparseEvolveForm::Schedule;
  if (done > form.prune_end) return 0;
  const double x = form.prune_end > 0 ? static_cast<double>(done) / static_cast<double>(form.prune_end) : 1;
  if (form.schedule == Schedule::kConstant) return form.prune_ratio;
  return form.prune_ratio * (form.schedule == Schedule::kLinear ? 1 - x : (1 + plain_cos_pi(x)) / 2);
}

int64_t stored_blocks_at(const SparseEvolveForm& form, int64_t done) {
  if (done >= form.ramp_end) return form.last;
  if (done <= form.ramp_begin) return form.first;
  const double left = static_cast<double>(form.ramp_end - done) / static_cast<double>(form.ramp_end - form.ramp_begin);
  const double way = static_cast<double>(form.last - form.first) * (1 - left * left * left);
  return form.first + static_cast<int64_t>(std::floor(way + 0.5));
}

SparseChange sparse_change(const SparseEvolveForm& form, int64_t stored, int64_t done) {
  const int64_t target = stored_blocks_at(form, done);
  auto dropped = static_cast<int64_t>(std::floor(prune_ratio_at(form, done) * static_cast<double>(stored) + 0.5));
  dropped = std::max(dropped, stored - target);
  if (!form.regrow_pruned) dropped = std::min(dropped, form.grid.blocks() - target);
  return {dropped, target - (stored - dropped)};
}

SparseCandidatesForm sparse_candidates_form(const NodeSignature& node) {
  using Norm = SparseCandidatesForm::Norm;
  const SparseOuterForm outer = sparse_outer_form(node);
  const std::string& norm = node.attributes.get_string("norm");
  if (norm != "l1" && norm != "l2" && norm != "max") refuse(node, "unknown norm", norm, "l1, l2 or max");
  return {outer.grid, outer.tokens, norm == "l1" ? Norm::kSum : norm == "l2" ? Norm::kSquares : Norm::kMost};
}

void register_sparse_evolve_ops(OpRegistry& registry) {
  const AttributeSpec cell = required_attribute("cell", Kind::kInts, "rows and columns of a cell");
  const AttributeSpec block = required_attribute("block", Kind::kInts, "rows and columns of a block");
  registry.add(
      {.name = "sparse_evolve",
       .doc = "(index i32 [R,C,slots], scores f32 [R,C,slots], counter i64[2], candidates i32 [R,C,slots] or "
              "none) -> the next index, and of each slot the slot that it had "
              "before, -1 of new blocks: drops the least scores, stores other blocks (ops/sparse_evolve.h)",
       .min_inputs = 3,
       .max_inputs = 4,
       .attributes = {cell, block, required_attribute("prune_ratio", Kind::kFloat, "share that is dropped first"),
                      required_attribute("prune_schedule", Kind::kString, "cosine, linear or constant"),
                      required_attribute("prune_end", Kind::kInt, "steps done when the ratio is 0"),
                      required_attribute("first", Kind::kInt, "stored blocks of a cell at first"),
                      required_attribute("last", Kind::kInt, "and in the end"),
                      required_attribute("ramp_begin", Kind::kInt, "steps done when `first` begins to change"),
                      required_attribute("ramp_end", Kind::kInt, "steps done when it is `last`"),
                      required_attribute("seed", Kind::kInt, "of the random numbers"),
                      required_attribute("tensor", Kind::kInt, "id of the logical tensor: hash64 of its name"),
                      optional_attribute("regrow_pruned", Kind::kBool, "dropped blocks may return (false)"),
                      optional_attribute("norm", Kind::kString,
                                         "of gradients, by which candidates are found: l1, l2 or max (l1)"),
                      optional_attribute("age", Kind::kString,
                                         "whose steps correct a new block's moments: own, shared, or auto "
                                         "(auto): own where an optimizer can"),
                      optional_attribute("fisher", Kind::kBool,
                                         "a training multiplies the squares in the scores by the optimizer's means of "
                                         "squared gradients (false)")},
       .infer =
           [](const NodeSignature& node) {
             const TensorType type = index_type(sparse_evolve_form(node).grid);
             return std::vector<TensorType>{type, type};
           },
       .gradient_stops = true,
       .sharding = evolve_rule,
       // A random word a block.
       .cost =
           [](const NodeSignature& node) {
             const SparseGrid grid = sparse_evolve_form(node).grid;
             return streaming_cost(node, 40.0 * static_cast<double>(grid.cells() * grid.blocks()));
           },
       .positional = 0});
  registry.add({.name = "sparse_carry",
                .doc = "(source i32 [R,C,slots], x [R,C,slots,...], fresh []) -> of each slot, what x has in the slot "
                       "of its cell that `source` names, or `fresh` where it is -1",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {},
                .infer = infer_carry,
                .gradient_stops = true,
                .sharding = carry_rule,
                .cost = [](const NodeSignature& node) { return streaming_cost(node, 0); }});
  registry.add(
      {.name = "sparse_explore",
       .doc = "(explored i32 [R,C,words], index i32 [R,C,slots]) -> explored with the bit of each stored block "
              "set, and how many bits a cell has: f32 [R,C]",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {cell, block},
       .infer =
           [](const NodeSignature& node) {
             const SparseGrid grid = explore_grid(node);
             return std::vector<TensorType>{node.inputs[0], {DType::kF32, Shape{grid.cells_down, grid.cells_across}}};
           },
       .gradient_stops = true,
       .sharding = explore_rule,
       .cost = [](const NodeSignature& node) { return streaming_cost(node, 0); }});
  registry.add({.name = "sparse_candidates",
                .doc = "(a [...,rows], b [...,columns], index i32 [R,C,slots]) -> i32 [R,C,slots]: of the blocks that "
                       "are not stored those where the sum of the products of a and b has the greatest norms, the "
                       "greatest first, then -1",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {cell, block, required_attribute("norm", Kind::kString, "of a block: l1, l2 or max")},
                .infer =
                    [](const NodeSignature& node) {
                      return std::vector<TensorType>{index_type(sparse_candidates_form(node).grid)};
                    },
                .gradient_stops = true,
                .sharding = candidates_rule,
                .cost =
                    [](const NodeSignature& node) {
                      const SparseCandidatesForm form = sparse_candidates_form(node);
                      return streaming_cost(node, 2.0 * static_cast<double>(form.tokens) *
                                                      static_cast<double>(form.grid.rows() * form.grid.columns()));
                    },
                .precision = OpDef::Precision::kLow});
}

std::pair<Tensor, Tensor> sparse_evolve(Tensor index, Tensor scores, Tensor counter, Tensor candidates,
                                        const SparseEvolveOptions& options) {
  Attributes attributes{{"cell", Dims{options.grid.cell_rows, options.grid.cell_columns}},
                        {"block", Dims{options.grid.block_rows, options.grid.block_columns}},
                        {"prune_ratio", options.prune_ratio},
                        {"prune_schedule", options.prune_schedule},
                        {"prune_end", options.prune_end},
                        {"first", options.first},
                        {"last", options.last},
                        {"ramp_begin", options.ramp_begin},
                        {"ramp_end", options.ramp_end},
                        {"seed", options.seed},
                        {"tensor", static_cast<int64_t>(hash64(options.random_name))},
                        {"age", options.age}};
  if (options.regrow_pruned) attributes.set("regrow_pruned", true);
  if (options.fisher) attributes.set("fisher", true);
  std::vector<Tensor> operands{index, scores, counter};
  if (candidates.valid()) {
    operands.push_back(candidates);
    attributes.set("norm", options.norm);
  }
  const std::vector<Tensor> made = index.builder->ops("sparse_evolve", operands, std::move(attributes));
  return {made[0], made[1]};
}

Tensor sparse_carry(Tensor source, Tensor x, Tensor fresh) {
  return source.builder->op("sparse_carry", {source, x, fresh});
}

std::pair<Tensor, Tensor> sparse_explore(Tensor explored, Tensor index, const SparseGrid& grid) {
  const std::vector<Tensor> made = index.builder->ops("sparse_explore", {explored, index},
                                                      Attributes{{"cell", Dims{grid.cell_rows, grid.cell_columns}},
                                                                 {"block", Dims{grid.block_rows, grid.block_columns}}});
  return {made[0], made[1]};
}

Tensor sparse_candidates(Tensor a, Tensor b, Tensor index, const SparseGrid& grid, const std::string& norm) {
  return index.builder->op("sparse_candidates", {a, b, index},
                           {{"cell", Dims{grid.cell_rows, grid.cell_columns}},
                            {"block", Dims{grid.block_rows, grid.block_columns}},
                            {"norm", norm}});
}

}  // namespace ramet::ops
