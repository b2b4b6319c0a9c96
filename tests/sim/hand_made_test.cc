#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/sim/simulate.h"
#include "sim/hand_made.h"
#include "support/fault.h"

namespace ramet::tests {
namespace {

using hand::machine_of;
using hand::Program;

const ChannelTraffic& channel(const Simulation& simulation, const std::string& name) {
  for (const ChannelTraffic& channel : simulation.channels)
    if (channel.name == name) return channel;
  throw std::out_of_range(name);
}

TEST(HandMade, TwoStagesAndAMessage) {
  Machine machine = machine_of(2);
  const Mesh mesh{.p = 2};
  Program first(mesh, 0), second(mesh, 1);
  first.work(machine, 1);
  first.wait(first.send(1, 500'000'000));  // half a second
  first.work(machine, 1);
  const int32_t came = second.receive(0, 500'000'000);
  second.work(machine, 0.25);
  second.wait(came);
  second.work(machine, 2);
  const Executable stages[] = {first.exe, second.exe};
  const Simulation time = simulate(stages, machine, {.timelines = true});
  // Stage 0: work to 1, wait to 1.5, work to 2.5, and waits for the end at 3.5. Stage 1: work to 0.25, wait to 1.5.
  EXPECT_DOUBLE_EQ(time.seconds, 3.5);
  EXPECT_DOUBLE_EQ(time.stages[0].waiting, 1.5);
  EXPECT_DOUBLE_EQ(time.stages[1].waiting, 1.25);
  EXPECT_DOUBLE_EQ(time.bubble, 2.75 / 7);
  EXPECT_DOUBLE_EQ(channel(time, "links").bytes, 5e8);
  ASSERT_EQ(time.timelines.size(), 2u);
  const auto& work = time.timelines[0].work;
  ASSERT_EQ(work.size(), 4u);
  EXPECT_DOUBLE_EQ(work[1].begin, 1);
  EXPECT_DOUBLE_EQ(work[1].end, 1.5);
  EXPECT_EQ(work[1].activity, Activity::kWait);
  EXPECT_EQ(time.labels[static_cast<size_t>(work[1].label)], "message");
  EXPECT_EQ(time.labels[static_cast<size_t>(work[0].label)], "layer0/work");
  const auto& messages = time.timelines[1].messages;
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_DOUBLE_EQ(messages[0].begin, 1);
  EXPECT_DOUBLE_EQ(messages[0].end, 1.5);
  EXPECT_EQ(time.labels[static_cast<size_t>(messages[0].label)], "receive message");
  const auto& rates = channel(time, "links").rates;
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_DOUBLE_EQ(rates[0].at, 1);
  EXPECT_DOUBLE_EQ(rates[0].rate, 1e9);
  EXPECT_DOUBLE_EQ(rates[1].at, 1.5);
  EXPECT_DOUBLE_EQ(rates[1].rate, 0);
}

TEST(HandMade, AMessageBeginsWhenBothSidesHaveComeAndMovesBesideWork) {
  Machine machine = machine_of(2);
  const Mesh mesh{.p = 2};
  Program first(mesh, 0), second(mesh, 1);
  const int32_t sent = first.send(1, 1'000'000'000);
  first.work(machine, 5);
  first.wait(sent);
  second.work(machine, 2);
  second.wait(second.receive(0, 1'000'000'000));
  const Executable stages[] = {first.exe, second.exe};
  const Simulation time = simulate(stages, machine);
  EXPECT_DOUBLE_EQ(time.seconds, 5) << "the message is there at 3, while stage 0 works";
  EXPECT_DOUBLE_EQ(time.stages[0].waiting, 0);
  EXPECT_DOUBLE_EQ(time.stages[1].waiting, 3) << "one for the message, two for the end";
}

TEST(HandMade, TwoMessagesOnOneLinkShareIt) {
  // Devices 0 and 1 of a line of four are stage 0; what they send to stage 1, devices 2 and 3, passes the link 1>2.
  Machine machine = machine_of(4, Topology::kLadder);
  const Mesh mesh{.p = 2, .r = 2};
  Program first(mesh, 0), second(mesh, 1);
  first.wait(first.send(1, 1'000'000'000));
  second.wait(second.receive(0, 1'000'000'000));
  const Executable stages[] = {first.exe, second.exe};
  for (const bool fold : {true, false}) {
    SCOPED_TRACE(fold);
    const Simulation time = simulate(stages, machine, {.fold = fold});
    EXPECT_DOUBLE_EQ(time.seconds, 2);
    const ChannelTraffic& links = channel(time, "links");
    EXPECT_DOUBLE_EQ(links.bytes, 4e9) << "two links each";
    EXPECT_DOUBLE_EQ(links.busiest, 2e9);
  }
  // Where every two devices have a link, nobody waits for anybody.
  machine = machine_of(4);
  EXPECT_DOUBLE_EQ(simulate(stages, machine).seconds, 1);
}

TEST(HandMade, MessagesAtDifferentTimesShareALinkWhileTheyMeet) {
  // The same line, but replicas differ: no, they cannot; so two tags of one replica, half a second apart.
  Machine machine = machine_of(2);
  const Mesh mesh{.p = 2};
  Program first(mesh, 0), second(mesh, 1);
  const int32_t one = first.send(1, 1'000'000'000, 1);
  first.work(machine, 0.5);
  const int32_t two = first.send(1, 1'000'000'000, 2);
  first.wait(one).wait(two);
  const int32_t a = second.receive(0, 1'000'000'000, 1), b = second.receive(0, 1'000'000'000, 2);
  second.wait(a);
  second.work(machine, 1);
  second.wait(b);
  const Executable stages[] = {first.exe, second.exe};
  const Simulation time = simulate(stages, machine, {.timelines = true});
  // Half of the first is there at 0.5, the rest a second later; then the second has half of its own left.
  EXPECT_DOUBLE_EQ(time.timelines[1].messages[0].end, 1.5);
  EXPECT_DOUBLE_EQ(time.timelines[1].messages[1].end, 2);
  EXPECT_DOUBLE_EQ(time.seconds, 2.5) << "stage 1 works from 1.5 on";
}

TEST(HandMade, ACollectiveBeginsWithItsLastMember) {
  // Two stages that sum 1 GB: both send half of it to each other and back, a second on a link of their own each way.
  Machine machine = machine_of(2);
  const Mesh mesh{.p = 2};
  Program first(mesh, 0), second(mesh, 1);
  first.begin(PieceKind::kUpdate).add_work(machine, 1).add_reduce(MeshAxis::kStage, 2, 1'000'000'000);
  second.begin(PieceKind::kUpdate).add_work(machine, 3).add_reduce(MeshAxis::kStage, 2, 1'000'000'000);
  const Executable stages[] = {first.exe, second.exe};
  const Simulation time = simulate(stages, machine, {.timelines = true});
  EXPECT_DOUBLE_EQ(time.seconds, 4);
  EXPECT_DOUBLE_EQ(time.stages[0].waiting, 2);
  EXPECT_DOUBLE_EQ(time.stages[0].exchanging, 1);
  EXPECT_DOUBLE_EQ(time.stages[1].waiting, 0);
  EXPECT_DOUBLE_EQ(time.stages[1].exchanging, 1);
  EXPECT_DOUBLE_EQ(time.bubble, 2.0 / 8);
  const auto& work = time.timelines[0].work;
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(work[1].activity, Activity::kWait);
  EXPECT_EQ(work[2].activity, Activity::kExchange);
  EXPECT_DOUBLE_EQ(channel(time, "links").bytes, 2e9);
}

TEST(HandMade, DevicesAgreeBeforeTheFirstUpdate) {
  Machine machine = machine_of(2);
  const Mesh mesh{.p = 2};
  Program first(mesh, 0), second(mesh, 1);
  first.begin(PieceKind::kUpdate).add_work(machine, 1);
  second.work(machine, 3).begin(PieceKind::kUpdate).add_work(machine, 1);
  const Executable stages[] = {first.exe, second.exe};
  const Simulation time = simulate(stages, machine);
  EXPECT_DOUBLE_EQ(time.seconds, 4);
  EXPECT_DOUBLE_EQ(time.stages[0].waiting, 3);
}

Machine with_streaming(double read, double write, double total, int devices) {
  Machine machine = machine_of(devices);
  machine.memories.push_back({.role = MemoryRole::kStreaming,
                              .bytes = 1 << 30,
                              .read = read,
                              .write = write,
                              .total = total,
                              .devices = devices});
  return machine;
}

TEST(HandMade, StreamingGoesOnBesideWork) {
  Machine machine = with_streaming(1e9, 5e8, 0, 1);
  Program program({}, 0);
  const int32_t load = program.load(1'000'000'000), store = program.store(1'000'000'000);
  program.work(machine, 0.75).wait(load).work(machine, 0.25).wait(store);
  const Executable stages[] = {program.exe};
  const Simulation time = simulate(stages, machine, {.timelines = true});
  // The load is there at 1, the store at 2, both ways at once.
  EXPECT_DOUBLE_EQ(time.seconds, 2);
  EXPECT_DOUBLE_EQ(time.stages[0].streaming, 0.25 + 0.75);
  EXPECT_EQ(time.bubble, 0);
  EXPECT_DOUBLE_EQ(channel(time, "streaming memory, read").bytes, 1e9);
  ASSERT_EQ(time.timelines[0].streams.size(), 2u);
  EXPECT_DOUBLE_EQ(time.timelines[0].streams[0].end, 1);
  EXPECT_DOUBLE_EQ(time.timelines[0].streams[1].end, 2);
}

TEST(HandMade, OneLoadFollowsTheOtherAndTheStepEndsWithTheLastStore) {
  Machine machine = with_streaming(1e9, 1e9, 0, 1);
  Program program({}, 0);
  program.load(500'000'000);
  const int32_t second = program.load(250'000'000);
  program.wait(second);
  program.store(1'000'000'000);
  const Executable stages[] = {program.exe};
  EXPECT_DOUBLE_EQ(simulate(stages, machine).seconds, 1.75) << "the store is still a part of the step";
}

TEST(HandMade, DevicesShareStreamingMemory) {
  // Each could have 1 GB/s alone; together they have that much.
  Machine machine = with_streaming(1e9, 1e9, 1e9, 2);
  const Mesh mesh{.r = 2};
  Program program(mesh, 0);
  program.wait(program.load(1'000'000'000));
  const Executable stages[] = {program.exe};
  for (const bool fold : {true, false}) EXPECT_DOUBLE_EQ(simulate(stages, machine, {.fold = fold}).seconds, 2);
}

TEST(HandMade, ThreadsOfOneMachineCopyWhatStreamsThemselves) {
  Machine machine = machine_of(1);
  machine.processors = 1;
  machine.memories[0].total = 2e9;
  Program program({}, 0);
  const int32_t load = program.load(1'000'000'000);
  program.work(machine, 2).wait(load);
  const Executable stages[] = {program.exe};
  EXPECT_DOUBLE_EQ(simulate(stages, machine).seconds, 3) << "a gigabyte read and written at 2 GB/s, then the work";
  EXPECT_DOUBLE_EQ(simulate(stages, machine, {.streams_to_files = true}).seconds, 2) << "files move beside the work";
}

TEST(HandMade, EfficiencyCountsProductsAtTheirPeak) {
  Machine machine = machine_of(1);  // 1 Tflop/s in f32
  Program program({}, 0);
  program.begin(PieceKind::kForward);
  const TensorType matrix{DType::kF32, {1000, 1000}};
  Call call;
  call.node = {&OpRegistry::instance().get("matmul"), {matrix, matrix}, {matrix}, {}, "product"};
  call.kernel = "by hand";
  machine.measured_calls[timing_key(call.node, call.kernel)] = 4e-3;  // 2 ms at the peak
  Instruction instruction;
  instruction.call = 0;
  instruction.name = "product";
  program.exe.calls.push_back(call);
  program.exe.segments.back().instructions.push_back(instruction);
  const Executable stages[] = {program.exe};
  EXPECT_NEAR(simulate(stages, machine).share_of_peak, 0.5, 1e-12);
}

TEST(HandMade, WhatAMachineLacksIsNamed) {
  Machine machine = machine_of(2);
  Program many(Mesh{.r = 4}, 0);
  many.work(machine, 1);
  const std::string devices = fault_of([&] { simulate(std::span(&many.exe, 1), machine); });
  EXPECT_NE(devices.find("the layout needs more devices than the machine has"), std::string::npos) << devices;
  EXPECT_NE(devices.find("found 4 devices (p=1 r=4 t1=1 t2=1)"), std::string::npos) << devices;
  EXPECT_NE(devices.find("expected at most 2"), std::string::npos) << devices;
  Program streams({}, 0);
  streams.wait(streams.load(4000));
  const std::string memory = fault_of([&] { simulate(std::span(&streams.exe, 1), machine); });
  EXPECT_NE(
      memory.find("machine by hand, memory.streaming: the layout streams, but the machine has no streaming memory"),
      std::string::npos)
      << memory;
  EXPECT_NE(memory.find("'state' of stage 0 streams"), std::string::npos) << memory;
  EXPECT_NE(memory.find("Give the machine a table [memory.streaming]"), std::string::npos) << memory;
  const std::string disk = fault_of([&] { simulate(std::span(&streams.exe, 1), machine, {.streams_to_files = true}); });
  EXPECT_NE(disk.find("memory.disk: the layout streams, but the machine has no disk"), std::string::npos) << disk;
}

TEST(HandMade, AnOpWithoutACostIsNamed) {
  OpDef op;
  op.name = "riddle";
  Program program({}, 0);
  program.begin(PieceKind::kForward);
  const TensorType type{DType::kF32, {4}};
  Call call;
  call.node = {&op, {type}, {type}, {}, "layer0/riddle"};
  program.exe.calls.push_back(call);
  Instruction instruction;
  instruction.call = 0;
  program.exe.segments.back().instructions.push_back(instruction);
  Machine machine = machine_of(1);
  const std::string fault = fault_of([&] { simulate(std::span(&program.exe, 1), machine); });
  EXPECT_NE(fault.find("riddle 'layer0/riddle' (f32[4]): nobody knows what this op costs; expected a cost in the table "
                       "of ops, or a measured time in the machine's file"),
            std::string::npos)
      << fault;
  machine.measured_calls[timing_key(call.node, "")] = 2;
  EXPECT_DOUBLE_EQ(simulate(std::span(&program.exe, 1), machine).seconds, 2);
}

TEST(HandMade, ProgramsThatWaitForEverAreAFault) {
  Machine machine = machine_of(2);
  const Mesh mesh{.p = 2};
  Program first(mesh, 0), second(mesh, 1);
  first.wait(first.receive(1, 4000));
  second.work(machine, 1);
  const Executable stages[] = {first.exe, second.exe};
  const std::string fault = fault_of([&] { simulate(stages, machine); });
  EXPECT_NE(fault.find("devices wait for each other for ever"), std::string::npos) << fault;
}

}  // namespace
}  // namespace ramet::tests
