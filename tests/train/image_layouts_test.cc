// Every layout gives the bits of one device for networks for images, running statistics among them. scripts/layouts.py
// has the long list.

#include <gtest/gtest.h>

#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/temporary.h"
#include "support/trained.h"

namespace ramet::tests {
namespace {

using Settings = std::vector<std::string>;

Recipe recipe(const std::string& kind, Settings more, const std::string& layout) {
  Settings settings = {"model.kind=" + kind,
                       "data.height=8",
                       "data.augment.flip=0.5",
                       "data.augment.pad=1",
                       "train.precision=f32",
                       "train.micro_batch=3",
                       "train.accumulation=4",
                       "train.lanes=4",
                       "train.chunks=2",
                       "train.schedule.learning_rate=0.02",
                       "train.evaluation.batches=2",
                       "train.seed=3"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe made = parse_recipe("", "small.toml", ".", settings);
  set_layout(made, layout);
  return made;
}

Trained train(const Recipe& recipe, const Where& where = {}, int steps = 2) {
  Training trainer = make_training(prepare(recipe), where);
  trainer.initialize();
  return train_steps(trainer, steps);
}

const Settings kResNet = {"model.blocks=1,1,1,1",     "model.width=8",
                          "model.drop_path=0.3",      "data.augment.mixup=0.5",
                          "train.optimizer.kind=sgd", "train.label_smoothing=0.1"};
const Settings kVit = {"model.blocks=3",      "model.width=16",        "model.head_size=4",
                       "model.drop_path=0.3", "data.augment.cutmix=1", "train.precision=bf16"};
const Settings kUNet = {"model.blocks=2", "model.width=8"};

void expect_bits_of_one_device(const std::string& kind, const Settings& settings,
                               const std::vector<std::string>& layouts) {
  const Trained expected = train(recipe(kind, settings, ""));
  ASSERT_EQ(expected.losses.size(), 2u);
  EXPECT_NE(expected.losses[0], expected.losses[1]);
  for (const std::string& layout : layouts) {
    SCOPED_TRACE(layout);
    expect_same(train(recipe(kind, settings, layout)), expected);
  }
}

TEST(ImageLayouts, OfAResNetHaveTheBitsOfOneDevice) {
  const TemporaryFolder folder;
  expect_bits_of_one_device(
      "resnet", kResNet,
      {"p=2", "r=2", "t=2", "t=2x2", "r=4 rts=weights,grads,optimizer",
       "phases=2 offload=weights,optimizer,activations", "recompute=layer", "recompute=all",
       "p=2 t=2 r=2 rts=optimizer recompute=layer", "phases=2 offload=optimizer streaming=" + folder.path().string()});
}
TEST(ImageLayouts, OfAVitHaveTheBitsOfOneDevice) {
  expect_bits_of_one_device("vit", kVit,
                            {"p=3", "r=2 rts=grads", "t=2", "t=2x2 recompute=layer", "phases=3 offload=grads"});
}
TEST(ImageLayouts, OfAUNetHaveTheBitsOfOneDevice) {
  expect_bits_of_one_device("unet", kUNet,
                            {"p=2", "p=4", "r=2", "t=2", "phases=2 offload=activations", "recompute=layer",
                             "p=2 t=2 r=2 rts=optimizer recompute=layer"});
}

TEST(ImageLayouts, ThreadsDecideNoBit) {
  for (const auto& [kind, settings] : {std::pair("resnet", kResNet), {"unet", kUNet}})
    expect_same(train(recipe(kind, settings, ""), {.threads = 3}), train(recipe(kind, settings, ""), {.threads = 1}));
}

TEST(ImageLayouts, RunningStatisticsAreHashedSavedAndResumed) {
  const TemporaryFolder folder;
  const Recipe small = recipe("resnet", kResNet, "");
  const Trained whole = train(small, {}, 3);
  Training first = make_training(prepare(small), {});
  first.initialize();
  const std::string before = first.weights_hash();
  first.step();
  std::vector<float> mean(8);
  first.read_state("bn1.running_mean", std::as_writable_bytes(std::span(mean)));
  EXPECT_NE(mean, std::vector<float>(8, 0));
  first.step();
  const auto checkpoint = first.save(folder.path(), 1);
  Training second = make_training(prepare(recipe("resnet", kResNet, "p=2")), {});
  second.restore(Checkpoint(checkpoint));
  EXPECT_EQ(second.weights_hash(), first.weights_hash());
  EXPECT_EQ(number_of(second.step(), "loss"), whole.losses[2]);
  EXPECT_EQ(second.weights_hash(), whole.hash);

  // Weights that are the same with other statistics have another hash.
  const std::string hash = second.weights_hash();
  std::vector<float> other(8, 0.5f);
  second.set_weights([&](const auto& set) { set("bn1.running_mean", other); });
  EXPECT_NE(second.weights_hash(), hash);

  // As published weights they begin another run.
  first.export_weights(folder / "weights.safetensors");
  Recipe again = small;
  again.model.init_from = (folder / "weights.safetensors").string();
  Training third = make_training(prepare(again), {});
  third.initialize();
  EXPECT_EQ(third.weights_hash(), first.weights_hash());
}

}  // namespace
}  // namespace ramet::tests
