#include "ramet/train/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "ramet/transform/differentiate.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

Recipe tiny(std::vector<std::string> more = {}) {
  std::vector<std::string> settings = {"model.preset=tiny",        "model.layers=1",
                                       "model.hidden=32",          "model.heads=2",
                                       "model.vocabulary_size=64", "model.max_positions=16",
                                       "data.sequence_length=16",  "train.micro_batch=4",
                                       "train.precision=f32",      "train.evaluation.batches=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_recipe("", "tiny.toml", ".", settings);
}

StepGraph step_of(const Recipe& recipe) {
  const Preparation preparation = prepare(recipe);
  return make_training_step(preparation.workload.model, preparation.options);
}

int count(const Graph& graph, const std::string& op) {
  int found = 0;
  for (const auto& node : graph.nodes()) found += node.op->name == op;
  return found;
}

TEST(TrainingStep, IsSoundForEveryOptimizerAndPrecision) {
  for (const char* optimizer :
       {"sgd", "adam", "adamw", "lamb", "lars", "adafactor", "lion", "rmsprop", "centered_rmsprop", "adagrad"})
    for (const char* precision : {"f32", "bf16", "f16"}) {
      const StepGraph step =
          step_of(tiny({"train.optimizer.kind=" + std::string(optimizer), "train.precision=" + std::string(precision),
                        "train.accumulation=4", "train.lanes=2", "train.chunks=2"}));
      verify(step, "the test");
      EXPECT_EQ(step.lanes, 2);
      EXPECT_EQ(step.micro_batches_per_lane, 2);
    }
}

TEST(TrainingStep, HasTheStatesAndScalarsOfItsOptimizer) {
  const StepGraph adam = step_of(tiny());
  int weights = 0, optimizer = 0, accumulators = 0;
  for (const auto& state : adam.states) {
    weights += state.kind == StateKind::kWeight;
    optimizer += state.kind == StateKind::kOptimizer;
    accumulators += state.kind == StateKind::kAccumulator;
  }
  EXPECT_EQ(optimizer, 2 * weights);
  EXPECT_EQ(accumulators, weights + 1);  // the tied word embedding has two
  EXPECT_EQ(count(adam.update, "adam"), weights);
  EXPECT_EQ(count(adam.update, "sum_squares"), weights);
  for (const char* scalar : {"learning_rate", "correction1", "correction2"})
    EXPECT_NE(adam.update.find_input(scalar), kNoValue) << scalar;
  EXPECT_NE(adam.update.find_output("grad_norm"), nullptr);

  const StepGraph sgd = step_of(tiny({"train.optimizer.kind=sgd", "train.optimizer.momentum=0"}));
  for (const auto& state : sgd.states) EXPECT_NE(state.kind, StateKind::kOptimizer) << state.name;
  EXPECT_EQ(sgd.update.find_input("correction1"), kNoValue);
  EXPECT_EQ(count(step_of(tiny({"train.optimizer.kind=lamb"})).update, "lamb_apply"), weights);
}

/// Feeds of a graph: indices small enough for every table, numbers, zeros for accumulators.
std::map<std::string, HostTensor> feeds_of(const Graph& graph) {
  std::map<std::string, HostTensor> feeds;
  for (const auto& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    HostTensor tensor(value.type);
    const RandomStream random(5, RandomPurpose::kTest, 0, hash64(value.name));
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const auto element = static_cast<uint64_t>(i);
      if (!is_floating(value.type.dtype))
        tensor.set(i, random.below(element, 2));
      else if (!value.name.starts_with("accumulator."))
        tensor.set(i, 0.2 * random.uniform(element) - 0.1);
    }
    feeds[value.name] = tensor;
  }
  return feeds;
}

std::map<std::string, HostTensor> results_of(const Graph& graph, const std::map<std::string, HostTensor>& feeds) {
  std::map<std::string, HostTensor> results;
  const auto values = interpret(graph, reference_backend(), feeds);
  for (size_t i = 0; i < values.size(); ++i) results[graph.outputs()[i].name] = values[i];
  return results;
}

TEST(TrainingStep, ATiedWeightHasASumForEachRegion) {
  const std::pair<std::string, std::string> models[] = {{"bert", "bert.embeddings.word_embeddings.weight@1"},
                                                        {"gpt2", "transformer.wte.weight@1"}};
  for (const auto& [kind, tied] : models) {
    const Preparation preparation = prepare(tiny({"model.kind=" + kind, "model.preset=mini", "train.accumulation=2"}));
    const StepGraph step = make_training_step(preparation.workload.model, preparation.options);
    verify(step, "the test");
    std::vector<std::string> others;
    for (const auto& state : step.states)
      if (state.name.find('@') != std::string::npos) {
        others.push_back(state.name);
        EXPECT_EQ(state.of + "@1", tied);
        EXPECT_EQ(state.role, "sum");
        EXPECT_THAT(state.part, testing::MatchesRegex("after layer [0-9]+"));
      } else if (state.kind == StateKind::kAccumulator) {
        EXPECT_EQ(state.name, "accumulator." + state.of);
        EXPECT_EQ(state.part, state.of + "@1" == tied ? "before layer 0" : "") << state.name;
      }
    EXPECT_THAT(others, testing::ElementsAre("accumulator." + tied));
    for (const auto& input : step.micro.inputs()) {
      const std::string& name = step.micro.value(input.value).name;
      EXPECT_TRUE(name.find('@') == std::string::npos || name == others[0]) << name;
    }

    // The parts add up to the gradient of the whole, and neither of them is nothing.
    const std::string weight = tied.substr(0, tied.find('@'));
    const auto feeds = feeds_of(step.micro);
    const auto sums = results_of(step.micro, feeds);
    const auto gradients = results_of(differentiate(preparation.workload.model.forward, "loss", {weight}), feeds);
    const HostTensor &first = sums.at("accumulator." + weight), &second = sums.at(others[0]);
    double most_first = 0, most_second = 0;
    for (int64_t i = 0; i < first.elements(); ++i) {
      EXPECT_EQ(static_cast<float>(first.get(i)) + static_cast<float>(second.get(i)),
                gradients.at("grad." + weight).get(i));
      most_first = std::max(most_first, std::fabs(first.get(i)));
      most_second = std::max(most_second, std::fabs(second.get(i)));
    }
    EXPECT_GT(most_first, 0);
    EXPECT_GT(most_second, 0);
  }
}

TEST(TrainingStep, StatesSayWhatTheirDimensionsMean) {
  const std::string bert = print(step_of(tiny({"train.accumulation=2"})));
  const auto names = [](const std::string& name, const std::string& axes) {
    return testing::ContainsRegex("state \"" + name + "\" [^\n]* axes=" + axes + "( of=[^\n]*)?\n");
  };
  const std::string layer = "bert\\.encoder\\.layer\\.0\\.";
  EXPECT_THAT(bert, names("bert\\.embeddings\\.word_embeddings\\.weight", "vocab,embed"));
  EXPECT_THAT(bert, names("bert\\.embeddings\\.position_embeddings\\.weight", "-,embed"));
  EXPECT_THAT(bert, names(layer + "attention\\.self\\.qkv\\.weight", "3\\*heads,embed"));
  EXPECT_THAT(bert, names(layer + "attention\\.self\\.qkv\\.bias", "3\\*heads"));
  EXPECT_THAT(bert, names("optimizer\\.m\\." + layer + "attention\\.self\\.qkv\\.weight", "3\\*heads,embed"));
  EXPECT_THAT(bert, names("accumulator\\." + layer + "attention\\.output\\.dense\\.weight", "embed,heads"));
  EXPECT_THAT(bert, names(layer + "intermediate\\.dense\\.weight", "mlp,embed"));
  EXPECT_THAT(bert, names(layer + "output\\.dense\\.weight", "embed,mlp"));
  EXPECT_THAT(bert, names(layer + "output\\.LayerNorm\\.bias", "embed"));
  EXPECT_THAT(bert, names("accumulator\\.bert\\.embeddings\\.word_embeddings\\.weight@1", "vocab,embed"));
  const std::string gpt2 = print(step_of(tiny({"model.kind=gpt2", "model.preset=mini"})));
  EXPECT_THAT(gpt2, names("transformer\\.h\\.0\\.attn\\.c_attn\\.weight", "embed,3\\*heads"));
  EXPECT_THAT(gpt2, names("transformer\\.h\\.0\\.mlp\\.c_proj\\.weight", "mlp,embed"));

  StepGraph wrong = step_of(tiny());
  wrong.states[0].axes.pop_back();
  try {
    verify(wrong, "the test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("not one logical axis a dimension"));
  }
  EXPECT_THAT(print(step_of(tiny({"model.pad_vocabulary=48"}))),
              names("bert\\.embeddings\\.word_embeddings\\.weight", "vocab\\+32,embed"));
  wrong = step_of(tiny());
  wrong.states[0].axes[1].padding = 1;
  try {
    verify(wrong, "the test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("only a part of the first dimension can be padding; found embed+1"));
  }
  wrong = step_of(tiny());
  wrong.states[0].axes[0].blocks = 5;
  try {
    verify(wrong, "the test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("blocks of logical axis 'vocab' do not divide its dimension"));
  }
}

/// What a tensor layout may split is cut in chunks, forward and backward; sums over the batch are not.
TEST(TrainingStep, ContractionsOfFeaturesAreChunked) {
  for (const std::string kind : {"bert", "gpt2"})
    for (const std::string precision : {"f32", "bf16"}) {
      const StepGraph step =
          step_of(tiny({"model.kind=" + kind, "model.preset=mini", "train.chunks=2", "train.precision=" + precision}));
      int joint = 0, chunked = 0;
      for (const Node& node : step.micro.nodes()) {
        if (node.op->name != "matmul" && node.op->name != "linear") continue;
        const bool over_rows = node.attributes.get_bool_or("transpose_a", false);
        EXPECT_EQ(node.attributes.get_int_or("chunks", 1), over_rows ? 1 : 2) << node.name;
        chunked += !over_rows;
        if (!node.attributes.has("chunk_blocks")) continue;
        EXPECT_EQ(node.attributes.get_int("chunk_blocks"), 3);
        EXPECT_THAT(node.name, HasSubstr("attention"));
        ++joint;
      }
      EXPECT_EQ(joint, 1) << "of the gradient through query, key and value of the one layer";
      EXPECT_GE(chunked, 9);
    }
}

TEST(TrainingStep, BiasesAndNormsDoNotDecay) {
  const StepGraph step = step_of(tiny({"train.optimizer.weight_decay=0.5"}));
  int with = 0, without = 0;
  for (const auto& node : step.update.nodes()) {
    if (node.op->name != "adam") continue;
    const bool vector = step.update.type(node.inputs[0]).shape.rank() == 1;
    EXPECT_EQ(node.attributes.get_float("weight_decay"), vector ? 0.0 : 0.5) << node.name;
    ++(vector ? without : with);
  }
  EXPECT_GT(with, 3);
  EXPECT_GT(without, 3);
}

/// Some steps of a recipe; the losses.
std::vector<double> losses(const Recipe& recipe, int steps) {
  Training trainer = make_training(prepare(recipe), {.threads = 1});
  trainer.initialize();
  std::vector<double> result;
  for (int i = 0; i < steps; ++i) result.push_back(number_of(trainer.step(), "loss"));
  return result;
}

TEST(Trainer, TheLossScaleTakesNoPart) {
  // A power of two shifts exponents and nothing else, as long as nothing leaves the range.
  EXPECT_EQ(losses(tiny({"train.loss_scale=1"}), 4), losses(tiny({"train.loss_scale=256"}), 4));
}

TEST(Trainer, ClippingActsOnTheNorm) {
  Training trainer = make_training(prepare(tiny({"train.clip_norm=0.001", "train.optimizer.kind=sgd",
                                                 "train.optimizer.momentum=0", "train.optimizer.weight_decay=0",
                                                 "train.schedule.kind=constant", "train.schedule.learning_rate=1"})),
                                   {.threads = 1});
  trainer.initialize();
  const auto& weights = trainer.model().weights;
  std::vector<std::vector<float>> before;
  for (const auto& weight : weights) {
    before.emplace_back(static_cast<size_t>(weight.type.elements()));
    trainer.read_state(weight.name, std::as_writable_bytes(std::span(before.back())));
  }
  const Numbers metrics = trainer.step();
  ASSERT_GT(number_of(metrics, "grad_norm"), 0.001);
  double moved = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    std::vector<float> after(before[i].size());
    trainer.read_state(weights[i].name, std::as_writable_bytes(std::span(after)));
    for (size_t k = 0; k < after.size(); ++k)
      moved += std::pow(static_cast<double>(after[k]) - static_cast<double>(before[i][k]), 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 0.001, 2e-6);  // a step of plain descent is as long as the clipped gradient
}

/// Weights after some steps under a memory limit, and what the arena took.
std::pair<std::string, int64_t> trained(const Recipe& recipe, int steps, int64_t device_memory = 0) {
  Training trainer = make_training(prepare(recipe), {.threads = 1, .device_memory = device_memory});
  trainer.initialize();
  for (int i = 0; i < steps; ++i) trainer.step();
  return {trainer.weights_hash(), trainer.planned_bytes()};
}

TEST(Trainer, UpdatesInTheBackwardPassChangeNoBitAndKeepFewGradients) {
  for (const char* optimizer : {"sgd", "adamw", "lamb", "lars", "adafactor", "lion"}) {
    // Wide, short samples: gradients are most of what is alive.
    const std::vector<std::string> settings = {"model.layers=6",      "model.hidden=128",
                                               "train.micro_batch=1", "train.precision=bf16",
                                               "train.clip_norm=0",   "train.optimizer.kind=" + std::string(optimizer)};
    auto early = settings;
    early.push_back("train.optimizer.in_backward=true");
    const auto [hash, bytes] = trained(tiny(settings), 3);
    const auto [early_hash, early_bytes] = trained(tiny(early), 3);
    EXPECT_EQ(early_hash, hash) << optimizer;
    int64_t gradients = 0;
    for (const auto& weight : prepare(tiny(settings)).workload.model.weights) gradients += weight.type.bytes();
    // Adafactor's states are small, and its update makes more of a weight's size than others do.
    EXPECT_LT(early_bytes, bytes - gradients / (optimizer == std::string("adafactor") ? 4 : 2)) << optimizer;
  }
}

TEST(Trainer, MemoryLimitsTakeWhatIsDerivedAndChangeNoBit) {
  const Recipe recipe = tiny({"model.layers=6", "model.hidden=128", "train.micro_batch=1", "train.precision=bf16",
                              "train.clip_norm=0", "train.optimizer.in_backward=true", "train.recompute=layer"});
  const auto [hash, bytes] = trained(recipe, 3);
  const auto [same, less] = trained(recipe, 3, bytes - 1);
  EXPECT_EQ(same, hash);
  EXPECT_LT(less, bytes);
  // Tighter and tighter, down to the smallest program: nothing that is derived is left in it.
  int64_t least = less;
  const auto derived_at = [&](int64_t limit) {
    Training trainer = make_training(prepare(recipe), {.threads = 1, .device_memory = limit});
    least = trainer.planned_bytes();
    const auto& states = trainer.cluster().stages()[0].states;
    return std::count_if(states.begin(), states.end(),
                         [](const auto& state) { return state.tensor.kind == StateKind::kDerived; });
  };
  const auto derived = derived_at(less);
  EXPECT_GT(derived, 0);
  auto left = derived;
  for (int64_t limit = less; left > 0; limit = least - 1) {
    const auto fewer = derived_at(limit);
    ASSERT_LE(fewer, left);
    left = fewer;
  }
  EXPECT_LT(least, less);
  EXPECT_EQ(trained(recipe, 3, least).first, hash);
}

TEST(Trainer, AShareOfTheMemoryIsALimitThatChangesNoBitAndRefusesNothing) {
  const Recipe recipe = tiny({"model.layers=6", "model.hidden=128", "train.micro_batch=4", "train.precision=bf16",
                              "train.clip_norm=0", "train.optimizer.in_backward=true", "train.recompute=auto"});
  const auto [hash, bytes] = trained(recipe, 3);
  const auto with_share = [&](double share) {
    Training trainer = make_training(prepare(recipe), {.threads = 1, .device_memory_share = share});
    trainer.initialize();
    for (int i = 0; i < 3; ++i) trainer.step();
    const auto& exe = trainer.cluster().stages()[0];
    EXPECT_EQ(trainer.planned_bytes(), exe.planned_bytes());
    EXPECT_EQ(trainer.weights_hash(), hash) << share;
    const auto derived = std::count_if(exe.states.begin(), exe.states.end(),
                                       [](const auto& state) { return state.tensor.kind == StateKind::kDerived; });
    return std::make_tuple(trainer.planned_bytes(), derived, exe.activations);
  };
  EXPECT_EQ(std::get<0>(with_share(1)), bytes);
  const auto [most, most_derived, most_kept] = with_share(0.95);
  EXPECT_LE(static_cast<double>(most), 0.95 * static_cast<double>(bytes));
  EXPECT_EQ(most_kept, "keep layers 0-5 and the head");  // copies of weights go first
  const auto [least, derived, kept] = with_share(0.01);
  EXPECT_GT(static_cast<double>(least), 0.01 * static_cast<double>(bytes));  // as few as it can
  EXPECT_LT(least, most);
  EXPECT_LT(derived, most_derived);
  EXPECT_NE(kept, most_kept);
}

TEST(Trainer, AGradientThatIsNotFiniteLeavesItsOwnWeight) {
  // Too large a loss scale: the loss is finite, its gradients overflow f16.
  const std::vector<std::string> settings = {"train.precision=f16", "train.loss_scale=1099511627776",
                                             "train.clip_norm=0"};
  auto early = settings;
  early.push_back("train.optimizer.in_backward=true");
  for (const bool in_backward : {false, true}) {
    Training trainer = make_training(prepare(tiny(in_backward ? early : settings)), {.threads = 1});
    trainer.initialize();
    const std::string before = trainer.weights_hash();
    try {
      trainer.step();
      FAIL() << "a step of overflowing gradients";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("step 1: 'grad_norm' is not finite"));
    }
    EXPECT_EQ(trainer.whole(), !in_backward);
    if (!in_backward) {
      EXPECT_EQ(trainer.weights_hash(), before);
    }
    for (const auto& weight : trainer.model().weights) {
      std::vector<float> values(static_cast<size_t>(weight.type.elements()));
      trainer.read_state(weight.name, std::as_writable_bytes(std::span(values)));
      for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << weight.name;
    }
  }
}

TEST(Trainer, AccumulationIsTheMeanOverMicroBatches) {
  // Without dropout four micro-batches of 4 and one of 16 are the same 16 samples; their words weigh a little
  // differently.
  const std::vector<std::string> plain = {"model.dropout=0", "model.attention_dropout=0", "data.short_sequences=0"};
  auto many = plain, one = plain;
  many.insert(many.end(), {"train.micro_batch=4", "train.accumulation=4"});
  one.insert(one.end(), {"train.micro_batch=16"});
  const auto a = losses(tiny(many), 3), b = losses(tiny(one), 3);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-3) << i;
}

TEST(Trainer, EvaluationTouchesNothing) {
  Training trainer = make_training(prepare(tiny()), {.threads = 1});
  trainer.initialize();
  trainer.step();
  const std::string hash = trainer.weights_hash();
  const Numbers first = trainer.evaluate(), second = trainer.evaluate();
  EXPECT_EQ(first, second);
  EXPECT_EQ(trainer.weights_hash(), hash);
  EXPECT_NEAR(number_of(first, "loss"), number_of(first, "mlm_loss") + number_of(first, "nsp_loss"), 1e-12);
  EXPECT_NEAR(number_of(first, "mlm_loss"), std::log(64), 0.5);  // hardly trained: about a guess
}

TEST(Trainer, InitialWeightsFollowSeedAndNameAlone) {
  Training a = make_training(prepare(tiny()), {.threads = 1});
  Training b = make_training(prepare(tiny({"train.optimizer.kind=sgd", "train.precision=bf16"})), {.threads = 2});
  Training c = make_training(prepare(tiny({"train.seed=1"})), {.threads = 1});
  a.initialize(), b.initialize(), c.initialize();
  EXPECT_EQ(a.weights_hash(), b.weights_hash());
  EXPECT_NE(a.weights_hash(), c.weights_hash());
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Trainer, PaddingOfTheVocabularyIsNoClass) {
  for (const char* kind : {"bert", "gpt2"}) {
    const TemporaryFolder folder;
    const auto file = [&](const char* name) { return folder.path() / name; };
    std::vector<std::string> settings = {std::string("model.kind=") + kind, "model.vocabulary_size=61",
                                         "model.layers=1"};
    if (std::string(kind) == "gpt2") settings.push_back("model.preset=mini");
    Training plain = make_training(prepare(tiny(settings)), {.threads = 1});
    settings.push_back("model.pad_vocabulary=32");
    Training padded = make_training(prepare(tiny(settings)), {.threads = 1});
    plain.initialize(), padded.initialize();
    plain.export_weights(file("plain")), padded.export_weights(file("padded"));
    EXPECT_EQ(bytes_of(file("plain")), bytes_of(file("padded"))) << "files know no padding";
    for (int i = 0; i < 4; ++i) {
      const Numbers a = plain.step(), b = padded.step();
      if (i == 0) {
        EXPECT_EQ(number_of(a, "loss"), number_of(b, "loss"));
      }
      EXPECT_NEAR(number_of(a, "loss"), number_of(b, "loss"), 1e-5);
      EXPECT_NEAR(number_of(a, "grad_norm"), number_of(b, "grad_norm"), 1e-4);
    }
    int found = 0;
    for (const StateTensor& weight : padded.model().weights) {
      if (weight.unpadded() == weight.type) continue;
      ++found;
      std::vector<std::byte> bytes(static_cast<size_t>(weight.type.bytes()));
      padded.read_state(weight.name, bytes);
      const size_t real = static_cast<size_t>(weight.unpadded().bytes());
      EXPECT_EQ(weight.type.shape[0], 64);
      EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<long>(real), bytes.end(), [](std::byte byte) {
        return byte == std::byte{0};
      })) << weight.name;
      EXPECT_TRUE(std::any_of(bytes.begin(), bytes.begin() + static_cast<long>(real), [](std::byte byte) {
        return byte != std::byte{0};
      })) << weight.name;
    }
    EXPECT_EQ(found, std::string(kind) == "bert" ? 2 : 1) << "the words, and BERT's bias";
    // Into a file and back.
    padded.export_weights(file("trained"));
    settings.push_back("model.init_from=" + file("trained").string());
    Training again = make_training(prepare(tiny(settings)), {.threads = 1});
    again.initialize();
    EXPECT_EQ(again.weights_hash(), padded.weights_hash());
  }
}

TEST(CompleteRecipe, TakesThePresetAndSaysWhatContradicts) {
  const Recipe recipe = complete_recipe(parse_recipe("", "a.toml", ".", std::vector<std::string>{"model.preset=base"}));
  EXPECT_EQ(recipe.model.layers, 12);
  EXPECT_EQ(recipe.model.intermediate, 3072);
  EXPECT_EQ(recipe.data.max_predictions, 20);
  EXPECT_EQ(recipe.train.schedule.steps, recipe.train.steps);
  EXPECT_EQ(recipe.train.loss_scale.number, 1.0);
  // What is printed means the same again, whatever presets may become.
  EXPECT_EQ(print_recipe(complete_recipe(parse_recipe(print_recipe(recipe), "b.toml", "."))), print_recipe(recipe));
  const auto error_of = [](std::vector<std::string> settings, int64_t vocabulary = 0) -> std::string {
    try {
      complete_recipe(parse_recipe("", "a.toml", ".", settings), vocabulary);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({"model.kind=gpt2", "model.intermediate=5"}),
              HasSubstr("GPT-2's feed-forward part is always 4 x model.hidden wide"));
  EXPECT_THAT(error_of({"model.vocabulary_size=100"}, 101),
              HasSubstr("--set model.vocabulary_size: the corpus has more tokens than the model has rows for; found "
                        "100; expected at least 101"));
}

}  // namespace
}  // namespace ramet::tests
