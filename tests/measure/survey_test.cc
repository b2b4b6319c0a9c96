#include "ramet/measure/survey.h"

#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/kernel.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/survey_links.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

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
  EXPECT_GT(machine.device.peak(DType::kF32), 1e8);
  EXPECT_GE(machine.device.clock, 1e8);
  for (const MemoryRole role : {MemoryRole::kDevice, MemoryRole::kStreaming, MemoryRole::kDisk}) {
    ASSERT_NE(machine.memory(role), nullptr);
    EXPECT_GT(machine.memory(role)->read, 1e5);
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
  EXPECT_GT(timing.bandwidth, 1e7);
  EXPECT_GT(timing.latency, 0);
  EXPECT_LT(timing.latency, 0.5);
  EXPECT_GT(timing.barrier, 0);
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
