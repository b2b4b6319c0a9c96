#include "ramet/track/run_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/ir/attribute.h"
#include "ramet/track/run_directory.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_or_empty(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

json read_json(const fs::path& path) {
  try {
    json value = json::parse(read_file(path), nullptr, false);
    return value.is_object() ? value : json::object();
  } catch (const Error&) {
    return json::object();
  }
}

std::string number_or_text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// Takes the last word of the events on how the run stands.
void read_events(RunRecord& run) {
  bool ended = false;
  for (const auto& text : run.log.events) {
    const json event = json::parse(text, nullptr, false);
    if (!event.is_object()) continue;
    const std::string kind = text_or_empty(event, "event");
    if (kind != "start" && kind != "end") continue;
    for (const auto& [key, value] : event.items()) {
      if (key == "event") continue;
      const auto same =
          std::find_if(run.facts.begin(), run.facts.end(), [&](const auto& fact) { return fact.first == key; });
      if (same == run.facts.end())
        run.facts.emplace_back(key, number_or_text(value));
      else
        same->second = number_or_text(value);
    }
    ended = kind == "end";
    if (!ended) continue;
    const std::string status = text_or_empty(event, "status");
    run.status = status == "done"          ? RunStatus::kDone
                 : status == "interrupted" ? RunStatus::kInterrupted
                 : status == "planned"     ? RunStatus::kPlanned
                                           : RunStatus::kFailed;
    run.problem = text_or_empty(event, "error");
  }
  if (!ended) run.status = RunStatus::kKilled, run.problem.clear();
  if (is_running(run.path)) run.status = RunStatus::kRunning;
}

json number_json(double value) { return std::isfinite(value) ? json(value) : json(text_of(Attribute(value))); }

}  // namespace

std::string_view name_of(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning: return "running";
    case RunStatus::kDone: return "done";
    case RunStatus::kInterrupted: return "interrupted";
    case RunStatus::kFailed: return "failed";
    case RunStatus::kKilled: return "killed";
    case RunStatus::kPlanned: return "planned";
  }
  internal_error("name_of", "unknown run status");
}

std::string RunRecord::recipe_value(const std::string& key) const {
  for (const auto& [name, value] : recipe)
    if (name == key) return value;
  return "";
}

std::vector<std::pair<std::string, std::string>> recipe_lines(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::string table;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with('[') && line.ends_with(']'))
      table = line.substr(1, line.size() - 2) + ".";
    else if (const size_t equals = line.find(" = "); equals != std::string::npos)
      lines.emplace_back(table + line.substr(0, equals), line.substr(equals + 3));
  }
  return lines;
}

RunRecord read_run_facts(const fs::path& path) {
  RunRecord run;
  run.path = path;
  run.id = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  const json facts = read_json(path / "run.json"), machine = read_json(path / "machine.json");
  run.name = text_or_empty(facts, "name");
  run.started = text_or_empty(facts, "started");
  run.version = text_or_empty(facts, "version");
  run.kernel_class = text_or_empty(facts, "kernel_class");
  if (const auto words = facts.find("command"); words != facts.end() && words->is_array())
    for (const auto& word : *words)
      if (word.is_string()) run.command += (run.command.empty() ? "" : " ") + word.get<std::string>();
  if (const auto git = facts.find("git"); git != facts.end() && git->is_object())
    run.git = text_or_empty(*git, "commit") + (git->value("changed", json(false)) == json(true) ? " with changes" : "");
  run.machine = text_or_empty(machine, "processor");
  try {
    run.recipe = recipe_lines(read_file(path / "recipe.toml"));
  } catch (const Error&) {
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path / "checkpoints", error))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("step-") && name.find('.') == std::string::npos)
      run.checkpoints.push_back(name);
  std::sort(run.checkpoints.begin(), run.checkpoints.end());
  return run;
}

RunRecord read_run(const fs::path& path) {
  RunRecord run = read_run_facts(path);
  try {
    run.log = read_run_log(path / "log.ramet");
  } catch (const Error&) {
  }
  read_events(run);
  return run;
}

std::vector<RunRecord> list_runs(const fs::path& folder) {
  std::vector<RunRecord> runs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_run(entry.path())) runs.push_back(read_run(entry.path()));
  std::sort(runs.begin(), runs.end(), [](const RunRecord& a, const RunRecord& b) {
    return std::tie(a.started, a.id) < std::tie(b.started, b.id);
  });
  return runs;
}

bool is_imported(const fs::path& run) { return read_json(run / "run.json").contains("imported"); }

void refuse_imported(const fs::path& run, const std::string& doing) {
  if (is_imported(run))
    throw Error({.what = "a run of another tracker has neither a recipe nor weights",
                 .where = doing,
                 .found = "'" + run.filename().string() + "'",
                 .expected = "a run of Ramet's own"});
}

fs::path find_run(const std::string& text, const fs::path& folder) {
  std::error_code error;
  fs::path path = fs::path(text).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (is_run(path)) return path;
  if (path.filename().string().starts_with("step-") && is_run(path.parent_path().parent_path()))
    return path.parent_path().parent_path();
  std::vector<std::string> ids;
  std::vector<fs::path> matches;
  std::pair<std::string, fs::path> latest;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!is_run(entry.path())) continue;
    const std::string id = entry.path().filename().string();
    ids.push_back(id);
    if (id == text) return entry.path();
    if (!text.empty() && id.ends_with("-" + text)) matches.push_back(entry.path());
    if (text == "latest" && !is_imported(entry.path()))
      latest = std::max(latest, {text_or_empty(read_json(entry.path() / "run.json"), "started"), entry.path()});
  }
  if (!latest.second.empty()) return latest.second;
  if (matches.size() == 1) return matches[0];
  const std::string near = nearest_name(text, ids);
  throw Error(
      {.what = matches.empty() ? "no such run" : "more than one run ends in this",
       .where = folder.string(),
       .found = "'" + text + "'",
       .expected = near.empty() ? "a run's folder, its id, the end of its id, or latest" : "perhaps '" + near + "'",
       .remedy = "`ramet runs list` shows runs"});
}

std::string export_csv(const RunRecord& run) {
  const auto names = run.log.names();
  std::string text = "step";
  for (const auto& name : names) {
    std::string quoted;
    for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
    text += name.find_first_of(",\"\n\r") == std::string::npos ? "," + name : ",\"" + quoted + "\"";
  }
  text += "\n";
  for (const auto& [step, entries] : run.log.steps) {
    text += std::to_string(step);
    for (const auto& name : names) {
      std::string value;
      for (const auto& entry : entries)
        for (const auto& [key, number] : entry.values)
          if (key == name) value = text_of(Attribute(number));
      text += "," + value;
    }
    text += "\n";
  }
  return text;
}

std::string export_json(const RunRecord& run) {
  json metrics = json::object();
  for (const auto& name : run.log.names())
    for (const auto& [step, value] : run.log.series(name)) metrics[name].push_back({step, number_json(value)});
  json recipe = json::object(), facts = json::object(), events = json::array();
  for (const auto& [key, value] : run.recipe) recipe[key] = value;
  for (const auto& [key, value] : run.facts) facts[key] = value;
  for (const auto& event : run.log.events) events.push_back(json::parse(event, nullptr, false));
  const json whole = {{"id", run.id},
                      {"name", run.name},
                      {"started", run.started},
                      {"status", name_of(run.status)},
                      {"version", run.version},
                      {"command", run.command},
                      {"git", run.git},
                      {"machine", run.machine},
                      {"recipe", recipe},
                      {"facts", facts},
                      {"checkpoints", run.checkpoints},
                      {"events", events},
                      {"metrics", metrics}};
  return whole.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace ramet::track
