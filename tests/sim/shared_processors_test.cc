#include "ramet/sim/shared_processors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ramet/train/compile.h"
#include "ramet/recipe/prepare.h"

namespace ramet::tests {
namespace {

std::vector<Executable> compiled(const std::string& layout) {
  const std::vector<std::string> settings = {"model.kind=bert",         "model.preset=tiny",   "model.layers=4",
                                             "data.sequence_length=32", "train.micro_batch=4", "train.accumulation=8",
                                             "train.lanes=4",           "train.chunks=4"};
  Recipe recipe = parse_recipe("data.kind = \"synthetic\"\n", "test", ".", settings);
  recipe.layout = layout;
  return compile_recipe(prepare(recipe), {.threads = 1}).stages;
}

Machine machine(int devices, int processors) {
  Machine machine;
  machine.name = machine.kernel_class = "test";
  machine.devices = devices;
  machine.processors = processors;
  machine.device.clock = 1e9;
  machine.device.operations_per_cycle = {{"f32", 100}};
  machine.memories = {{.role = MemoryRole::kDevice, .bytes = 1, .read = 1e12, .write = 1e12, .total = 1e12}};
  if (devices > 1)
    machine.links = {
        {.name = "memory", .topology = Topology::kHostGateway, .group = devices, .bandwidth = 1e12, .latency = 0}};
  return machine;
}

TEST(SharedProcessors, ChangeNothingWhereThereAreEnough) {
  const auto stages = compiled("r=4");
  const Machine four = machine(4, 4);
  EXPECT_EQ(simulate_sharing(stages, four).seconds, simulate(stages, four).seconds);
}

TEST(SharedProcessors, DoTheWorkOfAllDevices) {
  const auto stages = compiled("r=4");
  const double own = simulate(stages, machine(4, 4)).seconds;
  const Simulation two = simulate_sharing(stages, machine(2, 2)), one = simulate_sharing(stages, machine(1, 1));
  EXPECT_NEAR(two.seconds / own, 2, 0.05) << "four replicas at work all the time, on half the processors";
  EXPECT_NEAR(one.seconds / own, 4, 0.1) << "and what moves over the one memory";
  EXPECT_EQ(two.devices, 4);
}

TEST(SharedProcessors, FillEachOthersBubbles) {
  const auto stages = compiled("p=4");
  const Simulation own = simulate(stages, machine(4, 4)), two = simulate_sharing(stages, machine(2, 2));
  double work = 0;
  for (const StageTime& stage : own.stages) work += stage.work.seconds;
  EXPECT_GT(own.bubble, 0.1);
  EXPECT_GE(two.seconds, std::max(own.seconds, work / 2) * (1 - 1e-9));
  EXPECT_LT(two.seconds, 1.6 * own.seconds) << "without bubbles that others fill, twice the time";
}

/// Nobody else has a processor while a device copies its part.
TEST(SharedProcessors, DoCollectivesAsWork) {
  const auto stages = compiled("t=4");
  Machine many = machine(4, 4);
  many.links[0].bandwidth = 1e9;
  Machine one = many;
  one.processors = 1;
  const Simulation own = simulate(stages, many), shared = simulate_sharing(stages, one);
  const StageTime& stage = own.stages[0];
  EXPECT_GT(stage.exchanging, 0.1 * stage.work.seconds);
  EXPECT_NEAR(shared.seconds / (4 * (stage.work.seconds + stage.exchanging)), 1, 0.01);
  EXPECT_NEAR(shared.stages[0].exchanging / stage.exchanging, 1, 0.01);
}

/// The second device of a message copies it, whoever waits for it.
TEST(SharedProcessors, CopyMessagesAsWork) {
  const auto stages = compiled("p=4");
  Machine quick = machine(4, 4);
  quick.processors = 1;
  Machine slow = quick;
  slow.links[0].bandwidth = 1e8;
  const Simulation own = simulate_sharing(stages, quick), shared = simulate_sharing(stages, slow);
  double work = 0, exchanging = 0;
  for (const StageTime& stage : shared.stages) work += stage.work.seconds, exchanging += stage.exchanging;
  EXPECT_GT(exchanging, 0.1 * work);
  EXPECT_NEAR(shared.seconds / (work + exchanging), 1, 0.01);
  EXPECT_GT(shared.seconds, own.seconds + 0.9 * exchanging);
}

TEST(SharedProcessors, KeepADevicesTimeWhole) {
  for (const char* layout : {"p=4", "t=4"}) {
    const auto stages = compiled(layout);
    const Simulation two = simulate_sharing(stages, machine(2, 2), {.timelines = true});
    for (const DeviceTimeline& timeline : two.timelines) {
      double at = 0;
      for (const Span& span : timeline.work) {
        EXPECT_NEAR(span.begin, at, 1e-12) << layout;
        at = span.end;
      }
      EXPECT_NEAR(at, two.seconds, 1e-12) << layout;
    }
  }
}

TEST(SharedProcessors, WaitForTheLastOfACollective) {
  const auto stages = compiled("t=4");
  Machine steady = machine(4, 4), unsteady = steady;
  unsteady.device.jitter = 1e-3;
  const Simulation before = simulate(stages, steady), after = simulate(stages, unsteady);
  EXPECT_GT(after.seconds, before.seconds);
  EXPECT_GT(after.stages[0].waiting, before.stages[0].waiting);
  EXPECT_NEAR(after.stages[0].exchanging, before.stages[0].exchanging, 1e-12);
}

}  // namespace
}  // namespace ramet::tests
