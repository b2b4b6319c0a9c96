// A task is fine-tuned and evaluated on the layout that it trains on.
#include <gtest/gtest.h>

#include <random>

#include "ramet/base/file.h"
#include "ramet/recipe/prepare.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

constexpr int64_t kTaskSteps = 6;

class TaskLayouts : public ::testing::Test {
 protected:
  TaskLayouts() {
    std::filesystem::copy_file(std::filesystem::path(RAMET_SOURCE_DIR) / "tests/samples/data/tiny-vocab.txt",
                               folder_ / "vocab.txt");
    static const std::vector<std::string> words = {"the", "want", "run", "low", "cafe", "wanted", "lowest"};
    std::mt19937 random(7);
    for (const char* name : {"train.tsv", "dev.tsv"}) {
      std::string text = "text\tlabel\n";
      for (int i = 0; i < 41; ++i) {
        std::string line;
        for (size_t w = random() % 9 + 1; w > 0; --w)
          line += (line.empty() ? "" : " ") + words[random() % words.size()];
        text += line + "\t" + (line.find("low") != std::string::npos ? "one" : "other") + "\n";
      }
      write_file_atomic(folder_ / name, text);
    }
  }

  Recipe recipe(const std::string& layout, const std::vector<std::string>& more) const {
    std::vector<std::string> settings = {"model.preset=tiny",
                                         "model.layers=8",
                                         "model.hidden=64",
                                         "model.heads=4",
                                         "model.intermediate=256",
                                         "model.max_positions=12",
                                         "data.sequence_length=12",
                                         "task.kind=classification",
                                         "task.text=text",
                                         "task.label=label",
                                         "task.train=" + (folder_ / "train.tsv").string(),
                                         "task.dev=" + (folder_ / "dev.tsv").string(),
                                         "task.tokenizer=" + (folder_ / "vocab.txt").string(),
                                         "train.micro_batch=2",
                                         "train.accumulation=4",
                                         "train.lanes=2",
                                         "train.schedule.learning_rate=0.003",
                                         "train.schedule.warmup_steps=1",
                                         "train.chunks=2",
                                         "train.steps=" + std::to_string(kTaskSteps)};
    settings.insert(settings.end(), more.begin(), more.end());
    Recipe made = parse_recipe("", "task.toml", ".", settings);
    set_layout(made, layout);
    return made;
  }

  /// The metrics of the dev set before the first step and after the last.
  std::vector<Numbers> scores(const Recipe& recipe, int64_t device_memory = 0) {
    Training trainer = make_training(prepare(recipe), {.threads = 1, .device_memory = device_memory});
    trainer.initialize();
    std::vector<Numbers> all = {trainer.evaluate()};
    for (int64_t step = 0; step < kTaskSteps; ++step) trainer.step();
    all.push_back(trainer.evaluate());
    EXPECT_EQ(trainer.evaluate(), all.back());
    weights_ = 0;
    for (const StateTensor& weight : trainer.model().weights) weights_ += weight.type.bytes();
    most_ = 0;
    for (const int64_t bytes : trainer.cluster().arena_bytes()) most_ = std::max(most_, bytes);
    int64_t taken = 0;
    for (const int64_t bytes : trainer.cluster().arena_bytes()) taken += bytes;
    EXPECT_GE(trainer.planned_bytes(), taken);
    return all;
  }

  TemporaryFolder folder_;
  int64_t weights_ = 0, most_ = 0;  // bytes of the model's weights, and of the largest arena
};

TEST_F(TaskLayouts, AreEvaluatedWhereTheyTrain) {
  for (const char* precision : {"f32", "bf16"}) {
    const std::vector<std::string> more = {"train.precision=" + std::string(precision), "train.optimizer.kind=sgd"};
    const std::vector<Numbers> expected = scores(recipe("p=1", more));
    ASSERT_GE(expected[0].size(), 2u);
    EXPECT_NE(expected[0].back().second, expected[1].back().second) << "it learned nothing";
    for (const char* layout : {"p=2 phases=2 offload=optimizer", "r=2 rts=optimizer", "t=2", "p=2"})
      EXPECT_EQ(scores(recipe(layout, more)), expected) << layout << " " << precision;
  }
}

TEST_F(TaskLayouts, TakeLessMemoryThanTheWeights) {
  const std::vector<std::string> more = {"train.precision=f32", "train.optimizer.kind=adamw",
                                         "model.hidden=128",    "model.intermediate=512",
                                         "train.micro_batch=1", "train.accumulation=2"};
  const std::vector<Numbers> expected = scores(recipe("p=1", more));
  EXPECT_GT(most_, 4 * weights_);
  // Weights, gradients and moments of one layer of eight are in device memory at a time.
  EXPECT_EQ(scores(recipe("p=2 phases=4 offload=optimizer,weights,grads", more), weights_ * 9 / 10), expected);
  EXPECT_LT(most_, weights_);
}

TEST_F(TaskLayouts, TakeLessMemoryThanTheWeightsWithTheOptimizerElsewhere) {
  // Weights, 2 bytes an element, and sums of their gradients, 2 more, of half the layers are in device memory, and the
  // optimizer's states of about a quarter of these while the update is at work.
  const std::vector<std::string> more = {"train.precision=bf16",       "train.weights=split", "train.accumulators=bf16",
                                         "train.optimizer.kind=adamw", "model.hidden=128",    "train.lanes=1",
                                         "model.intermediate=512",     "train.micro_batch=1", "train.accumulation=2"};
  const std::vector<Numbers> expected = scores(recipe("p=1", more));
  EXPECT_GT(most_, 2 * weights_);
  EXPECT_EQ(scores(recipe("p=2 phases=2 offload=optimizer", more), weights_ * 9 / 10), expected);
  EXPECT_LT(most_, weights_);
}

}  // namespace
}  // namespace ramet::tests
