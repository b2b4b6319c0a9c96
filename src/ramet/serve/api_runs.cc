#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/version.h"
#include "ramet/serve/handlers.h"
#include "ramet/serve/run_json.h"

namespace ramet::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMostRuns = 1000, kMostCompared = 100, kMostEvents = 100000, kMostRows = 10000;
constexpr size_t kMostValues = 20;  // of a key, that a list of choices shows
constexpr double kSqlSeconds = 10;

std::string joined(const std::string& filter, const std::string& more) {
  return filter.find_first_not_of(" \t") == std::string::npos ? more : "(" + filter + ") and " + more;
}

}  // namespace

HttpResponse get_version(ApiCall& call) {
  call.query.finish();
  const int64_t runs = call.context.store.read()->runs(first_runs("", 0)).total;
  return json_response({{"version", version()},
                        {"api", 1},
                        {"read_only", call.context.read_only},
                        {"runs_folder", call.context.store.folder().string()},
                        {"runs", runs},
                        {"token_required", call.context.access.asks_for_token()},
                        {"remark", call.context.store.remark()}});
}

HttpResponse get_runs(ApiCall& call) {
  RunQuery query;
  query.filter = call.query.text_or("filter", "");
  query.sort = call.query.text_or("sort", query.sort);
  query.columns = call.query.list("columns");
  query.limit = call.query.number("limit", query.limit, 0, kMostRuns);
  query.offset = call.query.number("offset", 0, 0, INT64_MAX);
  const bool archived = call.query.flag("archived");
  call.query.finish();
  const auto reader = call.context.store.read();
  RunPage page;
  if (archived) {
    page = reader->runs(query);
  } else {
    // The filter is read by itself first, so that a fault in it has its own place.
    if (!query.filter.empty()) (void)reader->runs(first_runs(query.filter, 0));
    query.filter = joined(query.filter, "archived = false");
    page = reader->runs(query);
  }
  return json_response({{"total", page.total}, {"runs", rows_json(*reader, page.runs, query.columns)}});
}

HttpResponse get_run(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  const auto folder = call.context.store.run_folder(id);
  const auto reader = call.context.store.read();
  return json_response(details_json(*reader, id, folder));
}

namespace {

AnnotationChanges parse_changes(const HttpRequest& request) {
  const json body = json_body(request, {"tags", "note", "group", "pinned", "colour", "archived", "name"});
  AnnotationChanges changes;
  const auto text = [&](const char* key, std::optional<std::string>& to) {
    if (const auto found = body.find(key); found != body.end()) {
      if (!found->is_string()) throw HttpFailure(400, std::string("'") + key + "' is no text.");
      to = found->get<std::string>();
    }
  };
  const auto flag = [&](const char* key, std::optional<bool>& to) {
    if (const auto found = body.find(key); found != body.end()) {
      if (!found->is_boolean()) throw HttpFailure(400, std::string("'") + key + "' is neither true nor false.");
      to = found->get<bool>();
    }
  };
  text("note", changes.note);
  text("group", changes.group);
  text("colour", changes.colour);
  text("name", changes.name);
  flag("pinned", changes.pinned);
  flag("archived", changes.archived);
  if (const auto tags = body.find("tags"); tags != body.end()) {
    if (!tags->is_array()) throw HttpFailure(400, "'tags' is no list.");
    changes.tags.emplace();
    for (const auto& tag : *tags) {
      if (!tag.is_string()) throw HttpFailure(400, "A tag is no text.");
      changes.tags->push_back(tag.get<std::string>());
    }
  }
  return changes;
}

}  // namespace

HttpResponse patch_run(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  (void)call.context.store.run_folder(id);
  const AnnotationChanges changes = parse_changes(call.request);
  Catalogue& catalogue = call.context.store.indexer();
  catalogue.annotate(id, changes);
  call.context.hub.send("runs", "{}");
  return json_response(row_json(catalogue, id));
}

HttpResponse get_metrics(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  const auto folder = call.context.store.run_folder(id);
  const auto reader = call.context.store.read();
  return json_response(metrics_json(*reader, id, folder));
}

HttpResponse get_events(ApiCall& call) {
  const std::string kind = call.query.text_or("kind", "");
  const int64_t limit = call.query.number("limit", 10000, 1, kMostEvents);
  call.query.finish();
  const auto& id = call.arguments.at(0);
  (void)call.context.store.run_folder(id);
  const auto reader = call.context.store.read();
  return json_response(events_json(*reader, id, kind, limit));
}

namespace {

/// The types and distinct values of the configuration's keys, for lists of choices.
struct KeyValues {
  std::set<std::string> types;
  json values = json::array();
};

std::map<std::string, KeyValues> values_of_keys(const Catalogue& catalogue, const std::vector<KeyCount>& keys) {
  std::map<std::string, KeyValues> found;
  for (const auto& key : keys) {
    KeyValues& values = found[key.name];
    const SqlResult distinct = catalogue.sql(
        "SELECT DISTINCT kind, value FROM run_config WHERE key = " + sql_text(key.name) + " ORDER BY value",
        static_cast<int64_t>(kMostValues) + 1);
    for (const auto& row : distinct.rows) {
      const auto* kind = std::get_if<std::string>(&row.at(0));
      json value = json_value(row.at(1));
      if (kind && *kind == "bool" && value.is_number()) value = value.get<int64_t>() != 0;
      values.types.insert(value.is_boolean() ? "boolean" : value.is_number() ? "number" : "text");
      values.values.push_back(std::move(value));
    }
    if (distinct.rows.size() > kMostValues) values.values = json::array();
  }
  return found;
}

}  // namespace

HttpResponse get_keys(ApiCall& call) {
  call.query.finish();
  const auto reader = call.context.store.read();
  const CatalogueKeys keys = reader->keys();
  auto values = values_of_keys(*reader, keys.config);
  json config = json::array(), metrics = json::array(), groups = json::array(), tags = json::array();
  for (const auto& key : keys.config) {
    const KeyValues& known = values[key.name];
    const std::string type = known.types.size() == 1 ? *known.types.begin() : "text";
    config.push_back({{"key", key.name}, {"runs", key.runs}, {"type", type}, {"values", known.values}});
  }
  for (const auto& key : keys.metrics) metrics.push_back({{"key", key.name}, {"runs", key.runs}});
  for (const auto& key : keys.groups) groups.push_back(key.name);
  for (const auto& key : keys.tags) tags.push_back(key.name);
  return json_response({{"config", config}, {"metrics", metrics}, {"groups", groups}, {"tags", tags}});
}

namespace {

json values_json(const ComparedRow& row) {
  json values = json::array();
  for (const auto& value : row.values) values.push_back(json_value(value));
  return values;
}

/// A JSON file of a run, or null.
json run_json_file(const std::filesystem::path& folder, std::string_view name) {
  const auto text = read_inside(folder, run_file(folder, name));
  json value = text ? json::parse(*text, nullptr, false) : json(nullptr);
  return value.is_object() ? value : json(nullptr);
}

/// Bytes by class at the peak of a run's fullest stage; "planned" is all of them together.
std::map<std::string, double> memory_of(const json& plan) {
  std::map<std::string, double> bytes;
  const auto stages = plan.is_object() ? plan.find("stages") : plan.end();
  if (!plan.is_object() || stages == plan.end() || !stages->is_array()) return bytes;
  const auto planned = [](const json& stage) {
    const auto found = stage.is_object() ? stage.find("planned_bytes") : stage.end();
    return stage.is_object() && found != stage.end() && found->is_number() ? found->get<double>() : 0;
  };
  const json* fullest = nullptr;
  for (const auto& stage : *stages)
    if (!fullest || planned(stage) > planned(*fullest)) fullest = &stage;
  if (!fullest) return bytes;
  bytes["planned"] = planned(*fullest);
  if (!fullest->is_object() || !fullest->contains("classes") || !fullest->at("classes").is_object()) return bytes;
  for (const auto& [name, facts] : fullest->at("classes").items())
    if (facts.is_object() && facts.contains("at_peak") && facts.at("at_peak").is_number())
      bytes[name] = facts.at("at_peak").get<double>();
  return bytes;
}

json compared_memory(const std::vector<std::map<std::string, double>>& runs) {
  std::vector<std::string> classes = {"planned"};
  for (const auto& run : runs)
    for (const auto& [name, bytes] : run)
      if (bytes > 0 && std::find(classes.begin(), classes.end(), name) == classes.end()) classes.push_back(name);
  std::sort(classes.begin() + 1, classes.end());
  json rows = json::array();
  for (const auto& name : classes) {
    json values = json::array();
    for (const auto& run : runs) {
      const auto found = run.find(name);
      values.push_back(found != run.end() ? json(found->second) : json(nullptr));
    }
    rows.push_back({{"class", name}, {"bytes", values}});
  }
  return rows;
}

}  // namespace

HttpResponse get_compare(ApiCall& call) {
  const auto ids = call.query.list("runs");
  call.query.finish();
  if (ids.empty() || ids.size() > static_cast<size_t>(kMostCompared))
    throw HttpFailure(400, "'runs' names 1 to " + std::to_string(kMostCompared) + " runs, with commas between them.");
  std::vector<std::map<std::string, double>> memory;
  json seconds = json::array();
  for (const auto& id : ids) {
    const auto folder = call.context.store.run_folder(id);
    memory.push_back(memory_of(run_json_file(folder, "plan")));
    const json times = run_json_file(folder, "times");
    seconds.push_back(times.is_object() ? times.value("step_seconds", json(nullptr)) : json(nullptr));
  }
  const auto reader = call.context.store.read();
  const RunComparison comparison = reader->compare(ids);
  std::set<std::string> all_keys;
  for (const auto& id : ids)
    for (const auto& [key, value] : reader->config(id)) all_keys.insert(key);
  json config = json::array(), metrics = json::array(), facts = json::array();
  int64_t differing = 0;
  for (const auto& row : comparison.config) {
    if (!row.differs) continue;
    ++differing;
    config.push_back({{"key", row.name}, {"values", values_json(row)}});
  }
  for (const auto& row : comparison.facts) facts.push_back({{"name", row.name}, {"values", values_json(row)}});
  for (const auto& row : comparison.metrics) metrics.push_back({{"name", row.name}, {"values", values_json(row)}});
  return json_response({{"runs", ids},
                        {"config", config},
                        {"same", static_cast<int64_t>(all_keys.size()) - differing},
                        {"facts", facts},
                        {"metrics", metrics},
                        {"memory", compared_memory(memory)},
                        {"step_seconds", seconds}});
}

HttpResponse get_importance(ApiCall& call) {
  const std::string metric = call.query.text_or("metric", ""), filter = call.query.text_or("filter", "");
  call.query.finish();
  if (metric.empty()) throw HttpFailure(400, "'metric' names a metric.");
  const auto reader = call.context.store.read();
  const auto found = reader->importance(metric, filter);
  json keys = json::array();
  int64_t runs = 0;
  for (const auto& key : found) {
    runs = std::max(runs, key.runs);
    keys.push_back(
        {{"key", key.key}, {"importance", key.importance}, {"correlation", key.correlation}, {"runs", key.runs}});
  }
  return json_response({{"metric", metric}, {"runs", runs}, {"keys", keys}});
}

HttpResponse get_sql(ApiCall& call) {
  const std::string text = call.query.text_or("q", "");
  const int64_t limit = call.query.number("limit", 1000, 1, kMostRows);
  call.query.finish();
  if (text.empty()) throw HttpFailure(400, "'q' is a query: one SELECT.");
  const SqlResult result = call.context.store.read()->sql(text, limit, kSqlSeconds);
  json rows = json::array();
  for (const auto& row : result.rows) {
    json cells = json::array();
    for (const auto& value : row) cells.push_back(json_value(value));
    rows.push_back(std::move(cells));
  }
  return json_response({{"columns", result.columns}, {"rows", rows}, {"truncated", result.truncated}});
}

}  // namespace ramet::serve
