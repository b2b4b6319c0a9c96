// Sweeps, as their folders and the runs of their group tell: RUNS/sweeps/NAME/{sweep.toml, log.ramet}.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/toml.h"
#include "ramet/serve/handlers.h"
#include "ramet/serve/run_json.h"
#include "ramet/track/run_log.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostTrials = 100000;

json json_of_toml(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* list = node.as_array()) {
    json values = json::array();
    for (const auto& value : *list) values.push_back(json_of_toml(value));
    return values;
  }
  return nullptr;
}

/// A sweep's file, as far as lists of sweeps show it.
struct SweepFacts {
  std::string text, method = "random", metric = "held_out_loss", goal = "min";
  json parameters = json::array();
  std::vector<std::string> keys;  ///< of the parameters
};

void read_parameters(SweepFacts& facts, const toml::table& parameters) {
  for (const auto& [key, domain] : parameters) {
    json parameter = {{"key", std::string(key.str())}, {"scale", "linear"}};
    if (domain.is_array()) {
      parameter["values"] = json_of_toml(domain);
    } else if (const auto* range = domain.as_table()) {
      for (const auto& [name, value] : *range) {
        const std::string_view word = name.str();
        parameter[word == "low" ? "min" : word == "high" ? "max" : std::string(word)] = json_of_toml(value);
      }
    }
    facts.keys.emplace_back(key.str());
    facts.parameters.push_back(std::move(parameter));
  }
}

SweepFacts read_facts(const fs::path& folder) {
  SweepFacts facts;
  facts.text = read_inside(folder, folder / "sweep.toml").value_or("");
  try {
    const toml::table table = toml::parse(facts.text);
    facts.method = table["method"].value_or(facts.method);
    facts.metric = table["metric"].value_or(facts.metric);
    facts.goal = table["goal"].value_or(facts.goal);
    if (const auto* parameters = table["parameters"].as_table()) read_parameters(facts, *parameters);
  } catch (const toml::parse_error&) {  // shown as it is
  }
  return facts;
}

/// The events of the sweep's log, and how it stands.
struct SweepLog {
  json events = json::array();
  std::string status = "running";
  double started = 0;
};

SweepLog read_log(const fs::path& folder) {
  SweepLog log;
  const auto bytes = read_inside(folder, folder / "log.ramet");
  if (!bytes) return log;
  for (const auto& text : parse_run_log(*bytes).events) {
    json event = json::parse(text, nullptr, false);
    if (!event.is_object()) continue;
    const std::string kind =
        event.contains("event") && event["event"].is_string() ? event["event"].get<std::string>() : "";
    if (log.started == 0 && event.contains("time") && event["time"].is_number())
      log.started = event["time"].get<double>();
    if (kind == "sweep_started" || kind == "sweep_resumed") log.status = "running";
    if (kind == "sweep_ended") log.status = event.contains("status") && event["status"] == "done" ? "done" : "stopped";
    log.events.push_back(std::move(event));
  }
  return log;
}

fs::path sweeps_folder(const ApiCall& call) { return call.context.store.folder() / "sweeps"; }

bool is_sweep(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "sweep.toml", error) || fs::is_regular_file(folder / "log.ramet", error);
}

/// A name as a text of the filter language.
std::string filter_text(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return text + "\"";
}

double number_of(const FieldValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  return std::nan("");
}

std::string column_of(const std::string& name) {
  return name.find_first_of(" \t`\"'()=<>!~,") == std::string::npos ? name : "`" + name + "`";
}

/// The sweep as a row, and its runs when `trials` is given.
json sweep_json(const Catalogue& catalogue, const fs::path& folder, const SweepFacts& facts, const SweepLog& log,
                json* trials) {
  const std::string name = folder.filename().string();
  RunQuery query{.filter = "group = " + filter_text(name), .sort = "started", .columns = {}, .limit = kMostTrials};
  query.columns.push_back(column_of(facts.metric));
  for (const auto& key : facts.keys) query.columns.push_back(column_of("config." + key));
  const RunPage page = catalogue.runs(query);
  const bool greater = facts.goal == "max" || facts.goal == "maximize";
  int64_t running = 0;
  double best = std::nan("");
  json best_run = nullptr;
  for (const auto& run : page.runs) {
    running += run.status == "running" ? 1 : 0;
    const double value = number_of(run.columns.at(0));
    if (!std::isnan(value) && (std::isnan(best) || (greater ? value > best : value < best)))
      best = value, best_run = {{"run", run.id}, {"value", value}};
    if (!trials) continue;
    json values = json::object();
    for (size_t i = 0; i < facts.keys.size(); ++i) values[facts.keys[i]] = json_value(run.columns.at(i + 1));
    trials->push_back({{"run", run.id},
                       {"status", run.status},
                       {"values", values},
                       {"metric", value},
                       {"steps", run.steps},
                       {"stopped_early", run.status == "interrupted"}});
  }
  const bool known = log.started > 0 || !page.runs.empty();
  return {{"name", name},
          {"method", facts.method},
          {"metric", facts.metric},
          {"goal", greater ? "maximize" : "minimize"},
          {"status", log.events.empty() && running == 0 ? "stopped" : log.status},
          {"runs", page.total},
          {"running", running},
          {"best", best_run},
          {"started", !known            ? json(nullptr)
                      : log.started > 0 ? json(log.started)
                                        : json(page.runs[0].started_seconds)}};
}

}  // namespace

HttpResponse list_sweeps(ApiCall& call) {
  call.query.finish();
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sweeps_folder(call), error))
    if (is_sweep(entry.path())) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  const auto reader = call.context.store.read();
  json list = json::array();
  for (const auto& folder : folders)
    list.push_back(sweep_json(*reader, folder, read_facts(folder), read_log(folder), nullptr));
  return json_response(list);
}

HttpResponse get_sweep(ApiCall& call) {
  call.query.finish();
  const auto& name = call.arguments.at(0);
  const fs::path folder = sweeps_folder(call) / name;
  if (!is_file_name(name) || !is_sweep(folder))
    throw Error({.what = "no such sweep", .found = "'" + name.substr(0, 200) + "'"});
  const SweepFacts facts = read_facts(folder);
  SweepLog log = read_log(folder);
  json trials = json::array();
  json value = sweep_json(*call.context.store.read(), folder, facts, log, &trials);
  value["config"] = facts.text;
  value["parameters"] = facts.parameters;
  value["trials"] = std::move(trials);
  value["events"] = std::move(log.events);
  return json_response(value);
}

}  // namespace ramet::serve
