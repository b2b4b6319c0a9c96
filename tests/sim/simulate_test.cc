#include "ramet/sim/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ramet/train/compile.h"
#include "ramet/recipe/prepare.h"
#include "support/fault.h"

namespace ramet::tests {
namespace {

Recipe recipe_of(int accumulation) {
  const std::vector<std::string> settings = {
      "model.kind=bert",         "model.preset=tiny",   "model.layers=4",
      "data.sequence_length=32", "train.micro_batch=4", "train.accumulation=" + std::to_string(accumulation),
      "train.lanes=2",           "train.chunks=2"};
  return parse_recipe("data.kind = \"synthetic\"\n", "test", ".", settings);
}

std::vector<Executable> compiled(const std::string& layout, Recipe recipe) {
  recipe.layout = layout;
  return compile_recipe(prepare(recipe), {.threads = 1}).stages;
}
std::vector<Executable> compiled(const std::string& layout, int accumulation) {
  return compiled(layout, recipe_of(accumulation));
}

/// A machine of round numbers: products count, little else does. Links join pairs, pairs of pairs in a line.
Machine machine(double bandwidth = 1e12) {
  Machine machine;
  machine.name = machine.kernel_class = "test";
  machine.devices = 8;
  machine.processors = 8;
  machine.device.clock = 1e9;
  machine.device.operations_per_cycle = {{"f32", 100}, {"bf16", 200}};
  machine.device.overhead = 1e-9;
  machine.memories = {
      {.role = MemoryRole::kDevice, .bytes = 1, .read = bandwidth, .write = bandwidth, .total = bandwidth}};
  machine.links = {
      {.name = "pairs", .topology = Topology::kAllToAll, .group = 2, .bandwidth = bandwidth / 2, .latency = 1e-7},
      {.name = "line", .topology = Topology::kLadder, .group = 4, .bandwidth = bandwidth / 8, .latency = 1e-6}};
  return machine;
}

TEST(Simulate, OneDeviceTakesTheSumOfItsWork) {
  const auto stages = compiled("", 4);
  const Simulation time = simulate(stages, machine());
  EXPECT_NEAR(time.seconds, predict_step_seconds(stages[0], machine()), 1e-12);
  EXPECT_EQ(time.bubble, 0);
  EXPECT_GT(time.share_of_peak, 0);
  EXPECT_LT(time.share_of_peak, 1);
}

TEST(Simulate, WhatIsStreamedMustFit) {
  const auto stages = compiled("p=2 phases=2 offload=weights,optimizer", 8);
  const int64_t most = std::max(stages[0].streaming_bytes, stages[1].streaming_bytes);
  Machine with = machine();
  with.memories.push_back({.role = MemoryRole::kStreaming, .bytes = 2 * most, .read = 1e9, .write = 1e9});
  with.memories.back().devices = 4;  // share it, of which two are used
  EXPECT_EQ(lack_of_streaming(stages, with, false), "");
  EXPECT_GT(simulate(stages, with).seconds, 0);
  with.memories.back().bytes -= 2;
  EXPECT_NE(lack_of_streaming(stages, with, false), "");
  const std::string fault = fault_of([&] { simulate(stages, with); });
  EXPECT_NE(fault.find("what is streamed does not fit into streaming memory"), std::string::npos) << fault;
}

TEST(Simulate, EveryDeviceWorksExchangesOrWaits) {
  for (const char* layout : {"p=2", "p=4 schedule=gpipe", "p=2 schedule=zero-bubble",
                             "p=2 phases=2 offload=weights,optimizer", "p=2 r=2 t=2 rts=optimizer"}) {
    SCOPED_TRACE(layout);
    const auto stages = compiled(layout, 8);
    const Simulation time = simulate(stages, machine(), {.timelines = true});
    double waiting = 0;
    for (const StageTime& stage : time.stages) {
      EXPECT_NEAR(stage.work.seconds + stage.exchanging + stage.waiting + stage.streaming, time.seconds,
                  1e-9 * time.seconds);
      EXPECT_GE(stage.waiting, 0);
      waiting += stage.waiting;
    }
    EXPECT_NEAR(time.bubble, waiting / (time.seconds * static_cast<double>(stages.size())), 1e-12);
    // Spans lie end to end.
    for (const DeviceTimeline& device : time.timelines) {
      double at = 0;
      for (const Span& span : device.work) {
        EXPECT_NEAR(span.begin, at, 1e-12);
        EXPECT_GT(span.end, span.begin);
        EXPECT_GE(span.label, 0);
        at = span.end;
      }
      EXPECT_NEAR(at, time.seconds, 1e-12);
      EXPECT_FALSE(device.runs.empty());
    }
  }
}

TEST(Simulate, MoreMicroBatchesFillThePipeline) {
  double before = 1;
  for (const int accumulation : {2, 4, 8, 16}) {
    const Simulation time = simulate(compiled("p=4", accumulation), machine());
    EXPECT_LT(time.bubble, before) << accumulation;
    before = time.bubble;
  }
  EXPECT_GT(before, 0.05);
}

TEST(Simulate, StreamingTakesTimeOnTheDeviceOrBesideIt) {
  const auto stages = compiled("phases=2 offload=weights,grads,optimizer", 4);
  const Machine slow = machine(1e9);
  const Simulation resident = simulate(compiled("", 4), slow), ram = simulate(stages, slow),
                   files = simulate(stages, slow, {.streams_to_files = true});
  EXPECT_GT(ram.stages[0].streaming, 0);
  EXPECT_GT(ram.seconds, resident.seconds);
  EXPECT_LE(files.stages[0].streaming, ram.stages[0].streaming);
  EXPECT_EQ(ram.bubble, 0) << "one stage waits for no other";
}

TEST(Simulate, DevicesTakenTogetherGiveTheTimesOfEach) {
  // Sums over replicas go along a line whose ends are not like its middle, messages of stages cross them.
  for (const char* layout : {"r=8", "p=2 r=4", "p=2 r=2 t=2 rts=optimizer", "p=4 r=2 schedule=gpipe", "p=2 t=2x1 r=2",
                             "t=2x2 r=2 rts=weights,optimizer", "p=2 r=4 phases=2 offload=weights,optimizer"}) {
    Recipe recipe = recipe_of(8);
    recipe.train.lanes = 8;
    const auto stages = compiled(layout, std::move(recipe));
    for (const Topology topology : {Topology::kLadder, Topology::kRing, Topology::kFatTree, Topology::kHostGateway}) {
      SCOPED_TRACE(std::string(layout) + ", " + name_of(topology));
      Machine slow = machine(1e9);
      slow.links[1].topology = topology;
      slow.processors = 0;
      slow.memories.push_back({.role = MemoryRole::kStreaming,
                               .bytes = int64_t{1} << 40,
                               .read = 1e9,
                               .write = 1e9,
                               .total = 3e9,
                               .devices = 4});
      const Simulation together = simulate(stages, slow), apart = simulate(stages, slow, {.fold = false});
      EXPECT_NEAR(together.seconds, apart.seconds, 1e-9 * apart.seconds);
      EXPECT_NEAR(together.bubble, apart.bubble, 1e-9);
      ASSERT_EQ(together.channels.size(), apart.channels.size());
      for (size_t i = 0; i < apart.channels.size(); ++i) {
        EXPECT_NEAR(together.channels[i].bytes, apart.channels[i].bytes, 1e-6 * apart.channels[i].bytes);
        EXPECT_NEAR(together.channels[i].busiest, apart.channels[i].busiest, 1e-6 * apart.channels[i].busiest);
      }
      EXPECT_LE(together.timelines.size(), apart.timelines.size());
      EXPECT_EQ(apart.timelines.size(), 8u);
      for (size_t s = 0; s < stages.size(); ++s) {
        EXPECT_NEAR(together.stages[s].waiting, apart.stages[s].waiting, 1e-9 * apart.seconds);
        EXPECT_NEAR(together.stages[s].exchanging, apart.stages[s].exchanging, 1e-9 * apart.seconds);
      }
    }
  }
}

TEST(Simulate, DevicesOfAStageThatAreAlikeAreOne) {
  Machine even = machine(1e9);
  even.links = {{.name = "switch", .topology = Topology::kFatTree, .group = 8, .bandwidth = 1e9, .latency = 1e-6}};
  const Simulation time = simulate(compiled("p=2 r=2 t=2", 8), even);
  ASSERT_EQ(time.timelines.size(), 2u);
  EXPECT_EQ(time.timelines[0].devices, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(time.timelines[1].stage, 1);
}

TEST(Simulate, TheSameEveryTime) {
  const auto stages = compiled("p=2 r=2 t=2", 8);
  const Simulation a = simulate(stages, machine(1e9), {.timelines = true}),
                   b = simulate(stages, machine(1e9), {.timelines = true});
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.labels, b.labels);
  for (size_t c = 0; c < a.timelines.size(); ++c) {
    ASSERT_EQ(a.timelines[c].work.size(), b.timelines[c].work.size());
    for (size_t i = 0; i < a.timelines[c].work.size(); ++i) {
      EXPECT_EQ(a.timelines[c].work[i].begin, b.timelines[c].work[i].begin);
      EXPECT_EQ(a.timelines[c].work[i].label, b.timelines[c].work[i].label);
    }
  }
}

}  // namespace
}  // namespace ramet::tests
