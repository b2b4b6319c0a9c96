#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ramet/base/error.h"
#include "ramet/track/import.h"
#include "ramet/track/json_text.h"
#include "ramet/track/sqlite.h"

// The tables are those of mlflow/store/tracking/dbmodels/models.py: experiments, runs, metrics, params, tags. Versions
// differ in their columns; what a version lacks is left out.

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostText = 1 << 20;  // bytes of a name or a value
constexpr double kMostSeconds = 3600;  // of one file: a crafted one could keep SQLite busy for ever

/// A parameter, which is a text in MLflow, as what it was.
std::string typed(const std::string& text) {
  if (text == "True" || text == "true") return "true";
  if (text == "False" || text == "false") return "false";
  if (text == "None") return "null";
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size() && std::isfinite(number)) {
    const json value = parse_json(text);  // keeps integers integers
    return dump_json(value.is_number() ? value : json(number));
  }
  return dump_json(json(text));
}

/// MLflow keeps infinities as the largest finite numbers, as not all databases know them.
double metric_value(double value, bool is_nan) {
  constexpr double kMost = std::numeric_limits<double>::max();
  if (is_nan || std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  if (value >= kMost) return std::numeric_limits<double>::infinity();
  if (value <= -kMost) return -std::numeric_limits<double>::infinity();
  return value;
}

/// Our names of the system metrics of MLflow; others keep theirs.
std::string system_name(const std::string& key) {
  if (key == "cpu_utilization_percentage") return "cpu_percent";
  if (!key.starts_with("gpu_")) return key;
  const size_t end = key.find('_', 4);
  if (end == std::string::npos) return key;
  const std::string gpu = "gpu" + key.substr(4, end - 4), what = key.substr(end + 1);
  if (what == "utilization_percentage") return gpu + "_percent";
  if (what == "power_usage_watts") return gpu + "_watts";
  return key;
}

/// The tables of a database that are ordinary tables, with their columns. What else a file may have (views, virtual
/// tables) is nothing to read from.
class TableNames {
 public:
  explicit TableNames(Database& database) {
    std::vector<std::string> names;
    for (auto rows = database.prepare_once("SELECT name, sql FROM sqlite_master WHERE type = 'table'"); rows.step();)
      if (const std::string sql = rows.text(1); sql.starts_with("CREATE TABLE")) names.push_back(rows.text(0));
    for (const char* wanted : {"experiments", "runs", "metrics", "params", "tags"}) {
      if (std::find(names.begin(), names.end(), wanted) == names.end()) continue;
      auto& columns = columns_[wanted];
      for (auto rows = database.prepare_once(std::string("PRAGMA table_xinfo(") + wanted + ")"); rows.step();)
        if (rows.integer(6) == 0) columns.insert(rows.text(1));  // no computed ones
    }
  }
  bool has(const std::string& table) const { return columns_.contains(table); }
  bool has(const std::string& table, const std::string& column) const {
    const auto found = columns_.find(table);
    return found != columns_.end() && found->second.contains(column);
  }
  /// The column, or a value in its place where the table lacks it.
  std::string or_else(const std::string& table, const std::string& column, const std::string& otherwise) const {
    return has(table, column) ? "\"" + column + "\"" : otherwise;
  }
  bool are_of_mlflow() const {
    return has("runs", "run_uuid") && has("metrics", "key") && has("metrics", "value") && has("metrics", "run_uuid");
  }

 private:
  std::map<std::string, std::set<std::string>> columns_;
};

struct RunHead {
  std::string id, name, status, source_name, source_version, artifacts, experiment;
  int64_t start = 0, end = 0;  ///< milliseconds since 1970
};

class MlflowReader {
 public:
  MlflowReader(const ImportSource& source, const ImportSink& sink)
      : source_(source), sink_(sink), database_(source.path, Database::Mode::kReadForeign), tables_(database_) {
    if (!tables_.are_of_mlflow())
      throw Error({.what = "an SQLite database, but not one of MLflow",
                   .where = source.path.string(),
                   .expected = "tables named runs and metrics"});
  }

  void read() {
    const Database::Guard guard(database_, kMostSeconds);
    const std::map<std::string, std::string> experiments = read_experiments();
    const std::vector<RunHead> heads = read_heads();
    int64_t done = 0;
    for (const RunHead& head : heads) {
      if (sink_.wants(head.id)) sink_.take(read_run(head, experiments));
      if (sink_.progress) sink_.progress(++done, static_cast<int64_t>(heads.size()));
    }
    if (deleted_ > 0 && sink_.remark)
      sink_.remark(std::to_string(deleted_) + (deleted_ == 1 ? " run is" : " runs are") +
                   " deleted in MLflow and left out");
  }

 private:
  static std::string limited(Statement& rows, int column) { return rows.text(column).substr(0, kMostText); }

  std::map<std::string, std::string> read_experiments() {
    std::map<std::string, std::string> names;
    if (!tables_.has("experiments", "experiment_id") || !tables_.has("experiments", "name")) return names;
    for (auto rows = database_.prepare_once("SELECT experiment_id, name FROM experiments"); rows.step();)
      names[rows.text(0)] = limited(rows, 1);
    return names;
  }

  std::vector<RunHead> read_heads() {
    const auto column = [&](const char* name) { return tables_.or_else("runs", name, "NULL"); };
    auto rows = database_.prepare_once("SELECT run_uuid, " + column("name") + ", " + column("status") + ", " +
                                       column("start_time") + ", " + column("end_time") + ", " + column("source_name") +
                                       ", " + column("source_version") + ", " + column("artifact_uri") + ", " +
                                       column("experiment_id") + ", " + column("lifecycle_stage") + " FROM runs");
    std::vector<RunHead> heads;
    while (rows.step()) {
      if (rows.text(9) == "deleted") {
        ++deleted_;
        continue;
      }
      heads.push_back({.id = limited(rows, 0),
                       .name = limited(rows, 1),
                       .status = limited(rows, 2),
                       .source_name = limited(rows, 5),
                       .source_version = limited(rows, 6),
                       .artifacts = limited(rows, 7),
                       .experiment = rows.text(8),
                       .start = rows.integer(3),
                       .end = rows.integer(4)});
    }
    std::sort(heads.begin(), heads.end(),
              [](const RunHead& a, const RunHead& b) { return std::tie(a.start, a.id) < std::tie(b.start, b.id); });
    return heads;
  }

  ImportedRun read_run(const RunHead& head, const std::map<std::string, std::string>& experiments) {
    ImportedRun run;
    run.from = name_of(ImportKind::kMlflow);
    run.path = fs::absolute(source_.path);
    run.id = head.id;
    run.name = head.name;
    run.started = static_cast<double>(head.start) / 1e3;
    run.ended = static_cast<double>(head.end) / 1e3;
    run.status = head.status == "FINISHED" ? "done"
                 : head.status == "FAILED" ? "failed"
                 : head.status == "KILLED" ? "interrupted"
                                           : "";
    run.command = head.source_name;
    run.git = head.source_version;
    if (const auto found = experiments.find(head.experiment); found != experiments.end()) run.source = found->second;
    run.artifacts = local_artifacts(head.artifacts);
    read_tags(run);
    read_params(run);
    read_metrics(run);
    return run;
  }

  void read_params(ImportedRun& run) {
    if (!tables_.has("params", "key") || !tables_.has("params", "value")) return;
    auto rows = database_.prepare_once("SELECT key, value FROM params WHERE run_uuid = ?");
    rows.bind(run.id);
    while (rows.step()) run.config.emplace_back(limited(rows, 0), typed(limited(rows, 1)));
  }

  void read_tags(ImportedRun& run) {
    if (!tables_.has("tags", "key") || !tables_.has("tags", "value")) return;
    auto rows = database_.prepare_once("SELECT key, value FROM tags WHERE run_uuid = ?");
    rows.bind(run.id);
    std::string parent;
    while (rows.step()) {
      const std::string key = limited(rows, 0), value = limited(rows, 1);
      if (key == "mlflow.runName")
        run.name = value;
      else if (key == "mlflow.note.content")
        run.note = value;
      else if (key == "mlflow.source.git.commit")
        run.git = value;
      else if (key == "mlflow.source.name")
        run.command = value;
      else if (key == "mlflow.parentRunId")
        parent = value;
      else if (!key.starts_with("mlflow."))
        run.tags.push_back(value.empty() || value == "true" ? key : key + "=" + value);
    }
    if (!parent.empty()) run.group = name_of_run(parent);
  }

  std::string name_of_run(const std::string& id) {
    if (!tables_.has("runs", "name")) return id;
    auto rows = database_.prepare_once("SELECT name FROM runs WHERE run_uuid = ?");
    rows.bind(id);
    const std::string name = rows.step() ? limited(rows, 0) : "";
    return name.empty() ? id : name;
  }

  void read_metrics(ImportedRun& run) {
    auto rows = database_.prepare_once("SELECT key, value, " + tables_.or_else("metrics", "timestamp", "0") + ", " +
                                       tables_.or_else("metrics", "step", "0") + ", " +
                                       tables_.or_else("metrics", "is_nan", "0") + " FROM metrics WHERE run_uuid = ?");
    rows.bind(run.id);
    constexpr std::string_view kSystem = "system/";
    while (rows.step()) {
      const std::string key = limited(rows, 0);
      const ImportedPoint point{.step = rows.integer(3),
                                .time = static_cast<double>(rows.integer(2)) / 1e3,
                                .value = metric_value(rows.real(1), rows.integer(4) != 0)};
      if (key.starts_with(kSystem))
        run.system[system_name(key.substr(kSystem.size()))].push_back(point);
      else
        run.metrics[key].push_back(point);
    }
    const auto by_time = [](const ImportedPoint& a, const ImportedPoint& b) { return a.time < b.time; };
    for (auto* all : {&run.metrics, &run.system})
      for (auto& [key, points] : *all) std::stable_sort(points.begin(), points.end(), by_time);
  }

  /// The folder of the run's artifacts, if this machine has it.
  std::string local_artifacts(const std::string& uri) const {
    constexpr std::string_view kFile = "file://", kProxied = "mlflow-artifacts:";
    fs::path path;
    if (uri.starts_with(kFile)) {
      path = uri.substr(kFile.size());
    } else if (uri.starts_with(kProxied)) {
      std::string below = uri.substr(kProxied.size());
      below.erase(0, std::min(below.find_first_not_of('/'), below.size()));
      path = source_.path.parent_path() / "mlartifacts" / below;
    } else if (uri.find("://") == std::string::npos && !uri.empty()) {
      path = uri.starts_with('/') ? fs::path(uri) : source_.path.parent_path() / uri;
    }
    std::error_code error;
    return !path.empty() && fs::is_directory(path, error) ? fs::absolute(path).lexically_normal().string() : "";
  }

  const ImportSource& source_;
  const ImportSink& sink_;
  Database database_;
  TableNames tables_;
  int64_t deleted_ = 0;
};

}  // namespace

bool is_mlflow_database(const fs::path& path) {
  try {
    Database database(path, Database::Mode::kReadForeign);
    return TableNames(database).are_of_mlflow();
  } catch (const Error&) {
    return false;
  }
}

void read_mlflow_database(const ImportSource& source, const ImportSink& sink) { MlflowReader(source, sink).read(); }

}  // namespace ramet::track
