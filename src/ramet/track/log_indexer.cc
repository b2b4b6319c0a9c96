#include "ramet/track/log_indexer.h"

#include <algorithm>
#include <cmath>

#include "ramet/track/run_indexer.h"

namespace ramet::track {
namespace {

constexpr std::string_view kLog = "log.ramet";
constexpr std::string_view kEnding = ".ramet";

using nlohmann::json;

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }
std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}
double number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
int64_t integer_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  if (found->is_number_integer()) return found->get<int64_t>();
  const double value = found->get<double>();
  return std::abs(value) < 9e18 ? static_cast<int64_t>(value) : 0;
}

FieldValue field_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return value.get<double>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return {};
  return dump(value);
}

bool is_of(const std::set<std::string>& prefixes, const std::string& name) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::string metric_prefix(const std::string& file) {
  if (file == kLog) return "";
  std::string stem = file.ends_with(kEnding) ? file.substr(0, file.size() - kEnding.size()) : file;
  if (stem.starts_with("logs/")) stem.erase(0, 5);
  return stem + "/";
}

LogIndexer::LogIndexer(Database& database, int64_t run, MetricIds metric_ids)
    : database_(database), run_(run), metric_ids_(std::move(metric_ids)) {
  Statement row = database_.prepare("SELECT events, steps, units FROM runs WHERE key = ?");
  row.bind(run_);
  if (!row.step()) return;
  events_ = first_event_ = row.integer(0), steps_ = row.integer(1), knows_units_ = !row.text(2).empty();
}

void LogIndexer::begin(const std::string& file) {
  prefix_ = metric_prefix(file);
  leads_ = prefix_.empty();
  schemas_.clear();
}

MetricAppender& LogIndexer::appender(const std::string& name) {
  auto& found = appenders_[name];
  if (!found) found = std::make_unique<MetricAppender>(database_, run_, metric_ids_(name));
  return *found;
}

void LogIndexer::on_names(uint32_t id, const std::vector<std::string>& names) {
  constexpr std::string_view kSpeed = "_per_second";
  auto& metrics = schemas_[id];
  metrics.clear();
  for (const auto& name : names) {
    metrics.push_back(&appender(prefix_ + name));
    if (!knows_units_ && leads_ && name.ends_with(kSpeed) && !name.starts_with("real_")) {
      database_.prepare("UPDATE runs SET units = ? WHERE key = ?")
          .bind(std::string_view(name).substr(0, name.size() - kSpeed.size()))
          .bind(run_)
          .run();
      knows_units_ = true;
    }
  }
}

void LogIndexer::on_metrics(uint32_t id, int64_t step, double time, std::span<const double> values) {
  const auto& metrics = schemas_[id];
  for (size_t i = 0; i < values.size() && i < metrics.size(); ++i)
    metrics[i]->add({.step = step, .time = time, .value = values[i]});
  points_ += static_cast<int64_t>(values.size());
  if (leads_ && step > steps_) steps_ = step, steps_changed_ = true;
}

void LogIndexer::on_event(std::string_view text) {
  const Json event = Json::parse(text, nullptr, false);
  if (!event.is_object()) return;
  const std::string kind = text_at(event, "event");
  database_.prepare("INSERT OR REPLACE INTO events(run, number, kind, json) VALUES (?, ?, ?, ?)")
      .bind_all(run_, events_, kind, text)
      .run();
  if (leads_ && (kind == "start" || kind == "end")) take_facts(event, kind);
  if (kind == "axis") take_axis(event);
  if (kind == "dropped") take_dropped(event);
  if (kind == "logged") take_logged(event);
  if (kind == "alert") take_alert(event);
  if (kind == "lineage") take_lineage(event);
  if (kind == "config")
    if (const auto values = event.find("values"); values != event.end() && values->is_object())
      for (const auto& [key, value] : values->items()) put_config(database_, run_, key, field_of(value), "log");
  ++events_;
}

void LogIndexer::take_facts(const Json& event, const std::string& kind) {
  for (const auto& [key, value] : event.items())
    if (key != "event")
      database_.prepare("INSERT OR REPLACE INTO facts(run, key, value) VALUES (?, ?, ?)")
          .bind_all(run_, key, value.is_string() ? value.get<std::string>() : dump(value))
          .run();
  const std::string status = text_at(event, "status");
  if (kind == "start") {
    if (const auto from = event.find("from_step"); from != event.end() && from->is_number_integer())
      rewind(from->get<int64_t>());
    database_.prepare("UPDATE runs SET log_status = '', problem = '', ended_seconds = 0 WHERE key = ?")
        .bind(run_)
        .run();
    return;
  }
  database_.prepare("UPDATE runs SET log_status = ?, problem = ?, ended_seconds = ? WHERE key = ?")
      .bind_all(std::string_view(status == "done" || status == "interrupted" || status == "planned" ? status : "failed"),
                text_at(event, "error"), number_at(event, "time"), run_)
      .run();
}

std::set<std::string> LogIndexer::other_prefixes() {
  std::set<std::string> others;
  Statement logs = database_.prepare("SELECT file FROM logs WHERE run = ? AND file <> 'log.ramet'");
  logs.bind(run_);
  while (logs.step()) others.insert(metric_prefix(logs.text(0)));
  return others;
}

int64_t LogIndexer::last_step() {
  const std::set<std::string> others = other_prefixes();
  int64_t last = 0;
  Statement rows = database_.prepare(
      "SELECT m.name, s.last_step FROM summaries s JOIN metrics m ON m.id = s.metric WHERE s.run = ?");
  rows.bind(run_);
  while (rows.step())
    if (!is_of(others, rows.text(0))) last = std::max(last, rows.integer(1));
  return last;
}

/// A run goes on from a step: what it logged behind it is no longer so.
void LogIndexer::rewind(int64_t from_step) {
  const std::set<std::string> others = other_prefixes();  // they have a beginning of their own
  std::vector<std::string> names;
  {
    Statement later = database_.prepare(
        "SELECT m.name FROM summaries s JOIN metrics m ON m.id = s.metric WHERE s.run = ? AND s.last_step > ?");
    later.bind_all(run_, from_step);
    while (later.step()) names.push_back(later.text(0));
  }
  for (const auto& [name, appender] : appenders_) names.push_back(name);
  for (const auto& name : names)
    if (!is_of(others, name)) appender(name).rewind(from_step + 1);
  if (steps_ > from_step) steps_ = from_step, steps_changed_ = true;
}

void LogIndexer::take_axis(const Json& event) {
  knows_units_ = true;
  database_.prepare("UPDATE runs SET samples_per_step = ?, units_per_step = ?, units = ? WHERE key = ?")
      .bind_all(number_at(event, "samples_per_step"), number_at(event, "units_per_step"), text_at(event, "units"), run_)
      .run();
}

void LogIndexer::take_dropped(const Json& event) {
  // Each event tells the sum of its process.
  database_.prepare("UPDATE runs SET dropped_metrics = MAX(dropped_metrics, ?) WHERE key = ?")
      .bind_all(integer_at(event, "metrics"), run_)
      .run();
}

void LogIndexer::take_logged(const Json& event) {
  database_
      .prepare(
          "INSERT OR REPLACE INTO artifacts(run, number, hash, kind, name, type, caption, step, time, bytes) VALUES "
          "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind_all(run_, events_, text_at(event, "artifact"), text_at(event, "kind"), prefix_ + text_at(event, "name"),
                text_at(event, "type"), text_at(event, "caption"), integer_at(event, "step"), number_at(event, "time"),
                integer_at(event, "bytes"))
      .run();
}

void LogIndexer::take_alert(const Json& event) {
  database_
      .prepare(
          "INSERT OR REPLACE INTO alerts(run, number, kind, level, title, text, step, time) VALUES (?, ?, ?, ?, ?, "
          "?, ?, ?)")
      .bind_all(run_, events_, text_at(event, "kind"), text_at(event, "level"), text_at(event, "title"),
                text_at(event, "text"), integer_at(event, "step"), number_at(event, "time"))
      .run();
}

void LogIndexer::take_lineage(const Json& event) {
  database_
      .prepare(
          "INSERT OR REPLACE INTO lineage(run, number, kind, parent, checkpoint, weights_hash) VALUES (?, ?, ?, ?, "
          "?, ?)")
      .bind_all(run_, events_, text_at(event, "kind"), text_at(event, "from"), text_at(event, "checkpoint"),
                text_at(event, "weights_hash"))
      .run();
}

void LogIndexer::finish() {
  int64_t replaced = 0;
  for (const auto& [name, appender] : appenders_) appender->finish(), replaced += appender->replaced();
  if (replaced > 0) steps_ = last_step(), steps_changed_ = true;
  if (replaced > 0)
    database_.prepare("UPDATE runs SET replaced_points = replaced_points + ? WHERE key = ?")
        .bind_all(replaced, run_)
        .run();
  if (events_ > first_event_)
    database_.prepare("UPDATE runs SET events = ? WHERE key = ?").bind_all(events_, run_).run();
  if (steps_changed_) database_.prepare("UPDATE runs SET steps = ? WHERE key = ?").bind_all(steps_, run_).run();
}

}  // namespace ramet::track
