#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ramet/base/file.h"
#include "ramet/track/run_log.h"
#include "support/temporary.h"
#include "track/made_run.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// Everything that a log tells, as text.
class Teller final : public RunLogVisitor {
 public:
  std::string told;
  void on_names(uint32_t id, const std::vector<std::string>& names) override { names_[id] = names; }
  void on_metrics(uint32_t id, int64_t step, double, std::span<const double> values) override {
    told += "m" + std::to_string(step);
    for (size_t i = 0; i < values.size(); ++i) told += " " + names_[id][i] + "=" + std::to_string(values[i]);
    told += "\n";
  }
  void on_event(std::string_view json) override { told += "e" + std::string(json) + "\n"; }

 private:
  std::map<uint32_t, std::vector<std::string>> names_;
};

TEST(RunLogScanner, PiecesGiveWhatTheWholeGives) {
  const TemporaryFolder folder;
  std::string bytes;
  for (int part = 0; part < 3; ++part) {  // three processes; the first two were killed in a frame
    const auto path = folder / std::to_string(part);
    {
      RunLogWriter log(path);
      log.event(R"({"event":"start"})");
      for (int64_t step = 0; step < 40; ++step) log_numbers(log, step, static_cast<double>(step));
    }
    const std::string whole = read_file(path);
    bytes += part < 2 ? whole.substr(0, whole.size() - 5) : whole;
  }
  Teller whole;
  RunLogScanner scanner(whole);
  EXPECT_EQ(scanner.scan(bytes, true), bytes.size());
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    Teller teller;
    std::string names, kept;
    size_t at = 0;
    int64_t skipped = 0;
    while (at < bytes.size()) {
      const size_t size = std::min<size_t>(1 + random() % 200, bytes.size() - at);
      kept += bytes.substr(at, size);
      at += size;
      RunLogScanner piece(teller);  // another process each time
      ASSERT_TRUE(piece.restore(names));
      kept.erase(0, piece.scan(kept, at == bytes.size() || random() % 2 == 0));
      names = piece.saved_names();
      skipped += piece.skipped_bytes();
    }
    ASSERT_EQ(teller.told, whole.told);
    ASSERT_EQ(kept, "");
    ASSERT_EQ(skipped, scanner.skipped_bytes());
  }
}

TEST(RunLogScanner, AResumedRunTakesBackWhatIsBehindItsStart) {
  const TemporaryFolder folder;
  {
    RunLogWriter log(folder / "log");
    log.event(R"({"event":"start","from_step":0})");
    for (int64_t step = 1; step <= 5; ++step) log_numbers(log, step, static_cast<double>(step));
    log.event(R"({"event":"start","from_step":2})");
    log_numbers(log, 3, 33);
  }
  EXPECT_THAT(read_run_log(folder / "log").series("loss"), ElementsAre(Pair(1, 1.0), Pair(2, 2.0), Pair(3, 33.0)));
}

TEST(RunLogScanner, ManyNamesAndSetsInTurn) {
  const TemporaryFolder folder;
  {
    RunLogWriter log(folder / "log");
    std::vector<LoggedNumber> many;
    for (int i = 0; i < 5000; ++i) many.emplace_back("m" + std::to_string(i), i);
    log.metrics(1, many);  // more than a frame's names
    for (int64_t step = 2; step < 50; ++step)
      for (size_t set = 0; set < 7; ++set)
        log.metrics(step, std::span(many).subspan(set, 1 + (set * static_cast<size_t>(step)) % 3));
    EXPECT_FALSE(log.offer(std::string(2 << 20, 'x')));
    EXPECT_EQ(log.dropped_events(), 1);
    EXPECT_EQ(log.dropped(), 0);
  }
  const RunLog log = read_run_log(folder / "log");
  EXPECT_EQ(log.names().size(), 5000u);
  EXPECT_EQ(log.series("m4999").at(0).second, 4999);
  EXPECT_EQ(log.series("m3").size(), 49u);
  EXPECT_EQ(log.skipped_bytes, 0);
  EXPECT_THAT(log.events, ElementsAre(R"({"event":"dropped","events":1,"metrics":0})"));
}

}  // namespace
}  // namespace ramet::tests
