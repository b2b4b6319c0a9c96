// Recipes of models with block-sparse weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/model/sparsify.h"
#include "ramet/recipe/prepare.h"
#include "ramet/recipe/text_predictor.h"
#include "ramet/report/sparse.h"
#include "ramet/train/predictor.h"
#include "ramet/weights/safetensors.h"
#include "support/sparse_recipe.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A model of two layers of 32 whose sparse matrices are cut in 4 cells along what tensor shards cut.
std::string recipe_of(const std::string& kind, const std::string& sparse) {
  return sparse_recipe(kind, R"(steps = 4
[train.schedule]
learning_rate = 1e-3
warmup_steps = 2
[train.evaluation]
batches = 2
)" + sparse);
}
const std::string kSparseBert =
    recipe_of("bert", "[sparse]\nweights = \"bert.encoder.*\"\ndensity = 0.4\nblock = 2\ncells = 4\n");
const std::string kSparseGpt2 =
    recipe_of("gpt2", "[sparse]\nweights = \"transformer.h.*\"\ndensity = 0.4\nblock = 2\ncells = 4\n");

class SparseRecipe : public ::testing::Test {
 protected:
  Recipe read(const std::string& text, const std::vector<std::string>& settings = {}) {
    return parse_recipe(text, "sparse.toml", folder_.path(), settings);
  }
  Training training(const std::string& text, const std::string& layout = "p=1",
                    std::vector<std::string> settings = {}) {
    settings.push_back("layout=" + layout);
    return make_training(prepare(read(text, settings)), {.threads = 1});
  }
  std::string error_of(const std::string& text, const std::vector<std::string>& settings = {}) {
    try {
      prepare(read(text, settings));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  TemporaryFolder folder_;
};

TEST_F(SparseRecipe, AnyLayoutGivesTheSameBits) {
  for (const std::string& text : {kSparseBert, kSparseGpt2}) {
    std::string hash;
    for (const char* layout :
         {"p=1", "p=2", "t=2", "t=4", "t=2 sequence=true", "p=2 t=2", "r=2", "r=2 rts=weights,grads,optimizer",
          "phases=2 offload=weights,optimizer", "recompute=layer", "p=2 t=2 r=2 rts=optimizer recompute=layer"}) {
      SCOPED_TRACE(text.substr(0, 24) + layout);
      Training run = training(text, layout);
      run.initialize();
      for (int step = 0; step < 3; ++step) run.step();
      if (hash.empty()) hash = run.weights_hash();
      EXPECT_EQ(run.weights_hash(), hash);
    }
  }
}

TEST_F(SparseRecipe, AWeightOfOneCellIsNotCut) {
  std::string hash;
  for (const char* layout : {"p=1", "t=2", "t=1x2"}) {
    SCOPED_TRACE(layout);
    Training run = training(kSparseBert, layout, {"sparse.cells=1"});
    run.initialize();
    run.step();
    if (hash.empty()) hash = run.weights_hash();
    EXPECT_EQ(run.weights_hash(), hash);
  }
}

TEST_F(SparseRecipe, ContinuesFromACheckpointOnAnotherLayout) {
  Training whole = training(kSparseGpt2);
  whole.initialize();
  for (int step = 0; step < 4; ++step) whole.step();
  Training first = training(kSparseGpt2, "t=2");
  first.initialize();
  first.step(), first.step();
  const Checkpoint checkpoint(first.save(folder_ / "run"));
  Training second = training(kSparseGpt2, "p=2 r=2");
  EXPECT_EQ(second.restore(checkpoint), "");
  second.step(), second.step();
  EXPECT_EQ(second.weights_hash(), whole.weights_hash());
  EXPECT_THROW((void)training(kSparseGpt2, "p=1", {"sparse.density=0.5"}).restore(checkpoint), Error);
}

TEST_F(SparseRecipe, ExportsDenseWeightsThatBeginTheSameModel) {
  Training run = training(kSparseBert);
  run.initialize();
  for (int step = 0; step < 3; ++step) run.step();
  const auto path = folder_ / "dense.safetensors";
  run.export_weights(path);
  const weights::SafetensorsReader file(path);
  const auto& entry = file.get("bert.encoder.layer.1.intermediate.dense.weight");
  EXPECT_EQ(entry.type, (TensorType{DType::kF32, {128, 32}}));
  const std::span<const std::byte> bytes = file.bytes(entry);
  int64_t stored = 0;
  for (int64_t i = 0; i < entry.type.elements(); ++i) stored += load_element(bytes.data(), DType::kF32, i) != 0;
  const auto weights = sparse_weights(run.model());
  EXPECT_EQ(weights.size(), 8u);
  // 4 cells of 16 x 16 blocks, of which 102 are stored.
  EXPECT_EQ(stored, 4 * 102 * 4);
  // The greatest blocks of the file are those that were stored.
  Training again = training(kSparseBert, "t=2", {"model.init_from=" + path.string(), "sparse.pattern=magnitude"});
  again.initialize();
  EXPECT_EQ(again.weights_hash(), run.weights_hash());
  // The dense model of the same weights predicts the same, up to the order of sums.
  Training dense = training(recipe_of("bert", ""), "p=1", {"model.init_from=" + path.string()});
  dense.initialize();
  const auto loss_of = [](const Numbers& numbers) {
    for (const auto& [name, value] : numbers)
      if (name == "loss") return value;
    return -1.0;
  };
  EXPECT_NEAR(loss_of(dense.evaluate()), loss_of(run.evaluate()), 1e-4);
}

TEST_F(SparseRecipe, ACheckpointBeginsADenseRunAndOneOfAnotherDensity) {
  for (const std::vector<std::string>& held :
       {std::vector<std::string>{}, {"train.precision=bf16", "train.weights=split", "train.optimizer.state=bf16"}}) {
    Training run = training(kSparseBert, "t=2", held);
    run.initialize();
    for (int step = 0; step < 3; ++step) run.step();
    const std::filesystem::path file = folder_ / "exported.safetensors", checkpoint = run.save(folder_ / "run");
    run.export_weights(file);
    const auto hash_from = [&](const std::string& text, const std::filesystem::path& from,
                               std::vector<std::string> settings = {}) {
      settings.insert(settings.end(), held.begin(), held.end());
      settings.push_back("model.init_from=" + from.string());
      Training next = training(text, "p=2", settings);
      next.initialize();
      next.step();
      return next.weights_hash();
    };
    const std::string dense = recipe_of("bert", "");
    EXPECT_EQ(hash_from(dense, checkpoint), hash_from(dense, file)) << "what is not stored is 0";
    for (const char* density : {"sparse.density=0.2", "sparse.density=0.7"})
      EXPECT_EQ(hash_from(kSparseBert, checkpoint, {density, "sparse.pattern=magnitude", "sparse.block=1"}),
                hash_from(kSparseBert, file, {density, "sparse.pattern=magnitude", "sparse.block=1"}));
    try {
      hash_from(dense, checkpoint, {"model.hidden=64"});
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("64"), HasSubstr("ramet export"), Not(HasSubstr("Resume"))));
    }
  }
}

TEST_F(SparseRecipe, PredictsFromACheckpoint) {
  for (const std::string& text : {kSparseBert, kSparseGpt2}) {
    Training run = training(text);
    run.initialize();
    run.step();
    const Checkpoint checkpoint(run.save(folder_ / text.substr(0, 30)));
    const Recipe complete = complete_recipe(read(text));
    const bool decodes = text == kSparseGpt2;
    Model model = decodes ? build_decoding_model(complete, 2, 16).first : build_mask_model(complete, 2, 3, 4);
    std::vector<std::string> names;
    for (const NamedGraph& program : model.programs) {
      names.push_back(program.name);
      int sparse = 0;
      for (const Node& node : program.graph.nodes()) sparse += node.op->name == "sparse_matmul";
      EXPECT_EQ(sparse, 8) << program.name;
    }
    Predictor predictor(std::move(model), complete.train, Layout{}, {.threads = 1}, names);
    predictor.load(checkpoint);
  }
}

TEST_F(SparseRecipe, PredictsTheSameBitsOnEveryLayout) {
  Training run = training(kSparseBert);
  run.initialize();
  run.step();
  const Checkpoint checkpoint(run.save(folder_ / "run"));
  const Recipe complete = complete_recipe(read(kSparseBert));
  const RandomStream random(2, RandomPurpose::kTest, 0, 0);
  std::vector<NamedTensor> texts;
  for (const auto& [name, width, bound] :
       {std::tuple("input_ids", 16, 96), std::tuple("token_type_ids", 16, 2), std::tuple("attention_mask", 16, 2),
        std::tuple("masked_positions", 3, 16)}) {
    HostTensor tensor(TensorType{DType::kI32, Shape{5, width}});
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(bound)));
    texts.push_back({name, tensor.type, tensor.data});
  }
  std::vector<NamedTensor> wanted;
  for (const char* layout : {"", "t=2", "t=4", "r=2", "p=2 t=2"}) {
    SCOPED_TRACE(layout);
    Predictor predictor(build_mask_model(complete, 2, 3, 4), complete.train, parse_layout(layout), {.threads = 1},
                        {"predict"});
    predictor.load(checkpoint);
    const std::vector<NamedTensor> found = predictor.run("predict", texts);
    ASSERT_EQ(found.size(), 2u);
    if (wanted.empty()) wanted = found;
    EXPECT_EQ(found[0].bytes, wanted[0].bytes);
    EXPECT_EQ(found[1].bytes, wanted[1].bytes);
  }
}

/// Numbers of a tensor of a file.
std::vector<double> numbers_of(const weights::SafetensorsReader& file, const std::string& name) {
  const auto& entry = file.get(name);
  std::vector<double> numbers;
  for (int64_t i = 0; i < entry.type.elements(); ++i)
    numbers.push_back(load_element(file.bytes(entry).data(), entry.type.dtype, i));
  return numbers;
}

TEST_F(SparseRecipe, ExportsIndexTriplesOfTheDenseWeights) {
  for (const char* block : {"1", "2"}) {
    Training run = training(kSparseBert, "p=1", {std::string("sparse.block=") + block});
    run.initialize();
    run.export_weights(folder_ / "dense.safetensors");
    std::vector<StateTensor> states = run.model().weights;
    states.insert(states.end(), run.model().states.begin(), run.model().states.end());
    const Checkpoint checkpoint(run.save(folder_ / block));
    export_sparse_weights(folder_ / "sparse.safetensors", run.model(),
                          [&](const std::string& name, std::span<std::byte> to) {
                            for (const StateTensor& state : states)
                              if (state.name == name)
                                checkpoint.load({state}, [&](const StateTensor&, std::span<const std::byte> bytes) {
                                  std::copy(bytes.begin(), bytes.end(), to.begin());
                                });
                          });
    const weights::SafetensorsReader dense(folder_ / "dense.safetensors"), sparse(folder_ / "sparse.safetensors");
    int triples = 0;
    for (const weights::SafetensorsEntry& entry : dense.tensors()) {
      if (!sparse.find(entry.name + ".values")) {
        EXPECT_EQ(numbers_of(sparse, entry.name), numbers_of(dense, entry.name)) << entry.name;
        continue;
      }
      SCOPED_TRACE(entry.name);
      ++triples;
      const auto starts = numbers_of(sparse, entry.name + ".crow_indices"),
                 columns = numbers_of(sparse, entry.name + ".col_indices"),
                 values = numbers_of(sparse, entry.name + ".values"), shape = numbers_of(sparse, entry.name + ".shape");
      EXPECT_EQ(sparse.get(entry.name + ".values").type.shape.rank(), *block == '1' ? 1 : 3);
      ASSERT_EQ(shape, (std::vector{double(entry.type.shape[0]), double(entry.type.shape[1])}));
      const int64_t side = *block - '0', wide = entry.type.shape[1];
      std::vector<double> whole(static_cast<size_t>(entry.type.elements()), 0);
      for (size_t line = 0; line + 1 < starts.size(); ++line)
        for (auto at = static_cast<size_t>(starts[line]); at < static_cast<size_t>(starts[line + 1]); ++at)
          for (int64_t e = 0; e < side * side; ++e) {
            const int64_t row = static_cast<int64_t>(line) * side + e / side;
            const int64_t column = static_cast<int64_t>(columns[at]) * side + e % side;
            whole[static_cast<size_t>(row * wide + column)] =
                values[at * static_cast<size_t>(side * side) + static_cast<size_t>(e)];
          }
      EXPECT_EQ(whole, numbers_of(dense, entry.name));
    }
    EXPECT_EQ(triples, 12);  // of two layers: query, key and value apart
  }
}

TEST_F(SparseRecipe, IsCompletedAndReadsBack) {
  const Recipe recipe = complete_recipe(read(kSparseBert));
  const std::string printed = print_recipe(recipe);
  EXPECT_THAT(printed, AllOf(HasSubstr("[sparse]"), HasSubstr("distribution = \"uniform\"")));
  EXPECT_EQ(recipe_hash(parse_recipe(printed, "printed.toml", "/", {})), recipe_hash(recipe));
  const Recipe dense = complete_recipe(read(recipe_of("bert", "")));
  EXPECT_THAT(print_recipe(dense), Not(HasSubstr("[sparse]")));
  EXPECT_NE(recipe_hash(dense), recipe_hash(recipe));
  const std::string text = report::sparse_text(prepare(read(kSparseBert)).workload.model);
  EXPECT_THAT(text, AllOf(HasSubstr("sparse weights: 8"), HasSubstr("4 x 1 cells of 102 slots, blocks of 2 x 2"),
                          HasSubstr("bert.encoder.layer.0.intermediate.dense.weight")));
}

TEST_F(SparseRecipe, TheExamplesRunAsTheyStand) {
  for (const char* name : {"bert-mini-sparse", "gpt2-mini-sparse"}) {
    SCOPED_TRACE(name);
    const Recipe recipe = load_recipe(std::string(RAMET_SOURCE_DIR) + "/examples/" + name + ".toml",
                                      std::vector<std::string>{"train.micro_batch=1", "data.sequence_length=16"});
    Training run = make_training(prepare(recipe), {.threads = 1});
    run.initialize();
    run.step();
    EXPECT_TRUE(run.whole());
    EXPECT_THAT(report::sparse_text(run.model()), HasSubstr("which store 0.1"));
  }
}

TEST_F(SparseRecipe, ACorruptPatternIsNamedAndTheCheckpointIsWhole) {
  Training whole = training(kSparseGpt2);
  whole.initialize();
  for (int step = 0; step < 3; ++step) whole.step();
  Training run = training(kSparseGpt2);
  run.initialize();
  run.step();
  const Checkpoint checkpoint(run.save(folder_ / "run"));
  const SparseWeight weight = sparse_weights(run.model())[3];
  std::vector<int32_t> index(static_cast<size_t>(weight.index.type.elements()));
  run.read_state(weight.index.name, std::as_writable_bytes(std::span(index)));
  for (const auto& [at, number] : {std::pair<size_t, int32_t>{5, index[4]}, {7, 1 << 20}, {2, -7}}) {
    SCOPED_TRACE(number);
    std::vector<int32_t> wrong = index;
    wrong[at] = number;
    run.write_state(weight.index, std::as_bytes(std::span(wrong)));
    run.states_written();
    try {
      run.step();
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("must ascend, and lie in their cell"), HasSubstr("slot " + std::to_string(at))));
    }
    EXPECT_EQ(run.restore(checkpoint), "");
  }
  run.step(), run.step();
  EXPECT_EQ(run.weights_hash(), whole.weights_hash());
}

TEST_F(SparseRecipe, ErrorsNameTheLineAndTheWeight) {
  EXPECT_THAT(error_of(kSparseBert, {"sparse.weights=bert.encodre.*"}),
              AllOf(HasSubstr("--set"), HasSubstr("'bert.encodre.*'"), HasSubstr("bert.encoder.layer.0")));
  EXPECT_THAT(error_of(kSparseBert, {"sparse.weights=*"}), HasSubstr("too few blocks"));
  EXPECT_THAT(error_of(kSparseBert, {"sparse.block=3"}), HasSubstr("must divide a sparse weight"));
  EXPECT_THAT(error_of(kSparseBert, {"sparse.block=8"}), HasSubstr("too few blocks"));
  EXPECT_THAT(error_of(kSparseBert, {"sparse.pattern=magnitude"}), HasSubstr("weights to begin from"));
  EXPECT_THAT(error_of(kSparseBert, {"train.scaling=unit"}), HasSubstr("unit variance"));
  EXPECT_THAT(error_of(recipe_of("bert", "[sparse]\ndensity = 0.2\n")),
              AllOf(HasSubstr("sparse.toml:25"), HasSubstr("sparse.weights")));
  EXPECT_THAT(error_of(kSparseBert, {"sparse.density=0"}), HasSubstr("out of range"));
}

}  // namespace
}  // namespace ramet::tests
