#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/program/executable.h"

using namespace ramet;

// Any bytes behind a header with their own checksum and length, so that mutations reach what is behind the checksum.
RAMET_FUZZ_TARGET(executable, std::string_view input) {
  const std::string whole = sealed_executable(input);
  const Executable exe = executable_from_bytes(whole, "input");
  verify(exe, "input");
  const std::string saved = executable_bytes(exe);
  if (executable_bytes(executable_from_bytes(saved, "saved")) != saved) internal_error("executable", "its bytes do not survive loading and saving");
  print(exe);
}

RAMET_FUZZ_SEEDS(executable) {
  Executable exe;
  exe.kernel_class = "none";
  exe.instants = 4;
  const TensorType vector{DType::kF32, {16}};
  exe.tasks.push_back({{&OpRegistry::instance().get("add"), {vector, vector}, {vector}, {}, "sum"}, "plain", 64, {16, 128, 64}});
  exe.buffers = {{"w", BufferClass::kWeights, 64, 0, 0, 3}, {"x", BufferClass::kHost, 64, 64, 0, 1}, {"scratch", BufferClass::kScratch, 64, 128, 1, 1}};
  exe.states.push_back({{"w", vector, StateKind::kWeight, {}, ""}, {0}, {vector, {}, 1, 1}, kNoBuffer});
  exe.segments.push_back({"step", PieceKind::kForward, 0, 0, {{0, "sum", {0, 1}, {0}, 2}}, {{"x", vector, 1}}, {}, {}, {}, 0, 2});
  exe.train = {{ProgramStep::Kind::kRun, 0, 0, 0, 0, 0}};
  exe.arena_bytes = 192;
  return {.inputs = {executable_bytes(exe).substr(24)}, .words = {"add", "matmul", "w", "step"}};
}
