// Embeddings whose rows live in streaming memory: the bits are those of tables on the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ramet/base/rng.h"
#include "ramet/graphs/read.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

constexpr int kEntityCount = 1500;

class EmbeddingRows : public testing::Test {
 protected:
  /// A ring of 1500 entities: relation "next" leads to the next one; "drawn" to one of the first 40, which steps
  /// therefore share.
  void SetUp() override {
    const RandomStream random(9, RandomPurpose::kTest, 0, 0);
    std::string train, validation;
    for (int i = 0; i < kEntityCount; ++i) {
      const auto line = [&](const char* relation, int to) {
        return "e" + std::to_string(i) + "\t" + relation + "\te" + std::to_string(to) + "\n";
      };
      (i % 60 == 7 ? validation : train) += line("next", (i + 1) % kEntityCount);
      train += line("drawn", static_cast<int>(random.below(static_cast<uint64_t>(i), 40)));
    }
    std::make_shared<const GraphSet>(
        graphs::parse_triples({{"train", train, "train.txt"}, {"validation", validation, "valid.txt"}}), "ring")
        ->save(folder_ / "ring.safetensors");
  }

  Recipe recipe(const std::string& function, const Settings& more = {}) const {
    return adam_recipe("rows.toml",
                       {"model.kind=" + function, "model.knowledge.width=10", "model.knowledge.deviation=0.3",
                        "model.knowledge.margin=1", "model.knowledge.temperature=0.5", "data.kind=triples",
                        "data.triples.set=" + (folder_ / "ring.safetensors").string(), "data.triples.group=3",
                        "data.triples.negatives=8", "train.micro_batch=2", "train.accumulation=4", "train.lanes=4",
                        "train.chunks=4", "train.steps=60", "train.schedule.learning_rate=0.1",
                        "train.optimizer.kind=adagrad", "train.optimizer.first_sum=0.1"},
                       more);
  }

  std::string in_file() const { return "offload=rows streaming=" + folder_.path().string(); }

  TemporaryFolder folder_;
};

std::vector<std::byte> state_of(const Training& training, const std::string& name, int64_t bytes) {
  std::vector<std::byte> found(static_cast<size_t>(bytes));
  training.read_state(name, found);
  return found;
}

TEST_F(EmbeddingRows, HaveTheBitsOfATableOnTheDevice) {
  struct Case {
    std::string function;
    Settings settings;
  };
  const std::vector<Case> cases = {
      {"rotate", {"data.triples.subsampling=true"}},
      {"complex",
       {"train.precision=bf16", "model.knowledge.loss=softmax", "model.knowledge.penalty=0.01",
        "data.triples.reciprocal=true"}},
      {"transe", {"train.optimizer.kind=sgd", "train.optimizer.momentum=0", "model.knowledge.pad=8"}}};
  for (const Case& each : cases) {
    const Recipe own = recipe(each.function, each.settings);
    const Trained expected = train(own, "", 30);
    EXPECT_TRUE(std::isfinite(expected.losses.back()));
    EXPECT_NE(expected.losses.back(), expected.losses.front());
    for (const std::string& layout : {std::string("offload=rows"), in_file()})
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(each.function + " " + layout + ", threads " + std::to_string(threads));
        expect_same(train(own, layout, 30, threads), expected);
      }
  }
}

TEST_F(EmbeddingRows, HaveTheSameBitsOnEveryLayout) {
  const Recipe own = recipe("rotate");
  const Trained expected = train(own, "", 4);
  for (const std::string layout : {"t=2", "r=2", "t=2 r=2", "r=2 rts=weights,grads,optimizer", "recompute=layer"})
    for (const std::string& rows : {std::string("offload=rows"), in_file()}) {
      SCOPED_TRACE(layout + " " + rows);
      expect_same(train(own, layout + " " + rows, 4, 2), expected);
    }
  expect_same(train(own, "phases=1 offload=weights,optimizer,rows", 4, 2), expected);
}

/// From a table on the device to one in RAM, to one in a file, and back; with evaluations and states read in between.
TEST_F(EmbeddingRows, ContinueOnOtherLayouts) {
  const Recipe own = recipe("rotate");
  Training whole = make_training(prepare(own), {.threads = 1});
  whole.initialize();
  const Trained expected = train_steps(whole, 20);
  std::filesystem::path checkpoint;
  int number = 0;
  for (const std::string& layout : {std::string("p=1"), std::string("offload=rows"), in_file(), std::string("p=1")}) {
    SCOPED_TRACE(layout);
    Recipe part = own;
    set_layout(part, layout);
    Training training = make_training(prepare(part), {.threads = 1 + number % 2});
    if (checkpoint.empty())
      training.initialize();
    else
      training.restore(Checkpoint(checkpoint));
    for (int i = 0; i < 5; ++i) {
      training.step();
      if (i == 2) training.evaluate();
    }
    checkpoint = training.save(folder_ / ("checkpoints" + std::to_string(number++)), 3);
    if (number < 4) continue;
    EXPECT_EQ(training.evaluate(), expected.evaluation);
    EXPECT_EQ(training.weights_hash(), expected.hash);
  }
  Recipe rows = own;
  set_layout(rows, in_file());
  Training last = make_training(prepare(rows), {.threads = 1});
  last.restore(Checkpoint(checkpoint));
  for (const std::string name : {"entities.weight", "optimizer.sum.entities.weight"}) {
    const int64_t bytes = kEntityCount * 20 * int64_t{sizeof(float)};
    EXPECT_EQ(state_of(last, name, bytes), state_of(whole, name, bytes)) << name;
  }
}

/// States that are set from outside, in the middle of a run.
TEST_F(EmbeddingRows, TakeOtherWeights) {
  const Recipe own = recipe("rotate");
  std::vector<float> weights(kEntityCount * 20);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 97) / 97 - 0.5F;
  std::vector<Trained> found;
  for (const std::string& layout : {std::string("p=1"), std::string("offload=rows"), in_file()}) {
    Recipe part = own;
    set_layout(part, layout);
    Training training = make_training(prepare(part), {.threads = 1});
    training.initialize();
    train_steps(training, 3);
    training.set_weights([&](const Training::SetWeight& set) { set("entities.weight", weights); });
    found.push_back(train_steps(training, 3));
  }
  expect_same(found[1], found[0]);
  expect_same(found[2], found[0]);
}

TEST_F(EmbeddingRows, ADeviceHasTheRowsOfAStep) {
  Recipe own = recipe("rotate", {"train.accumulation=1", "train.lanes=1"});
  const Preparation whole = prepare(own);
  set_layout(own, "offload=rows");
  const Preparation rows = prepare(own);
  const Executable on_device = std::move(compile_recipe(whole, {.threads = 1}).stages[0]);
  const Executable of_step = std::move(compile_recipe(rows, {.threads = 1}).stages[0]);
  const auto entities = [](const Executable& exe) {
    return std::find_if(exe.states.begin(), exe.states.end(),
                        [](const StatePlace& each) { return each.tensor.name == "entities.weight"; })
        ->tensor.type.shape;
  };
  EXPECT_EQ(entities(on_device), (Shape{kEntityCount, 20}));
  EXPECT_EQ(entities(of_step), (Shape{2 * (2 * 3 + 2 * 8), 20}));
  EXPECT_LT(of_step.planned_bytes(), on_device.planned_bytes());
  ASSERT_FALSE(rows.workload.notes.empty());
  EXPECT_THAT(
      rows.workload.notes.back(),
      HasSubstr("rows of 'entities.weight': 1500 live in RAM (234.38 KiB with the optimizer's states); a device "
                "has the 44 that a step may read, at most 6.88 KiB each way a step"));
}

TEST_F(EmbeddingRows, RefuseWhatWouldChangeBits) {
  const auto error = [&](const Settings& more, const std::string& function = "rotate") {
    return error_of([&] {
      Recipe own = recipe(function, more);
      set_layout(own, "offload=rows");
      prepare(own);
    });
  };
  EXPECT_THAT(error({"train.optimizer.kind=adam"}),
              HasSubstr("the rows of tables cannot live in streaming memory here (offload=rows)"));
  EXPECT_THAT(error({"train.optimizer.kind=adam"}), HasSubstr("optimizer adam, which changes rows without a gradient"));
  EXPECT_THAT(error({"train.optimizer.kind=sgd", "train.optimizer.momentum=0.9", "train.optimizer.weight_decay=0.1"}),
              testing::AllOf(HasSubstr("optimizer sgd"), HasSubstr("a decay of 'entities.weight'")));
  EXPECT_THAT(error({"train.weights=bf16", "train.precision=bf16"}),
              HasSubstr("train.weights and train.accumulators must be f32"));
  EXPECT_THAT(error({"model.knowledge.loss=all"}), HasSubstr("no table of which a step is known to read some rows"));
  EXPECT_THAT(error({"data.triples.negatives=200"}), HasSubstr("a step may read as many rows as the table has"));
  EXPECT_THAT(error({"model.knowledge.shards=2", "data.triples.group=8", "train.micro_batch=2"}),
              HasSubstr("without model.knowledge.shards"));
  EXPECT_EQ(error({}), "no error");
}

}  // namespace
}  // namespace ramet::tests
