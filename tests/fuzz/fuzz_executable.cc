#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/program/executable.h"

using namespace ramet::tests;

// Any bytes behind a header with their own checksum and length, so that mutations reach what is behind the checksum.
RAMET_FUZZ_TARGET(executable, std::string_view input) {
  const std::string whole = sealed_executable(input);
  const Executable exe = executable_from_bytes(whole, "input");
  verify(exe, "input");
  const std::string saved = executable_bytes(exe);
  if (executable_bytes(executable_from_bytes(saved, "saved")) != saved)
    internal_error("executable", "its bytes do not survive loading and saving");
  print(exe);
}

RAMET_FUZZ_SEEDS(executable) {
  Executable exe;
  exe.kernel_class = "none";
  exe.instants = 4;
  const TensorType vector{DType::kF32, {16}};
  exe.calls.push_back(
      {{&OpRegistry::instance().get("add"), {vector, vector}, {vector}, {}, "sum"}, "plain", 64, {16, 128, 64}});
  exe.buffers = {{"w", BufferClass::kWeights, 64, 0, 0, 3},
                 {"x", BufferClass::kHost, 64, 64, 0, 1},
                 {"scratch", BufferClass::kScratch, 64, 128, 1, 1}};
  exe.states.push_back({{"w", vector, StateKind::kWeight, {}, ""}, {0}, {vector, {}, 1, 1}, kNoBuffer});
  exe.segments.push_back({"step",
                          PieceKind::kForward,
                          0,
                          0,
                          {{0, "sum", {0, 1}, {0}, 2}},
                          {{"x", vector, 1, -1, false, {vector, {}, 1, 1}}},
                          {},
                          {},
                          {},
                          0,
                          2});
  exe.train().steps = {{ProgramStep::Kind::kRun, 0, 0, 0, 0, 0}};
  exe.arena_bytes = 192;
  // One of two stages, with everything that a program can have.
  Executable stage = exe;
  stage.mesh = {.p = 2, .r = 2, .t1 = 1, .t2 = 1};
  stage.states[0].sharding = {{DType::kF32, {32}}, {{0, MeshAxis::kReplica, 2, 1, 1}}, 1, 1};
  stage.buffers.push_back({"ring", BufferClass::kExchange, 64, 192, 0, 3, 2, 64});
  stage.streaming = {{"w", BufferClass::kWeights, 64, 0, 0, 3, 1, 4096}};
  stage.states[0].home = 0;
  stage.transfers = {{"ring", vector, 3, 1, 5, kNoBuffer, -1}, {"w", vector, 0, -1, 0, 0, 0}};
  stage.micro_batches_per_lane = 2;
  using Kind = ProgramStep::Kind;
  stage.train().steps = {
      {Kind::kLoad, 1, -1, 0, 0, 0},    {Kind::kReceive, 0, 1, 0, 0, 0}, {Kind::kWait, 0, -1, 0, 0, 0},
      {Kind::kWait, 1, -1, 0, 0, 0},    {Kind::kZero, 0, -1, 0, 0, 0},   {Kind::kRun, 0, 1, 0, 0, 0},
      {Kind::kCombine, 0, -1, 0, 0, 0}, {Kind::kSend, 0, 0, 0, 0, 1},    {Kind::kStore, 1, -1, 0, 0, 1}};
  stage.arena_bytes = 320;
  stage.streaming_bytes = 4096;
  verify(stage, "seed");
  return {.inputs = {executable_bytes(exe).substr(24), executable_bytes(stage).substr(24)},
          .words = {"add", "matmul", "w", "step"}};
}
