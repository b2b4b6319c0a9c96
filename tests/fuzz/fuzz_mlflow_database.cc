#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/import.h"
#include "ramet/track/sqlite.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(mlflow_database, std::string_view input) {
  read_mlflow_database({.kind = ImportKind::kMlflow, .path = fuzz::as_file(input), .files = {}, .name = "f"},
                       {.wants = [](const std::string&) { return true; },
                        .take = [](ImportedRun) {},
                        .remark = [](const std::string&) {},
                        .progress = {}});
}

namespace {

std::string database(const std::string& statements) {
  const auto path = fuzz::empty_folder("mlflow") / "mlflow.db";
  {
    Database file(path, Database::Mode::kReadWrite);
    file.execute("PRAGMA page_size = 512; PRAGMA journal_mode = OFF;" + statements);
  }
  return read_file(path);
}

}  // namespace

RAMET_FUZZ_SEEDS(mlflow_database) {
  const std::string tables =
      "CREATE TABLE experiments (experiment_id INTEGER, name TEXT);"
      "CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time BIGINT, lifecycle_stage TEXT, artifact_uri "
      "TEXT, experiment_id INTEGER);"
      "CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN);"
      "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT); CREATE TABLE tags (key TEXT, value TEXT, run_uuid "
      "TEXT);"
      "INSERT INTO experiments VALUES (1, 'e'); INSERT INTO runs VALUES ('r', 'n', 'FINISHED', 1600000000000, "
      "'active', './x', 1);"
      "INSERT INTO metrics VALUES ('loss', 0.5, 1600000000001, 'r', 1, 0), ('loss', 0, 1600000000002, 'r', 2, 1), "
      "('system/cpu', 3, 1, 'r', 1, 0);"
      "INSERT INTO params VALUES ('lr', '0.1', 'r'); INSERT INTO tags VALUES ('mlflow.runName', 'name', 'r'), ('t', "
      "'v', 'r');";
  return {.inputs = {database(tables), database(tables + "CREATE INDEX i ON metrics (run_uuid);"),
                     database("CREATE VIEW runs AS SELECT 1 AS run_uuid; CREATE VIEW metrics AS SELECT 1 AS key, 2 AS "
                              "value, 3 AS run_uuid;")},
          .words = {"CREATE TABLE", "CREATE VIEW", "CREATE TRIGGER", "runs", "metrics", "run_uuid",
                    " AS (randomblob(9999999))"}};
}
