#include "ramet/sim/cluster_time.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ramet/train/compile_recipe.h"

namespace ramet {
namespace {

std::vector<Executable> compiled(const std::string& layout, int accumulation) {
  const std::vector<std::string> settings = {
      "model.kind=bert",         "model.preset=tiny",   "model.layers=4",
      "data.sequence_length=32", "train.micro_batch=4", "train.accumulation=" + std::to_string(accumulation),
      "train.lanes=2",           "train.chunks=2"};
  Recipe recipe = parse_recipe("data.kind = \"synthetic\"\n", "test", ".", settings);
  recipe.layout = layout;
  return compile_recipe(prepare(recipe), {.threads = 1}).stages;
}

/// A machine of round numbers: products count, little else does.
Machine machine(double bandwidth = 1e12) {
  Machine machine;
  machine.name = machine.kernel_class = "test";
  machine.device.clock = 1e9;
  machine.device.operations_per_cycle = {{"f32", 100}, {"bf16", 200}};
  machine.device.overhead = 1e-9;
  machine.memories = {
      {.role = MemoryRole::kDevice, .bytes = 1, .read = bandwidth, .write = bandwidth, .total = bandwidth}};
  return machine;
}

TEST(ClusterTime, OfOneDeviceIsTheSumOfItsWork) {
  const auto stages = compiled("", 4);
  const ClusterTime time = predict_step(stages, machine());
  EXPECT_DOUBLE_EQ(time.seconds, predict_step_seconds(stages[0], machine()));
  EXPECT_EQ(time.bubble, 0);
}

TEST(ClusterTime, EveryStageWorksOrWaits) {
  for (const char* layout : {"p=2", "p=4 schedule=gpipe", "p=2 schedule=zero-bubble",
                             "p=2 phases=2 offload=weights,optimizer", "p=2 r=2 t=2 rts=optimizer"}) {
    SCOPED_TRACE(layout);
    const auto stages = compiled(layout, 8);
    const ClusterTime time = predict_step(stages, machine());
    double waiting = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      const StageTime& stage = time.stages[s];
      EXPECT_NEAR(stage.work.seconds, predict_step_seconds(stages[s], machine()), 1e-12);
      EXPECT_NEAR(stage.work.seconds + stage.waiting + stage.streaming, time.seconds, 1e-9 * time.seconds);
      EXPECT_GE(stage.waiting, 0);
      waiting += stage.waiting;
    }
    EXPECT_NEAR(time.bubble, waiting / (time.seconds * static_cast<double>(stages.size())), 1e-12);
  }
}

TEST(ClusterTime, MoreMicroBatchesFillThePipeline) {
  double before = 1;
  for (const int accumulation : {2, 4, 8, 16}) {
    const ClusterTime time = predict_step(compiled("p=4", accumulation), machine());
    EXPECT_LT(time.bubble, before) << accumulation;
    before = time.bubble;
  }
  EXPECT_GT(before, 0.05);
}

TEST(ClusterTime, StreamingTakesTimeOnTheDeviceOrBesideIt) {
  const auto stages = compiled("phases=2 offload=weights,grads,optimizer", 4);
  const Machine slow = machine(1e9);
  const ClusterTime resident = predict_step(compiled("", 4), slow), ram = predict_step(stages, slow),
                    files = predict_step(stages, slow, true);
  EXPECT_GT(ram.stages[0].streaming, 0);
  EXPECT_GT(ram.seconds, resident.seconds);
  EXPECT_LE(files.stages[0].streaming, ram.stages[0].streaming);
  EXPECT_EQ(ram.bubble, 0) << "one stage waits for no other";
}

}  // namespace
}  // namespace ramet
