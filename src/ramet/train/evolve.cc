#include "ramet/train/evolve.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ramet/base/error.h"
#include "ramet/ir/part_of.h"
#include "ramet/model/evolve.h"
#include "ramet/model/sparsify.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_sparse.h"
#include "ramet/ops/rules.h"
#include "ramet/train/groups.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

/// The nodes of a graph that change patterns, by the name of the index that they read.
std::map<std::string, NodeId> evolving_nodes(const Graph& graph) {
  std::map<std::string, NodeId> nodes;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    if (graph.node(id).op->name == "sparse_evolve") nodes[graph.value(graph.node(id).inputs[0]).name] = id;
  return nodes;
}

bool corrects_moments(const TrainOptions& options) {
  return find_optimizer(options.optimizer.kind).own_steps && options.optimizer.bias_correction;
}

/// What the optimizer begins with at a new block: 0 of weights, whatever weights begin with.
double fresh_value(const StateTensor& state) {
  return state.kind == StateKind::kOptimizer && state.init.kind == StateInit::Kind::kConstant ? state.init.a : 0;
}

/// Whether the state holds a number, or half of one, for each element of the values, which follows the element's block.
bool follows_blocks(const StateTensor& state, const SparseWeight& weight) {
  const std::string& values = weight.values.name;
  if (state.name == values || (state.low_half && state.of == values)) return true;
  const bool of_pattern =
      state.name == model::explored_name(weight.name) || state.name == model::candidates_name(weight.name);
  if (state.kind != StateKind::kOptimizer || state.of != values || of_pattern) return false;
  const Shape &shape = state.type.shape, &index = weight.index.type.shape;
  if (shape.rank() == 5 && shape[0] == index[0] && shape[1] == index[1] && shape[2] == index[2]) return true;
  throw Error({.what = "an optimizer's state cannot follow the blocks of a sparse weight whose pattern changes",
               .where = "'" + state.name + "'",
               .found = state.type.text(),
               .expected = "a number for each element",
               .remedy = "Choose an optimizer that keeps numbers of each element, or patterns that never change"});
}

/// A state of the step as a graph's input, in f32; invalid where the step has none such.
template <typename Is>
Tensor state_input(const StepGraph& step, GraphBuilder& build, const Is& is) {
  const auto found = std::find_if(step.states.begin(), step.states.end(), is);
  if (found == step.states.end()) return {};
  return ops::cast_to(build.state(found->name, found->type.dtype, found->type.shape), DType::kF32);
}

/// The optimizer's mean of squared gradients of a sparse weight's values, f32 of their shape, without the bias of its
/// beginning at 0 where blocks count their own steps: shared steps give all blocks one factor.
Tensor mean_of_squares(const TrainOptions& options, const StepGraph& step, const SparseWeight& weight,
                       GraphBuilder& build) {
  const std::string& values = weight.values.name;
  const Tensor mean = state_input(step, build, [&](const StateTensor& each) {
    return each.kind == StateKind::kOptimizer && each.of == values && each.role == "v" &&
           each.type.shape == weight.values.type.shape;
  });
  if (!mean.valid())
    throw Error({.what = "scores by Fisher information need the optimizer's mean of squared gradients of each element",
                 .where = "'" + weight.name + "', score = \"fisher\"",
                 .found = options.optimizer.kind,
                 .expected = "adam, adamw, lamb or rmsprop",
                 .remedy = "Choose such an optimizer, or another score"});
  const Tensor birth =
      state_input(step, build, [&](const StateTensor& each) { return each.name == births_name(values); });
  if (!birth.valid()) return mean;
  const Tensor age = subtract(add_scalar(scalar_input(build, kUpdates), 1), birth);
  const double beta2 = group_optimizer(options, group_of(options, weight.values)).beta2;
  const Tensor left = exp(scale(age, std::log(beta2)));
  return divide(mean, add_scalar(negate(left), 1));
}

/// The scores of a weight's blocks by what pruning them is expected to add to the loss, up to a factor: the squares of
/// values times their diagonal Fisher information (LeCun et al. 1989, with the empirical Fisher for the Hessian).
Tensor fisher_scores(const TrainOptions& options, const StepGraph& step, const SparseWeight& weight,
                     GraphBuilder& build) {
  const StateTensor& held = step.state(weight.values.name);
  const Tensor values = ops::cast_to(build.state(held.name, held.type.dtype, held.type.shape), DType::kF32);
  return model::block_scores(multiply(multiply(values, values), mean_of_squares(options, step, weight, build)),
                             weight.index.type.shape);
}

/// A gradient of a sparse weight: the sum over tokens of a[t, row] b[t, column].
struct GradientUse {
  Tensor a, b;
};

/// The gradient that a node makes of its first two inputs. Of looked-up rows, `a` has a 1 where the row is.
GradientUse gradient_use(const Node& node, Tensor first, Tensor second, const SparseGrid& grid) {
  if (node.op->name == "sparse_outer") return {first, second};
  const Tensor numbers = reshape(first, {first.shape().elements()});
  const Tensor is_row = first.builder->op("one_hot", {numbers}, {{"depth", grid.rows()}, {"dtype", second.dtype()}});
  return {is_row, reshape(second, {-1, grid.columns()})};
}

/// The uses of a weight as one over the tokens of all, in the type of the first.
GradientUse joined(std::vector<GradientUse> uses) {
  if (uses.size() == 1) return uses.front();
  const DType dtype = uses.front().a.dtype();
  std::vector<Tensor> a, b;
  for (const GradientUse& use : uses) {
    a.push_back(ops::cast_to(reshape(use.a, {-1, use.a.shape().dim(-1)}), dtype));
    b.push_back(ops::cast_to(reshape(use.b, {-1, use.b.shape().dim(-1)}), dtype));
  }
  return {concat(a, 0), concat(b, 0)};
}

/// The candidates of a weight; of stacked matrices, of one after another.
Tensor candidates_of(const std::vector<GradientUse>& uses, Tensor index, const SparseGrid& grid,
                     const std::string& norm) {
  if (grid.stacked == 1) {
    const GradientUse all = joined(uses);
    return sparse_candidates(all.a, all.b, index, grid, norm);
  }
  SparseGrid each = grid;
  each.cells_down /= grid.stacked;
  const auto taken = [](Tensor from, int64_t first, int64_t count) {
    std::vector<int64_t> start(static_cast<size_t>(from.shape().rank()), 0), stop = from.shape().dims();
    start[0] = first, stop[0] = first + count;
    return slice(from, start, stop);
  };
  std::vector<Tensor> candidates;
  for (int64_t i = 0; i < grid.stacked; ++i) {
    std::vector<GradientUse> own;
    for (const GradientUse& use : uses) own.push_back({taken(use.a, i, 1), taken(use.b, i, 1)});
    const GradientUse all = joined(std::move(own));
    candidates.push_back(
        sparse_candidates(all.a, all.b, taken(index, i * each.cells_down, each.cells_down), each, norm));
  }
  return concat(candidates, 0);
}

/// The state that an index is, or whose stacked patterns it holds apart.
ValueId state_of_index(const Graph& graph, ValueId index) {
  const NodeId maker = graph.value(index).producer;
  return maker != kNoNode && graph.node(maker).op->name == "reshape" ? graph.node(maker).inputs[0] : index;
}

}  // namespace

std::set<std::string> own_step_values(const Model& model, const TrainOptions& options) {
  std::set<std::string> names;
  for (const NamedGraph& program : model.programs) {
    const std::map<std::string, NodeId> nodes = evolving_nodes(program.graph);
    if (nodes.empty()) continue;
    for (const SparseWeight& weight : sparse_weights(model)) {
      const auto found = nodes.find(weight.index.name);
      if (found == nodes.end()) continue;
      const Attributes& attributes = program.graph.node(found->second).attributes;
      const std::string age = attributes.has("age") ? attributes.get_string("age") : "auto";
      if (age == "own" && !corrects_moments(options))
        throw Error({.what = "blocks count their own steps for corrections that this optimizer does not have",
                     .where = "'" + weight.name + "', age = \"own\"",
                     .found = options.optimizer.kind,
                     .expected = "adam or adamw, with corrections",
                     .remedy = "Set the age of blocks to \"shared\""});
      if (age != "shared" && corrects_moments(options)) names.insert(weight.values.name);
    }
  }
  return names;
}

std::string births_name(const std::string& values) { return "optimizer.birth." + values; }

bool grows_by_gradient(const Graph& program) {
  for (const auto& [index, id] : evolving_nodes(program))
    if (program.node(id).inputs.size() == 4) return true;
  return false;
}

std::vector<std::string> values_by_gradient(const Model& model, const Graph& program) {
  const std::map<std::string, NodeId> nodes = evolving_nodes(program);
  std::vector<std::string> values;
  for (const SparseWeight& weight : sparse_weights(model))
    if (nodes.count(weight.index.name)) values.push_back(weight.values.name);
  return values;
}

Graph candidates_graph(const Model& model, const Graph& program, const Graph& both) {
  const std::map<std::string, NodeId> nodes = evolving_nodes(program);
  std::map<ValueId, std::vector<NodeId>> products;  // that make gradients, by the value of the index
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id)
    if (both.node(id).op->name == "sparse_outer" || both.node(id).op->name == "sparse_scatter_add")
      products[state_of_index(both, both.node(id).inputs[2])].push_back(id);
  Graph graph(kCandidates);
  GraphCopier copier(both, graph);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
  GraphBuilder build(graph);
  std::vector<GraphOutput> wanted;
  for (const SparseWeight& weight : sparse_weights(model)) {
    const auto evolving = nodes.find(weight.index.name);
    if (evolving == nodes.end()) continue;
    const ValueId index = both.find_input(weight.index.name);
    const auto found = products.find(index);
    if (index == kNoValue || found == products.end())
      throw Error({.what = "the loss does not depend on a sparse weight, whose new blocks are found by its gradient",
                   .where = "'" + weight.name + "'",
                   .remedy = "Let new blocks be drawn, or leave the weight dense"});
    const InfoScope scope(build, copier.info(found->second.front()));
    std::vector<GradientUse> uses;
    for (const NodeId id : found->second) {
      const Node& node = both.node(id);
      uses.push_back(
          gradient_use(node, build.tensor(copier[node.inputs[0]]), build.tensor(copier[node.inputs[1]]), weight.grid));
    }
    const std::string name = model::candidates_name(weight.name);
    build.output(name,
                 candidates_of(uses, build.tensor(copier[index]), weight.grid,
                               program.node(evolving->second).attributes.get_string("norm")),
                 OutputRole::kState);
    wanted.push_back(*graph.find_output(name));
  }
  return part_of(graph, kCandidates, wanted);
}

Graph with_carried_states(const Model& model, const TrainOptions& options, const StepGraph& step,
                          const Graph& program) {
  const std::map<std::string, NodeId> nodes = evolving_nodes(program);
  if (nodes.empty()) return program;
  Graph graph(program.name());
  GraphCopier copier(program, graph);
  copier.copy_inputs();
  GraphBuilder build(graph);
  std::map<NodeId, ValueId> scores;  // that take the places of a node's own
  for (const SparseWeight& weight : sparse_weights(model)) {
    const auto found = nodes.find(weight.index.name);
    if (found == nodes.end() || !program.node(found->second).attributes.get_bool_or("fisher", false)) continue;
    const Scope scope(build, weight.name);
    scores[found->second] = fisher_scores(options, step, weight, build).id;
  }
  for (NodeId id = 0; id < static_cast<NodeId>(program.nodes().size()); ++id) {
    if (const auto own = scores.find(id); own != scores.end()) copier.map(program.node(id).inputs[1], own->second);
    copier.copy_node(id);
  }
  copier.copy_outputs();
  for (const SparseWeight& weight : sparse_weights(model)) {
    const auto found = nodes.find(weight.index.name);
    if (found == nodes.end()) continue;
    if (is_frozen(options, weight.values))
      throw Error({.what = "the pattern of a frozen weight cannot change",
                   .where = "'" + weight.name + "'",
                   .remedy = "Leave the weight out of the frozen groups, or let patterns never change"});
    const Scope scope(build, weight.name);
    const Tensor source = build.tensor(copier[program.node(found->second).outputs[1]]);
    for (const StateTensor& state : step.states) {
      if (!follows_blocks(state, weight)) continue;
      const Tensor fresh = state.name == births_name(weight.values.name)
                               ? add_scalar(scalar_input(build, kUpdates), 1)
                               : full(build, state.type.dtype, {}, fresh_value(state));
      const Tensor before = build.state(state.name, state.type.dtype, state.type.shape);
      const Tensor next = sparse_carry(source, before, fresh);
      build.output(state.name, next, OutputRole::kState);
      // Of values in two halves the norm of the high ones.
      if (state.name == weight.values.name)
        build.output("norm." + weight.name, sqrt(from_exact(exact_sum({sum_squares(next)}))));
    }
  }
  return graph;
}

void add_evolve_numbers(const Model& model, const ClusterResults& results, Numbers& numbers) {
  const ResultTensors* found = results.program(model::kEvolve);
  if (!found) return;
  std::map<std::string, double> by_name;
  for (const auto& [name, value] : numbers_of(*found)) by_name[name] = value;
  double all = 0, stored = 0, grown = 0, explored = 0;  // elements
  Numbers each;
  for (const SparseWeight& weight : sparse_weights(model)) {
    if (!by_name.count("stored." + weight.name)) continue;
    const auto size = static_cast<double>(weight.grid.block_elements());
    const auto elements = static_cast<double>(weight.grid.rows() * weight.grid.columns());
    const auto of = [&](const char* what) { return size * by_name.at(what + weight.name); };
    all += elements, stored += of("stored."), grown += of("grown."), explored += of("explored.");
    each.emplace_back("density." + weight.name, of("stored.") / elements);
    each.emplace_back("churn." + weight.name, of("grown.") / of("stored."));
    each.emplace_back("explored." + weight.name, of("explored.") / elements);
    each.emplace_back("norm." + weight.name, by_name.at("norm." + weight.name));
  }
  if (each.empty()) return;
  numbers.emplace_back("density", stored / all);
  numbers.emplace_back("churn", grown / stored);
  numbers.emplace_back("explored", explored / all);
  numbers.insert(numbers.end(), each.begin(), each.end());
}

}  // namespace ramet::train
