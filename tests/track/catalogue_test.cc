#include "ramet/track/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/sqlite.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "track/made_run.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Catalogue indexed(const fs::path& folder) {
  Catalogue catalogue = Catalogue::open(folder, Access::kIndex);
  const IndexReport report = catalogue.index();
  EXPECT_THAT(report.problems, IsEmpty());
  return catalogue;
}

std::vector<std::pair<double, double>> points_of(const Catalogue& catalogue, const std::string& run,
                                                 const std::string& metric) {
  const Series series = catalogue.series({.run = run, .metric = metric, .buckets = 100'000});
  EXPECT_TRUE(series.raw);
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < series.x.size(); ++i) points.emplace_back(series.x[i], series.last[i]);
  return points;
}

std::vector<std::string> ids_of(const RunPage& page) {
  std::vector<std::string> ids;
  for (const auto& run : page.runs) ids.push_back(run.id);
  return ids;
}

TEST(Catalogue, KnowsWhatTheFoldersHold) {
  const TemporaryFolder runs;
  make_ended_run(runs.path(), "a", 5);
  const fs::path other = make_folder(runs.path(), "b");
  {
    RunLogWriter log(other / "log.ramet");
    log.event(R"({"event":"start","from_step":0})");
    log.event(R"({"event":"axis","samples_per_step":8,"units_per_step":1024,"units":"words"})");
    log.event(R"({"event":"config","values":{"mine.depth":3,"mine.name":"x","mine.on":false,"mine.none":null}})");
    log.event(R"({"event":"lineage","kind":"forked","from":"a","checkpoint":"step-00000004"})");
    log.event(R"({"event":"alert","kind":"user","level":"warn","step":2,"time":5,"title":"T","text":"t"})");
    log.event(
        R"({"event":"logged","kind":"image","name":"i","step":1,"time":5,"artifact":"00","type":"image/png","bytes":9})");
    log_numbers(log, 1, std::nan(""));
    log_numbers(log, 2, 0.25);
  }
  const Catalogue catalogue = indexed(runs.path());
  EXPECT_EQ(catalogue.remark(), "");
  const RunDetails a = catalogue.run("a");
  EXPECT_EQ(a.status, "done");
  EXPECT_EQ(a.steps, 5);
  EXPECT_EQ(a.name, "bert-mini");
  EXPECT_EQ(a.units, "tokens");
  EXPECT_DOUBLE_EQ(a.started_seconds, 1767319445.25);
  EXPECT_DOUBLE_EQ(a.ended_seconds, 1767319500);
  EXPECT_THAT(a.facts, ::testing::Contains(Pair("planned_bytes", "100")));
  EXPECT_THAT(a.config, ElementsAre(Pair("train.seed", FieldValue(int64_t{3}))));
  const RunDetails b = catalogue.run("b");
  EXPECT_EQ(b.status, "killed");
  EXPECT_EQ(b.units, "words");
  EXPECT_EQ(b.config.size(), 8u);
  EXPECT_THAT(b.config, ::testing::Contains(Pair("mine.on", FieldValue(false))));
  EXPECT_THAT(b.config, ::testing::Contains(Pair("train.rate", FieldValue(0.5))));
  EXPECT_THAT(b.config, ::testing::Contains(Pair("model.kind", FieldValue(std::string("bert")))));
  ASSERT_EQ(b.lineage.size(), 1u);
  EXPECT_EQ(b.lineage[0].from, "a");
  ASSERT_EQ(catalogue.lineage("a").size(), 1u);  // a parent knows its children
  ASSERT_EQ(b.alerts.size(), 1u);
  EXPECT_EQ(b.alerts[0].title, "T");
  ASSERT_EQ(catalogue.media("b").size(), 1u);
  ASSERT_EQ(catalogue.events("b", "axis").size(), 1u);
  EXPECT_EQ(catalogue.events("b").size(), 6u);
  const std::vector<MetricSummary> metrics = catalogue.metrics("b");
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "loss");
  EXPECT_EQ(metrics[0].points, 2);
  EXPECT_EQ(metrics[0].not_finite, 1);
  EXPECT_EQ(metrics[0].last, 0.25);
  EXPECT_EQ(metrics[0].mean, 0.25);
  const Series samples = catalogue.series({.run = "b", .metric = "loss", .axis = SeriesAxis::kSamples});
  EXPECT_THAT(samples.x, ElementsAre(8, 16));
  EXPECT_TRUE(std::isnan(samples.last[0]));
  const CatalogueKeys keys = catalogue.keys();
  EXPECT_EQ(keys.metrics.size(), 2u);
  EXPECT_EQ(keys.metrics[0].runs, 2);
  EXPECT_THAT(error_of([&] { (void)catalogue.series({.run = "b", .metric = "lose"}); }), HasSubstr("perhaps 'loss'"));
  EXPECT_THAT(error_of([&] { (void)catalogue.run("c"); }), HasSubstr("no such run"));
}

TEST(Catalogue, TakesInWhatLogsHaveGrownBy) {
  const TemporaryFolder runs;
  const fs::path run = make_folder(runs.path(), "a");
  Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
  int64_t step = 0;
  for (int part = 0; part < 40; ++part) {
    {
      RunLogWriter log(run / "log.ramet");
      for (int i = 0; i < 37; ++i, ++step) log_numbers(log, step, static_cast<double>(step));
    }
    // A torn end is looked at again.
    if (part == 20) {
      const std::string whole = read_file(run / "log.ramet");
      std::ofstream(run / "log.ramet", std::ios::binary) << whole.substr(0, whole.size() - 11);
      (void)catalogue.index();
      EXPECT_EQ(catalogue.metrics("a")[0].points, step - 1);
      std::ofstream(run / "log.ramet", std::ios::binary | std::ios::app) << whole.substr(whole.size() - 11);
    }
    const IndexReport report = catalogue.index();
    EXPECT_THAT(report.changed, ElementsAre("a"));
    ASSERT_EQ(catalogue.metrics("a")[0].points, step);
    EXPECT_THAT(catalogue.index().points, 0);
  }
  const auto points = points_of(catalogue, "a", "loss");
  ASSERT_EQ(points.size(), static_cast<size_t>(step));
  for (size_t i = 0; i < points.size(); ++i)
    ASSERT_EQ(points[i], std::pair(static_cast<double>(i), static_cast<double>(i)));
  EXPECT_EQ(catalogue.run("a").skipped_bytes, 0);
  EXPECT_EQ(catalogue.run("a").replaced_points, 0);
}

/// What points must be there, and what they sum up to, by the plainest of means.
class RewindTest : public ::testing::TestWithParam<int> {};

TEST_P(RewindTest, LaterEntriesReplaceThoseFromTheirStepOn) {
  const TemporaryFolder runs;
  const fs::path run = make_folder(runs.path(), "a");
  Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  std::vector<std::pair<double, double>> expected;
  int64_t next = 1;
  for (int part = 0; part < 12; ++part) {
    {
      RunLogWriter log(run / "log.ramet");
      if (part > 0) {
        const auto from = static_cast<int64_t>(random() % static_cast<uint64_t>(next));
        if (random() % 2 == 0) log.event(R"({"event":"start","from_step":)" + std::to_string(from) + "}");
        next = from + 1;
        while (!expected.empty() && expected.back().first >= static_cast<double>(next)) expected.pop_back();
      }
      const auto count = static_cast<int64_t>(1 + random() % 3000);
      for (int64_t i = 0; i < count; ++i, ++next) {
        const double value = random() % 50 == 0 ? std::nan("") : static_cast<double>(random() % 1000);
        log_numbers(log, next, value);
        expected.emplace_back(static_cast<double>(next), value);
      }
    }
    if (random() % 3 != 0) (void)catalogue.index();
  }
  (void)catalogue.index();
  const auto points = points_of(catalogue, "a", "loss");
  ASSERT_EQ(points.size(), expected.size());
  double sum = 0, most = -1;
  int64_t not_finite = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(points[i].first, expected[i].first);
    if (std::isnan(expected[i].second)) {
      ASSERT_TRUE(std::isnan(points[i].second));
      ++not_finite;
      continue;
    }
    ASSERT_EQ(points[i].second, expected[i].second);
    sum += expected[i].second, most = std::max(most, expected[i].second);
  }
  const MetricSummary loss = catalogue.metrics("a")[0];
  EXPECT_EQ(loss.points, static_cast<int64_t>(expected.size()));
  EXPECT_EQ(loss.not_finite, not_finite);
  EXPECT_EQ(loss.max, most);
  EXPECT_DOUBLE_EQ(loss.mean, sum / static_cast<double>(loss.points - not_finite));
  EXPECT_EQ(loss.last_step, static_cast<int64_t>(expected.back().first));
  EXPECT_EQ(catalogue.run("a").steps, loss.last_step);
  // Buckets are as if from all points.
  for (const int64_t buckets : {1, 7, 100}) {
    const double from = expected[expected.size() / 5].first, to = expected[expected.size() * 4 / 5].first;
    const Series series = catalogue.series({.run = "a", .metric = "loss", .from = from, .to = to, .buckets = buckets});
    std::vector<std::pair<double, double>> inside;
    for (const auto& point : expected)
      if (point.first >= from && point.first <= to) inside.push_back(point);
    ASSERT_EQ(series.points, static_cast<int64_t>(inside.size()));
    if (static_cast<int64_t>(inside.size()) <= buckets) {
      EXPECT_TRUE(series.raw);
      continue;
    }
    size_t entry = 0;
    for (size_t i = 0; i < inside.size();) {
      const auto bucket_of = [&](double x) {
        const double share = (x - inside.front().first) / (inside.back().first - inside.front().first);
        return std::min(static_cast<int64_t>(share * static_cast<double>(buckets)), buckets - 1);
      };
      const int64_t bucket = bucket_of(inside[i].first);
      double low = std::nan(""), high = low, last = low, x = 0;
      uint32_t count = 0, bad = 0;
      for (; i < inside.size() && bucket_of(inside[i].first) == bucket; ++i, ++count) {
        x = inside[i].first;
        const double value = inside[i].second;
        if (std::isnan(value)) {
          ++bad;
          continue;
        }
        low = std::isnan(low) ? value : std::min(low, value), high = std::isnan(high) ? value : std::max(high, value);
        last = value;
      }
      ASSERT_LT(entry, series.x.size());
      EXPECT_EQ(series.x[entry], x);
      EXPECT_EQ(series.count[entry], count);
      EXPECT_EQ(series.not_finite[entry], bad);
      if (!std::isnan(low)) {
        EXPECT_EQ(series.min[entry], low);
        EXPECT_EQ(series.max[entry], high);
        EXPECT_EQ(series.last[entry], last);
      }
      ++entry;
    }
    EXPECT_EQ(entry, series.x.size());
  }
  // From nothing it is the same.
  (void)catalogue.rebuild();
  const auto again = points_of(catalogue, "a", "loss");
  ASSERT_EQ(again.size(), points.size());
  EXPECT_EQ(catalogue.metrics("a")[0].max, loss.max);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RewindTest, ::testing::Range(0, 6));

TEST(Catalogue, LogsOfManyWritersAndOfSystems) {
  const TemporaryFolder runs;
  const fs::path run = make_folder(runs.path(), "a");
  fs::create_directories(run / "logs");
  fs::create_directories(run / "system");
  {
    RunLogWriter leading(run / "log.ramet"), rank(run / "logs" / "1.ramet"), system(run / "system" / "host-0.ramet");
    for (int64_t step = 1; step <= 10; ++step) {
      log_numbers(leading, step, 1), log_numbers(rank, step * 2, 2);
      const LoggedNumber cpu[] = {{"cpu_percent", 50.0}};
      system.metrics(step - 1, cpu);
    }
  }
  Catalogue catalogue = indexed(runs.path());
  EXPECT_EQ(points_of(catalogue, "a", "loss").size(), 10u);
  EXPECT_EQ(points_of(catalogue, "a", "1/loss").back(), std::pair(20.0, 2.0));
  EXPECT_EQ(points_of(catalogue, "a", "system/host-0/cpu_percent").size(), 10u);
  EXPECT_EQ(catalogue.run("a").steps, 10);  // the leading log's
  // A run that goes on from a step takes back its own numbers, not those of others.
  {
    RunLogWriter leading(run / "log.ramet");
    leading.event(R"({"event":"start","from_step":4})");
  }
  (void)catalogue.index();
  EXPECT_EQ(points_of(catalogue, "a", "loss").size(), 4u);
  EXPECT_EQ(points_of(catalogue, "a", "1/loss").size(), 10u);
  EXPECT_EQ(points_of(catalogue, "a", "system/host-0/cpu_percent").size(), 10u);
}

TEST(Catalogue, ALogThatWasReplacedIsReadAnew) {
  const TemporaryFolder runs;
  const fs::path run = make_ended_run(runs.path(), "a", 100);
  Catalogue catalogue = indexed(runs.path());
  fs::remove(run / "log.ramet");
  {
    RunLogWriter log(run / "log.ramet");
    for (int64_t step = 1; step <= 300; ++step) log_numbers(log, step, 7);
  }
  (void)catalogue.index();
  EXPECT_EQ(points_of(catalogue, "a", "loss").size(), 300u);
  fs::remove_all(run);
  EXPECT_THAT(catalogue.index().removed, ElementsAre("a"));
  EXPECT_EQ(catalogue.runs({}).total, 0);
  EXPECT_THAT(catalogue.sql("SELECT (SELECT COUNT(*) FROM chunks) + (SELECT COUNT(*) FROM chunk_data) AS n").rows[0][0],
              FieldValue(int64_t{0}));
}

TEST(Catalogue, FiltersSortsAndPages) {
  const TemporaryFolder runs;
  for (int i = 0; i < 20; ++i) make_ended_run(runs.path(), "run-" + std::to_string(100 + i), 3, i, i % 4);
  Catalogue catalogue = indexed(runs.path());
  (void)catalogue.annotate("run-105", {.added_tags = {"baseline"}, .note = "best", .group = "g", .pinned = true});
  const RunPage page = catalogue.runs({.filter = "config.train.seed = 1 and loss > 4",
                                       .sort = "-loss",
                                       .columns = {"loss", "config.train.seed"},
                                       .limit = 2});
  EXPECT_EQ(page.total, 4);
  EXPECT_THAT(ids_of(page), ElementsAre("run-117", "run-113"));
  EXPECT_EQ(page.runs[0].columns[1], FieldValue(int64_t{1}));
  EXPECT_NEAR(std::get<double>(page.runs[0].columns[0]), 17 + 1.0 / 3, 1e-12);
  EXPECT_THAT(ids_of(catalogue.runs({.filter = "tag = baseline"})), ElementsAre("run-105"));
  EXPECT_THAT(ids_of(catalogue.runs({.filter = "pinned and note ~ BEST and group = 'g'"})), ElementsAre("run-105"));
  EXPECT_EQ(catalogue.runs({.filter = "tag != baseline"}).total, 19);
  EXPECT_EQ(catalogue.runs({.filter = "absent < 1 or config.absent = 1"}).total, 0);
  EXPECT_EQ(catalogue.runs({.filter = "config.absent != 1"}).total, 20);
  EXPECT_EQ(catalogue.runs({.filter = "(id = run-101 or id = run-102) and not config.train.seed = 2"}).total, 1);
  EXPECT_EQ(catalogue.runs({.filter = "min.loss < 1.5 and max.loss >= 2"}).total, 1);
  EXPECT_THAT(ids_of(catalogue.runs({.filter = "steps = 3", .sort = "loss", .limit = 1, .offset = 1})),
              ElementsAre("run-101"));
  EXPECT_THAT(error_of([&] { (void)catalogue.runs({.filter = "loss < banana"}); }),
              HasSubstr("is a metric or a number"));
}

TEST(Catalogue, SqlReadsAndNothingElse) {
  const TemporaryFolder runs;
  make_ended_run(runs.path(), "a", 3);
  const Catalogue catalogue = indexed(runs.path());
  const SqlResult result = catalogue.sql("SELECT run, metric, points FROM run_metrics ORDER BY metric");
  EXPECT_THAT(result.columns, ElementsAre("run", "metric", "points"));
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0][2], FieldValue(int64_t{3}));
  EXPECT_TRUE(catalogue.sql("SELECT * FROM run_metrics", 1).truncated);
  for (const char* const text :
       {"DELETE FROM runs", "UPDATE runs SET id = ''", "DROP TABLE runs", "PRAGMA user_version = 3", "ATTACH 'x' AS y",
        "VACUUM INTO 'x'", "CREATE TABLE t(x)", "INSERT INTO runs(id) VALUES ('x') RETURNING id", "BEGIN"})
    EXPECT_THAT(error_of([&] { (void)catalogue.sql(text); }), HasSubstr("may only read")) << text;
  EXPECT_THAT(error_of([&] { (void)catalogue.sql("SELECT load_extension('x')"); }), HasSubstr("not authorized"));
  EXPECT_THAT(error_of([&] { (void)catalogue.sql("SELECT 1; SELECT 2"); }), HasSubstr("more than one statement"));
  EXPECT_THAT(error_of([&] { (void)catalogue.sql(" ; "); }), HasSubstr("the query"));
  EXPECT_THAT(error_of([&] { (void)catalogue.sql("SELECT x FROM nowhere"); }), HasSubstr("no such table: nowhere"));
  EXPECT_THAT(error_of([&] {
                (void)catalogue.sql(
                    "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT COUNT(*) FROM a", 10, 0.05);
              }),
              HasSubstr("took longer than"));
  EXPECT_EQ(catalogue.runs({}).total, 1);
}

TEST(Catalogue, ComparesRunsAndFindsWhatMatters) {
  const TemporaryFolder runs;
  for (int i = 0; i < 24; ++i) make_ended_run(runs.path(), "r" + std::to_string(i), 2, (i % 6) * 2.0, i % 6);
  const Catalogue catalogue = indexed(runs.path());
  const RunComparison comparison = catalogue.compare({"r0", "r1"});
  ASSERT_EQ(comparison.config.size(), 1u);
  EXPECT_EQ(comparison.config[0].name, "train.seed");
  EXPECT_EQ(comparison.config[0].values[1], FieldValue(int64_t{1}));
  const auto keys = catalogue.importance("loss");
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].key, "train.seed");
  EXPECT_NEAR(keys[0].correlation, 1, 1e-12);
  EXPECT_NEAR(keys[0].importance, 1, 1e-12);
}

TEST(Catalogue, ADamagedFileIsKeptAsideAndMadeAgain) {
  const TemporaryFolder runs;
  for (int i = 0; i < 5; ++i) make_ended_run(runs.path(), "r" + std::to_string(i), 1500);
  {
    (void)indexed(runs.path());
  }
  const fs::path file = runs.path() / "catalogue.db";
  const std::string good = read_file(file);
  // No database at all; then pages overwritten; then the bytes of a chunk.
  write_file_atomic(file, "this is no database, however long it may be: " + std::string(10'000, 'x'));
  {
    Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
    EXPECT_THAT(catalogue.index().problems, ElementsAre(HasSubstr("was damaged")));
    EXPECT_EQ(points_of(catalogue, "r1", "loss").size(), 1500u);
    EXPECT_TRUE(fs::exists(runs.path() / "catalogue.db.damaged"));
  }
  std::mt19937_64 random(1);
  for (int round = 0; round < 10; ++round) {
    std::string bad = good;
    for (int i = 0; i < 20; ++i) {
      const size_t at = 8192 + random() % (bad.size() - 8192 - 600);
      for (size_t j = 0; j < 600; ++j) bad[at + j] = static_cast<char>(random());
    }
    for (const char* const beside : {"-wal", "-shm"}) fs::remove(file.string() + beside);
    write_file_atomic(file, bad);
    Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
    (void)catalogue.index();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(points_of(catalogue, "r" + std::to_string(i), "loss").size(), 1500u) << round;
  }
  // A reader changes nothing, and answers nevertheless.
  write_file_atomic(file, "nonsense" + std::string(10'000, 'x'));
  for (const char* const beside : {"-wal", "-shm"}) fs::remove(file.string() + beside);
  const Catalogue reader = Catalogue::open(runs.path(), Access::kRead);
  EXPECT_EQ(reader.runs({}).total, 5);
  EXPECT_TRUE(read_file(file).starts_with("nonsense"));
}

TEST(Catalogue, AnotherVersionIsMadeAgain) {
  const TemporaryFolder runs;
  make_ended_run(runs.path(), "a", 3);
  {
    (void)indexed(runs.path());
  }
  {
    Database database(runs.path() / "catalogue.db", Database::Mode::kReadWrite);
    database.execute("DROP TABLE events");
    database.execute("PRAGMA user_version = 77");
  }
  const Catalogue catalogue = indexed(runs.path());
  EXPECT_EQ(catalogue.events("a").size(), 2u);
  const Catalogue reader = Catalogue::open(runs.path(), Access::kRead);
  EXPECT_EQ(reader.runs({}).total, 1);
}

TEST(Catalogue, AReadOnlyFolderIsAnsweredFromMemory) {
  if (::geteuid() == 0) {
    // Root may write anywhere: a file in place of the lock's file stands for a disk that refuses.
    const TemporaryFolder runs;
    make_ended_run(runs.path(), "a", 30);
    fs::create_directory(runs.path() / "catalogue.db");
    Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
    EXPECT_THAT(catalogue.remark(), HasSubstr("in memory"));
    (void)catalogue.index();
    EXPECT_EQ(points_of(catalogue, "a", "loss").size(), 30u);
    return;
  }
  const TemporaryFolder runs;
  make_ended_run(runs.path(), "a", 30);
  fs::permissions(runs.path(), fs::perms::owner_read | fs::perms::owner_exec);
  Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
  EXPECT_THAT(catalogue.remark(), HasSubstr("in memory"));
  EXPECT_EQ(points_of(catalogue, "a", "loss").size(), 30u);
  fs::permissions(runs.path(), fs::perms::owner_all);
}

TEST(Catalogue, AFullDiskIsAnsweredFromMemory) {
  const TemporaryFolder runs;
  for (int i = 0; i < 20; ++i) make_ended_run(runs.path(), "r" + std::to_string(i), 2000);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{300'000, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
      (void)catalogue.index();
      const bool all = catalogue.runs({}).total == 20 && !catalogue.remark().empty();
      ::_exit(all ? 0 : 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const Catalogue catalogue = indexed(runs.path());
  EXPECT_EQ(catalogue.runs({}).total, 20);
  EXPECT_EQ(catalogue.remark(), "");
}

TEST(Catalogue, KillsOfWritersAndIndexersLoseNothingThatWasFlushed) {
  const TemporaryFolder runs;
  std::mt19937_64 random(5);
  int64_t flushed = 0;
  const char* const many = std::getenv("RAMET_KILLS");  // bench/catalogue.py asks for a hundred
  const int rounds = many ? std::atoi(many) : 6;
  for (int round = 0; round < rounds; ++round) {
    const fs::path run = make_folder(runs.path(), "r" + std::to_string(round));
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
      RunLogWriter log(run / "log.ramet");
      for (int64_t step = 1;; ++step) {
        log_numbers(log, step, static_cast<double>(step));
        if (step % 50 == 0 && log.flush() && ::write(told[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    const pid_t indexer = ::fork();
    if (indexer == 0) {
      Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
      for (;;) (void)catalogue.index();
    }
    ::close(told[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + random() % 120));
    ::kill(indexer, SIGKILL);
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    ::waitpid(indexer, &status, 0);
    int64_t last = 0;
    while (::read(told[0], &last, sizeof last) == sizeof last) {
    }
    ::close(told[0]);
    Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
    EXPECT_THAT(catalogue.index().problems, IsEmpty());
    if (last == 0) continue;
    flushed += last;
    const auto points = points_of(catalogue, run.filename().string(), "loss");
    ASSERT_GE(points.size(), static_cast<size_t>(last));
    for (size_t i = 0; i < points.size(); ++i) ASSERT_EQ(points[i].second, static_cast<double>(i + 1));
  }
  EXPECT_GT(flushed, 0);
}

TEST(Catalogue, TwoProcessesTakeTurns) {
  const TemporaryFolder runs;
  for (int i = 0; i < 30; ++i) make_ended_run(runs.path(), "r" + std::to_string(i), 50);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    try {
      Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
      for (int round = 0; round < 3; ++round) {
        if (catalogue.rebuild().busy) ::_exit(3);
        if (catalogue.runs({}).total != 30) ::_exit(1);
      }
      ::_exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(2);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST(Catalogue, AnswersThreadsWhileItIndexes) {
  const TemporaryFolder runs;
  for (int i = 0; i < 10; ++i) make_ended_run(runs.path(), "r" + std::to_string(i), 600);
  Catalogue catalogue = indexed(runs.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(catalogue.runs({}).total, 10);
        EXPECT_EQ(catalogue.series({.run = "r3", .metric = "loss", .buckets = 10}).points, 600);
      }
    });
  for (int round = 0; round < 10; ++round) (void)catalogue.rebuild();
  for (auto& thread : threads) thread.join();
}

TEST(Catalogue, TellsWhoRuns) {
  const TemporaryFolder runs;
  std::string id;
  Catalogue catalogue = Catalogue::open(runs.path(), Access::kIndex);
  {
    const RunDirectory run =
        RunDirectory::create(runs.path(), {.name = "live", .recipe = "", .command = {}, .kernel_class = ""});
    id = run.path().filename().string();
    RunLogWriter log(run.log());
    log.event(R"({"event":"start","from_step":0})");
    log.flush();
    (void)catalogue.index();
    EXPECT_EQ(catalogue.run(id).status, "running");
  }
  EXPECT_THAT(catalogue.index().changed, ElementsAre(id));
  EXPECT_EQ(catalogue.run(id).status, "killed");
  EXPECT_THAT(error_of([&] { (void)Catalogue::open(runs.path() / "absent", Access::kIndex); }),
              HasSubstr("no folder of runs"));
}

}  // namespace
}  // namespace ramet::tests
