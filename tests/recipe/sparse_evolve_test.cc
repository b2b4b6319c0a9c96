// Recipes whose sparse patterns change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/model/evolve.h"
#include "ramet/model/sparsify.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/predictor.h"
#include "support/sparse_recipe.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model of two layers of 32 whose patterns change after steps 2, 4 and 6.
std::string recipe_of(const std::string& kind) {
  return sparse_recipe(kind, R"(steps = 6
[train.schedule]
learning_rate = 1e-3
[train.evaluation]
batches = 2
[sparse]
weights = ")" + std::string(kind == "bert" ? "bert.encoder.*" : "transformer.h.*") +
                                 R"("
density = 0.3
block = 2
cells = 4
every = 2
prune_schedule = "constant"
)");
}
const std::string kBert = recipe_of("bert"), kGpt2 = recipe_of("gpt2");

class SparseEvolveRecipe : public ::testing::Test {
 protected:
  Recipe read(const std::string& text, const std::vector<std::string>& settings = {}) {
    return parse_recipe(text, "sparse.toml", folder_.path(), settings);
  }
  Training training(const std::string& text, const std::string& layout = "p=1", std::vector<std::string> settings = {},
                    int threads = 1) {
    settings.push_back("layout=" + layout);
    return make_training(prepare(read(text, settings)), {.threads = threads});
  }
  static std::string hash_after(Training& run, int steps) {
    for (int step = 0; step < steps; ++step) run.step();
    return run.weights_hash();
  }
  std::string hash_of(const std::string& text, const std::string& layout = "p=1",
                      const std::vector<std::string>& settings = {}, int threads = 1, int steps = 5) {
    Training run = training(text, layout, settings, threads);
    run.initialize();
    return hash_after(run, steps);
  }
  std::string error_of(const std::string& text, const std::vector<std::string>& settings = {}) {
    try {
      training(text, "p=1", settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  static std::vector<int32_t> index_of(const Training& run, const SparseWeight& weight) {
    std::vector<int32_t> index(static_cast<size_t>(weight.index.type.elements()));
    run.read_state(weight.index.name, std::as_writable_bytes(std::span(index)));
    return index;
  }
  static std::vector<float> floats_of(const Training& run, const std::string& name, int64_t count) {
    std::vector<float> numbers(static_cast<size_t>(count));
    run.read_state(name, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }
  TemporaryFolder folder_;
};

/// Forms of the run that layouts meet: how new blocks are found, how weights are held, densities that change.
const std::vector<std::vector<std::string>> kForms{
    {},
    {"sparse.regrow=gradient"},
    {"sparse.age=shared", "sparse.score=max", "sparse.regrow_pruned=true", "train.optimizer.kind=sgd"},
    {"sparse.first_density=0.9", "sparse.block=1", "sparse.score=l2"},
    {"sparse.first_density=0.1", "sparse.regrow=gradient", "sparse.block=1", "train.precision=bf16"},
    {"train.weights=split", "train.precision=bf16", "train.optimizer.state=bf16"},
    {"sparse.first_density=1", "sparse.score=fisher", "train.optimizer.state=bf16"}};

TEST_F(SparseEvolveRecipe, AnyLayoutGivesTheSameBits) {
  for (size_t form = 0; form < kForms.size(); ++form)
    for (const std::string& text : {kBert, kGpt2}) {
      const std::string hash = hash_of(text, "p=1", kForms[form]);
      EXPECT_EQ(hash_of(text, "p=1", kForms[form], 3), hash);
      // Each form meets a part of the layouts with each model, all of them with both.
      for (size_t i = 0; i < kSparseLayouts.size(); ++i) {
        if (form > 1 && (i + form + (text == kBert)) % 3 != 0) continue;
        SCOPED_TRACE(text.substr(0, 24) + kSparseLayouts[i] + " form " + std::to_string(form));
        EXPECT_EQ(hash_of(text, kSparseLayouts[i], kForms[form]), hash);
      }
    }
}

TEST_F(SparseEvolveRecipe, CellsForBothNumbersOfShardsGiveTheSameBits) {
  const std::vector<std::string> cells{"sparse.cells=2", "sparse.cells_t2=2"};
  for (const std::string& text : {kBert, kGpt2}) {
    const Training run = training(text, "t=2x2", cells);
    const std::vector<SparseWeight> weights = sparse_weights(run.model());
    EXPECT_TRUE(std::any_of(weights.begin(), weights.end(), [](const SparseWeight& weight) {
      return weight.grid.cells_down > 1 && weight.grid.cells_across > 1;
    }));
    const std::string hash = hash_of(text, "p=1", cells);
    for (const char* layout : {"t=1x2", "t=2x1", "t=2x2", "p=2 t=1x2", "p=2 t=2x2"})
      EXPECT_EQ(hash_of(text, layout, cells), hash) << layout;
  }
}

TEST_F(SparseEvolveRecipe, ContinuesBeforeAtAndAfterAChangeOnAnotherLayout) {
  for (const size_t form : {size_t{0}, size_t{1}, size_t{3}}) {
    const std::string whole = hash_of(kGpt2, "p=1", kForms[form], 1, 6);
    for (const int before : {1, 2, 3}) {
      SCOPED_TRACE("form " + std::to_string(form) + " after " + std::to_string(before));
      Training first = training(kGpt2, "t=2", kForms[form]);
      first.initialize();
      hash_after(first, before);
      const auto folder = folder_ / ("run" + std::to_string(form) + std::to_string(before));
      const Checkpoint checkpoint(first.save(folder));
      Training second = training(kGpt2, "p=2 r=2 rts=optimizer", kForms[form]);
      EXPECT_EQ(second.restore(checkpoint), "");
      EXPECT_EQ(hash_after(second, 6 - before), whole);
    }
  }
}

TEST_F(SparseEvolveRecipe, WithoutPruningARunIsThatOfFixedPatterns) {
  for (const std::string& text : {kBert, kGpt2}) {
    const std::string fixed = hash_of(text.substr(0, text.find("every")));
    for (const char* age : {"own", "shared"})
      EXPECT_EQ(hash_of(text, "p=1", {"sparse.prune_ratio=0", std::string("sparse.age=") + age}), fixed) << age;
    EXPECT_NE(hash_of(text), fixed);
  }
}

TEST_F(SparseEvolveRecipe, BlocksKeepTheirNumbersAndNewOnesBeginAtZero) {
  Training run = training(kGpt2), before = training(kGpt2);
  run.initialize(), before.initialize();
  hash_after(run, 4), hash_after(before, 3);
  // Step 4 updates, then prunes 31 of 61 slots: what was kept is what the update made of it.
  for (const SparseWeight& weight : sparse_weights(run.model())) {
    const auto index = index_of(run, weight), old = index_of(before, weight);
    const std::string birth = "optimizer.birth." + weight.values.name;
    const auto values = floats_of(run, weight.values.name, weight.values.type.elements());
    const auto m = floats_of(run, "optimizer.m." + weight.values.name, weight.values.type.elements());
    const auto births = floats_of(run, birth, std::ssize(index));
    const int64_t size = weight.grid.block_elements();
    int64_t fresh = 0;
    for (int64_t slot = 0; slot < std::ssize(index); ++slot) {
      const auto cell = old.begin() + slot / weight.grid.slots * weight.grid.slots;
      const bool is_new = !std::binary_search(cell, cell + weight.grid.slots, index[static_cast<size_t>(slot)]);
      fresh += is_new;
      EXPECT_EQ(births[static_cast<size_t>(slot)] == 4, is_new) << births[static_cast<size_t>(slot)];
      if (!is_new) EXPECT_THAT(births[static_cast<size_t>(slot)], ::testing::AnyOf(0, 2));
      for (int64_t i = slot * size; i < (slot + 1) * size; ++i) {
        EXPECT_EQ(values[static_cast<size_t>(i)] == 0, is_new);
        EXPECT_EQ(m[static_cast<size_t>(i)] == 0, is_new);
      }
    }
    EXPECT_EQ(fresh, weight.grid.cells() * ((weight.grid.slots + 1) / 2));
  }
}

TEST_F(SparseEvolveRecipe, TheScoreDecidesWhatIsPruned) {
  // Without pruning, step 2 ends with the values by which a run with pruning chooses.
  Training whole = training(kGpt2, "p=1", {"sparse.prune_ratio=0"});
  whole.initialize();
  hash_after(whole, 2);
  const auto score_of = [](const std::string& score, std::span<const float> block) {
    double sum = 0, most = 0;
    for (const float value : block) {
      const double size = std::fabs(static_cast<double>(value));
      sum += score == "l2" ? size * size : size, most = std::max(most, size);
    }
    return score == "max" ? most : sum;
  };
  std::set<std::vector<int32_t>> kept_by_score;
  for (const std::string score : {"l1", "l2", "max"}) {
    Training run = training(kGpt2, "p=1", {"sparse.score=" + score});
    run.initialize();
    hash_after(run, 2);
    std::vector<int32_t> all_kept;
    for (const SparseWeight& weight : sparse_weights(run.model())) {
      const auto before = index_of(whole, weight), after = index_of(run, weight);
      const auto values = floats_of(whole, weight.values.name, weight.values.type.elements());
      const int64_t slots = weight.grid.slots, size = weight.grid.block_elements();
      for (int64_t cell = 0; cell < weight.grid.cells(); ++cell) {
        const auto stored = after.begin() + cell * slots;
        double least_kept = HUGE_VAL, most_pruned = 0;
        int64_t pruned = 0;
        for (int64_t slot = cell * slots; slot < (cell + 1) * slots; ++slot) {
          const int32_t block = before[static_cast<size_t>(slot)];
          const double own =
              score_of(score, std::span(values).subspan(static_cast<size_t>(slot * size), static_cast<size_t>(size)));
          if (std::binary_search(stored, stored + slots, block))
            all_kept.push_back(block), least_kept = std::min(least_kept, own);
          else
            ++pruned, most_pruned = std::max(most_pruned, own);
        }
        EXPECT_EQ(pruned, (slots + 1) / 2);
        EXPECT_GE(least_kept, most_pruned * (1 - 1e-6)) << score << " " << weight.name << " cell " << cell;
      }
    }
    kept_by_score.insert(all_kept);
  }
  EXPECT_EQ(kept_by_score.size(), 3u) << "each score keeps other blocks";
}

/// Squares of values times the mean of squared gradients, which begins at 0 with a block: the second change meets
/// blocks of two ages, whose means lack different corrections.
TEST_F(SparseEvolveRecipe, FisherScoresDecideWhatIsPruned) {
  for (const std::string age : {"own", "shared"}) {
    const std::vector<std::string> settings{"sparse.score=fisher", "sparse.age=" + age};
    std::vector<std::string> once = settings;
    once.push_back("sparse.until=0.5");
    Training whole = training(kGpt2, "p=1", once), run = training(kGpt2, "p=1", settings);
    whole.initialize(), run.initialize();
    hash_after(whole, 4), hash_after(run, 4);
    for (const SparseWeight& weight : sparse_weights(run.model())) {
      const auto before = index_of(whole, weight), after = index_of(run, weight);
      const int64_t elements = weight.values.type.elements(), slots = weight.grid.slots;
      const auto values = floats_of(whole, weight.values.name, elements);
      const auto squares = floats_of(whole, "optimizer.v." + weight.values.name, elements);
      std::vector<float> births(before.size(), 0);
      if (age == "own") births = floats_of(whole, "optimizer.birth." + weight.values.name, std::ssize(before));
      EXPECT_EQ(std::set<float>(births.begin(), births.end()).size(), age == "own" ? 2u : 1u);
      const auto score_of = [&](int64_t slot) {
        const int64_t size = weight.grid.block_elements();
        double sum = 0;
        for (int64_t i = slot * size; i < (slot + 1) * size; ++i) {
          const double value = values[static_cast<size_t>(i)];
          sum += value * value * squares[static_cast<size_t>(i)];
        }
        return sum / (1 - std::pow(0.999, 4 - births[static_cast<size_t>(slot)]));
      };
      for (int64_t cell = 0; cell < weight.grid.cells(); ++cell) {
        const auto stored = after.begin() + cell * slots;
        double least_kept = HUGE_VAL, most_pruned = 0;
        for (int64_t slot = cell * slots; slot < (cell + 1) * slots; ++slot)
          if (std::binary_search(stored, stored + slots, before[static_cast<size_t>(slot)]))
            least_kept = std::min(least_kept, score_of(slot));
          else
            most_pruned = std::max(most_pruned, score_of(slot));
        EXPECT_GT(most_pruned, 0);
        EXPECT_GE(least_kept, most_pruned * (1 - 1e-3)) << age << " " << weight.name << " cell " << cell;
      }
    }
  }
}

TEST_F(SparseEvolveRecipe, AStepTellsOfTheChange) {
  Training run = training(kGpt2, "p=2 t=2");
  run.initialize();
  std::map<std::string, double> numbers;
  double explored = 0;
  for (int step = 1; step <= 6; ++step) {
    numbers.clear();
    for (const auto& [name, value] : run.step()) numbers[name] = value;
    EXPECT_EQ(numbers.count("churn"), step % 2 == 0 ? 1u : 0u);
    if (step % 2 != 0) continue;
    EXPECT_NEAR(numbers.at("density"), 0.3, 0.005);
    EXPECT_NEAR(numbers.at("churn"), 0.5, 0.02);
    EXPECT_GT(numbers.at("explored"), explored);
    explored = numbers.at("explored");
  }
  // The recurrence of random growth: three changes of a half.
  double expected = 0.3;
  for (int change = 0; change < 3; ++change) expected += 0.5 * 0.3 * (1 - expected) / 0.7;
  EXPECT_NEAR(explored, expected, 0.02);
  for (const SparseWeight& weight : sparse_weights(run.model())) {
    double squares = 0;
    for (const float value : floats_of(run, weight.values.name, weight.values.type.elements()))
      squares += static_cast<double>(value) * value;
    EXPECT_NEAR(numbers.at("norm." + weight.name), std::sqrt(squares), 1e-5);
    EXPECT_GT(numbers.at("explored." + weight.name), 0.45);
  }
}

TEST_F(SparseEvolveRecipe, DensitiesChangeAndFilesHoldWhatIsStored) {
  for (const std::string first : {"0.9", "0.05"}) {
    Training run = training(kBert, "t=2", {"sparse.first_density=" + first, "sparse.block=1", "train.steps=8"});
    run.initialize();
    double density = 0;
    for (int step = 0; step < 8; ++step) {
      for (const auto& [name, value] : run.step())
        if (name == "density") density = value;
      if (step == 1) EXPECT_NEAR(density, std::stod(first), 0.005);
    }
    EXPECT_NEAR(density, 0.3, 0.005);
    for (const SparseWeight& weight : sparse_weights(run.model())) {
      const auto index = index_of(run, weight);
      const auto unused = std::count(index.begin(), index.end(), kUnusedSlot);
      const double stored = 1 - static_cast<double>(unused) / static_cast<double>(std::ssize(index));
      EXPECT_NEAR(stored, 0.3 / std::max(0.3, std::stod(first)), 0.01);
    }
    // The dense weights of the file give the same loss.
    const auto path = folder_ / ("dense" + first + ".safetensors");
    run.export_weights(path);
    const std::string dense = kBert.substr(0, kBert.find("[sparse]"));
    Training again = training(dense, "p=1", {"model.init_from=" + path.string()});
    again.initialize();
    EXPECT_NEAR(again.evaluate()[0].second, run.evaluate()[0].second, 1e-4);
  }
}

TEST_F(SparseEvolveRecipe, OneThresholdDealsTheDensities) {
  Training dense = training(kGpt2.substr(0, kGpt2.find("[sparse]")));
  dense.initialize();
  const std::string path = folder_ / "dense.safetensors";
  dense.export_weights(path);
  const std::vector<std::string> settings = {"model.init_from=" + path, "sparse.pattern=magnitude",
                                             "sparse.distribution=global", "sparse.first_density=1", "sparse.cells=1"};
  const Recipe complete = prepare(read(kGpt2, settings)).recipe;
  Training whole = training(kGpt2, "p=1", settings);
  whole.initialize();
  std::map<std::string, std::vector<double>> sums;
  std::vector<double> all;
  for (const SparseWeight& weight : sparse_weights(whole.model())) {
    std::vector<double>& own = sums[weight.name];  // every block is stored at the beginning
    for (const auto values = floats_of(whole, weight.values.name, weight.values.type.elements());
         own.size() < values.size() / 4;)
      own.push_back(std::fabs(values[4 * own.size()]) + std::fabs(values[4 * own.size() + 1]) +
                    std::fabs(values[4 * own.size() + 2]) + std::fabs(values[4 * own.size() + 3]));
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  const double least = all[all.size() * 7 / 10];
  hash_after(whole, 2);
  const Checkpoint checkpoint(whole.save(folder_ / "run"));
  const std::string end = hash_after(whole, 4);
  double lowest = 1, highest = 0;
  for (const SparseWeight& weight : sparse_weights(whole.model())) {
    const auto index = index_of(whole, weight);
    const auto stored = std::count_if(index.begin(), index.end(), [](int32_t block) { return block >= 0; });
    const auto above =
        std::count_if(sums[weight.name].begin(), sums[weight.name].end(), [&](double sum) { return sum > least; });
    EXPECT_NEAR(static_cast<double>(stored), static_cast<double>(std::max<int64_t>(above, 8)), 2)
        << weight.name << ", of which a cell stores 8 blocks at least";
    const double density = static_cast<double>(stored) / static_cast<double>(std::ssize(index));
    lowest = std::min(lowest, density), highest = std::max(highest, density);
  }
  EXPECT_GT(highest, 2 * lowest) << "GPT-2's last products of a branch begin with smaller numbers";
  // A run keeps what was found, so that it goes on where the first weights are gone.
  Recipe kept = read(print_recipe(complete));
  kept.model.init_from.clear();
  set_layout(kept, "t=2");
  Training second = make_training(prepare(kept), {.threads = 1});
  EXPECT_EQ(second.restore(checkpoint), "");
  EXPECT_EQ(hash_after(second, 4), end);
}

/// The densities that the distribution "global" gives weights with numbers, by the sizes of `scores`.
std::map<std::string, double> densities_above_one_threshold(const std::map<std::string, std::vector<float>>& scores,
                                                            double density) {
  std::vector<float> all;
  for (const auto& [name, own] : scores) all.insert(all.end(), own.begin(), own.end());
  std::sort(all.begin(), all.end(), std::greater<>());
  const float least = all[static_cast<size_t>(std::llround(density * static_cast<double>(all.size()))) - 1];
  std::map<std::string, double> densities;
  for (const auto& [name, own] : scores)
    densities[name] =
        static_cast<double>(std::count_if(own.begin(), own.end(), [&](float score) { return score >= least; })) /
        static_cast<double>(own.size());
  return densities;
}

TEST_F(SparseEvolveRecipe, OneThresholdOfFisherScoresDealsTheDensities) {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    const std::string dense_text = kGpt2.substr(0, kGpt2.find("[sparse]"));
    Training dense = training(dense_text, "p=1", {"train.optimizer.kind=" + optimizer});
    dense.initialize();
    hash_after(dense, 3);
    const auto run = folder_ / optimizer;
    const Checkpoint checkpoint(dense.save(run));
    const std::string from = "model.init_from=" + checkpoint.path().string();
    const Recipe complete = prepare(read(kGpt2, {from, "sparse.distribution=global", "sparse.first_density=1",
                                                 "sparse.cells=1", "sparse.block=1", "sparse.score=fisher"}))
                                .recipe;
    std::map<std::string, std::vector<float>> scores;
    for (const StateTensor& weight : dense.model().weights) {
      if (complete.sparse.densities.find(weight.name + "=") == std::string::npos) continue;
      std::vector<float>& own = scores[weight.name] = floats_of(dense, weight.name, weight.type.elements());
      if (optimizer == "sgd") {  // which keeps no squares
        for (float& number : own) number = std::fabs(number);
        continue;
      }
      const auto squares = floats_of(dense, "optimizer.v." + weight.name, weight.type.elements());
      for (size_t i = 0; i < own.size(); ++i) own[i] = own[i] * own[i] * squares[i];
    }
    ASSERT_EQ(scores.size(), 8u);
    for (const auto& [name, density] : densities_above_one_threshold(scores, 0.3)) {
      const size_t at = complete.sparse.densities.find(name + "=") + name.size() + 1;
      EXPECT_NEAR(std::stod(complete.sparse.densities.substr(at)), density, 1e-3) << optimizer << " " << name;
    }
  }
}

TEST_F(SparseEvolveRecipe, WeightsHaveDensitiesOfTheirOwn) {
  const auto densities = [&](const std::vector<std::string>& settings) {
    Training run = training(kGpt2, "p=1", settings);
    run.initialize();
    hash_after(run, 6);
    std::map<std::string, double> found;
    for (const SparseWeight& weight : sparse_weights(run.model())) {
      const auto index = index_of(run, weight);
      const auto stored = std::count_if(index.begin(), index.end(), [](int32_t block) { return block >= 0; });
      found[weight.name] =
          static_cast<double>(stored) / static_cast<double>(weight.grid.cells() * weight.grid.blocks());
    }
    return found;
  };
  for (const auto& [name, density] :
       densities({"sparse.densities=*.mlp.*=0.2 *.h.1.mlp.*=0.5", "sparse.first_density=1"}))
    EXPECT_NEAR(density,
                name.find("mlp") == std::string::npos    ? 0.3
                : name.find("h.1.") == std::string::npos ? 0.2
                                                         : 0.5,
                0.01)
        << name;
  // Pruning that begins with dense weights ends with the densities that the distribution deals.
  const auto at_once = densities({"sparse.distribution=erk"});
  for (const auto& [name, density] : densities({"sparse.distribution=erk", "sparse.first_density=1"}))
    EXPECT_NEAR(density, at_once.at(name), 0.01) << name;
}

TEST_F(SparseEvolveRecipe, ACheckpointPredicts) {
  Training run = training(kBert);
  run.initialize();
  hash_after(run, 3);
  const Checkpoint checkpoint(run.save(folder_ / "run"));
  const Recipe complete = complete_recipe(read(kBert));
  Predictor predictor(build_model(complete), complete.train, Layout{}, {.threads = 1}, {"evaluate"});
  predictor.load(checkpoint);
  EXPECT_THROW((void)training(kBert, "p=1", {"sparse.prune_ratio=0.2"}).restore(checkpoint), Error);
  EXPECT_THROW((void)training(kBert, "p=1", {"sparse.age=shared"}).restore(checkpoint), Error);
}

TEST_F(SparseEvolveRecipe, ErrorsNameTheKey) {
  EXPECT_THAT(error_of(kBert, {"sparse.every=0"}), AllOf(HasSubstr("prune_schedule"), HasSubstr("sparse.every")));
  EXPECT_THAT(error_of(kBert, {"sparse.prune_ratio=1.5"}), HasSubstr("out of range"));
  EXPECT_THAT(error_of(kBert, {"sparse.distribution=global"}),
              AllOf(HasSubstr("sparse.distribution"), HasSubstr("one threshold"), HasSubstr("uniform")));
  EXPECT_THAT(error_of(kBert, {"sparse.densities=nothing=0.1"}),
              AllOf(HasSubstr("sparse.densities"), HasSubstr("'nothing'"), HasSubstr("bert.encoder")));
  for (const char* word : {"*.output.*", "*.output.*=", "*.output.*=0.1x"})
    EXPECT_THAT(error_of(kBert, {std::string("sparse.densities=") + word}),
                AllOf(HasSubstr("sparse.densities"), HasSubstr(word)));
  EXPECT_THAT(error_of(kBert, {"sparse.densities=*.output.*=1.5"}),
              AllOf(HasSubstr("sparse.densities"), HasSubstr("'*.output.*': 1.5"), HasSubstr("at most 1")));
  EXPECT_THAT(error_of(kBert, {"sparse.densities=*.output.*=0.01"}),
              AllOf(HasSubstr("sparse.densities"), HasSubstr("too few blocks")));
  EXPECT_THAT(error_of(kBert, {"sparse.regrow=gradient", "sparse.regrow_pruned=true"}),
              HasSubstr("sparse.regrow_pruned"));
  EXPECT_THAT(error_of(kBert, {"sparse.regrow=gradient", "train.precision=f16"}), HasSubstr("range of f32"));
  EXPECT_THAT(error_of(kBert, {"sparse.ramp_from=0.9"}), HasSubstr("ends before it begins"));
  EXPECT_THAT(error_of(kBert, {"sparse.age=own", "train.optimizer.kind=lion"}),
              AllOf(HasSubstr("lion"), HasSubstr("shared")));
  EXPECT_THAT(error_of(kBert, {"sparse.score=fisher", "train.optimizer.kind=sgd"}),
              AllOf(HasSubstr("score = \"fisher\""), HasSubstr("found sgd"), HasSubstr("adamw")));
  EXPECT_THAT(error_of(kBert, {"train.optimizer.kind=adafactor"}), HasSubstr("no error"));
  EXPECT_THAT(error_of(kBert + "[[train.groups]]\nweights = [\"*intermediate.dense.weight.values\"]\nfrozen = true\n"),
              HasSubstr("frozen"));
}

}  // namespace
}  // namespace ramet::tests
