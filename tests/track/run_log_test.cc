#include "ramet/track/run_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

void log_step(RunLogWriter& log, int64_t step, double loss) {
  const std::vector<LoggedNumber> values = {{"loss", loss}, {"tokens_per_second", 10.0}};
  log.metrics(step, values);
}

TEST(RunLog, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  {
    RunLogWriter log(folder / "log");
    log.event("{\"event\":\"start\"}");
    for (int step = 0; step < 5; ++step) log_step(log, step, 5.0 - step);
    const std::vector<LoggedNumber> held_out = {{"held_out_loss", 3.5}};
    log.metrics(4, held_out);
    EXPECT_TRUE(log.flush());
    EXPECT_EQ(log.dropped(), 0);
  }
  const RunLog log = read_run_log(folder / "log");
  EXPECT_EQ(log.skipped_bytes, 0);
  EXPECT_THAT(log.events, ElementsAre("{\"event\":\"start\"}"));
  EXPECT_EQ(log.series("loss").size(), 5u);
  EXPECT_EQ(log.series("loss")[2], (std::pair<int64_t, double>(2, 3.0)));
  EXPECT_THAT(log.series("held_out_loss"), ElementsAre(Pair(4, 3.5)));
  EXPECT_EQ(log.last("loss"), 1.0);
  EXPECT_TRUE(std::isnan(log.last("absent")));
  EXPECT_THAT(log.names(), ElementsAre("held_out_loss", "loss", "tokens_per_second"));
  EXPECT_GT(log.steps.at(0)[0].time, 1.7e9);
}

TEST(RunLog, AResumedRunGoesOnInTheSameFile) {
  const TemporaryFolder folder;
  for (int part = 0; part < 2; ++part) {
    RunLogWriter log(folder / "log");
    if (part == 1) {  // other names first: the ids of names are given anew
      const std::vector<LoggedNumber> other = {{"x", 1.0}};
      log.metrics(0, other);
    }
    for (int step = part * 2; step < part * 2 + 3; ++step) log_step(log, step, part * 100 + step);
  }
  const RunLog log = read_run_log(folder / "log");
  EXPECT_THAT(log.series("loss"),
              ElementsAre(Pair(0, 0.0), Pair(1, 1.0), Pair(2, 102.0), Pair(3, 103.0), Pair(4, 104.0)));
}

TEST(RunLog, ATornEndIsSkippedWhereverItIsCut) {
  const TemporaryFolder folder;
  {
    RunLogWriter log(folder / "log");
    for (int step = 0; step < 3; ++step) log_step(log, step, step);
  }
  const std::string whole = read_file(folder / "log");
  size_t last = 0;
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    const RunLog log = parse_run_log(std::string_view(whole).substr(0, cut));
    const size_t steps = log.series("loss").size();
    ASSERT_GE(steps, last);
    ASSERT_LE(steps, last + 1);
    last = steps;
  }
  EXPECT_EQ(last, 3u);
  // What a resumed run appends behind a torn frame is read.
  write_file_atomic(folder / "torn", whole.substr(0, whole.size() - 7));
  {
    RunLogWriter log(folder / "torn");
    log_step(log, 2, 22);
    log_step(log, 3, 33);
  }
  const RunLog log = read_run_log(folder / "torn");
  EXPECT_THAT(log.series("loss"), ElementsAre(Pair(0, 0.0), Pair(1, 1.0), Pair(2, 22.0), Pair(3, 33.0)));
  EXPECT_GT(log.skipped_bytes, 0);
}

TEST(RunLog, ReadableAfterAKill) {
  const TemporaryFolder folder;
  const auto path = folder / "log";
  const pid_t child = ::fork();
  if (child == 0) {
    RunLogWriter log(path);
    for (int step = 0;; ++step) {
      log_step(log, step, step);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  while (!std::filesystem::exists(path) || std::filesystem::file_size(path) < 5000)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const RunLog log = read_run_log(path);
  const auto loss = log.series("loss");
  ASSERT_GT(loss.size(), 20u);
  for (size_t i = 0; i < loss.size(); ++i)
    ASSERT_EQ(loss[i], (std::pair<int64_t, double>(static_cast<int64_t>(i), static_cast<double>(i))));
}

TEST(RunLog, AFullDiskNeitherStopsNorBreaksIt) {
  const TemporaryFolder folder;
  const auto path = folder / "log";
  // A limit on the size of files stands for the disk; it is this process's, so a child takes it.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    RunLogWriter log(path);
    log_step(log, 0, 0);
    log.flush();
    const rlimit small{1000, RLIM_INFINITY}, large{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    for (int step = 1; step < 100; ++step) log_step(log, step, step);
    const bool refused = !log.flush() && !log.problem().empty();
    ::setrlimit(RLIMIT_FSIZE, &large);
    const bool written = log.flush();
    ::_exit(refused && written ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const RunLog log = read_run_log(path);
  EXPECT_EQ(log.series("loss").size(), 100u);
  EXPECT_EQ(log.skipped_bytes, 0);
}

TEST(RunLog, DropsRatherThanWaitsWhenTheDiskStandsStill) {
  const TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  std::thread drain;
  std::atomic<bool> ended{false};
  {
    RunLogWriter log(pipe);  // the pipe holds 64 KiB, then a write waits
    std::vector<LoggedNumber> wide;
    for (int i = 0; i < 500; ++i) wide.emplace_back("metric" + std::to_string(i), i);
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < 10000; ++step) log.metrics(step, wide);
    // Seconds on a busy machine under a sanitizer; who waits for a pipe that nobody reads waits for ever.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
    EXPECT_GT(log.dropped(), 1000);
    // Draining lets the writer end: until it has, however long it is between two of its writes.
    drain = std::thread([&] {
      char buffer[1 << 16];
      while (!ended)
        if (::read(reader, buffer, sizeof buffer) <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
    log.event("{\"event\":\"end\"}");
    log.flush();
  }
  ended = true;
  drain.join();
  ::close(reader);
}

TEST(RunLog, CannotOpenIsAnError) {
  const TemporaryFolder folder;
  try {
    RunLogWriter log(folder / "absent" / "log");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot open the run's log (No such file or directory)"));
  }
}

TEST(RunLog, SurvivesHostileBytes) {
  const TemporaryFolder folder;
  {
    RunLogWriter log(folder / "log");
    log.event("{\"event\":\"start\",\"deep\":[[[1]]]}");
    for (int step = 0; step < 20; ++step) log_step(log, step, step);
  }
  const std::string good = read_file(folder / "log");
  std::mt19937_64 random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (auto edits = random() % 6 + 1; edits > 0 && !bytes.empty(); --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.resize(at); break;
        case 2: bytes.erase(at, random() % 30); break;
        default: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 60));
      }
    }
    const RunLog log = parse_run_log(bytes);
    for (const auto& [step, loss] : log.series("loss")) ASSERT_EQ(static_cast<double>(step), loss);
    ASSERT_LE(log.skipped_bytes, static_cast<int64_t>(bytes.size()));
  }
  EXPECT_EQ(parse_run_log("").steps.size(), 0u);
}

}  // namespace
}  // namespace ramet::tests
