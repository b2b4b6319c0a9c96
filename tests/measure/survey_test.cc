#include "ramet/measure/survey.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/kernel.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/survey_links.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

/// Bytes a second of a plain copy between two buffers of 64 MiB by this thread: that of the fastest MiB of three
/// rounds, so that a thread which loses its processor now and then is as good. What the survey says of memory must be
/// near it.
double copied_a_second() {
  constexpr size_t kPiece = 1 << 20, kPieces = 64;
  std::vector<char> from(kPiece * kPieces, 1), to(from.size(), 2);
  double least = 1e9;
  for (size_t i = 0; i < 3 * kPieces; ++i) {
    const size_t at = i % kPieces * kPiece;
    from[at] = static_cast<char>(i % 100 + 3);
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data() + at, from.data() + at, kPiece);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    EXPECT_EQ(to[at], from[at]);
  }
  return static_cast<double>(kPiece) / least;
}

TEST(Survey, MeasuresAMachineThatCanBeReadBack) {
  const TemporaryFolder folder;
  std::vector<double> shares;
  const SurveyOptions options{
      .threads = 1, .seconds = 0.3, .folder = folder.path(), .progress = [&](const std::string& what, double done) {
        EXPECT_FALSE(what.empty());
        shares.push_back(done);
      }};
  const Machine machine = survey_machine(cpu_backend(), options);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_GT(shares.size(), 20u);
  EXPECT_LE(shares.back(), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the streamed file is gone";
  EXPECT_EQ(machine.devices, available_processors());
  // No processor is slower or faster. In a cycle a core does up to 64 operations of f32 (two units of 16 numbers, a
  // multiplication and an addition each); twice that, as the clock and the products are timed one after the other.
  EXPECT_GE(machine.device.clock, 3e8);
  EXPECT_LE(machine.device.clock, 8e9);
  const double in_a_cycle = machine.device.peak(DType::kF32) / machine.device.clock;
  EXPECT_GE(in_a_cycle, 0.02) << "without optimisation";
  EXPECT_LE(in_a_cycle, 128);
  const double copied = copied_a_second();
  for (const MemoryRole role : {MemoryRole::kDevice, MemoryRole::kStreaming, MemoryRole::kDisk}) {
    ASSERT_NE(machine.memory(role), nullptr);
    for (const double rate : {machine.memory(role)->read, machine.memory(role)->write}) {
      EXPECT_LE(rate, 16 * copied) << "of memory " << static_cast<int>(role);
      // A disk may be anything down to one of a network.
      EXPECT_GE(rate, role == MemoryRole::kDisk ? 1e6 : copied / 64) << "of memory " << static_cast<int>(role);
    }
  }
  EXPECT_EQ(machine.links.size(), machine.devices > 1 ? 1u : 0u);
  // Every shape class of every dtype, the best of each dtype at the peak.
  for (const char* dtype : {"f32", "bf16"}) {
    double best = 0;
    for (const char* shape : {"square", "flat", "deep", "batched"}) {
      int found = 0;
      for (const Efficiency& entry : machine.device.efficiency)
        if (entry.dtype == dtype && entry.shape == shape && entry.op == "matmul") {
          ++found;
          best = std::max(best, entry.share);
        }
      EXPECT_EQ(found, 3) << dtype << " " << shape;
    }
    EXPECT_DOUBLE_EQ(best, 1);
  }
  // Every figure says that it was measured; shares and rates with their spread.
  for (size_t i = 0; i < machine.device.efficiency.size(); ++i)
    EXPECT_EQ(machine.notes.count("device.efficiency." + std::to_string(i) + ".share"), 1u) << i;
  for (const char* key : {"device.clock", "device.overhead", "memory.device.read", "memory.disk.write"})
    EXPECT_EQ(machine.notes.at(key).source.rfind("measured", 0), 0u) << key;
  const std::string printed = print_machine(machine);
  EXPECT_EQ(print_machine(parse_machine(printed, "local.toml")), printed);
}

TEST(Survey, RefusesDevicesThatAreTooWide) {
  try {
    survey_machine(cpu_backend(), {.threads = available_processors() + 1});
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("too few processors for one device; found ", 0), 0u) << text;
  }
}

TEST(Survey, LinksBetweenThreadsAreTimed) {
  const LinkTiming timing = time_threads(2, 0.05);
  // A large message is a copy in memory. A small one takes a cache line from one core to another at least, and what a
  // busy machine lets a thread wait for a processor at most.
  const double copied = copied_a_second();
  EXPECT_GE(timing.bandwidth, copied / 64);
  EXPECT_LE(timing.bandwidth, 16 * copied);
  EXPECT_GE(timing.latency, 1e-8);
  EXPECT_LE(timing.latency, 0.05);
  EXPECT_GE(timing.barrier, 1e-8);
  EXPECT_LE(timing.barrier, 0.05);
}

TEST(TimingOf, IsTheMedianWithHalfTheDistanceOfTheQuartiles) {
  const Timing timing = timing_of({5, 1, 2, 4, 3});
  EXPECT_EQ(timing.seconds, 3);
  EXPECT_DOUBLE_EQ(timing.spread, (4.0 - 2.0) / 2 / 3);
  EXPECT_EQ(timing_of({7}).seconds, 7);
  EXPECT_EQ(timing_of({7}).spread, 0);
}

TEST(ProductShapes, AreToldApart) {
  EXPECT_EQ(product_shape({.batch = 1, .m = 512, .k = 512, .n = 512}), "square");
  EXPECT_EQ(product_shape({.batch = 1, .m = 16, .k = 512, .n = 512}), "flat");
  EXPECT_EQ(product_shape({.batch = 1, .m = 512, .k = 64, .n = 32}), "flat");
  EXPECT_EQ(product_shape({.batch = 1, .m = 64, .k = 4096, .n = 64}), "deep");
  EXPECT_EQ(product_shape({.batch = 2, .m = 64, .k = 4096, .n = 64}), "batched");
}

}  // namespace
}  // namespace ramet::tests
