#include "ramet/model/evolve.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/model/sparsify.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_sparse.h"
#include "ramet/ops/sparse_evolve.h"

namespace ramet::model {
namespace {

constexpr const char* kFisher = "fisher";

/// A state that belongs to the values of a sparse weight.
StateTensor state_of(const SparseWeight& weight, const std::string& name, const std::string& role,
                     const TensorType& type, StateInit init) {
  StateTensor state{name, type, StateKind::kOptimizer, std::move(init), weight.values.group};
  state.of = weight.values.name;
  state.role = role;
  state.axes = weight.index.axes;
  return state;
}

/// Bits of the blocks that a pattern stores.
StateInit bits_of(const SparseGrid& grid, const HostTensor& index) {
  const int64_t words = explored_words(grid);
  HostTensor bits({DType::kI32, Shape{grid.cells_down, grid.cells_across, words}});
  auto* set = reinterpret_cast<uint32_t*>(bits.data.data());
  std::fill_n(set, bits.elements(), 0u);
  const auto* blocks = reinterpret_cast<const int32_t*>(index.data.data());
  for (int64_t i = 0; i < index.elements(); ++i)
    if (blocks[i] != kUnusedSlot) set[i / grid.slots * words + blocks[i] / 32] |= 1u << (blocks[i] % 32);
  return StateInit::from(TensorData(std::move(bits)));
}

/// The score of each stored block, f32 [R, C, slots]; that of Fisher without what a training knows.
Tensor scores_of(Tensor values, const SparseWeight& weight, const std::string& score) {
  const bool squares = score == "l2" || score == kFisher;
  return block_scores(squares ? multiply(values, values) : map_unary("abs", values), weight.index.type.shape,
                      score == "max");
}

int64_t share_of(double share, int64_t steps) {
  return static_cast<int64_t>(std::floor(share * static_cast<double>(steps) + 0.5));
}

/// Builds the program kEvolve.
class EvolveBuilder {
 public:
  EvolveBuilder(Model& model, const EvolveOptions& options, uint64_t seed, Graph& graph)
      : model_(model),
        options_(options),
        seed_(seed),
        build_(graph),
        counter_(build_.input("counter", DType::kI64, {2}, InputRole::kScalar)) {}

  void add(const SparseWeight& weight, int64_t last) {
    const SparseGrid& grid = weight.grid;
    Scope scope(build_, weight.name);
    const Shape& shape = weight.index.type.shape;
    const HostTensor& pattern = weight.index.init.data->tensor();
    const Tensor values = build_.state(weight.values.name, weight.values.type.dtype, weight.values.type.shape);
    Tensor candidates;
    if (options_.regrow == "gradient") {
      const std::string name = candidates_name(weight.name);
      model_.states.push_back(state_of(weight, name, "candidates", weight.index.type,
                                       {StateInit::Kind::kConstant, static_cast<double>(kUnusedSlot)}));
      candidates = build_.state(name, DType::kI32, shape);
    }
    const auto [index, source] =
        sparse_evolve(build_.state(weight.index.name, DType::kI32, shape), scores_of(values, weight, options_.score),
                      counter_, candidates,
                      {.grid = grid,
                       .prune_ratio = options_.prune_ratio,
                       .prune_schedule = options_.schedule,
                       .prune_end = share_of(options_.until, options_.steps),
                       .first = used_slots(grid, reinterpret_cast<const int32_t*>(pattern.data.data())),
                       .last = last,
                       .ramp_begin = share_of(options_.ramp_from, options_.steps),
                       .ramp_end = share_of(options_.ramp_until, options_.steps),
                       .regrow_pruned = options_.regrow_pruned,
                       .seed = static_cast<int64_t>(seed_),
                       .random_name = weight.index.name + "/evolve",
                       .age = options_.age,
                       .norm = options_.score == kFisher ? "l2" : options_.score,
                       .fisher = options_.score == kFisher});
    build_.output(weight.index.name, index, OutputRole::kState);
    const std::string name = explored_name(weight.name);
    const Shape words{grid.cells_down, grid.cells_across, explored_words(grid)};
    model_.states.push_back(state_of(weight, name, "explored", {DType::kI32, words}, bits_of(grid, pattern)));
    const auto [explored, counts] = sparse_explore(build_.state(name, DType::kI32, words), index, grid);
    build_.output(name, explored, OutputRole::kState);
    const Tensor stored = used(index);
    build_.output("explored." + weight.name, reduce_sum(counts));
    build_.output("stored." + weight.name, stored);
    build_.output("grown." + weight.name, subtract(stored, used(source)));
  }

 private:
  /// How many numbers are not -1.
  Tensor used(Tensor slots) { return reduce_sum(cast(less(full(build_, DType::kI32, {}, -1), slots), DType::kF32)); }

  Model& model_;
  const EvolveOptions& options_;
  const uint64_t seed_;
  GraphBuilder build_;
  const Tensor counter_;
};

}  // namespace

std::string explored_name(const std::string& weight) { return weight + ".explored"; }
std::string candidates_name(const std::string& weight) { return weight + ".candidates"; }

Tensor block_scores(Tensor elements, const Shape& index, bool greatest) {
  if (elements.shape().elements() == index.elements()) return reshape(elements, index);
  return greatest ? reduce_max(elements, {3, 4}) : reduce_sum(elements, {3, 4});
}

void check_evolve(const EvolveOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& where, const std::string& found,
                         const std::string& expected) {
    throw Error({.what = what, .where = where, .found = found, .expected = expected});
  };
  const auto one_of = [&](const std::string& key, const std::string& found, const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), found) == known.end())
      refuse("unknown way to change patterns", key, "'" + found.substr(0, 100) + "'", joined(known));
  };
  const auto share = [&](const std::string& key, double found) {
    if (!(found >= 0 && found <= 1)) refuse("a share is 0 to 1", key, std::to_string(found), "0 to 1");
  };
  if (options.every < 0) refuse("a negative number of steps", "every", std::to_string(options.every), "0 or more");
  if (options.every > 0 && options.steps < 1)
    refuse("patterns change by the number of steps of the whole run", "steps", std::to_string(options.steps),
           "1 or more");
  one_of("prune_schedule", options.schedule, {"cosine", "linear", "constant"});
  one_of("score", options.score, {"l1", "l2", "max", kFisher});
  one_of("regrow", options.regrow, {"random", "gradient"});
  one_of("age", options.age, {"auto", "own", "shared"});
  share("prune_ratio", options.prune_ratio);
  share("until", options.until);
  share("ramp_from", options.ramp_from);
  share("ramp_until", options.ramp_until);
  if (options.ramp_until < options.ramp_from)
    refuse("a change of density ends before it begins", "ramp_until", std::to_string(options.ramp_until),
           "at least ramp_from, " + std::to_string(options.ramp_from));
  if (options.regrow_pruned && options.regrow == "gradient")
    refuse("blocks that were just pruned may return only where new blocks are drawn", "regrow_pruned", "true",
           "false with regrow = \"gradient\"");
}

void add_evolve(Model& model, const EvolveOptions& options, const std::map<std::string, int64_t>& last, uint64_t seed) {
  if (options.every == 0) return;
  for (const NamedGraph& program : model.programs)
    if (program.name == kEvolve)
      throw Error({.what = "the model has patterns that change already",
                   .where = "model '" + model.name + "'",
                   .expected = "one call that names all weights whose patterns change"});
  std::vector<SparseWeight> weights;
  for (SparseWeight& weight : sparse_weights(model))
    if (last.count(weight.name)) weights.push_back(std::move(weight));
  Graph graph(kEvolve);
  EvolveBuilder builder(model, options, seed, graph);
  for (const SparseWeight& weight : weights) builder.add(weight, last.at(weight.name));
  model.programs.push_back({kEvolve, std::move(graph), When::each_step(options.every)});
}

}  // namespace ramet::model
