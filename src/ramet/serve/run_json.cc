#include "ramet/serve/run_json.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "ramet/serve/url.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Files of a run that everybody may read, by the names of the API.
constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
    {"plan", "plan.json"},     {"liveness", "liveness.json"}, {"program", "program.json"}, {"times", "times.json"},
    {"recipe", "recipe.toml"}, {"machine", "machine.json"},   {"run", "run.json"}};

json seconds_or_null(double seconds) { return seconds > 0 ? json(seconds) : json(nullptr); }
json number_or_null(double number) { return number > 0 ? json(number) : json(nullptr); }

/// What a list shows of a run beside its row.
struct RowExtras {
  double samples_per_step = 0, units_per_step = 0;
  int64_t alerts = 0;
  std::string parent;
};

double number_of(const FieldValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return 0;
}

std::map<std::string, RowExtras> extras_of(const Catalogue& catalogue, const std::vector<RunRow>& rows) {
  std::map<std::string, RowExtras> extras;
  if (rows.empty()) return extras;
  std::string ids;
  for (const auto& row : rows) ids += (ids.empty() ? "" : ",") + sql_text(row.id);
  const SqlResult result = catalogue.sql(
      "SELECT r.id, r.samples_per_step, r.units_per_step, (SELECT count(*) FROM alerts a WHERE a.run = r.key), "
      "(SELECT l.parent FROM lineage l WHERE l.run = r.key ORDER BY l.number DESC LIMIT 1) FROM runs r WHERE r.id IN "
      "(" +
          ids + ")",
      static_cast<int64_t>(rows.size()));
  for (const auto& row : result.rows) {
    const auto* id = std::get_if<std::string>(&row.at(0));
    if (!id) continue;
    RowExtras& extra = extras[*id];
    extra.samples_per_step = number_of(row.at(1));
    extra.units_per_step = number_of(row.at(2));
    extra.alerts = static_cast<int64_t>(number_of(row.at(3)));
    if (const auto* parent = std::get_if<std::string>(&row.at(4))) extra.parent = *parent;
  }
  return extras;
}

json json_of_row(const RunRow& row, const RowExtras& extra) {
  return {{"id", row.id},
          {"name", row.name},
          {"status", row.status},
          {"started", seconds_or_null(row.started_seconds)},
          {"ended", seconds_or_null(row.ended_seconds)},
          {"steps", row.steps},
          {"group", row.group},
          {"tags", row.tags},
          {"pinned", row.pinned},
          {"colour", row.colour},
          {"archived", row.archived},
          {"note", row.note},
          {"units", row.units},
          {"samples_per_step", number_or_null(extra.samples_per_step)},
          {"units_per_step", number_or_null(extra.units_per_step)},
          {"alerts", extra.alerts},
          {"parent", extra.parent}};
}

/// A JSON file of the run; null where it is not there or damaged.
json read_json(const fs::path& folder, const char* name) {
  const auto text = read_inside(folder, folder / name);
  if (!text) return nullptr;
  json value = json::parse(*text, nullptr, false);
  return value.is_discarded() ? json(nullptr) : value;
}

/// The events of a kind as JSON, oldest first.
json parsed_events(const Catalogue& catalogue, const std::string& id, std::string_view kind) {
  json list = json::array();
  for (const auto& event : catalogue.events(id, kind))
    if (json value = json::parse(event.json, nullptr, false); value.is_object()) list.push_back(std::move(value));
  return list;
}

json last_or_null(const json& list) { return list.empty() ? json(nullptr) : list.back(); }

json checkpoints_json(const fs::path& folder, const std::vector<std::string>& names) {
  json list = json::array();
  for (const auto& name : names) {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "checkpoints" / name, error)) {
      std::error_code ignored;
      if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
    }
    int64_t step = 0;
    if (const size_t digits = name.find_first_of("0123456789"); digits != std::string::npos)
      std::from_chars(name.data() + digits, name.data() + name.size(), step);
    list.push_back({{"name", name}, {"step", step}, {"bytes", bytes}});
  }
  return list;
}

/// The stems of logs of other processes of the run.
std::set<std::string> log_stems(const fs::path& folder) {
  std::set<std::string> stems;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "logs", error))
    if (entry.path().extension() == ".ramet") stems.insert(entry.path().stem().string());
  return stems;
}

}  // namespace

json json_value(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

std::string sql_text(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

json rows_json(const Catalogue& catalogue, const std::vector<RunRow>& rows, const std::vector<std::string>& columns) {
  auto extras = extras_of(catalogue, rows);
  json list = json::array();
  for (const auto& row : rows) {
    json value = json_of_row(row, extras[row.id]);
    json cells = json::object();
    for (size_t i = 0; i < columns.size() && i < row.columns.size(); ++i)
      cells[columns[i]] = json_value(row.columns[i]);
    value["columns"] = std::move(cells);
    list.push_back(std::move(value));
  }
  return list;
}

json row_json(const Catalogue& catalogue, const std::string& id) {
  const RunDetails run = catalogue.run(id);
  return json_of_row(run, extras_of(catalogue, {run})[run.id]);
}

json details_json(const Catalogue& catalogue, const std::string& id, const fs::path& folder) {
  const RunDetails run = catalogue.run(id);
  json value = json_of_row(run, extras_of(catalogue, {run})[run.id]);
  json config = json::object();
  for (const auto& [key, held] : run.config) config[key] = json_value(held);
  value["config"] = std::move(config);
  value["facts"] = read_json(folder, "run.json");
  value["machine"] = read_json(folder, "machine.json");
  value["start"] = last_or_null(parsed_events(catalogue, id, "start"));
  value["end"] = last_or_null(parsed_events(catalogue, id, "end"));
  value["axis"] = last_or_null(parsed_events(catalogue, id, "axis"));
  value["events"] = run.events;
  value["alert_events"] = parsed_events(catalogue, id, "alert");
  value["lineage"] = parsed_events(catalogue, id, "lineage");
  json children = json::array();
  for (const auto& edge : run.lineage)
    if (edge.from == id && edge.run != id) children.push_back(edge.run);
  value["children"] = std::move(children);
  value["checkpoints"] = checkpoints_json(folder, run.checkpoints);
  value["files"] = run_files(folder);
  value["ranks"] = 1 + log_stems(folder).size();
  value["problem"] = run.problem;
  value["version"] = run.version;
  value["command"] = run.command;
  value["git"] = run.git;
  value["kernel_class"] = run.kernel_class;
  value["skipped_bytes"] = run.skipped_bytes;
  value["dropped_metrics"] = run.dropped_metrics;
  return value;
}

json metrics_json(const Catalogue& catalogue, const std::string& id, const fs::path& folder) {
  const auto stems = log_stems(folder);
  json list = json::array();
  for (const auto& metric : catalogue.metrics(id)) {
    const size_t slash = metric.name.find('/');
    const bool rank = slash != std::string::npos && stems.contains(metric.name.substr(0, slash));
    list.push_back({{"name", metric.name},
                    {"kind", metric.name.starts_with("system/") ? "system"
                             : rank                             ? "rank"
                                                                : "metric"},
                    {"points", metric.points},
                    {"first_step", metric.first_step},
                    {"last_step", metric.last_step},
                    {"first_time", metric.first_time},
                    {"last_time", metric.last_time},
                    {"min", metric.min},
                    {"max", metric.max},
                    {"mean", metric.mean},
                    {"last", metric.last},
                    {"not_finite", metric.not_finite}});
  }
  return list;
}

json events_json(const Catalogue& catalogue, const std::string& id, const std::string& kind, int64_t limit) {
  json list = parsed_events(catalogue, id, kind);
  if (const auto size = static_cast<int64_t>(list.size()); size > limit)
    list.erase(list.begin(), list.begin() + (size - limit));
  for (auto& event : list)
    if (const auto time = event.find("time"); time == event.end() || !time->is_number()) event["time"] = 0;
  return list;
}

json media_json(const Catalogue& catalogue, const std::string& id) {
  json list = json::array();
  for (const auto& media : catalogue.media(id))
    list.push_back({{"kind", media.kind},
                    {"name", media.name},
                    {"step", media.step},
                    {"time", media.time},
                    {"artifact", media.artifact},
                    {"type", media.type},
                    {"bytes", media.bytes},
                    {"caption", media.caption}});
  return list;
}

std::vector<std::string> run_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& [name, file] : kFiles)
    if (fs::is_regular_file(folder / file, error)) names.emplace_back(name);
  std::vector<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(folder / "numerics", error)) {
    const std::string name = entry.path().stem().string();
    constexpr std::string_view kStep = "step-";
    int64_t step = 0;
    if (entry.path().extension() != ".json" || !name.starts_with(kStep)) continue;
    const auto [end, fault] = std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
    if (fault == std::errc() && end == name.data() + name.size()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  for (const int64_t step : steps) names.push_back("numerics/" + std::to_string(step));
  return names;
}

fs::path run_file(const fs::path& folder, std::string_view name) {
  for (const auto& [known, file] : kFiles)
    if (name == known) return folder / file;
  constexpr std::string_view kNumerics = "numerics/";
  int64_t step = 0;
  if (!name.starts_with(kNumerics)) return {};
  const std::string_view digits = name.substr(kNumerics.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || step < 0) return {};
  char file[40];
  std::snprintf(file, sizeof file, "step-%08lld.json", static_cast<long long>(step));
  return folder / "numerics" / file;
}

}  // namespace ramet::serve
