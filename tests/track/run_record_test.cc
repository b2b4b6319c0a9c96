#include "ramet/track/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/run_directory.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const RunFacts kFacts = {.name = "a b/c",
                         .recipe = "[train]\nsteps = 5\n\n[model]\nkind = \"bert\"\n",
                         .command = {"ramet", "train", "\xff"},
                         .kernel_class = "k",
                         .threads = 2};

fs::path make_run(const fs::path& parent, const std::string& end) {
  const RunDirectory run = RunDirectory::create(parent, kFacts);
  RunLogWriter log(run.log());
  log.event("{\"event\":\"start\",\"planned_bytes\":100}");
  for (int step = 1; step <= 3; ++step) {
    const std::vector<LoggedNumber> values = {{"loss", step == 3 ? std::nan("") : 4.0 - step}, {"odd,\"name\"", 1.0}};
    log.metrics(step, values);
  }
  if (!end.empty()) log.event(end);
  return run.path();
}

TEST(RunDirectory, HoldsWhatIsKnownOfTheRun) {
  const TemporaryFolder folder;
  const RunDirectory run = RunDirectory::create(folder.path(), kFacts);
  EXPECT_THAT(run.path().filename().string(), ContainsRegex("^20[0-9]{2}-[0-9]{2}-[0-9]{2}-a-b-c-[0-9a-f]{6}$"));
  const json facts = json::parse(read_file(run.path() / "run.json")),
             machine = json::parse(read_file(run.path() / "machine.json"));
  EXPECT_EQ(facts["name"], "a b/c");
  EXPECT_EQ(facts["command"][1], "train");
  EXPECT_EQ(facts["threads"], 2);
  EXPECT_GT(machine["memory_bytes"].get<int64_t>(), 1 << 20);
  EXPECT_GE(machine["processors"].get<int>(), 1);
  EXPECT_TRUE(is_run(run.path()));
  EXPECT_FALSE(is_run(folder.path()));
}

TEST(RunDirectory, OneProcessAtATime) {
  const TemporaryFolder folder;
  fs::path path;
  {
    const RunDirectory run = RunDirectory::create_at(folder / "run", kFacts);
    path = run.path();
    EXPECT_TRUE(is_running(path));
    EXPECT_THAT(error_of([&] { RunDirectory::reopen(path); }),
                HasSubstr("another process is running this run. Wait for it, or stop it"));
    EXPECT_EQ(read_run(path).status, RunStatus::kRunning);
  }
  EXPECT_FALSE(is_running(path));
  EXPECT_EQ(RunDirectory::reopen(path).path(), path);
  EXPECT_THAT(error_of([&] { RunDirectory::create_at(path, kFacts); }), HasSubstr("the folder holds a run already"));
  EXPECT_THAT(error_of([&] { RunDirectory::reopen(folder.path()); }), HasSubstr("not a run: it has no run.json"));
  EXPECT_THAT(error_of([&] { RunDirectory::create("/proc/none", kFacts); }), HasSubstr("cannot make the run's folder"));
}

TEST(RunRecord, TellsHowARunEnded) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_run(make_run(folder.path(), "")).status, RunStatus::kKilled);
  EXPECT_EQ(read_run(make_run(folder.path(), "{\"event\":\"end\",\"status\":\"done\"}")).status, RunStatus::kDone);
  EXPECT_EQ(read_run(make_run(folder.path(), "{\"event\":\"end\",\"status\":\"interrupted\"}")).status,
            RunStatus::kInterrupted);
  const fs::path failed = make_run(folder.path(), "{\"event\":\"end\",\"status\":\"failed\",\"error\":\"why\"}");
  const RunRecord run = read_run(failed);
  EXPECT_EQ(run.status, RunStatus::kFailed);
  EXPECT_EQ(run.problem, "why");
  EXPECT_EQ(run.steps(), 3);
  EXPECT_EQ(run.recipe_value("model.kind"), "\"bert\"");
  EXPECT_EQ(list_runs(folder.path()).size(), 4u);
  // A run that goes on after its end is not at its end.
  RunLogWriter(failed / "log.ramet").event("{\"event\":\"start\"}");
  EXPECT_EQ(read_run(failed).status, RunStatus::kKilled);
}

TEST(RunRecord, FindsRunsByWhatAPersonTypes) {
  const TemporaryFolder folder;
  const fs::path path = make_run(folder.path(), "");
  const std::string id = path.filename().string();
  const auto found = [&](const std::string& text) { return fs::canonical(find_run(text, folder.path())); };
  EXPECT_EQ(found(id), path);
  EXPECT_EQ(found(id.substr(id.size() - 6)), path);
  EXPECT_EQ(found("latest"), path);
  EXPECT_EQ(found(path.string() + "/"), path);
  EXPECT_EQ(found(path.string() + "/checkpoints/step-00000001"), path);
  EXPECT_THAT(error_of([&] { find_run(id.substr(0, id.size() - 1), folder.path()); }),
              HasSubstr("expected perhaps '" + id + "'"));
  EXPECT_THAT(error_of([&] { find_run("", folder.path()); }), HasSubstr("no such run; found ''"));
  EXPECT_THAT(error_of([&] { find_run("latest", folder / "none"); }), HasSubstr("no such run"));
}

TEST(RunRecord, ExportsNumbersThatAreNone) {
  const TemporaryFolder folder;
  const RunRecord run = read_run(make_run(folder.path(), "{\"event\":\"end\",\"status\":\"done\"}"));
  EXPECT_EQ(export_csv(run), "step,loss,\"odd,\"\"name\"\"\"\n1,3.0,1.0\n2,2.0,1.0\n3,nan,1.0\n");
  const json exported = json::parse(export_json(run));
  EXPECT_EQ(exported["metrics"]["loss"][0], json::parse("[1, 3.0]"));
  EXPECT_EQ(exported["metrics"]["loss"][2], json::parse("[3, \"nan\"]"));
  EXPECT_EQ(exported["facts"]["planned_bytes"], "100");
}

TEST(RunRecord, DamageLeavesGapsAndNoFailure) {
  const TemporaryFolder folder;
  const fs::path path = make_run(folder.path(), "");
  write_file_atomic(path / "machine.json", "{");
  write_file_atomic(path / "run.json", "[" + std::string(10000, '['));
  write_file_atomic(path / "log.ramet", "RLF1 and then nothing of sense");
  fs::remove(path / "recipe.toml");
  const RunRecord run = read_run(path);
  EXPECT_EQ(run.steps(), 0);
  EXPECT_TRUE(run.recipe.empty());
  EXPECT_EQ(run.log.skipped_bytes, 30);
  EXPECT_EQ(export_csv(run), "step\n");
}

}  // namespace
}  // namespace ramet::tests
