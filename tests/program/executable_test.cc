#include "ramet/program/executable.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

/// The tree by its definition: a range of lanes splits at the largest power of two below its length.
std::string tree(int64_t first, int64_t count) {
  if (count == 1) return std::to_string(first);
  int64_t left = 1;
  while (left * 2 < count) left *= 2;
  return "(" + tree(first, left) + "+" + tree(first + left, count - left) + ")";
}

TEST(Lanes, AreCombinedByTheTreeInFewSlots) {
  for (int64_t lanes = 1; lanes <= 70; ++lanes) {
    const auto combines = lane_combines(lanes);
    const auto slot_of = lane_slot_of(lanes);
    const int slots = lane_slots(lanes);
    int bits = 0;
    while (int64_t{1} << bits < lanes) ++bits;
    EXPECT_LE(slots, bits + 1) << lanes;
    std::vector<std::string> slot(static_cast<size_t>(slots));
    ASSERT_EQ(combines.size(), static_cast<size_t>(lanes));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      std::string& mine = slot.at(static_cast<size_t>(slot_of[static_cast<size_t>(lane)]));
      EXPECT_EQ(mine, "") << "a lane writes over a sum that waits";
      mine = std::to_string(lane);
      for (const auto& [into, from] : combines[static_cast<size_t>(lane)]) {
        slot.at(static_cast<size_t>(into)) =
            "(" + slot.at(static_cast<size_t>(into)) + "+" + slot.at(static_cast<size_t>(from)) + ")";
        slot.at(static_cast<size_t>(from)).clear();
      }
    }
    EXPECT_EQ(slot[0], tree(0, lanes));
  }
}

/// By hand: a product of a fed matrix with a weight, and the sum of its squares. Ops of the registry, for the saved
/// form.
Executable sample() {
  Executable exe;
  exe.key = hash_text("sample");
  exe.kernel_class = "none";
  exe.threads = 2;
  exe.instants = 8;
  const TensorType matrix{DType::kF32, {4, 4}}, scalar{DType::kF32, {}};
  const OpRegistry& ops = OpRegistry::instance();
  exe.calls.push_back({{&ops.get("matmul"), {matrix, matrix}, {matrix}, {{"transpose_b", true}}, "product"},
                       "plain",
                       128,
                       {128, 128, 64}});
  exe.calls.push_back({{&ops.get("sum_squares"), {matrix}, {scalar}, {}, "norm"}, "plain", 0, {32, 64, 4}});
  exe.buffers = {{"w", BufferClass::kWeights, 64, 0, 0, 7},
                 {"x", BufferClass::kHost, 64, 64, 0, 1},
                 {"y", BufferClass::kActivations, 64, 128, 1, 2},
                 {"scratch of product", BufferClass::kScratch, 128, 192, 1, 1},
                 {"norm", BufferClass::kActivations, 4, 64, 2, 3}};
  exe.states.push_back({{"w", matrix, StateKind::kWeight, {StateInit::Kind::kNormal, 0, 0.5}, "decay"},
                        {0},
                        {matrix, {}, 1, 1},
                        kNoBuffer});
  exe.states[0].tensor.external_name = "their.w";
  exe.segments.push_back(
      {"step",
       PieceKind::kForward,
       0,
       0,
       {{0, "product", {1, 0}, {2}, 3}, {1, "norm", {2}, {4}, kNoBuffer, {"encoder", 3}, NodePass::kUpdate, "w"}},
       {{"x", matrix, 1, -1, false, {matrix, {}, 1, 1}}},
       {},
       {{"norm", scalar, 4, 1, true}},
       {},
       0,
       3});
  exe.segments[0].instructions[0].origin = "mine.cc:12";
  exe.train().steps = {{ProgramStep::Kind::kRun, 0, 0, 0, 0, 0}};
  exe.arena_bytes = 320;
  exe.bound_bytes = 320;
  exe.peak_instant = 1;
  exe.placement = "size";
  return exe;
}

void expect_error(const std::function<void()>& run, const std::string& part) {
  try {
    run();
    FAIL() << "no error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Executable, IsTheSameAfterSavingAndLoading) {
  const TemporaryFolder folder;
  const Executable exe = sample();
  verify(exe, "sample");
  save_executable(exe, folder / "step.exe");
  const Executable loaded = load_executable(folder / "step.exe");
  EXPECT_EQ(executable_bytes(loaded), executable_bytes(exe));
  EXPECT_EQ(print(loaded), print(exe));
  EXPECT_NE(print(exe).find("'product' of mine.cc:12\n"), std::string::npos);
  EXPECT_EQ(loaded.segments[0].instructions[0].origin, "mine.cc:12");
  EXPECT_EQ(loaded.calls[0].node.attributes, exe.calls[0].node.attributes);
  EXPECT_EQ(loaded.states[0].tensor.group, "decay");
  EXPECT_EQ(loaded.states[0].tensor.external_name, "their.w");
  const Instruction& norm = loaded.segments[0].instructions[1];
  EXPECT_EQ(norm.part, (Part{"encoder", 3}));
  EXPECT_EQ(norm.pass, NodePass::kUpdate);
  EXPECT_EQ(norm.gradient, "w");
  EXPECT_EQ(loaded.key, exe.key);
}

TEST(Executable, RefusesWhatIsNotWhole) {
  const std::string bytes = executable_bytes(sample());
  const auto load = [](const std::string& given) { return [given] { executable_from_bytes(given, "step.exe"); }; };
  expect_error(load(""), "step.exe: not an executable of Ramet");
  expect_error(load("RAMETEXE"), "not an executable of Ramet");
  expect_error(load(bytes.substr(0, bytes.size() - 1)), "cut off or has something behind it");
  expect_error(load(bytes + "x"), "cut off or has something behind it");
  std::string other = bytes;
  other[8] = 99;
  expect_error(load(other), "of another version of Ramet; found 99");
  for (size_t at = 24; at < bytes.size(); at += 7) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 16);
    expect_error(load(flipped), "its checksum does not fit");
  }
}

/// A body with a checksum that fits, whatever is in it, as a hostile file would have.
std::string with_checksum(std::string bytes) {
  const uint32_t crc = crc32c(bytes.data() + 24, bytes.size() - 24);
  const uint64_t length = bytes.size() - 24;
  std::memcpy(bytes.data() + 12, &crc, sizeof crc);
  std::memcpy(bytes.data() + 16, &length, sizeof length);
  return bytes;
}

TEST(Executable, HostileBytesGiveErrorsAndNothingElse) {
  const std::string bytes = executable_bytes(sample());
  int refused = 0, taken = 0;
  for (size_t at = 24; at < bytes.size(); ++at)
    for (const int value : {0, 1, 127, 255}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      try {
        executable_from_bytes(with_checksum(changed), "step.exe");
        ++taken;  // a name, say: still sound
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, taken);
  for (size_t size = 24; size < bytes.size(); size += 3)
    EXPECT_THROW(executable_from_bytes(with_checksum(bytes.substr(0, size)), "step.exe"), Error);
}

TEST(Executable, VerifierFindsWhatIsUnsound) {
  const auto broken = [](const std::function<void(Executable&)>& change) {
    return [change] {
      Executable exe = sample();
      change(exe);
      verify(exe, "sample");
    };
  };
  expect_error(broken([](Executable& exe) { exe.buffers[2].offset = 64; }), "buffers 'y' and 'x' overlap");
  expect_error(broken([](Executable& exe) { exe.buffers[2].offset = 0; }), "overlap");
  expect_error(broken([](Executable& exe) { exe.arena_bytes = 256; }),
               "buffer 'scratch of product' lies outside the arena");
  expect_error(broken([](Executable& exe) { exe.buffers[0].last = 8; }), "buffer 'w' lives outside the timeline");
  expect_error(broken([](Executable& exe) { exe.buffers[4].bytes = 3; }), "'norm' does not fit into its buffer");
  expect_error(broken([](Executable& exe) { exe.segments[0].instructions[0].inputs.pop_back(); }),
               "wrong number of operands");
  expect_error(broken([](Executable& exe) { exe.segments[0].instructions[0].scratch = kNoBuffer; }),
               "lacks its scratch");
  expect_error(broken([](Executable& exe) { exe.segments[0].instructions[1].call = 2; }), "a call that does not exist");
  expect_error(broken([](Executable& exe) { exe.segments[0].results[0].buffer = 17; }), "a buffer that does not exist");
  expect_error(broken([](Executable& exe) { exe.train().steps[0].subject = 1; }),
               "a program names a segment that does not exist");
  expect_error(broken([](Executable& exe) { exe.train().steps[0].micro = 1; }),
               "a program names a micro-batch that does not exist");
  expect_error(broken([](Executable& exe) { exe.train().steps[0].slot = 1; }),
               "a program names a slot that does not exist");
  expect_error(broken([](Executable& exe) { exe.segments[0].accumulators = {0}; }),
               "segment 'step' sums into what is no accumulator");
  expect_error(broken([](Executable& exe) { exe.buffers[2].slots = 2; }),
               "buffers 'y' and 'scratch of product' overlap");
  expect_error(broken([](Executable& exe) { exe.buffers[0].slots = 2000000000; }), "buffer 'w' has an impossible size");
  expect_error(broken([](Executable& exe) {
                 exe.lanes = 4;
                 exe.states[0].tensor.kind = StateKind::kAccumulator;
               }),
               "wrong number of slots");
}

}  // namespace
}  // namespace ramet::tests
