#include "ramet/track/export.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/json_text.h"
#include "ramet/track/run_directory.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A value of a recipe's TOML as JSON text.
std::string json_of_toml(const std::string& text) {
  const json value = parse_json(text);
  return dump_json(value.is_null() ? json(text) : value);
}

int64_t integer_or_zero(const json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<int64_t>() : 0;
}

std::string text_or_empty(const json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::vector<ConfigValue> config_of(const RunRecord& run) {
  std::vector<ConfigValue> config;
  std::map<std::string, size_t> places;
  const auto set = [&](const std::string& key, std::string value) {
    const auto [place, added] = places.emplace(key, config.size());
    if (added)
      config.emplace_back(key, std::move(value));
    else
      config[place->second].second = std::move(value);
  };
  for (const auto& [key, value] : run.recipe) set(key, json_of_toml(value));
  for (const std::string& text : run.log.events) {
    const json event = parse_json(text);
    if (!event.is_object() || text_or_empty(event, "event") != "config") continue;
    const auto values = event.find("values");
    if (values == event.end() || !values->is_object()) continue;
    for (const auto& [key, value] : values->items()) set(key, dump_json(value));
  }
  return config;
}

std::vector<MediaRow> media_of(const RunRecord& run) {
  std::vector<MediaRow> media;
  for (const std::string& text : run.log.events) {
    const json event = parse_json(text);
    if (!event.is_object() || text_or_empty(event, "event") != "logged") continue;
    const auto time = event.find("time");
    media.push_back({.kind = text_or_empty(event, "kind"),
                     .name = text_or_empty(event, "name"),
                     .artifact = text_or_empty(event, "artifact"),
                     .type = text_or_empty(event, "type"),
                     .caption = text_or_empty(event, "caption"),
                     .step = integer_or_zero(event, "step"),
                     .bytes = integer_or_zero(event, "bytes"),
                     .time = time != event.end() && time->is_number() ? time->get<double>() : 0});
  }
  return media;
}

std::string read_artifact(const fs::path& run, const std::string& hash) {
  if (hash.size() != 32 || hash.find_first_not_of("0123456789abcdef") != std::string::npos) return "";
  try {
    return read_file(run / "artifacts" / hash);
  } catch (const Error&) {
    return "";
  }
}

std::vector<std::pair<std::string, RunLog>> system_logs(const fs::path& run) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "system", error))
    if (entry.path().extension() == ".ramet") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::pair<std::string, RunLog>> logs;
  for (const fs::path& file : files) {
    try {
      logs.emplace_back(file.stem().string(), read_run_log(file));
    } catch (const Error&) {  // gone meanwhile
    }
  }
  return logs;
}

double start_of(const RunRecord& run) {
  if (const double started = seconds_of_moment(run.started); started > 0) return started;
  return run.log.steps.empty() || run.log.steps.begin()->second.empty() ? 0 : run.log.steps.begin()->second[0].time;
}

double end_of(const RunRecord& run) {
  double last = 0;
  for (const auto& [step, entries] : run.log.steps)
    for (const LoggedStep& entry : entries) last = std::max(last, entry.time);
  return last;
}

}  // namespace ramet::track
