#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cuda/card_tools.h"
#include "ramet/device/cuda/cuda_device.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/training.h"
#include "support/temporary.h"
#include "support/test_card.h"
#include "support/trained.h"

// Whole trainings on the card have the losses, norms and weights of the class `hopper` on the host, on every layout.

namespace ramet::tests {
namespace {

using Settings = std::vector<std::string>;

Recipe recipe(const std::string& kind, const std::string& precision, const std::string& layout) {
  Settings settings = {"model.kind=" + kind,
                       "model.preset=mini",
                       "model.layers=2",
                       "model.hidden=32",
                       "model.heads=4",
                       "model.vocabulary_size=96",
                       "model.max_positions=16",
                       "data.sequence_length=16",
                       "train.precision=" + precision,
                       "train.optimizer.kind=" + std::string(kind == "bert" ? "lamb" : "adamw"),
                       "train.micro_batch=2",
                       "train.accumulation=4",
                       "train.lanes=2",
                       "train.chunks=2",
                       "train.clip_norm=0.5",
                       "train.schedule.learning_rate=0.01",
                       "train.schedule.warmup_steps=1",
                       "train.evaluation.batches=2",
                       "train.seed=5"};
  if (kind == "bert") settings.push_back("model.intermediate=64");
  Recipe made = parse_recipe("", "small.toml", ".", settings);
  set_layout(made, layout);
  return made;
}

Training training_of(const Recipe& made, const std::string& device) {
  return make_training(prepare(made), {.threads = 2, .device = device});
}

Trained train_on(const std::string& device, const std::string& kind, const std::string& precision,
                 const std::string& layout = "") {
  Training training = training_of(recipe(kind, precision, layout), device);
  training.initialize();
  return train_steps(training, 2);
}

TEST(WholeProgram, OfBertHasTheBitsOfTheHost) {
  for (const std::string precision : {"bf16", "f32"}) {
    SCOPED_TRACE(precision);
    expect_same(train_on("cuda", "bert", precision), train_on("hopper-host", "bert", precision));
  }
}

TEST(WholeProgram, OfGpt2HasTheBitsOfTheHost) {
  for (const std::string precision : {"bf16", "f32"}) {
    SCOPED_TRACE(precision);
    expect_same(train_on("cuda", "gpt2", precision), train_on("hopper-host", "gpt2", precision));
  }
}

TEST(WholeProgram, HasOneResultOnEveryLayout) {
  const Trained expected = train_on("hopper-host", "bert", "bf16");
  for (const std::string layout :
       {"t=2", "r=2 rts=optimizer", "p=2 head=first", "phases=2 offload=optimizer", "recompute=all"}) {
    SCOPED_TRACE(layout);
    expect_same(train_on("cuda", "bert", "bf16", layout), expected);
  }
}

/// To the byte, beside the place for reports of faults.
/// Recorded kernels side by side: the fake card replays them in orders that their edges allow.
TEST(WholeProgram, HasOneResultInEveryOrderOfRecordedKernels) {
  setenv("RAMET_CUDA_GRAPHS", "free", 1);
  for (const std::string kind : {"bert", "gpt2"}) {
    SCOPED_TRACE(kind);
    expect_same(train_on("cuda", kind, "bf16"), train_on("hopper-host", kind, "bf16"));
  }
  unsetenv("RAMET_CUDA_GRAPHS");
}

TEST(WholeProgram, TakesThePlannedMemory) {
  if (has_real_card()) GTEST_SKIP() << "a true driver gives whole pages, and takes memory for code";
  constexpr int64_t kFaults = 1 << 16;
  card_device();
  const int64_t before = device::available_cuda_memory();
  Training training = training_of(recipe("bert", "bf16", ""), "cuda");
  training.initialize();
  training.step();
  EXPECT_EQ(before - device::available_cuda_memory(), training.planned_bytes() + kFaults);
}

/// Saved on the card after the first step and taken up again by the card, and by the host.
TEST(WholeProgram, IsResumed) {
  const TemporaryFolder folder;
  const Recipe made = recipe("gpt2", "bf16", "");
  const Trained expected = train_on("hopper-host", "gpt2", "bf16");
  std::filesystem::path saved;
  {
    Training first = training_of(made, "cuda");
    first.initialize();
    first.step();
    saved = first.save(folder.path());
  }
  for (const std::string device : {"cuda", "hopper-host"}) {
    SCOPED_TRACE(device);
    Training second = training_of(made, device);
    second.restore(Checkpoint(saved));
    second.step();
    EXPECT_EQ(second.weights_hash(), expected.hash);
  }
}

}  // namespace
}  // namespace ramet::tests
