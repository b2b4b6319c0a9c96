#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/track/catalogue.h"
#include "ramet/track/catalogue_state.h"
#include "ramet/track/filter.h"
#include "ramet/track/importance.h"
#include "ramet/track/run_indexer.h"

namespace ramet::track {
namespace {

void bind_piece(Statement& statement, const SqlPiece& piece) {
  for (const auto& value : piece.values) statement.bind_value(value);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// All runs whose tags are asked for have few of them; one query each is fast.
std::vector<std::string> tags_of(Database& database, int64_t key) {
  std::vector<std::string> tags;
  Statement rows = database.prepare("SELECT tag FROM tags WHERE run = ? ORDER BY tag");
  rows.bind(key);
  while (rows.step()) tags.push_back(rows.text(0));
  return tags;
}

std::vector<std::pair<std::string, FieldValue>> config_of(Database& database, int64_t key) {
  std::vector<std::pair<std::string, FieldValue>> config;
  Statement rows = database.prepare("SELECT key, kind, integer, real, text FROM config WHERE run = ? ORDER BY key");
  rows.bind(key);
  while (rows.step()) {
    const std::string kind = rows.text(1);
    FieldValue value;
    if (kind == "bool") value = rows.integer(2) != 0;
    if (kind == "integer") value = rows.integer(2);
    if (kind == "real") value = rows.real(3);
    if (kind == "text") value = rows.text(4);
    config.emplace_back(rows.text(0), std::move(value));
  }
  return config;
}

std::vector<MetricSummary> metrics_of(Database& database, int64_t key) {
  std::vector<MetricSummary> metrics;
  Statement rows = database.prepare(
      "SELECT m.name, s.points, s.first_step, s.last_step, s.first_time, s.last_time, s.min, s.max, s.sum, s.last, "
      "s.not_finite FROM summaries s JOIN metrics m ON m.id = s.metric WHERE s.run = ? ORDER BY m.name");
  rows.bind(key);
  while (rows.step()) {
    MetricSummary one;
    one.name = rows.text(0), one.points = rows.integer(1);
    one.first_step = rows.integer(2), one.last_step = rows.integer(3);
    one.first_time = rows.real(4), one.last_time = rows.real(5);
    one.min = rows.real(6), one.max = rows.real(7), one.last = rows.real(9), one.not_finite = rows.integer(10);
    const int64_t finite = one.points - one.not_finite;
    one.mean = finite > 0 ? rows.real(8) / static_cast<double>(finite) : std::nan("");
    metrics.push_back(std::move(one));
  }
  return metrics;
}

/// A comparison's rows from what each run has, by name.
std::vector<ComparedRow> rows_of(const std::vector<std::map<std::string, FieldValue>>& runs, bool only_different) {
  std::set<std::string> names;
  for (const auto& run : runs)
    for (const auto& [name, value] : run) names.insert(name);
  std::vector<ComparedRow> rows;
  for (const auto& name : names) {
    ComparedRow row{.name = name, .values = {}};
    for (const auto& run : runs) {
      const auto found = run.find(name);
      row.values.push_back(found == run.end() ? FieldValue() : found->second);
      row.differs |= row.values.back() != row.values.front();
    }
    if (row.differs || !only_different) rows.push_back(std::move(row));
  }
  return rows;
}

FieldValue number_field(double value) { return std::isnan(value) ? FieldValue() : FieldValue(value); }

/// What a comparison tells of a run beside its configuration and its metrics.
std::map<std::string, FieldValue> compared_facts(Database& database, int64_t key, const RunRow& run) {
  static const std::set<std::string> kLeftOut = {"run_directory", "checkpoint", "time", "event", "devices", "error"};
  std::map<std::string, FieldValue> facts;
  Statement rows = database.prepare("SELECT key, value FROM facts WHERE run = ?");
  rows.bind(key);
  while (rows.step())
    if (!kLeftOut.contains(rows.text(0)) && !rows.text(1).starts_with('['))
      facts[rows.text(0)] = typed_value(rows.text(1));
  Statement row = database.prepare("SELECT version, git, machine, kernel_class, problem FROM runs WHERE key = ?");
  row.bind(key);
  if (row.step()) {
    const char* const names[] = {"version", "git", "machine", "kernel_class", "problem"};
    for (int i = 0; i < 5; ++i)
      if (!row.text(i).empty()) facts[names[i]] = row.text(i);
  }
  facts["status"] = run.status, facts["steps"] = run.steps, facts["started"] = run.started;
  if (!run.group.empty()) facts["group"] = run.group;
  if (run.ended_seconds > 0) facts["seconds"] = run.ended_seconds - run.started_seconds;
  return facts;
}

}  // namespace

const char* const kRunColumns =
    "r.key, r.id, r.name, r.status, r.started, r.ended, r.group_name, r.note, r.colour, r.units, r.recipe_name, "
    "r.pinned, "
    "r.archived, r.steps, r.started_seconds, r.ended_seconds";

RunRow run_row_of(const Statement& row, const std::filesystem::path& folder) {
  RunRow run;
  run.id = row.text(1), run.name = row.text(2), run.status = row.text(3), run.started = row.text(4);
  run.ended = row.text(5), run.group = row.text(6), run.note = row.text(7), run.colour = row.text(8);
  run.units = row.text(9), run.recipe_name = row.text(10);
  run.pinned = row.integer(11) != 0, run.archived = row.integer(12) != 0;
  run.steps = row.integer(13), run.started_seconds = row.real(14), run.ended_seconds = row.real(15);
  run.path = folder / run.id;
  return run;
}

RunPage Catalogue::runs(const RunQuery& query) const {
  const SqlPiece filter = parse_filter(query.filter), sort = parse_sort(query.sort);
  std::string columns = kRunColumns;
  std::vector<SqlPiece> fields;
  for (const auto& column : query.columns) columns += ", " + fields.emplace_back(parse_field(column)).sql;
  return state_->with([&](Database& database) {
    RunPage page;
    {
      Statement count = database.prepare_once("SELECT COUNT(*) FROM runs r WHERE " + filter.sql);
      bind_piece(count, filter);
      if (count.step()) page.total = count.integer(0);
    }
    Statement rows = database.prepare_once("SELECT " + columns + " FROM runs r WHERE " + filter.sql + " ORDER BY " +
                                           sort.sql + " LIMIT ? OFFSET ?");
    for (const auto& field : fields) bind_piece(rows, field);
    bind_piece(rows, filter);
    bind_piece(rows, sort);
    rows.bind(query.limit).bind(query.offset);
    while (rows.step()) {
      RunRow run = run_row_of(rows, state_->folder);
      run.tags = tags_of(database, rows.integer(0));
      for (size_t i = 0; i < fields.size(); ++i)
        run.columns.push_back(rows.value(kRunColumnCount + static_cast<int>(i)));
      page.runs.push_back(std::move(run));
    }
    return page;
  });
}

namespace {

std::vector<AlertRow> alerts_of(Database& database, int64_t key, int64_t limit) {
  std::vector<AlertRow> alerts;
  Statement rows = database.prepare(
      "SELECT r.id, a.kind, a.level, a.title, a.text, a.step, a.time FROM alerts a JOIN runs r ON r.key = a.run WHERE "
      "?1 = 0 OR a.run = ?1 ORDER BY a.time DESC, a.number DESC LIMIT ?2");
  rows.bind(key).bind(limit);
  while (rows.step())
    alerts.push_back({.run = rows.text(0),
                      .kind = rows.text(1),
                      .level = rows.text(2),
                      .title = rows.text(3),
                      .text = rows.text(4),
                      .step = rows.integer(5),
                      .time = rows.real(6)});
  return alerts;
}

std::vector<LineageRow> lineage_of(Database& database, int64_t key) {
  std::vector<LineageRow> edges;
  Statement rows = database.prepare(
      "SELECT r.id, l.kind, l.parent, l.checkpoint, l.weights_hash FROM lineage l JOIN runs r ON r.key = l.run WHERE "
      "?1 = 0 OR l.run = ?1 OR l.parent = (SELECT id FROM runs WHERE key = ?1) ORDER BY r.started_seconds, l.number");
  rows.bind(key);
  while (rows.step()) edges.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4)});
  return edges;
}

}  // namespace

RunDetails Catalogue::run(const std::string& id) const {
  return state_->with([&](Database& database) {
    const int64_t key = state_->key_of(id);
    RunDetails run;
    {
      Statement row = database.prepare(
          "SELECT " + std::string(kRunColumns) +
          ", version, command, git, machine, kernel_class, problem, checkpoints, events, skipped_bytes, "
          "replaced_points, "
          "dropped_metrics, (SELECT COUNT(*) FROM artifacts a WHERE a.run = r.key) FROM runs r WHERE key = ?");
      row.bind(key);
      row.step();
      static_cast<RunRow&>(run) = run_row_of(row, state_->folder);
      int at = kRunColumnCount;
      for (std::string* text : {&run.version, &run.command, &run.git, &run.machine, &run.kernel_class, &run.problem})
        *text = row.text(at++);
      run.checkpoints = lines_of(row.text(at++));
      for (int64_t* number : {&run.events, &run.skipped_bytes, &run.replaced_points, &run.dropped_metrics, &run.media})
        *number = row.integer(at++);
    }
    run.tags = tags_of(database, key);
    run.config = config_of(database, key);
    run.metrics = metrics_of(database, key);
    Statement facts = database.prepare("SELECT key, value FROM facts WHERE run = ? ORDER BY key");
    facts.bind(key);
    while (facts.step()) run.facts.emplace_back(facts.text(0), facts.text(1));
    run.lineage = lineage_of(database, key);
    run.alerts = alerts_of(database, key, 1000);
    std::reverse(run.alerts.begin(), run.alerts.end());
    return run;
  });
}

std::vector<std::pair<std::string, FieldValue>> Catalogue::config(const std::string& id) const {
  return state_->with([&](Database& database) { return config_of(database, state_->key_of(id)); });
}

std::vector<MetricSummary> Catalogue::metrics(const std::string& id) const {
  return state_->with([&](Database& database) { return metrics_of(database, state_->key_of(id)); });
}

std::vector<EventRow> Catalogue::events(const std::string& id, std::string_view kind) const {
  return state_->with([&](Database& database) {
    std::vector<EventRow> events;
    Statement rows = database.prepare(
        "SELECT number, kind, json FROM events WHERE run = ?1 AND (?2 = '' OR kind = ?2) ORDER BY number");
    rows.bind(state_->key_of(id)).bind(kind);
    while (rows.step()) events.push_back({rows.integer(0), rows.text(1), rows.text(2)});
    return events;
  });
}

std::vector<MediaRow> Catalogue::media(const std::string& id) const {
  return state_->with([&](Database& database) {
    std::vector<MediaRow> media;
    Statement rows = database.prepare(
        "SELECT kind, name, hash, type, caption, step, bytes, time FROM artifacts WHERE run = ? ORDER BY number");
    rows.bind(state_->key_of(id));
    while (rows.step())
      media.push_back({.kind = rows.text(0),
                       .name = rows.text(1),
                       .artifact = rows.text(2),
                       .type = rows.text(3),
                       .caption = rows.text(4),
                       .step = rows.integer(5),
                       .bytes = rows.integer(6),
                       .time = rows.real(7)});
    return media;
  });
}

std::vector<AlertRow> Catalogue::alerts(const std::string& id, int64_t limit) const {
  return state_->with(
      [&](Database& database) { return alerts_of(database, id.empty() ? 0 : state_->key_of(id), limit); });
}

std::vector<LineageRow> Catalogue::lineage(const std::string& id) const {
  return state_->with([&](Database& database) { return lineage_of(database, id.empty() ? 0 : state_->key_of(id)); });
}

CatalogueKeys Catalogue::keys() const {
  return state_->with([&](Database& database) {
    CatalogueKeys keys;
    const auto read = [&](const char* sql, std::vector<KeyCount>& to) {
      Statement rows = database.prepare(sql);
      while (rows.step()) to.push_back({rows.text(0), rows.integer(1)});
    };
    read("SELECT key, COUNT(*) FROM config GROUP BY key ORDER BY key", keys.config);
    read("SELECT m.name, COUNT(*) FROM summaries s JOIN metrics m ON m.id = s.metric GROUP BY s.metric ORDER BY m.name",
         keys.metrics);
    read("SELECT tag, COUNT(*) FROM tags GROUP BY tag ORDER BY tag", keys.tags);
    read("SELECT group_name, COUNT(*) FROM runs WHERE group_name <> '' GROUP BY group_name ORDER BY group_name",
         keys.groups);
    return keys;
  });
}

RunComparison Catalogue::compare(const std::vector<std::string>& ids) const {
  return state_->with([&](Database& database) {
    RunComparison comparison;
    std::vector<std::map<std::string, FieldValue>> config, facts, metrics;
    for (const auto& id : ids) {
      const int64_t key = state_->key_of(id);
      Statement row = database.prepare("SELECT " + std::string(kRunColumns) + " FROM runs r WHERE r.key = ?");
      row.bind(key);
      row.step();
      const RunRow run = run_row_of(row, state_->folder);
      comparison.runs.push_back(run.id);
      auto& its = config.emplace_back();
      for (auto& [name, value] : config_of(database, key)) its[name] = std::move(value);
      facts.push_back(compared_facts(database, key, run));
      auto& last = metrics.emplace_back();
      for (const auto& metric : metrics_of(database, key)) last[metric.name] = number_field(metric.last);
    }
    comparison.config = rows_of(config, true);
    comparison.facts = rows_of(facts, false);
    comparison.metrics = rows_of(metrics, false);
    return comparison;
  });
}

std::vector<KeyImportance> Catalogue::importance(const std::string& metric, const std::string& filter) const {
  const SqlPiece condition = parse_filter(filter);
  return state_->with([&](Database& database) {
    std::vector<double> results;
    std::vector<std::vector<std::pair<std::string, FieldValue>>> configs;
    std::vector<int64_t> keys;
    {
      Statement rows = database.prepare_once(
          "SELECT r.key, s.last FROM runs r JOIN summaries s ON s.run = r.key AND s.metric = (SELECT id FROM metrics "
          "WHERE "
          "name = ?) WHERE " +
          condition.sql);
      rows.bind(std::string_view(metric));
      bind_piece(rows, condition);
      while (rows.step())
        if (const double last = rows.real(1); std::isfinite(last))
          keys.push_back(rows.integer(0)), results.push_back(last);
    }
    for (const int64_t key : keys) configs.push_back(config_of(database, key));
    return importance_of(configs, results);
  });
}

SqlResult Catalogue::sql(const std::string& text, int64_t limit, double seconds) const {
  constexpr size_t kMostBytes = 64 << 20;
  return state_->with([&](Database& database) {
    SqlResult result;
    const Database::Guard guard(database, seconds);
    Statement rows = database.prepare_query(text);
    for (int i = 0; i < rows.columns(); ++i) result.columns.push_back(rows.column_name(i));
    size_t bytes = 0;
    try {
      while (rows.step()) {
        if (static_cast<int64_t>(result.rows.size()) >= limit || bytes > kMostBytes) {
          result.truncated = true;
          break;
        }
        auto& row = result.rows.emplace_back();
        for (int i = 0; i < rows.columns(); ++i) {
          row.push_back(rows.value(i));
          if (const std::string* long_text = std::get_if<std::string>(&row.back())) bytes += long_text->size();
          bytes += sizeof(FieldValue);
        }
      }
    } catch (const DatabaseError& error) {
      if (error.is_damaged()) throw;
      const std::string what =
          error.is_interrupted() ? "took longer than " + field_text(seconds) + " seconds" : error.parts().what;
      throw Error({.what = what, .where = "the query"});
    }
    return result;
  });
}

}  // namespace ramet::track
