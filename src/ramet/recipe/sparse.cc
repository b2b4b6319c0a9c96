#include "ramet/recipe/sparse.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/ir/attribute.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/train/first_weights.h"
#include "ramet/transform/sparsify.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::recipe {
namespace {

EvolveOptions evolve_options(const Recipe& recipe) {
  const auto& sparse = recipe.sparse;
  return {.every = sparse.every,
          .steps = recipe.train.steps,
          .prune_ratio = sparse.prune_ratio,
          .schedule = sparse.prune_schedule,
          .until = sparse.until,
          .score = sparse.score,
          .regrow = sparse.regrow,
          .regrow_pruned = sparse.regrow_pruned,
          .age = sparse.age,
          .ramp_from = sparse.ramp_from,
          .ramp_until = sparse.ramp_until};
}

/// Throws Error for keys of patterns that change which contradict each other.
void check_changes(const Recipe& recipe) {
  const auto& sparse = recipe.sparse;
  try {
    check_evolve(evolve_options(recipe));
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    parts.where = recipe.where("sparse." + parts.where);
    throw Error(std::move(parts));
  }
  const std::string& precision = recipe.train.precision;
  if (sparse.every > 0 && sparse.regrow == "gradient" && precision != "f32" && precision != "bf16")
    throw Error({.what = "gradients of one micro-batch, which have no loss scale, need the range of f32",
                 .where = recipe.where("sparse.regrow"),
                 .found = "\"gradient\" with train.precision = \"" + precision + "\"",
                 .expected = "f32 or bf16",
                 .remedy = "Set sparse.regrow = \"random\""});
  if (sparse.every > 0) return;
  const Recipe::Sparse plain;
  const std::pair<const char*, bool> given[] = {{"first_density", sparse.first_density.has_value()},
                                                {"prune_ratio", sparse.prune_ratio != plain.prune_ratio},
                                                {"prune_schedule", sparse.prune_schedule != plain.prune_schedule},
                                                {"until", sparse.until != plain.until},
                                                {"score", sparse.score != plain.score},
                                                {"regrow", sparse.regrow != plain.regrow},
                                                {"regrow_pruned", sparse.regrow_pruned != plain.regrow_pruned},
                                                {"age", sparse.age != plain.age},
                                                {"ramp_from", sparse.ramp_from != plain.ramp_from},
                                                {"ramp_until", sparse.ramp_until != plain.ramp_until}};
  for (const auto& [key, is_given] : given)
    if (is_given)
      throw Error({.what = "a key of patterns that change, which never change",
                   .where = recipe.where(std::string("sparse.") + key),
                   .found = "sparse.every = 0",
                   .remedy = "Say how often patterns change: sparse.every = 100, for example"});
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Whether no file gives the weights that the model begins with, as also where a run goes on from a checkpoint.
bool begins_with_nothing(const Recipe& recipe) { return recipe.model.init_from.empty() && recipe.model.file.empty(); }

/// The checkpoint that model.init_from names; none where that is something else.
std::optional<Checkpoint> first_checkpoint(const Recipe& recipe) {
  const std::string& folder = recipe.model.init_from;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored) || has_weights(folder)) return std::nullopt;
  return std::make_optional<Checkpoint>(checkpoint_to_begin_from(folder));
}

/// Numbers by name of a weight.
using Numbers = std::map<std::string, std::vector<float>>;

/// Those of the dense weights in model.init_from: of a file, a published folder or a checkpoint.
Numbers dense_numbers(const Recipe& recipe, const Model& model) {
  const std::string& file = recipe.model.init_from;
  Numbers numbers;
  const auto keep = [&](const std::string& name, std::span<const std::byte> bytes) {
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    numbers[name].assign(first, first + bytes.size() / sizeof(float));
  };
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return numbers;
  const std::optional<Checkpoint> checkpoint = first_checkpoint(recipe);
  if (!checkpoint) {
    (void)import_weights(file, model.published(), keep);
    return numbers;
  }
  std::vector<StateTensor> found;
  for (const StateTensor& weight : model.weights)
    if (has_first(*checkpoint, weight)) found.push_back(weight);
  load_first(*checkpoint, found,
             [&](const StateTensor& state, std::span<const std::byte> bytes) { keep(state.name, bytes); });
  return numbers;
}

/// The numbers of a weight, which are given away: each weight is asked for once.
FirstNumbers first_of(Numbers& dense) {
  return [&dense](const StateTensor& weight) {
    const auto found = dense.find(weight.name);
    return found == dense.end() ? std::vector<float>{} : std::move(found->second);
  };
}

/// The densities that the recipe gives single weights.
std::vector<std::pair<std::string, double>> densities_of(const Recipe& recipe) {
  std::vector<std::pair<std::string, double>> densities;
  for (const std::string& word : words_of(recipe.sparse.densities)) {
    const size_t equals = std::min(word.rfind('='), word.size());
    const std::string number = word.substr(std::min(equals + 1, word.size()));
    double density = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), density);
    densities.emplace_back(word.substr(0, equals), density);
    if (error == std::errc() && end == number.data() + number.size()) continue;
    throw Error({.what = "not a density",
                 .where = recipe.where("sparse.densities"),
                 .found = "'" + word + "'",
                 .expected = "the name of a weight, or a pattern, then = and a number, as *.output.*=0.2"});
  }
  return densities;
}

SparsifyOptions sparsify_options(const Recipe& recipe) {
  const auto& sparse = recipe.sparse;
  return {.weights = words_of(sparse.weights),
          .density = sparse.density,
          .block_rows = sparse.block,
          .block_columns = sparse.block,
          .cells = sparse.cells,
          .cells_t2 = sparse.cells_t2,
          .distribution = sparse.distribution,
          .densities = densities_of(recipe),
          .pattern = sparse.pattern,
          .seed = static_cast<uint64_t>(recipe.train.seed),
          .first_density = sparse.first_density,
          .evolve = evolve_options(recipe)};
}

/// What `work` gives; its errors name the recipe's key.
template <typename Work>
auto in_words_of(const Recipe& recipe, Work work) {
  try {
    return work();
  } catch (const SparsifyError& error) {
    ErrorParts parts = error.parts();
    parts.where = recipe.where("sparse." + error.option()) + ", " + parts.where;
    throw Error(std::move(parts));
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    parts.where = recipe.where("sparse.weights") + ", " + parts.where;
    throw Error(std::move(parts));
  }
}

/// Scores of pruning by Fisher information, of numbers that a checkpoint has; `all` becomes false, and the numbers stay
/// as they are, for a weight of which it has no means of squared gradients.
FirstNumbers fisher_scores(const Checkpoint& checkpoint, const Numbers& dense, bool& all) {
  return [&](const StateTensor& weight) {
    std::vector<float> scores = squared_gradients(checkpoint, weight);
    const auto numbers = dense.find(weight.name);
    if (numbers == dense.end() || scores.size() != numbers->second.size()) {
      all = false;
      return numbers == dense.end() ? std::vector<float>() : numbers->second;
    }
    for (size_t i = 0; i < scores.size(); ++i) scores[i] *= numbers->second[i] * numbers->second[i];
    return scores;
  };
}

/// What the distribution "global" gives each weight. For patterns that are pruned by Fisher scores the blocks have
/// these scores here, too, where the run that the weights come from has them.
std::map<std::string, double> densities_by_one_threshold(const Recipe& recipe, const Model& model) {
  Numbers dense = dense_numbers(recipe, model);
  const SparsifyOptions options = sparsify_options(recipe);
  const auto densities_of = [&](const FirstNumbers& numbers) {
    return in_words_of(recipe, [&] { return global_densities(model, options, numbers); });
  };
  const std::optional<Checkpoint> checkpoint = first_checkpoint(recipe);
  if (checkpoint && recipe.sparse.score == "fisher") {
    bool all = true;
    const auto found = densities_of(fisher_scores(*checkpoint, dense, all));
    if (all) return found;
  }
  return densities_of(first_of(dense));
}

}  // namespace

void check_sparse(const Recipe& recipe) {
  const auto& sparse = recipe.sparse;
  if (!words_of(sparse.weights).empty()) {
    if (recipe.train.scaling != "none")
      throw Error({.what = "sparse weights are not scaled to unit variance",
                   .where = recipe.where("sparse.weights"),
                   .found = "train.scaling = \"" + recipe.train.scaling + "\"",
                   .remedy = "Set train.scaling = \"none\""});
    if (sparse.pattern == "magnitude" && begins_with_nothing(recipe))
      throw Error({.what = "a pattern by magnitude needs weights to begin from",
                   .where = recipe.where("sparse.pattern"),
                   .remedy = "Set model.init_from, or choose the pattern \"random\""});
    check_changes(recipe);
    return;
  }
  for (const auto& [key, place] : recipe.places)
    if (key.starts_with("sparse.") && key != "sparse.weights")
      throw Error({.what = "a key of sparse weights without a sparse weight",
                   .where = recipe.where(key),
                   .remedy = "Name the weights: sparse.weights = \"*.weight\", for example"});
}

void settle_densities(Recipe& recipe, const Model& model) {
  if (recipe.sparse.weights.empty() || recipe.sparse.distribution != "global" || !recipe.sparse.densities.empty())
    return;
  std::string& text = recipe.sparse.densities;
  for (const auto& [name, density] : densities_by_one_threshold(recipe, model))
    text += (text.empty() ? "" : " ") + name + "=" + text_of(Attribute(density));
}

Model with_sparse_weights(const Recipe& recipe, Model model, bool begins) {
  const auto& sparse = recipe.sparse;
  if (sparse.weights.empty()) return model;
  Numbers dense;
  if (begins) dense = dense_numbers(recipe, model);
  SparsifyOptions options = sparsify_options(recipe);
  // Without weights to begin from, a checkpoint's pattern replaces this one (check_sparse).
  if (!begins || begins_with_nothing(recipe)) options.pattern = "random";
  if (!begins) {  // Nothing changes the pattern, which has as many slots.
    const double first = sparse.first_density.value_or(0);
    options.density = std::max(sparse.density, first);
    for (auto& [name, density] : options.densities) density = std::max(density, first);
    options.first_density.reset();
    options.evolve.every = 0;
  }
  return in_words_of(recipe, [&] { return sparsify(std::move(model), options, first_of(dense)); });
}

Graph with_sparse_weights(const Model& model, const Graph& graph) {
  const std::vector<SparseWeight> weights = sparse_weights(model);
  return weights.empty() ? graph : transform::sparsify(graph, grids_of(weights));
}

}  // namespace ramet::recipe
