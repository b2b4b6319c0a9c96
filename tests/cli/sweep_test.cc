#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/process.h"
#include "cli/small_recipe.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/track/run_directory.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kModel = "preset = \"tiny\"\nlayers = 1\nheads = 2\nvocabulary_size = 64\nmax_positions = 32\n";
const std::string kRates =
    "[parameters]\n'train.schedule.learning_rate' = {low = 1e-4, high = 1e-1, scale = \"log\"}\n"
    "'train.optimizer.kind' = [\"adamw\", \"sgd\"]\n";

class Sweep : public ::testing::Test {
 protected:
  Sweep() {
    write_file_atomic(folder_ / "tiny.toml",
                      small_recipe("tiny", kModel, "steps = 8\nmicro_batch = 4\nprecision = \"f32\"\n", 2));
  }
  void write(const std::string& text) { write_file_atomic(folder_ / "sweep.toml", text); }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  json summary(const std::string& runs = "runs") {
    const Outcome outcome = ramet({"sweep", "show", "sweep", "--run-dir", runs, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }
  /// What must be the same whatever happened on the way: values, scores and statuses of points.
  static json results_of(const json& summary) {
    json all = json::array();
    for (const json& point : summary["points"]) {
      json scores = json::array();
      for (const json& run : point["runs"]) scores.push_back({run["seed"], run["status"], run["steps"], run["score"]});
      all.push_back({point["values"], point["score"], point["status"], point["steps"], scores});
    }
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(Sweep, RunsItsPointsAndTellsThem) {
  write(
      "recipe = \"tiny.toml\"\nmethod = \"grid\"\nseeds = 2\n[use]\nthreads = 1\n[parameters]\n"
      "'train.schedule.learning_rate' = [1e-3, 1e-2]\n'train.optimizer.kind' = [\"adamw\", \"sgd\"]\n");
  const Outcome outcome = ramet({"sweep", "sweep.toml", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::map<std::string, int> events;
  std::string line;
  for (std::istringstream lines(outcome.out); std::getline(lines, line);) ++events[json::parse(line)["event"]];
  EXPECT_EQ(events, (std::map<std::string, int>{{"sweep_started", 1},
                                                {"point_planned", 4},
                                                {"run_started", 8},
                                                {"run_ended", 8},
                                                {"point_scored", 4},
                                                {"sweep_ended", 1}}));
  const json whole = summary();
  EXPECT_EQ(whole["status"], "done");
  EXPECT_EQ(whole["reason"], "all points");
  ASSERT_THAT(whole["points"], SizeIs(4));
  double best = 1e9;
  for (const json& point : whole["points"]) {
    EXPECT_EQ(point["status"], "scored");
    EXPECT_EQ(point["steps"], 8);
    EXPECT_GT(point["planned_bytes"], 0);
    ASSERT_THAT(point["runs"], SizeIs(2));
    const double a = point["runs"][0]["score"], b = point["runs"][1]["score"];
    EXPECT_NE(a, b) << "another seed";
    EXPECT_NEAR(point["score"].get<double>(), (a + b) / 2, 1e-12);
    best = std::min(best, point["score"].get<double>());
    const fs::path run = folder_ / "runs" / point["runs"][1]["id"].get<std::string>();
    EXPECT_TRUE(is_run(run));
    EXPECT_EQ(json::parse(read_file(run / "annotations.json"))["group"], "sweep");
    EXPECT_THAT(read_file(run / "recipe.toml"), HasSubstr("seed = 4\n"));
  }
  EXPECT_EQ(whole["best_score"], best);
  const Outcome shown = ramet({"sweep", "show", "sweep"});
  EXPECT_THAT(shown.out, ContainsRegex("point +held_out_loss +spread +kind +learning_rate +memory +status"));
  EXPECT_THAT(ramet({"sweep", "list"}).out, ContainsRegex("sweep +done +4/4 +grid"));
  EXPECT_EQ(ramet({"sweep", "--resume", "sweep"}).status, 0) << "nothing is left to do";
  const Outcome again = ramet({"sweep", "sweep.toml"});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("there is a sweep of this name"));
}

/// The same draws and the same bits, whatever ended the sweep in between.
TEST_F(Sweep, GoesOnAfterBeingKilledAsIfNothingHadBeen) {
  write(
      "recipe = \"tiny.toml\"\nmethod = \"tpe\"\npoints = 6\n[tpe]\nfirst = 3\n[use]\nthreads = 1\n[set]\n"
      "'train.steps' = 24\n" +
      kRates);
  const Outcome undisturbed = ramet({"sweep", "sweep.toml", "--run-dir", "quiet"});
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
  EXPECT_THAT(undisturbed.err, ContainsRegex("point 5 done after 24 steps in .*: held_out_loss "));
  const json expected = results_of(summary("quiet"));
  ASSERT_THAT(expected, SizeIs(6));

  std::vector<std::string> words = {"sweep", "sweep.toml", "--json"};
  constexpr int kKills = 4;
  for (int i = 0; i < kKills; ++i) {
    Process sweep(words, folder_.path());
    sweep.wait_for("\"event\":\"run_ended\"");
    std::this_thread::sleep_for(std::chrono::milliseconds(90 + 50 * i));  // somewhere in the next point
    sweep.signal(i % 2 == 0 ? SIGKILL : SIGTERM);
    const Outcome outcome = sweep.wait();
    if (i % 2 == 1 && json::parse(outcome.last_line())["status"] != "done") {
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_EQ(json::parse(outcome.last_line())["status"], "interrupted");
    }
    words = {"sweep", "--resume", "sweep", "--json"};
  }
  const Outcome last = ramet(words);
  ASSERT_EQ(last.status, 0) << last.err;
  const json whole = summary();
  EXPECT_EQ(whole["status"], "done");
  EXPECT_EQ(results_of(whole), expected);
  int64_t runs = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "runs")) runs += is_run(entry.path());
  EXPECT_EQ(runs, 6) << "runs that were killed went on; none was begun twice";
}

TEST_F(Sweep, RunsBesideEachOtherGiveTheSameScores) {
  if (available_processors() < 2) GTEST_SKIP() << "one processor";
  const std::string text =
      "recipe = \"tiny.toml\"\nmethod = \"random\"\npoints = 4\n" + kRates + "[use]\nthreads = 1\n";
  write(text);
  ASSERT_EQ(ramet({"sweep", "sweep.toml", "--run-dir", "one"}).status, 0);
  write(text + "parallel = 2\n");
  const Outcome outcome = ramet({"sweep", "sweep.toml", "--run-dir", "two"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(results_of(summary("two")), results_of(summary("one")));
}

TEST_F(Sweep, PointsThatDoNotFitAreRefusedAndRecorded) {
  write(
      "recipe = \"tiny.toml\"\nmethod = \"grid\"\n[use]\nthreads = 1\nmemory = \"120MiB\"\n[parameters]\n"
      "'model.hidden' = [32, 2048]\n'train.lanes' = [1, 3]\n");
  const Outcome outcome = ramet({"sweep", "sweep.toml"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json points = summary()["points"];
  ASSERT_THAT(points, SizeIs(4));
  EXPECT_EQ(points[0]["status"], "scored");
  EXPECT_THAT(points[1]["reason"].get<std::string>(), HasSubstr("train.lanes must divide train.accumulation"));
  EXPECT_EQ(points[2]["status"], "refused");
  EXPECT_THAT(points[2]["reason"].get<std::string>(), ContainsRegex("does not fit: needs .* and the sweep has 120"));
  EXPECT_THAT(outcome.err, HasSubstr("point 2 refused: "));
  int64_t runs = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "runs")) runs += is_run(entry.path());
  EXPECT_EQ(runs, 1);
}

TEST_F(Sweep, HalvingGivesMoreStepsToTheBest) {
  write(
      "recipe = \"tiny.toml\"\nmethod = \"halving\"\npoints = 4\n[halving]\nsteps = 2\nfactor = 2\n[use]\nthreads = "
      "1\n" +
      kRates);
  const Outcome outcome = ramet({"sweep", "sweep.toml"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json whole = summary();
  std::map<int64_t, int> steps;
  for (const json& point : whole["points"]) ++steps[point["steps"]];
  EXPECT_EQ(steps, (std::map<int64_t, int>{{2, 2}, {4, 1}, {8, 1}}));
  for (const json& point : whole["points"]) EXPECT_EQ(point["status"], point["steps"] == 8 ? "scored" : "stopped");
  // What was trained in pieces has the bits of one that was not.
  const json best = whole["points"][whole["best"].get<size_t>()];
  const Outcome alone =
      ramet({"train", "tiny.toml", "--json", "--threads", "1", "--set",
             "train.schedule.learning_rate=" + best["values"]["train.schedule.learning_rate"].dump(), "--set",
             "train.optimizer.kind=" + best["values"]["train.optimizer.kind"].get<std::string>()});
  EXPECT_EQ(json::parse(alone.last_line())["held_out_loss"], best["score"]);
}

TEST_F(Sweep, ADryRunPlansAndRunsNothing) {
  write("recipe = \"tiny.toml\"\nmethod = \"tpe\"\npoints = 5\n[tpe]\nfirst = 2\n[use]\nthreads = 1\n" + kRates);
  const Outcome outcome = ramet({"sweep", "sweep.toml", "--dry-run"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("point +kind +learning_rate +memory +steps +time"));
  EXPECT_THAT(outcome.out, HasSubstr("3 more points are drawn from the results of these"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(Sweep, SaysWhatIsWrong) {
  const std::string head = "recipe = \"tiny.toml\"\npoints = 2\n[use]\nthreads = 1\n";
  write("metric = \"held_out_los\"\n" + head + kRates);
  Outcome outcome = ramet({"sweep", "sweep.toml"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the runs log no number of this name; found 'held_out_los'; expected perhaps "
                                     "'held_out_loss'"));
  write("name = \"broken\"\n" + head + "[parameters]\n'train.lanes' = [3, 5]\n");
  outcome = ramet({"sweep", "sweep.toml"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no point of the sweep has a score"));
  EXPECT_THAT(outcome.err, HasSubstr("train.lanes must divide train.accumulation"));
  EXPECT_EQ(ramet({"sweep"}).status, 2);
  outcome = ramet({"sweep", "--resume", "broke"});
  EXPECT_THAT(outcome.err, HasSubstr("perhaps 'broken'"));
}

TEST_F(Sweep, AlertsGoToTheLogAndTheConsole) {
  const Outcome outcome =
      ramet({"train", "tiny.toml", "--run", "run", "--threads", "1", "--set", "train.schedule.learning_rate=1e6",
             "--set", "train.clip_norm=0", "--set", "train.optimizer.kind=sgd", "--set",
             "train.schedule.warmup_steps=0", "--set", "track.alerts.command=cat > alert.json"});
  ASSERT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("alert: loss is not finite: "));
  const json alert = json::parse(read_file(folder_ / "alert.json"));
  EXPECT_EQ(alert["kind"], "not_finite");
  EXPECT_EQ(alert["level"], "error");
  EXPECT_EQ(alert["run"], "run");
  EXPECT_THAT(read_file(folder_ / "run/log.ramet"), HasSubstr("\"event\":\"alert\",\"kind\":\"not_finite\""));
}

TEST_F(Sweep, AFileMayNotNameACommandOfAlerts) {
  const std::string recipe = read_file(folder_ / "tiny.toml");
  write_file_atomic(folder_ / "foreign.toml", recipe + "\n[track.alerts]\ncommand = \"touch ran\"\n");
  const Outcome outcome = ramet({"train", "foreign.toml", "--run", "run", "--threads", "1", "--set",
                                 "train.schedule.learning_rate=1e6", "--set", "train.clip_norm=0", "--set",
                                 "train.optimizer.kind=sgd", "--set", "train.schedule.warmup_steps=0"});
  EXPECT_THAT(outcome.err, HasSubstr("track.alerts.command stands in a file and is left out"));
  EXPECT_THAT(outcome.err, HasSubstr("alert: loss is not finite: "));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(Sweep, AlertsChangeNoRecipesHash) {
  const auto hash = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", "tiny.toml", "--json", "--threads", "1", "--steps", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const fs::path run = json::parse(ramet(words).last_line())["run_directory"].get<std::string>();
    return json::parse(read_file(run / "checkpoints/step-00000002/manifest.json"))["recipe_hash"];
  };
  EXPECT_EQ(hash({"--set", "track.alerts.spike=3", "--set", "track.alerts.on=false"}), hash({}));
}

}  // namespace
}  // namespace ramet::tests
