#include "ramet/sweep/sweep_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/sweep/sweep_folder.h"
#include "ramet/track/annotations.h"
#include "ramet/track/run_log.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SweepOptions halving_options() {
  return sweep::parse_sweep(
      "recipe = \"r.toml\"\nmethod = \"halving\"\npoints = 9\n[halving]\nsteps = 10\nfactor = "
      "3\n[parameters]\n'train.clip_norm' = {low = 0, high = 1}\n",
      "s.toml", "/");
}

/// A sweep whose points all have 90 steps and these scores on the first rung.
SweepState planned(const SweepOptions& options, const std::vector<std::optional<double>>& scores) {
  SweepState state;
  for (size_t i = 0; i < scores.size(); ++i) {
    state.apply(
        json{{"event", "point_planned"}, {"point", i}, {"steps", 90}, {"values", {{"train.clip_norm", 0.5}}}}.dump(),
        options);
    state.apply(
        json{{"event", "point_scored"}, {"point", i}, {"rung", 0}, {"score", scores[i] ? json(*scores[i]) : json()}}
            .dump(),
        options);
  }
  return state;
}

TEST(SweepState, HalvingKeepsTheBestThirdOnEveryRung) {
  const SweepOptions options = halving_options();
  SweepState state = planned(options, {5.0, 1.0, 4.0, {}, 2.0, 9.0, 2.0, 8.0, 3.0});
  EXPECT_EQ(rungs_of(options, state), 3);
  EXPECT_EQ(rung_steps(options, 0, 90), 10);
  EXPECT_EQ(rung_steps(options, 1, 90), 30);
  EXPECT_EQ(rung_steps(options, 2, 90), 90);
  EXPECT_EQ(rung_steps(options, 1, 20), 20) << "never more than the recipe has";
  EXPECT_THAT(promoted(options, state, 1), ElementsAre(1, 4, 6)) << "of equal ones the first";
  EXPECT_THAT(promoted(options, state, 2), IsEmpty()) << "rung 1 has not ended";
  for (const int64_t point : {1, 4, 6}) {
    state.apply(json{{"event", "run_started"}, {"point", point}, {"seed", 0}, {"rung", 1}, {"run", "r"}}.dump(),
                options);
    state.apply(
        json{{"event", "point_scored"}, {"point", point}, {"rung", 1}, {"score", 10.0 - static_cast<double>(point)}}
            .dump(),
        options);
  }
  EXPECT_THAT(promoted(options, state, 2), ElementsAre(6));
  EXPECT_EQ(best_point(options, state), 6) << "the highest rung counts";
  EXPECT_EQ(sweep::status_of(options, state, 6), "running");
  EXPECT_EQ(sweep::status_of(options, state, 4), "stopped");
  EXPECT_EQ(sweep::status_of(options, state, 0), "stopped");
  EXPECT_EQ(sweep::status_of(options, state, 3), "failed");
}

TEST(SweepState, DamagedEventsAreLeftOut) {
  const SweepOptions options = halving_options();
  SweepState state = planned(options, {1.0});
  for (const char* event :
       {"", "[]", "{", "{\"event\":\"point_scored\",\"point\":7}", "{\"event\":\"run_ended\",\"point\":-1,\"seed\":0}",
        "{\"event\":\"run_started\",\"point\":0,\"seed\":99}", "{\"event\":\"point_planned\",\"point\":5}",
        "{\"event\":\"point_planned\",\"point\":1,\"values\":{}}", "{\"event\":3}",
        "{\"event\":\"point_scored\",\"point\":0,\"rung\":0,\"score\":4}"})
    state.apply(event, options);
  EXPECT_EQ(state.points.size(), 1u);
  EXPECT_EQ(state.points[0].score(0), 1.0) << "a rung is scored once";
}

TEST(SweepState, OnlyTheSweepsGroupIsWrittenIntoAnnotations) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run", file = run / "annotations.json";
  sweep::annotate_group(run, "sweep");
  EXPECT_EQ(read_annotations(run).group, "sweep");
  write_file_atomic(file, R"({"version":1,"tags":["a"],"note":"n","other":[1]})");
  sweep::annotate_group(run, "sweep");
  EXPECT_EQ(read_annotations(run).group, "sweep");
  EXPECT_EQ(read_annotations(run).note, "n");
  EXPECT_EQ(json::parse(read_file(file))["other"], (json{1})) << "what others wrote stays";
  sweep::annotate_group(run, "another");
  EXPECT_EQ(read_annotations(run).group, "sweep") << "a group that was given stays";
}

TEST(SweepFolder, IsMadeOnceAndFoundByName) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "r.toml", "[train]\nsteps = 5\n");
  SweepOptions options = sweep::parse_sweep(
      "name = \"rates\"\nrecipe = \"r.toml\"\npoints = 3\n[set]\n'train.seed' = 8\n[parameters]\n'train.clip_norm' = "
      "{low = 0, high = 1}\n",
      "s.toml", folder.path());
  const fs::path runs = folder / "runs";
  const SweepFolder made = SweepFolder::create(runs, options);
  EXPECT_EQ(load_recipe(made.recipe()).train.seed, 8) << "what all points share is in the sweep's recipe";
  EXPECT_EQ(made.options().recipe, made.recipe().string());
  EXPECT_EQ(SweepFolder::find("rates", runs).path(), made.path());
  EXPECT_EQ(SweepFolder::find(made.path().string(), "elsewhere").path(), made.path());
  EXPECT_THAT(sweep::list_sweeps(runs), ElementsAre("rates"));
  EXPECT_THAT(error_of([&] { SweepFolder::create(runs, options); }), HasSubstr("there is a sweep of this name"));
  EXPECT_THAT(error_of([&] { SweepFolder::find("ratez", runs); }), HasSubstr("perhaps 'rates'"));
  EXPECT_THAT(error_of([&] { sweep::summary_json(runs); }), HasSubstr("not a sweep"));
}

TEST(SweepFolder, TheSummaryTellsAllThatTheLogDoes) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "r.toml", "[train]\nsteps = 5\n");
  SweepOptions options = sweep::parse_sweep(
      "name = \"rates\"\nrecipe = \"r.toml\"\npoints = 3\n[parameters]\n'train.clip_norm' = {low = 0, high = 1}\n"
      "'train.precision' = [\"f32\", \"bf16\"]\n",
      "s.toml", folder.path());
  const SweepFolder made = SweepFolder::create(folder / "runs", options);
  {
    RunLogWriter log(made.log());
    const json values = {{"train.clip_norm", 0.5}, {"train.precision", "f32"}};
    for (const json& event : std::vector<json>{
             {{"event", "sweep_started"}, {"id", "abc"}, {"prefix", "2026-01-01-rates-abc"}, {"time", 100.0}},
             {{"event", "point_planned"}, {"point", 0}, {"values", values}, {"steps", 5}, {"process_bytes", 1000}},
             {{"event", "run_started"}, {"point", 0}, {"seed", 0}, {"rung", 0}, {"run", "2026-01-01-rates-abc-p0000"}},
             {{"event", "run_ended"},
              {"point", 0},
              {"seed", 0},
              {"rung", 0},
              {"status", "done"},
              {"steps", 5},
              {"score", 2.5}},
             {{"event", "point_scored"}, {"point", 0}, {"rung", 0}, {"score", 2.5}},
             {{"event", "point_refused"}, {"point", 1}, {"values", values}, {"reason", "too large"}, {"time", 160.0}}})
      log.event(event.dump());
  }
  const json summary = json::parse(sweep::summary_json(made.path()));
  EXPECT_EQ(summary["status"], "killed") << "no process, and no end";
  EXPECT_EQ(summary["seconds"], 60.0);
  EXPECT_EQ(summary["best"], 0);
  EXPECT_EQ(summary["best_score"], 2.5);
  EXPECT_EQ(summary["parameters"][0]["scale"], "linear");
  EXPECT_EQ(summary["parameters"][1]["values"], (json{"f32", "bf16"}));
  EXPECT_EQ(summary["points"][0]["values"]["train.clip_norm"], 0.5);
  EXPECT_EQ(summary["points"][0]["status"], "scored");
  EXPECT_EQ(summary["points"][0]["runs"][0]["id"], "2026-01-01-rates-abc-p0000");
  EXPECT_EQ(summary["points"][1]["status"], "refused");
  EXPECT_EQ(summary["points"][1]["reason"], "too large");
}

}  // namespace
}  // namespace ramet::tests
