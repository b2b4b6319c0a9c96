// What packing promises: loss and gradients of packed rows are, to the bit, those of the same sequences one a row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/text/batches.h"
#include "ramet/train/training.h"
#include "support/made_source.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 2;

Recipe recipe_of(std::vector<std::string> more) {
  std::vector<std::string> settings = {"model.preset=tiny",
                                       "model.layers=2",
                                       "model.hidden=48",
                                       "model.heads=3",
                                       "model.intermediate=96",
                                       "model.vocabulary_size=97",
                                       "model.max_positions=80",
                                       "model.dropout=0",
                                       "model.attention_dropout=0",
                                       "data.sequence_length=80",
                                       "train.precision=f32",
                                       "train.clip_norm=0.5",
                                       "train.accumulation=4",
                                       "train.lanes=2",
                                       "train.optimizer.kind=adamw",
                                       "train.schedule.learning_rate=0.01",
                                       "train.evaluation.batches=0"};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_recipe("", "packing.toml", ".", settings);
}

std::span<const int32_t> row_of(const Batch& batch, std::string_view name, int64_t row) {
  const NamedTensor& tensor = batch.at(name);
  const int64_t width = tensor.type.elements() / batch.count;
  return {reinterpret_cast<const int32_t*>(tensor.bytes.data()) + row * width, static_cast<size_t>(width)};
}

/// The samples of packed rows, one a row: micro-batch i has those of packed micro-batch i, in order, and behind them
/// rows of nothing. They come from the source of whole samples, found by their tokens.
class OneARow final : public MadeSource {
 public:
  OneARow(std::shared_ptr<const Source> packed, int64_t packed_rows, std::shared_ptr<const Source> samples)
      : packed_(std::move(packed)), packed_rows_(packed_rows), samples_(std::move(samples)) {
    const Batch all = samples_->make(0, 4096);
    for (int64_t i = 0; i < all.count; ++i) {
      const auto mask = row_of(all, "attention_mask", i), ids = row_of(all, "input_ids", i);
      known_[std::vector<int32_t>(ids.begin(), ids.begin() + std::count(mask.begin(), mask.end(), 1))] = i;
    }
  }
  Signature signature(int64_t count) const override { return samples_->signature(count); }

  Batch batch(int64_t first_sample, int64_t count) const override {
    const Batch packed = packed_->make(first_sample / count * packed_rows_, packed_rows_);
    Batch result = samples_->make(0, count);
    for (NamedTensor& tensor : result.tensors)
      std::fill_n(reinterpret_cast<int32_t*>(tensor.bytes.data()), tensor.type.elements(),
                  tensor.name == "masked_labels" || tensor.name == "next_sentence_label" ? -1 : 0);
    int64_t row = 0;
    for (int64_t p = 0; p < packed_rows_; ++p) {
      const auto segments = row_of(packed, "segment_ids", p), ids = row_of(packed, "input_ids", p);
      for (size_t begin = 0, end; begin < segments.size() && segments[begin] != 0; begin = end, ++row) {
        for (end = begin; end < segments.size() && segments[end] == segments[begin];) ++end;
        const auto found = known_.find(std::vector<int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                                            ids.begin() + static_cast<std::ptrdiff_t>(end)));
        EXPECT_NE(found, known_.end());
        EXPECT_LT(row, count);
        if (found == known_.end() || row >= count) continue;
        const Batch sample = samples_->make(found->second, 1);
        for (size_t t = 0; t < sample.tensors.size(); ++t)
          std::memcpy(result.tensors[t].bytes.data() + static_cast<size_t>(row) * sample.tensors[t].bytes.size(),
                      sample.tensors[t].bytes.data(), sample.tensors[t].bytes.size());
      }
    }
    sequences += row;
    return result;
  }
  mutable std::atomic<int64_t> sequences = 0;

 private:
  std::shared_ptr<const Source> packed_;
  int64_t packed_rows_;
  std::shared_ptr<const Source> samples_;
  std::map<std::vector<int32_t>, int64_t> known_;
};

std::vector<float> state(const Training& trainer, const StateTensor& of) {
  std::vector<float> values(static_cast<size_t>(of.type.elements()));
  trainer.read_state(of.name, std::as_writable_bytes(std::span(values)));
  return values;
}

struct Outcome {
  std::vector<Numbers> steps;
  std::map<std::string, std::vector<float>> states;
};

Outcome train(Preparation preparation, int64_t steps, int threads) {
  Training trainer = make_training(std::move(preparation), {.threads = threads});
  trainer.initialize();
  Outcome outcome;
  for (int64_t i = 0; i < steps; ++i) outcome.steps.push_back(trainer.step());
  for (const StateTensor& each : trainer.compiled().states) outcome.states[each.name] = state(trainer, each);
  return outcome;
}

std::vector<std::string> with(std::vector<std::string> settings, const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

/// The same run without packing: same samples in the same micro-batches, in rows of their own, which are as many as a
/// packed micro-batch could have at most.
Preparation unpacked(const Preparation& packed, const std::vector<std::string>& settings, int64_t rows) {
  const int64_t depth = packed.recipe.data.packing_depth;
  Preparation result = prepare(recipe_of(with(settings, {"train.micro_batch=" + std::to_string(rows * depth)})));
  BertBatchOptions options{.objective = packed.recipe.data.next_sentence ? BertObjective::kMlmNsp : BertObjective::kMlm,
                           .sequence_length = static_cast<int32_t>(packed.recipe.data.sequence_length),
                           .max_predictions = static_cast<int32_t>(*packed.recipe.data.max_predictions),
                           .seed = static_cast<uint64_t>(packed.recipe.train.seed),
                           .vary_lengths = true};
  result.workload.train =
      std::make_shared<OneARow>(packed.workload.train, rows, make_synthetic_bert_batches(97, options));
  return result;
}

struct Shapes {
  const char* algorithm;
  int64_t depth, rows;
  int threads;
  bool next_sentence;
};
void PrintTo(const Shapes& shapes, std::ostream* stream) {
  *stream << shapes.algorithm << " depth " << shapes.depth << ", " << shapes.rows << " rows, " << shapes.threads
          << " threads";
}

class Packed : public ::testing::TestWithParam<Shapes> {};

TEST_P(Packed, TrainsWithTheBitsOfUnpackedRows) {
  const auto [algorithm, depth, rows, threads, next_sentence] = GetParam();
  const std::string next = next_sentence ? "true" : "false";
  const Preparation packed =
      prepare(recipe_of({"data.packing=" + std::string(algorithm), "data.next_sentence=" + next,
                         "data.packing_depth=" + std::to_string(depth), "train.micro_batch=" + std::to_string(rows)}));
  const std::vector<std::string> plain = {"train.sums=in-order", "data.next_sentence=" + next};
  Preparation single = unpacked(packed, plain, rows);
  const auto source = std::static_pointer_cast<const OneARow>(single.workload.train);
  const Outcome many = train(prepare(packed.recipe), kSteps, threads), one = train(std::move(single), kSteps, 1);
  // It is packing that is compared: more sequences than rows.
  EXPECT_GT(source->sequences, kSteps * 4 * rows * 5 / 4);
  for (size_t i = 0; i < kSteps; ++i)
    for (const char* name : {"loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "grad_norm"}) {
      if (!next_sentence && std::string_view(name).starts_with("nsp")) continue;
      EXPECT_EQ(number_of(many.steps[i], name), number_of(one.steps[i], name)) << name << " of step " << i;
    }
  ASSERT_EQ(many.states.size(), one.states.size());
  for (const auto& [name, values] : one.states) {
    const auto& found = many.states.at(name);
    ASSERT_EQ(found.size(), values.size());
    // Bits, but that a zero may have either sign.
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(found[i], values[i]) << name << " [" << i << "]";
  }

  // In blocks the sums are others, by rounding alone: what is equal above is not so by itself.
  const Outcome blocks = train(unpacked(packed, {"data.next_sentence=" + next}, rows), kSteps, 1);
  int differ = 0;
  for (const auto& [name, values] : blocks.states)
    for (size_t i = 0; i < values.size(); ++i) {
      differ += values[i] != one.states.at(name)[i];
      ASSERT_NEAR(values[i], one.states.at(name)[i], name.starts_with("optimizer") ? 1 : 0.02) << name;
    }
  EXPECT_GT(differ, 0);
  EXPECT_NEAR(number_of(blocks.steps[0], "loss"), number_of(one.steps[0], "loss"), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Packed,
                         ::testing::Values(Shapes{"spfhp", 8, 3, 2, true}, Shapes{"nnlshp", 2, 4, 1, true},
                                           // 24 rows of 80 unpacked: more than matrix kernels sum in one go
                                           Shapes{"lpfhp", 4, 6, 1, false}));

TEST(PackedRecipe, TellsWhatDoesNotGoTogether) {
  const auto error = [](const std::vector<std::string>& settings) -> std::string {
    try {
      prepare(recipe_of(settings));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error({"data.packing=best"}), AllOf(HasSubstr("unknown choice"), HasSubstr("nnlshp")));
  EXPECT_THAT(error({"data.packing=lpfhp", "data.packing_depth=0"}),
              AllOf(HasSubstr("out of range"), HasSubstr("data.packing_depth"), HasSubstr("from 1 to 256")));
  EXPECT_THAT(
      error({"data.packing=lpfhp", "data.packing_depth=81"}),
      AllOf(HasSubstr("more sequences than tokens in a row"), HasSubstr("81"), HasSubstr("1 to"), HasSubstr("80")));
  EXPECT_THAT(error({"data.packing=nnlshp", "data.packing_depth=9"}),
              AllOf(HasSubstr("too many ways to fill a row"), HasSubstr("data.packing_depth"), HasSubstr("lpfhp")));
  EXPECT_THAT(error({"data.packing=lpfhp", "model.kind=gpt2", "model.preset=mini"}),
              AllOf(HasSubstr("only bert's sequences are packed"), HasSubstr("data.packing"), HasSubstr("gpt2")));
  EXPECT_THAT(error({"train.sums=in-order", "train.precision=bf16"}),
              AllOf(HasSubstr("sums in order are for f32"), HasSubstr("bf16")));
  EXPECT_EQ(error({"data.packing=lpfhp", "train.precision=bf16"}), "no error");
}

TEST(PackedRecipe, EvaluatesWithPerplexityAndAccuracies) {
  Training trainer = make_training(
      prepare(recipe_of({"data.packing=lpfhp", "train.micro_batch=4", "train.evaluation.batches=2"})), {});
  trainer.initialize();
  const Numbers numbers = trainer.evaluate();
  EXPECT_NEAR(number_of(numbers, "perplexity"), std::exp(number_of(numbers, "mlm_loss")), 1e-9);
  EXPECT_NEAR(number_of(numbers, "mlm_loss"), std::log(97), 0.5);
  for (const char* name : {"mlm_accuracy", "nsp_accuracy"}) {
    EXPECT_GE(number_of(numbers, name), 0);
    EXPECT_LE(number_of(numbers, name), 1);
  }
}

TEST(PackedRecipe, LongerRowsBeginWithTheWeightsOfShorterOnes) {
  TemporaryFolder folder;
  const std::vector<std::string> packing = {"data.packing=lpfhp", "train.micro_batch=2"};
  std::filesystem::path saved;
  std::map<std::string, std::vector<float>> weights;
  {
    Training first = make_training(prepare(recipe_of(with(packing, {"data.sequence_length=32"}))), {});
    first.initialize();
    first.step();
    saved = first.save(folder / "checkpoints");
    for (const StateTensor& each : first.model().weights) weights[each.name] = state(first, each);
  }
  Training second = make_training(
      prepare(recipe_of(with(packing, {"data.sequence_length=64", "model.init_from=" + saved.string()}))), {});
  second.initialize();
  EXPECT_EQ(second.steps_done(), 0);
  for (const StateTensor& each : second.compiled().states) {
    const std::vector<float> values = state(second, each);
    if (each.kind == StateKind::kWeight)
      EXPECT_EQ(values, weights.at(each.name)) << each.name;
    else
      EXPECT_THAT(values, testing::Each(0.0f)) << each.name;
  }
  second.step();  // positions that the first run never saw are there too
}

}  // namespace
}  // namespace ramet::tests
