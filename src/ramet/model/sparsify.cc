#include "ramet/model/sparsify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/transform/filled_state.h"
#include "ramet/transform/sparsify.h"

namespace ramet::model {
namespace {

constexpr int64_t kFewestSlots = 8;  // of a cell that does not store all of its blocks

std::string times(int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); }

class Sparsifier {
 public:
  Sparsifier(Model model, const SparsifyOptions& options, const FirstNumbers& first)
      : model_(std::move(model)), options_(options), first_(first) {}

  Model run() {
    begin();
    set_slots();
    for (const auto& [name, grid] : grids_)
      tokens_of_products_[name] = transform::tokens_of_products(model_.forward, name);
    for (Graph* graph : graphs()) *graph = transform::sparsify(*graph, grids_, options_.evolve.every == 0);
    std::vector<StateTensor> weights;
    for (StateTensor& weight : model_.weights) {
      const auto found = grids_.find(weight.name);
      weights.push_back(found == grids_.end() ? std::move(weight) : stored(weight, found->second));
    }
    model_.weights = std::move(weights);
    std::map<std::string, int64_t> last;
    for (const auto& [name, grid] : grids_) last[name] = slots_of(name, grid, last_.at(name));
    add_evolve(model_, options_.evolve, last, options_.seed);
    return std::move(model_);
  }

  std::map<std::string, double> densities_by_one_threshold() {
    begin();
    return global_densities(options_.density);
  }

 private:
  void begin() {
    check_options();
    find_weights();
    for (const size_t weight : chosen_) add_grid(model_.weights[weight]);
    find_own_densities();
  }

  /// `option`: the one that is wrong.
  [[noreturn]] void refuse(const std::string& option, const std::string& what, const std::string& found,
                           const std::string& expected, const std::string& remedy = "") const {
    throw SparsifyError(option, {.what = what,
                                 .where = "sparse weights of model '" + model_.name + "'",
                                 .found = found,
                                 .expected = expected,
                                 .remedy = remedy});
  }

  std::vector<Graph*> graphs() {
    std::vector<Graph*> all{&model_.forward, &model_.evaluate};
    for (NamedGraph& program : model_.programs) all.push_back(&program.graph);
    return all;
  }

  void check_options() const {
    check_density("density", options_.density);
    check_density("first_density", first_density());
    for (const auto& [pattern, density] : options_.densities) check_density("densities", density, pattern);
    check_evolve(options_.evolve);
    if (options_.evolve.every == 0 && options_.first_density)
      refuse("first_density", "a density that changes, of patterns that never change", std::to_string(first_density()),
             "no first density, or a number of steps from one change to the next");
    if (options_.block_rows < 1 || options_.block_columns < 1)
      refuse("block", "a block has at least one row and one column", times(options_.block_rows, options_.block_columns),
             "");
    if (options_.cells < 1 || options_.cells_t2 < 1)
      refuse("cells", "a weight has at least one cell", times(options_.cells, options_.cells_t2), "");
    const auto one_of = [&](const std::string& what, const std::string& found, const std::vector<std::string>& known) {
      if (std::find(known.begin(), known.end(), found) == known.end())
        refuse(what, "unknown " + what, "'" + found + "'", joined(known));
    };
    one_of("distribution", options_.distribution, {"uniform", "erk", "global"});
    one_of("pattern", options_.pattern, {"random", "magnitude"});
  }

  void check_density(const std::string& option, double density, const std::string& pattern = "") const {
    if (density > 0 && density <= 1) return;
    refuse(option, "a density must be above 0 and at most 1",
           (pattern.empty() ? "" : "'" + pattern + "': ") + std::to_string(density), "0.1, for example");
  }

  double first_density() const { return options_.first_density.value_or(options_.density); }
  /// The density of a weight for which its cells have slots.
  double most_density(const std::string& weight) const {
    return std::max(first_densities_.at(weight), last_.at(weight));
  }
  /// The stored blocks of a cell of a weight at a density of at most that.
  int64_t slots_of(const std::string& weight, const SparseGrid& grid, double density) const {
    const double slots = density / most_density(weight) * static_cast<double>(grid.slots);
    return std::clamp<int64_t>(std::llround(slots), 1, grid.slots);
  }

  /// A weight of one dimension, which a pattern with a star passes over.
  static bool is_vector(const StateTensor& weight) { return weight.type.shape.rank() < 2; }

  void find_weights() {
    std::set<size_t> chosen;
    std::set<std::string> kept;
    for (const std::string& pattern : options_.weights) {
      const bool leaves_out = pattern.starts_with("!");
      bool any = false;
      for (size_t i = 0; i < model_.weights.size(); ++i) {
        const StateTensor& weight = model_.weights[i];
        if (!matches_pattern(leaves_out ? pattern.substr(1) : pattern, weight.name)) continue;
        any = true;
        if (leaves_out)
          kept.insert(weight.name);
        else if (pattern == weight.name || !is_vector(weight))
          chosen.insert(i);
      }
      if (!any) refuse("weights", "no weight has a name of this pattern", "'" + pattern + "'", some_names());
    }
    for (const size_t i : chosen)
      if (!kept.count(model_.weights[i].name)) chosen_.push_back(i);
    if (chosen_.empty())
      refuse("weights", "no weight is chosen", std::to_string(options_.weights.size()) + " patterns", some_names());
    check_uses();
  }

  /// Names of weights of two dimensions or more, for an error.
  std::string some_names() const {
    std::string names;
    int count = 0;
    for (const StateTensor& weight : model_.weights)
      if (!is_vector(weight) && count++ < 8) names += (names.empty() ? "" : ", ") + weight.name;
    return "names of weights, such as " + names;
  }

  /// Names all weights that were chosen and cannot be sparse, each with the reason.
  void check_uses() {
    std::string unfit, patterns;
    for (const size_t i : chosen_) {
      const StateTensor& weight = model_.weights[i];
      const std::string why = why_dense(weight);
      if (why.empty()) continue;
      unfit += (unfit.empty() ? "'" : "; '") + weight.name + "' " + weight.type.text() + ": " + why;
      patterns += (patterns.empty() ? "'!" : " '!") + weight.name + "'";
    }
    if (unfit.empty()) return;
    refuse(
        "weights", "weights that cannot be sparse", unfit,
        "matrices of products (matmul, linear), tables whose rows are looked up, and filters of convolutions with one "
        "tap, without stride, padding and groups, which are read in no other way",
        "Leave them dense: add the patterns " + patterns);
  }

  /// "" for a weight that can be sparse.
  std::string why_dense(const StateTensor& weight) {
    if (is_vector(weight)) return "it is no matrix";
    for (const Graph* graph : graphs())
      if (std::string why = transform::why_not_sparse(*graph, weight.name); !why.empty()) return why;
    return transform::matrix_of(weight.type.shape) ? "" : "it is no matrix";
  }

  int64_t cells_along(const StateTensor& weight, size_t dim) const {
    if (dim >= weight.axes.size()) return 1;
    const LogicalAxis& axis = weight.axes[dim];
    const auto cut = model_.axes.find(axis.name);
    if (axis.name.empty() || cut == model_.axes.end()) return 1;
    const int64_t cells = cut->second == 1 ? options_.cells : options_.cells_t2;
    return cells == 1 ? 1 : cells * axis.blocks;
  }

  void add_grid(const StateTensor& weight) {
    const auto [rows, columns, stacked] = *transform::matrix_of(weight.type.shape);
    const size_t first = stacked > 1 ? 1 : 0;
    SparseGrid grid{.cells_down = stacked * cells_along(weight, first), .cells_across = cells_along(weight, first + 1)};
    grid.stacked = stacked;
    grid.block_rows = options_.block_rows, grid.block_columns = options_.block_columns;
    const auto divides = [](int64_t extent, int64_t cells, int64_t side) {
      return extent % cells == 0 && extent / cells % side == 0;
    };
    if (!divides(rows, grid.cells_down, grid.block_rows) || !divides(columns, grid.cells_across, grid.block_columns))
      refuse("block", "cells and blocks must divide a sparse weight",
             "'" + weight.name + "': " + times(grid.cells_down, grid.cells_across) + " cells, blocks of " +
                 times(grid.block_rows, grid.block_columns),
             "divisors of " + times(rows, columns),
             "Choose another block or fewer cells, or leave the weight dense: add the pattern '!" + weight.name + "'");
    grid.padding = rows - weight.unpadded().shape.dim(0) * (rows / weight.type.shape.dim(0));
    grid.cell_rows = rows / grid.cells_down, grid.cell_columns = columns / grid.cells_across;
    grids_[weight.name] = grid;
  }

  void find_own_densities() {
    for (const auto& [pattern, density] : options_.densities) {
      bool any = false;
      for (const auto& [name, grid] : grids_)
        if (matches_pattern(pattern, name)) own_densities_[name] = density, any = true;
      if (!any)
        refuse("densities", "no sparse weight has a name of this pattern", "'" + pattern + "'",
               "names of sparse weights, such as " + grids_.begin()->first);
    }
  }

  std::map<std::string, double> same_densities(double density) const {
    std::map<std::string, double> densities;
    for (const auto& [name, grid] : grids_) densities[name] = density;
    return densities;
  }

  /// Densities in proportion to (rows + columns) / (rows x columns), at most 1, with the mean that was asked for (Evci
  /// et al. 2020).
  std::map<std::string, double> erk_densities(double mean) const {
    std::map<std::string, double> densities;
    std::set<std::string> full;
    for (bool settled = false; !settled;) {
      double wanted = 0, share = 0;
      for (const auto& [name, grid] : grids_) {
        const double elements = static_cast<double>(grid.rows() * grid.columns());
        wanted += elements * (mean - (full.count(name) ? 1 : 0));
        if (!full.count(name)) share += static_cast<double>(grid.rows() + grid.columns());
      }
      settled = true;
      for (const auto& [name, grid] : grids_) {
        const double elements = static_cast<double>(grid.rows() * grid.columns());
        double& density = densities[name];
        density = full.count(name) ? 1 : wanted / share * static_cast<double>(grid.rows() + grid.columns()) / elements;
        if (density > 1) full.insert(name), settled = false;
      }
    }
    return densities;
  }

  /// Those of the blocks with the greatest scores of all weights together.
  std::map<std::string, double> global_densities(double mean) const {
    std::map<std::string, std::vector<double>> scores;
    std::vector<double> all;
    for (const size_t i : chosen_) {
      const StateTensor& weight = model_.weights[i];
      const std::vector<float> dense = numbers_of(weight);
      if (dense.empty())
        refuse("distribution", "densities by one threshold need weights to begin from",
               "'" + weight.name + "', whose first numbers are drawn", "trained weights",
               "Begin from the weights of a file, or choose the distribution \"uniform\"");
      const std::vector<double>& own = scores[weight.name] = block_sums(grids_.at(weight.name), dense);
      all.insert(all.end(), own.begin(), own.end());
    }
    const auto kept = std::clamp<int64_t>(std::llround(mean * static_cast<double>(all.size())), 1, std::ssize(all));
    std::nth_element(all.begin(), all.begin() + kept - 1, all.end(), std::greater<>());
    const double least = all[static_cast<size_t>(kept - 1)];
    std::map<std::string, double> densities;
    for (const auto& [name, own] : scores) {
      const SparseGrid& grid = grids_.at(name);
      const auto above =
          static_cast<double>(std::count_if(own.begin(), own.end(), [&](double sum) { return sum >= least; }));
      const auto fewest = static_cast<double>(std::min(kFewestSlots, grid.blocks()));
      densities[name] = std::max(above / static_cast<double>(own.size()), fewest / static_cast<double>(grid.blocks()));
    }
    return densities;
  }

  /// The densities in the end, and those to begin with.
  void set_densities() {
    const bool erk = options_.distribution == "erk";
    const bool global = options_.distribution == "global" && own_densities_.empty();
    last_ = erk      ? erk_densities(options_.density)
            : global ? global_densities(options_.density)
                     : same_densities(options_.density);
    for (const auto& [name, density] : own_densities_) last_[name] = density;
    first_densities_ = !options_.first_density ? last_
                       : erk                   ? erk_densities(*options_.first_density)
                                               : same_densities(*options_.first_density);
  }

  void set_slots() {
    set_densities();
    for (auto& [name, grid] : grids_) {
      const double density = most_density(name);
      grid.slots = std::llround(density * static_cast<double>(grid.blocks()));
      if (grid.slots >= std::min(kFewestSlots, grid.blocks())) continue;
      refuse(own_densities_.count(name) ? "densities" : "density", "a cell would store too few blocks",
             "'" + name + "': " + std::to_string(grid.slots) + " of the " + std::to_string(grid.blocks()) +
                 " blocks of a cell, density " + std::to_string(density),
             "at least " + std::to_string(kFewestSlots),
             "Choose smaller blocks, fewer cells or a higher density, or leave the weight dense: add the pattern '!" +
                 name + "'");
    }
  }

  /// The dense numbers that the weight begins with, if they are known; else none.
  std::vector<float> numbers_of(const StateTensor& weight) const {
    std::vector<float> numbers = meaningful_numbers_of(weight);
    if (numbers.empty()) return numbers;
    numbers.resize(static_cast<size_t>(weight.unpadded().elements()));
    numbers.resize(static_cast<size_t>(weight.type.elements()));  // padding is 0
    return numbers;
  }

  std::vector<float> meaningful_numbers_of(const StateTensor& weight) const {
    if (first_)
      if (std::vector<float> numbers = first_(weight); !numbers.empty()) return numbers;
    const StateInit& init = weight.init;
    if (init.kind == StateInit::Kind::kData) return init.data->tensor().floats();
    if (init.kind != StateInit::Kind::kFunction) return {};
    std::vector<float> numbers(static_cast<size_t>(weight.unpadded().elements()));
    if (const auto* function = transform::fill_of(init)) {
      function->fill(0, numbers);
      return numbers;
    }
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<float>(init.of_element(static_cast<int64_t>(i)));
    return numbers;
  }

  /// Those of the index: cells, none of which is padding. Stacked matrices are cut by their number if layouts cut it.
  static std::vector<LogicalAxis> axes_of_cells(const StateTensor& weight, const SparseGrid& grid) {
    std::vector<LogicalAxis> axes(3);
    if (weight.axes.empty()) return axes;
    const size_t first = grid.stacked > 1 ? 1 : 0;
    const auto take = [&](size_t dim, int64_t times) {
      return LogicalAxis{weight.axes[dim].name, weight.axes[dim].blocks * times};
    };
    if (grid.cells_down > grid.stacked)
      axes[0] = take(first, grid.stacked);
    else if (grid.stacked > 1)
      axes[0] = take(0, 1);
    if (grid.cells_across > 1) axes[1] = take(first + 1, 1);
    return axes;
  }

  /// Declares the index, and returns the values.
  StateTensor stored(const StateTensor& weight, const SparseGrid& grid) {
    const std::vector<float> dense = numbers_of(weight);
    const std::string name = transform::index_name(weight.name);
    const bool by_magnitude = options_.pattern == "magnitude";
    if (by_magnitude && dense.empty())
      refuse("pattern", "a pattern by magnitude needs weights to begin from",
             "'" + weight.name + "', whose first numbers are drawn", "trained weights",
             "Begin from the weights of a file, or choose the pattern \"random\"");
    SparseGrid used = grid;
    used.slots = slots_of(weight.name, grid, first_densities_.at(weight.name));
    const std::vector<int32_t> pattern =
        with_unused_slots(by_magnitude ? magnitude_pattern(used, dense) : random_pattern(used, options_.seed, name),
                          used.slots, grid.slots);
    std::vector<LogicalAxis> axes = axes_of_cells(weight, grid);
    HostTensor index({DType::kI32, Shape{grid.cells_down, grid.cells_across, grid.slots}});
    std::memcpy(index.data.data(), pattern.data(), index.data.size());
    StateTensor places{name, index.type, StateKind::kPattern, StateInit::from(TensorData(std::move(index))), ""};
    places.axes = axes;
    model_.states.push_back(std::move(places));

    StateTensor values = weight;
    values.name = transform::values_name(weight.name);
    values.type.shape = {grid.cells_down, grid.cells_across, grid.slots, grid.block_rows, grid.block_columns};
    axes.resize(5);
    values.axes = std::move(axes);
    if (!dense.empty()) {
      HostTensor numbers({DType::kF32, values.type.shape});
      std::memcpy(numbers.data.data(), gather_stored(grid, pattern, dense).data(), numbers.data.size());
      values.init = StateInit::from(TensorData(std::move(numbers)));
    }
    // Each of those rows that meet the weight does in three products of two operations.
    if (model_.flops_per_token > 0 && model_.tokens_per_micro_batch > 0)
      model_.flops_per_token -= 6 * static_cast<double>(weight.unpadded().elements() - grid.stored_elements()) *
                                static_cast<double>(tokens_of_products_.at(weight.name)) /
                                static_cast<double>(model_.tokens_per_micro_batch);
    return values;
  }

  Model model_;
  const SparsifyOptions& options_;
  const FirstNumbers& first_;
  std::vector<size_t> chosen_;
  std::map<std::string, SparseGrid> grids_;
  std::map<std::string, int64_t> tokens_of_products_{};
  std::map<std::string, double> own_densities_{};         ///< of weights that the options give one
  std::map<std::string, double> last_, first_densities_;  ///< of each weight
};

}  // namespace

std::map<std::string, double> global_densities(const Model& model, const SparsifyOptions& options,
                                               const FirstNumbers& first) {
  return Sparsifier(model, options, first).densities_by_one_threshold();
}

Model sparsify(Model model, const SparsifyOptions& options, const FirstNumbers& first) {
  return Sparsifier(std::move(model), options, first).run();
}

std::vector<SparseWeight> sparse_weights(const Model& model) {
  std::map<std::string, SparseGrid> grids;  // by the name of the values
  for (NodeId id = 0; id < static_cast<NodeId>(model.evaluate.nodes().size()); ++id) {
    const Node& node = model.evaluate.node(id);
    const bool multiplies = node.op->name == "sparse_matmul";
    if (!multiplies && node.op->name != "sparse_gather") continue;
    const NodeSignature signature = model.evaluate.signature(id);
    SparseGrid grid = multiplies ? sparse_matmul_form(signature).grid : sparse_rows_form(signature).grid;
    ValueId values = node.inputs[1];
    // Stacked matrices are one state, which products see as several.
    if (const NodeId maker = model.evaluate.value(values).producer;
        maker != kNoNode && model.evaluate.node(maker).op->name == "reshape" && signature.inputs[1].shape.rank() == 6) {
      values = model.evaluate.node(maker).inputs[0];
      grid.stacked = signature.inputs[1].shape[0];
      grid.cells_down *= grid.stacked;
    }
    grids[model.evaluate.value(values).name] = grid;
  }
  std::vector<SparseWeight> found;
  for (const StateTensor& weight : model.weights) {
    const auto grid = grids.find(weight.name);
    if (grid == grids.end() || !weight.name.ends_with(".values") || weight.type.shape.rank() != 5) continue;
    const std::string name = weight.name.substr(0, weight.name.size() - std::strlen(".values"));
    for (const StateTensor& state : model.states)
      if (state.name == transform::index_name(name)) found.push_back({name, weight, state, grid->second});
  }
  return found;
}

std::vector<StateTensor> dense_published(const Model& model) {
  std::map<std::string, SparseWeight> by_values;
  for (SparseWeight& weight : sparse_weights(model)) by_values[weight.values.name] = std::move(weight);
  std::vector<StateTensor> published = model.published();
  for (StateTensor& state : published) {
    const auto found = by_values.find(state.name);
    if (found == by_values.end()) continue;
    const SparseGrid& grid = found->second.grid;
    state.name = found->second.name;
    state.type.shape = grid.stacked > 1 ? Shape{grid.stacked, grid.rows() / grid.stacked, grid.columns()}
                                        : Shape{grid.rows(), grid.columns()};
    state.axes.clear();
    if (grid.padding > 0) state.axes = {{"", 1, std::min(grid.padding, grid.rows())}, {}};
  }
  return published;
}

ReadBytes dense_reader(const Model& model, ReadBytes read) {
  std::map<std::string, SparseWeight> by_name;
  for (SparseWeight& weight : sparse_weights(model)) by_name[weight.name] = std::move(weight);
  return [by_name = std::move(by_name), read = std::move(read)](const std::string& name, std::span<std::byte> bytes) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return read(name, bytes);
    const auto& [dense_name, values, index, grid] = found->second;
    std::vector<float> numbers(static_cast<size_t>(values.type.elements()));
    std::vector<int32_t> places(static_cast<size_t>(index.type.elements()));
    read(values.name, std::as_writable_bytes(std::span(numbers)));
    read(index.name, std::as_writable_bytes(std::span(places)));
    std::vector<float> dense = scatter_stored(grid, places, numbers);
    std::fill(dense.end() - std::min(grid.padding, grid.rows()) * grid.columns(), dense.end(), 0.0f);
    std::memcpy(bytes.data(), dense.data(), bytes.size());
  };
}

std::map<std::string, SparseGrid> grids_of(const std::vector<SparseWeight>& weights) {
  std::map<std::string, SparseGrid> grids;
  for (const SparseWeight& weight : weights) grids[weight.name] = weight.grid;
  return grids;
}

}  // namespace ramet::model
