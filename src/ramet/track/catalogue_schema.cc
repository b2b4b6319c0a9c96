#include "ramet/track/catalogue_schema.h"

namespace ramet::track {
namespace {

// Columns `run` hold runs.key but in the views, where they hold runs.id. Bool: 0 or 1. Times: seconds since 1970.
// docs/runs.md describes them for those who write queries.
constexpr const char* kTables = R"sql(
CREATE TABLE runs(key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL DEFAULT '',
  recipe_name TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'killed', started TEXT NOT NULL DEFAULT '',
  started_seconds REAL NOT NULL DEFAULT 0, ended TEXT NOT NULL DEFAULT '', ended_seconds REAL NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0, group_name TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '',
  colour TEXT NOT NULL DEFAULT '', pinned INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0,
  version TEXT NOT NULL DEFAULT '', command TEXT NOT NULL DEFAULT '', git TEXT NOT NULL DEFAULT '',
  machine TEXT NOT NULL DEFAULT '', kernel_class TEXT NOT NULL DEFAULT '', problem TEXT NOT NULL DEFAULT '',
  units TEXT NOT NULL DEFAULT '', samples_per_step REAL NOT NULL DEFAULT 0, units_per_step REAL NOT NULL DEFAULT 0,
  checkpoints TEXT NOT NULL DEFAULT '', events INTEGER NOT NULL DEFAULT 0, skipped_bytes INTEGER NOT NULL DEFAULT 0,
  replaced_points INTEGER NOT NULL DEFAULT 0, dropped_metrics INTEGER NOT NULL DEFAULT 0,
  log_status TEXT NOT NULL DEFAULT '', stamp TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE config(run INTEGER NOT NULL, key TEXT NOT NULL, source TEXT NOT NULL, kind TEXT NOT NULL,
  integer INTEGER, real REAL, text TEXT NOT NULL, PRIMARY KEY(run, key)) STRICT, WITHOUT ROWID;
CREATE TABLE tags(run INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY(run, tag)) STRICT, WITHOUT ROWID;
CREATE TABLE facts(run INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(run, key)) STRICT,
  WITHOUT ROWID;
CREATE TABLE metrics(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE summaries(run INTEGER NOT NULL, metric INTEGER NOT NULL, points INTEGER NOT NULL,
  first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, first_time REAL NOT NULL, last_time REAL NOT NULL,
  min REAL, max REAL, sum REAL, last REAL, not_finite INTEGER NOT NULL, PRIMARY KEY(run, metric)) STRICT, WITHOUT ROWID;
CREATE TABLE chunks(run INTEGER NOT NULL, metric INTEGER NOT NULL, level INTEGER NOT NULL, number INTEGER NOT NULL,
  points INTEGER NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, first_time REAL NOT NULL,
  last_time REAL NOT NULL, min REAL, max REAL, sum REAL NOT NULL, first REAL, last REAL, not_finite INTEGER NOT NULL,
  data INTEGER, PRIMARY KEY(run, metric, level, number)) STRICT, WITHOUT ROWID;
CREATE TABLE chunk_data(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
CREATE TABLE events(run INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, json TEXT NOT NULL,
  PRIMARY KEY(run, number)) STRICT, WITHOUT ROWID;
CREATE TABLE artifacts(run INTEGER NOT NULL, number INTEGER NOT NULL, hash TEXT NOT NULL, kind TEXT NOT NULL,
  name TEXT NOT NULL, type TEXT NOT NULL, caption TEXT NOT NULL, step INTEGER NOT NULL, time REAL NOT NULL,
  bytes INTEGER NOT NULL, PRIMARY KEY(run, number)) STRICT, WITHOUT ROWID;
CREATE TABLE alerts(run INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, level TEXT NOT NULL,
  title TEXT NOT NULL, text TEXT NOT NULL, step INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY(run, number)) STRICT,
  WITHOUT ROWID;
CREATE TABLE lineage(run INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, parent TEXT NOT NULL,
  checkpoint TEXT NOT NULL, weights_hash TEXT NOT NULL, PRIMARY KEY(run, number)) STRICT, WITHOUT ROWID;
CREATE TABLE logs(run INTEGER NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL, read INTEGER NOT NULL,
  skipped INTEGER NOT NULL, names BLOB NOT NULL, tail BLOB NOT NULL, PRIMARY KEY(run, file)) STRICT, WITHOUT ROWID;
CREATE INDEX config_keys ON config(key);
CREATE INDEX tag_runs ON tags(tag);
CREATE INDEX parents ON lineage(parent);
CREATE VIEW run_metrics AS SELECT r.id AS run, r.name AS name, m.name AS metric, s.points, s.first_step, s.last_step,
  s.first_time, s.last_time, s.min, s.max, s.sum / NULLIF(s.points - s.not_finite, 0) AS mean, s.last, s.not_finite
  FROM summaries s JOIN runs r ON r.key = s.run JOIN metrics m ON m.id = s.metric;
CREATE VIEW run_config AS SELECT r.id AS run, r.name AS name, c.key, c.kind,
  COALESCE(c.integer, c.real, c.text) AS value FROM config c JOIN runs r ON r.key = c.run;
CREATE VIEW run_tags AS SELECT r.id AS run, t.tag FROM tags t JOIN runs r ON r.key = t.run;
CREATE VIEW run_alerts AS SELECT r.id AS run, a.kind, a.level, a.title, a.text, a.step, a.time
  FROM alerts a JOIN runs r ON r.key = a.run;
CREATE VIEW run_events AS SELECT r.id AS run, e.number, e.kind, e.json FROM events e JOIN runs r ON r.key = e.run;
CREATE VIEW run_lineage AS SELECT r.id AS run, l.kind, l.parent, l.checkpoint, l.weights_hash
  FROM lineage l JOIN runs r ON r.key = l.run;
)sql";

}  // namespace

int64_t schema_of(Database& database) {
  Statement version = database.prepare("PRAGMA user_version");
  return version.step() ? version.integer(0) : 0;
}

void make_schema(Database& database) {
  std::vector<std::pair<std::string, std::string>> objects;
  {
    Statement names = database.prepare(
        "SELECT type, name FROM sqlite_schema WHERE type IN ('view', 'table', 'trigger') AND name NOT LIKE 'sqlite_%' "
        "ORDER BY type = 'table'");
    while (names.step()) objects.emplace_back(names.text(0), names.text(1));
  }
  for (const auto& [type, name] : objects) {
    std::string quoted;
    for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
    database.execute("DROP " + type + " IF EXISTS \"" + quoted + "\"");
  }
  database.execute(kTables);
  database.execute("PRAGMA user_version = " + std::to_string(kCatalogueSchema));
}

}  // namespace ramet::track
