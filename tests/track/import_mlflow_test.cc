#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ramet/base/file.h"
#include "ramet/track/annotations.h"
#include "ramet/track/export.h"
#include "ramet/track/import.h"
#include "ramet/track/sqlite.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// The tables of MLflow 3, as far as runs are concerned.
constexpr const char* kTables = R"(
  CREATE TABLE experiments (experiment_id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(256) UNIQUE NOT NULL, artifact_location VARCHAR(256), lifecycle_stage VARCHAR(32), creation_time BIGINT, last_update_time BIGINT);
  CREATE TABLE runs (run_uuid VARCHAR(32) NOT NULL PRIMARY KEY, name VARCHAR(250), source_type VARCHAR(20), source_name VARCHAR(500), entry_point_name VARCHAR(50), user_id VARCHAR(256), status VARCHAR(9), start_time BIGINT, end_time BIGINT, deleted_time BIGINT, source_version VARCHAR(50), lifecycle_stage VARCHAR(20), artifact_uri VARCHAR(200), experiment_id INTEGER);
  CREATE TABLE metrics (key VARCHAR(250) NOT NULL, value FLOAT NOT NULL, timestamp BIGINT NOT NULL, run_uuid VARCHAR(32) NOT NULL, step BIGINT DEFAULT '0' NOT NULL, is_nan BOOLEAN DEFAULT '0' NOT NULL, PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
  CREATE TABLE params (key VARCHAR(250) NOT NULL, value VARCHAR(8000) NOT NULL, run_uuid VARCHAR(32) NOT NULL, PRIMARY KEY (key, run_uuid));
  CREATE TABLE tags (key VARCHAR(250) NOT NULL, value VARCHAR(8000), run_uuid VARCHAR(32) NOT NULL, PRIMARY KEY (key, run_uuid));
)";

void make_database(const fs::path& path, const std::string& rows) {
  Database database(path, Database::Mode::kReadWrite);
  database.execute(kTables);
  database.execute(rows);
}

struct Outcome {
  std::vector<ImportResult> results;
  std::vector<std::string> remarks;
};

Outcome import(const fs::path& from, const fs::path& runs) {
  Outcome outcome;
  RunImporter importer(runs, false);
  for (const ImportSource& source : find_import_sources(from).sources)
    read_runs(source, {.wants = [&](const std::string& id) { return importer.find("mlflow", id).empty(); },
                       .take = [&](ImportedRun run) { outcome.results.push_back(importer.add(std::move(run))); },
                       .remark = [&](const std::string& remark) { outcome.remarks.push_back(remark); },
                       .progress = {}});
  return outcome;
}

TEST(ImportMlflow, RunsWithAllThatTheyHold) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "mlartifacts" / "1" / "a" / "artifacts");
  make_database(folder / "mlflow.db", R"(
    INSERT INTO experiments VALUES (1, 'digits', '', 'active', 0, 0);
    INSERT INTO runs VALUES ('b', 'child', '', 'train.py', '', '', 'FAILED', 1700000100000, 1700000200000, NULL, 'c0ffee', 'active', 's3://bucket/b', 1);
    INSERT INTO runs VALUES ('a', 'parent', '', '', '', '', 'FINISHED', 1700000000000, 1700000050500, NULL, '', 'active', 'mlflow-artifacts:/1/a/artifacts', 1);
    INSERT INTO runs VALUES ('d', 'gone', '', '', '', '', 'FINISHED', 1, 2, 3, '', 'deleted', '', 1);
    INSERT INTO metrics VALUES ('loss', 0.5, 1700000001000, 'a', 1, 0), ('loss', 0.25, 1700000002000, 'a', 2, 0),
      ('loss', 0, 1700000003000, 'a', 3, 1), ('loss', 1.7976931348623157e308, 1700000004000, 'a', 4, 0),
      ('val/acc', 0.75, 1700000002500, 'a', 2, 0), ('system/cpu_utilization_percentage', 12.5, 1700000002000, 'a', 0, 0),
      ('system/gpu_0_utilization_percentage', 99, 1700000002000, 'a', 0, 0), ('loss', 7, 1700000101000, 'b', 1, 0);
    INSERT INTO params VALUES ('lr', '0.001', 'a'), ('layers', '12', 'a'), ('on', 'True', 'a'), ('name', 'bert', 'a'), ('none', 'None', 'a'), ('big', '1e999', 'a');
    INSERT INTO tags VALUES ('mlflow.note.content', 'A note', 'a'), ('stage', 'prod', 'a'), ('mlflow.user', 'me', 'a'), ('baseline', '', 'a'), ('mlflow.parentRunId', 'a', 'b');
  )");
  const Outcome outcome = import(folder / "mlflow.db", folder / "runs");
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_THAT(outcome.remarks, ElementsAre("1 run is deleted in MLflow and left out"));
  const RunRecord run = read_run(outcome.results[0].run), child = read_run(outcome.results[1].run);
  EXPECT_EQ(run.name, "parent");
  EXPECT_EQ(run.status, RunStatus::kDone);
  EXPECT_EQ(start_of(run), 1700000000);
  const auto loss = run.log.series("loss");
  ASSERT_EQ(loss.size(), 4u);
  EXPECT_EQ(loss[1], (std::pair<int64_t, double>(2, 0.25)));
  EXPECT_TRUE(std::isnan(loss[2].second));
  EXPECT_EQ(loss[3].second, std::numeric_limits<double>::infinity());
  EXPECT_EQ(run.log.steps.at(1)[0].time, 1700000001);
  EXPECT_THAT(run.log.series("val/acc"), ElementsAre(Pair(2, 0.75)));
  EXPECT_THAT(run.log.names(), ElementsAre("loss", "val/acc"));
  const auto system = system_logs(run.path);
  ASSERT_EQ(system.size(), 1u);
  EXPECT_THAT(system[0].second.names(), ElementsAre("cpu_percent", "gpu0_percent"));
  EXPECT_THAT(config_of(run), ElementsAre(Pair("big", "\"1e999\""), Pair("layers", "12"), Pair("lr", "0.001"),
                                          Pair("name", "\"bert\""), Pair("none", "null"), Pair("on", "true")));
  EXPECT_THAT(read_annotations(run.path).tags, ElementsAre("baseline", "stage=prod"));
  EXPECT_EQ(read_annotations(run.path).note, "A note");
  const std::string facts = read_file(run.path / "run.json");
  EXPECT_THAT(facts, HasSubstr((folder / "mlartifacts" / "1" / "a" / "artifacts").string()));
  EXPECT_THAT(facts, HasSubstr("\"source\": \"digits\""));
  EXPECT_EQ(child.status, RunStatus::kFailed);
  EXPECT_EQ(child.git, "c0ffee");
  EXPECT_EQ(child.command, "train.py");
  EXPECT_EQ(read_annotations(child.path).group, "parent");
  EXPECT_THAT(import(folder.path(), folder / "runs").results, IsEmpty()) << "each is there already";
}

TEST(ImportMlflow, AnOlderSchemaHasFewerColumns) {
  const TemporaryFolder folder;
  {
    Database database(folder / "mlflow.db", Database::Mode::kReadWrite);
    database.execute(
        "CREATE TABLE runs (run_uuid VARCHAR(32), status VARCHAR(20), start_time BIGINT);"
        "CREATE TABLE metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT, run_uuid VARCHAR(32));"
        "INSERT INTO runs VALUES ('r', 'RUNNING', 1600000000000);"
        "INSERT INTO metrics VALUES ('x', 2, 1600000002000, 'r'), ('x', 1, 1600000001000, 'r');");
  }
  const RunRecord run = read_run(import(folder / "mlflow.db", folder / "runs").results.at(0).run);
  EXPECT_EQ(run.name, "r");
  EXPECT_EQ(run.status, RunStatus::kKilled);
  EXPECT_THAT(run.log.series("x"), ElementsAre(Pair(0, 1.0), Pair(1, 2.0))) << "by time: there are no steps";
}

TEST(ImportMlflow, OtherDatabasesAreNoneOfMlflow) {
  const TemporaryFolder folder;
  {
    Database other(folder / "other.db", Database::Mode::kReadWrite);
    other.execute("CREATE TABLE runs (id TEXT); CREATE TABLE metrics (name TEXT)");
    // What is computed when it is read is nothing to read from.
    Database views(folder / "views.db", Database::Mode::kReadWrite);
    views.execute(
        "CREATE VIEW runs AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS run_uuid FROM "
        "c;"
        "CREATE VIEW metrics AS SELECT 'k' AS key, 1 AS value, run_uuid FROM runs");
    Database computed(folder / "computed.db", Database::Mode::kReadWrite);
    computed.execute(
        "CREATE TABLE runs (x TEXT, run_uuid TEXT AS (hex(x)));"
        "CREATE TABLE metrics (key TEXT, value FLOAT, run_uuid TEXT); INSERT INTO runs VALUES ('x')");
  }
  for (const char* name : {"other.db", "views.db", "computed.db"}) {
    EXPECT_FALSE(is_mlflow_database(folder / name)) << name;
    EXPECT_THAT(error_of([&] { find_import_sources(folder / name); }), HasSubstr("not a file that can be imported"));
    EXPECT_THAT(error_of([&] {
                  read_mlflow_database({.kind = ImportKind::kMlflow, .path = folder / name, .files = {}, .name = ""},
                                       {});
                }),
                HasSubstr("an SQLite database, but not one of MLflow"));
  }
  EXPECT_THAT(find_import_sources(folder.path()).sources, IsEmpty());
}

}  // namespace
}  // namespace ramet::tests
