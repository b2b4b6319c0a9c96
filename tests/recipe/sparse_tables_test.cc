// Recipes whose tables are block-sparse: embeddings, also those that the last product of a language model shares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/evolve.h"
#include "ramet/model/sparsify.h"
#include "ramet/recipe/prepare.h"
#include "ramet/recipe/text_predictor.h"
#include "ramet/train/predictor.h"
#include "ramet/weights/safetensors.h"
#include "support/sparse_recipe.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Settings = std::vector<std::string>;

/// A model of two layers of 32 whose layers and tables are sparse, in 4 cells along what tensor shards cut.
std::string recipe_of(const std::string& kind) {
  const std::string weights = kind == "bert" ? "bert.encoder.* *.word_embeddings.weight *.position_embeddings.weight"
                                             : "transformer.h.* transformer.w?e.weight";
  return sparse_recipe(kind,
                       "steps = 6\n[train.schedule]\nlearning_rate = 1e-3\n[train.evaluation]\nbatches = 2\n"
                       "[sparse]\nweights = \"" +
                           weights + "\"\ndensity = 0.4\nblock = 2\ncells = 4\n");
}
const std::string kBert = recipe_of("bert"), kGpt2 = recipe_of("gpt2");

/// What makes patterns change.
const Settings kChanges{"sparse.every=2", "sparse.prune_schedule=constant"};
const Settings kPadded{"model.vocabulary_size=93", "model.pad_vocabulary=32"};

Settings operator+(Settings first, const Settings& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

class SparseTables : public ::testing::Test {
 protected:
  Recipe read(const std::string& text, const Settings& settings = {}) {
    return parse_recipe(text, "sparse.toml", folder_.path(), settings);
  }
  Training training(const std::string& text, const std::string& layout = "p=1", Settings settings = {}) {
    settings.push_back("layout=" + layout);
    return make_training(prepare(read(text, settings)), {.threads = 1});
  }
  static std::string hash_after(Training& run, int steps) {
    for (int step = 0; step < steps; ++step) run.step();
    return run.weights_hash();
  }
  std::string hash_of(const std::string& text, const std::string& layout, const Settings& settings, int steps = 5) {
    Training run = training(text, layout, settings);
    run.initialize();
    return hash_after(run, steps);
  }
  std::string error_of(const std::string& text, const Settings& settings) {
    try {
      prepare(read(text, settings));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  /// A weight of an exported run.
  std::vector<float> exported(const Training& run, const std::string& name) {
    const auto path = folder_ / "exported.safetensors";
    run.export_weights(path);
    const weights::SafetensorsReader file(path);
    const auto& entry = file.get(name);
    std::vector<float> numbers;
    for (int64_t i = 0; i < entry.type.elements(); ++i)
      numbers.push_back(static_cast<float>(load_element(file.bytes(entry).data(), entry.type.dtype, i)));
    return numbers;
  }
  static double number_of(const Numbers& numbers, const std::string& wanted) {
    for (const auto& [name, value] : numbers)
      if (name == wanted) return value;
    return -1;
  }
  TemporaryFolder folder_;
};

TEST_F(SparseTables, AnyLayoutGivesTheSameBits) {
  const std::vector<Settings> forms{
      {},
      kChanges,
      kChanges + Settings{"sparse.regrow=gradient"},
      kChanges + kPadded + Settings{"sparse.regrow=gradient", "train.precision=bf16", "sparse.block=1"},
      kChanges + kPadded +
          Settings{"sparse.cells=2", "sparse.cells_t2=2", "train.precision=bf16", "train.weights=split"}};
  for (size_t form = 0; form < forms.size(); ++form)
    for (const std::string& text : {kBert, kGpt2}) {
      const std::string hash = hash_of(text, "p=1", forms[form]);
      // Each form meets a part of the layouts with each model, the first and the third all of them with both.
      for (size_t i = 0; i < kSparseLayouts.size(); ++i) {
        if (form != 0 && form != 2 && (i + form + (text == kBert)) % 3 != 0) continue;
        SCOPED_TRACE(text.substr(0, 24) + kSparseLayouts[i] + " form " + std::to_string(form));
        EXPECT_EQ(hash_of(text, kSparseLayouts[i], forms[form]), hash);
      }
      if (form == 4)
        for (const char* layout : {"t=1x2", "t=2x2", "p=2 t=2x2"})
          EXPECT_EQ(hash_of(text, layout, forms[form]), hash) << layout;
    }
}

TEST_F(SparseTables, OneSetOfValuesIsLookedUpAndMultiplied) {
  const Training run = training(kGpt2);
  std::map<std::string, int> readers;
  const Graph& graph = run.model().forward;
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (graph.value(input).name == "transformer.wte.weight.values") ++readers[node.op->name];
  EXPECT_EQ(readers, (std::map<std::string, int>{{"sparse_gather", 1}, {"sparse_matmul", 1}}));
  EXPECT_EQ(graph.find_input("transformer.wte.weight"), kNoValue);
  EXPECT_EQ(sparse_weights(run.model()).size(), 10u);
}

TEST_F(SparseTables, AStepIsThatOfTheDenseModelWithZeros) {
  const Settings plain{"train.optimizer.kind=sgd", "train.optimizer.weight_decay=0", "train.clip_norm=0",
                       "train.schedule.learning_rate=0.5"};
  for (const Settings& padding : {Settings{}, kPadded})
    for (const std::string& text : {kBert, kGpt2}) {
      SCOPED_TRACE(text.substr(0, 24));
      const std::string dense_text = text.substr(0, text.find("[sparse]"));
      const std::string name = text == kBert ? "bert.embeddings.word_embeddings.weight" : "transformer.wte.weight";
      Training sparse = training(text, "p=1", plain + padding);
      sparse.initialize();
      const std::vector<float> before = exported(sparse, name);
      Training dense =
          training(dense_text, "p=1",
                   plain + padding + Settings{"model.init_from=" + (folder_ / "exported.safetensors").string()});
      dense.initialize();
      EXPECT_NEAR(number_of(dense.evaluate(), "loss"), number_of(sparse.evaluate(), "loss"), 1e-5);
      sparse.step(), dense.step();
      const std::vector<float> after = exported(sparse, name), wanted = exported(dense, name);
      ASSERT_EQ(before.size(), padding.empty() ? 96u * 32 : 93u * 32) << "padding is left out";
      ASSERT_EQ(after.size(), before.size());
      int64_t stored = 0, moved = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        if (before[i] == 0) {
          EXPECT_EQ(after[i], 0);
          continue;
        }
        ++stored, moved += after[i] != before[i];
        EXPECT_NEAR(after[i], wanted[i], 2e-6) << i;
      }
      EXPECT_NEAR(static_cast<double>(stored) / static_cast<double>(before.size()), 0.4, 0.03);
      EXPECT_GT(moved, stored * 9 / 10) << "the product's gradient reaches words that are not looked up";
    }
}

TEST_F(SparseTables, ContinuesBeforeAtAndAfterAChangeOnAnotherLayout) {
  for (const char* regrow : {"random", "gradient"}) {
    const Settings form = kChanges + kPadded + Settings{std::string("sparse.regrow=") + regrow};
    const std::string whole = hash_of(kGpt2, "p=1", form, 6);
    for (const int before : {1, 2, 3}) {
      SCOPED_TRACE(std::string(regrow) + " after " + std::to_string(before));
      Training first = training(kGpt2, "t=2", form);
      first.initialize();
      hash_after(first, before);
      const Checkpoint checkpoint(first.save(folder_ / (regrow + std::to_string(before))));
      Training second = training(kGpt2, "p=2 r=2 rts=optimizer", form);
      EXPECT_EQ(second.restore(checkpoint), "");
      EXPECT_EQ(hash_after(second, 6 - before), whole);
    }
  }
}

TEST_F(SparseTables, WithoutPruningARunIsThatOfFixedPatterns) {
  for (const std::string& text : {kBert, kGpt2}) {
    const std::string fixed = hash_of(text, "p=1", {});
    for (const char* regrow : {"random", "gradient"})
      EXPECT_EQ(
          hash_of(text, "p=1", kChanges + Settings{"sparse.prune_ratio=0", std::string("sparse.regrow=") + regrow}),
          fixed)
          << regrow;
    EXPECT_NE(hash_of(text, "p=1", kChanges), fixed);
  }
}

TEST_F(SparseTables, FilesBeginDenseAndSparseRuns) {
  const Settings plain = kPadded;
  const std::string dense_text = kGpt2.substr(0, kGpt2.find("[sparse]"));
  Training run = training(kGpt2, "t=2", plain);
  run.initialize();
  hash_after(run, 2);
  const std::string file = folder_ / "dense.safetensors", checkpoint = run.save(folder_ / "run");
  run.export_weights(file);
  const auto hash_from = [&](const std::string& text, const std::string& from, const Settings& settings = {}) {
    return hash_of(text, "p=2", plain + settings + Settings{"model.init_from=" + from}, 1);
  };
  EXPECT_EQ(hash_from(dense_text, checkpoint), hash_from(dense_text, file));
  const Settings by_magnitude{"sparse.pattern=magnitude", "sparse.density=0.2"};
  EXPECT_EQ(hash_from(kGpt2, checkpoint, by_magnitude), hash_from(kGpt2, file, by_magnitude));
}

TEST_F(SparseTables, WritesAndPredictsFromACheckpoint) {
  Training run = training(kGpt2);
  run.initialize();
  run.step();
  const Checkpoint checkpoint(run.save(folder_ / "run"));
  const Recipe complete = complete_recipe(read(kGpt2));
  Model model = build_decoding_model(complete, 2, 16).first;
  std::vector<std::string> names;
  for (const NamedGraph& program : model.programs) {
    names.push_back(program.name);
    int rows = 0;
    for (const Node& node : program.graph.nodes()) rows += node.op->name == "sparse_gather";
    EXPECT_EQ(rows, 2) << program.name << ": words and positions";
  }
  Predictor predictor(std::move(model), complete.train, Layout{}, {.threads = 1}, names);
  predictor.load(checkpoint);
}

TEST_F(SparseTables, TheExampleTrainsWithItsTable) {
  const Recipe recipe = load_recipe(
      std::string(RAMET_SOURCE_DIR) + "/examples/gpt2-mini-sparse.toml",
      Settings{"train.micro_batch=1", "data.sequence_length=16", "layout=p=2", "train.steps=10", "sparse.every=2",
               "sparse.weights=transformer.h.* transformer.wte.weight", "model.pad_vocabulary=128"});
  Training run = make_training(prepare(recipe), {.threads = 1});
  run.initialize();
  run.step(), run.step();
  EXPECT_TRUE(run.whole());
}

TEST_F(SparseTables, ErrorsNameTheTable) {
  EXPECT_THAT(error_of(kGpt2, {"sparse.cells=5"}),
              AllOf(HasSubstr("'transformer."), HasSubstr("must divide a sparse weight")));
  EXPECT_THAT(error_of(kBert, {"sparse.weights=*.token_type_embeddings.weight"}),
              AllOf(HasSubstr("'bert.embeddings.token_type_embeddings.weight'"), HasSubstr("too few blocks")));
  EXPECT_THAT(error_of(kGpt2, {"model.vocabulary_size=93", "sparse.weights=transformer.wte.weight"}),
              AllOf(HasSubstr("'transformer.wte.weight'"), HasSubstr("divisors of 93x32")));
}

}  // namespace
}  // namespace ramet::tests
