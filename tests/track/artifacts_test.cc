#include "ramet/track/artifacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/png.h"
#include "ramet/track/system_metrics.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Artifacts, AreKeptOnceByTheirContents) {
  const TemporaryFolder run;
  write_file_atomic(run / "mine.bin", std::string(3'000'000, 'm'));
  {
    RunLogWriter log(run / "log.ramet");
    ArtifactWriter artifacts(run.path(), log);
    for (int64_t step = 0; step < 3; ++step)
      EXPECT_TRUE(artifacts.offer({.kind = "text", .name = "t", .type = "text/plain", .caption = "c", .step = step}, 5,
                                  [] { return std::string("hello"); }));
    EXPECT_TRUE(
        artifacts.offer_file({.kind = "file", .name = "f", .type = "x/y", .caption = "", .step = 1}, run / "mine.bin"));
    EXPECT_TRUE(artifacts.flush());
    EXPECT_TRUE(
        artifacts.offer_file({.kind = "file", .name = "g", .type = "x/y", .caption = "", .step = 1}, run / "absent"));
    EXPECT_FALSE(artifacts.flush() && artifacts.dropped() == 0);
    EXPECT_THAT(artifacts.problem(), HasSubstr("absent"));
  }
  const RunLog log = read_run_log(run / "log.ramet");
  ASSERT_EQ(log.events.size(), 4u);
  const json event = json::parse(log.events[2]);
  EXPECT_EQ(event["event"], "logged");
  EXPECT_EQ(event["step"], 2);
  EXPECT_EQ(event["bytes"], 5);
  EXPECT_EQ(event["artifact"], hash_text("hello").hex());
  EXPECT_EQ(read_file(run / "artifacts" / hash_text("hello").hex()), "hello");
  EXPECT_EQ(read_file(run / "artifacts" / json::parse(log.events[3])["artifact"].get<std::string>()),
            read_file(run / "mine.bin"));
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(run / "artifacts")) ++files;
  EXPECT_EQ(files, 2u);
}

TEST(Artifacts, TooManyAreDroppedAndCounted) {
  const TemporaryFolder run;
  RunLogWriter log(run / "log.ramet");
  ArtifactWriter artifacts(run.path(), log);
  int taken = 0;
  for (int i = 0; i < 10; ++i)
    taken += artifacts.offer({.kind = "text", .name = "t", .type = "text/plain", .caption = ""}, 100 << 20, [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return std::string("x");
    });
  EXPECT_LT(taken, 10);
  EXPECT_EQ(artifacts.dropped(), 10 - taken);
}

uint32_t big(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

TEST(Png, HoldsThePixels) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 7 * 5 * 3; ++i) pixels.push_back(static_cast<uint8_t>(i * 37));
  const std::string file = encode_png(7, 5, 3, pixels);
  ASSERT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(big(file, 16), 7u);
  EXPECT_EQ(big(file, 20), 5u);
  EXPECT_EQ(file[25], 2);  // RGB
  const size_t length = big(file, 33);
  ASSERT_EQ(file.substr(37, 4), "IDAT");
  EXPECT_EQ(big(file, 41 + length),
            ::crc32(0, reinterpret_cast<const Bytef*>(file.data() + 37), static_cast<uInt>(length + 4)));
  std::vector<uint8_t> plain(5 * 22);
  uLongf size = plain.size();
  ASSERT_EQ(::uncompress(plain.data(), &size, reinterpret_cast<const Bytef*>(file.data() + 41), length), Z_OK);
  ASSERT_EQ(size, plain.size());
  for (size_t y = 0; y < 5; ++y)
    for (size_t x = 0; x < 21; ++x) {
      const uint8_t above = y == 0 ? 0 : pixels[(y - 1) * 21 + x];
      EXPECT_EQ(static_cast<uint8_t>(plain[y * 22 + 1 + x] + (plain[y * 22] == 2 ? above : 0)), pixels[y * 21 + x]);
    }
  EXPECT_THAT(error_of([&] { (void)encode_png(7, 5, 4, pixels); }), HasSubstr("not the pixels of an image"));
  EXPECT_THAT(error_of([&] { (void)encode_png(-1, 5, 3, pixels); }), HasSubstr("not the pixels of an image"));
}

TEST(SystemMetrics, AreSampledIntoALogOfTheirOwn) {
  const TemporaryFolder run;
  for (int part = 0; part < 2; ++part) {
    const SystemSampler sampler(run.path(), 3, 0.02);
    EXPECT_EQ(sampler.problem(), "");
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
  const RunLog log = read_run_log(run.path() / "system" / system_log_name(3));
  EXPECT_THAT(log.names(), Contains("memory_bytes"));
  EXPECT_THAT(log.names(), Contains("process_memory_bytes"));
  EXPECT_THAT(log.names(), Contains("cpu_percent"));
  EXPECT_THAT(log.names(), Contains("disk_free_bytes"));
  ASSERT_GE(log.steps.size(), 2u);
  // The second process went on counting.
  int64_t expected = 0;
  for (const auto& [step, entries] : log.steps) EXPECT_EQ(step, expected++);
  for (const auto& [step, value] : log.series("cpu_percent")) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 100);
  }
  const SystemSampler off(run.path(), 4, 0), nowhere("/proc/nowhere", 0, 1);
  EXPECT_FALSE(std::filesystem::exists(run.path() / "system" / system_log_name(4)));
  EXPECT_NE(nowhere.problem(), "");
}

}  // namespace
}  // namespace ramet::tests
