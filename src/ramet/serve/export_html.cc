// POST /api/v1/export/html: the page with the data of some runs inside, as one file that needs no server.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/version.h"
#include "ramet/serve/handlers.h"
#include "ramet/serve/page_export.h"
#include "ramet/serve/run_json.h"
#include "ramet/track/run_log.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostRuns = 100, kMostPoints = 20000, kMostArtifact = 256 << 10, kMostExport = 256 << 20;
constexpr int64_t kMostEvents = 10000;

struct LoggedPoint {
  int64_t step = 0;
  double time = 0, value = 0;
};
using PointsByName = std::map<std::string, std::vector<LoggedPoint>>;

void add_log(const fs::path& folder, const fs::path& file, const std::string& prefix, PointsByName& points) {
  const auto bytes = read_inside(folder, file);
  if (!bytes) return;
  const RunLog log = parse_run_log(*bytes);
  for (const auto& [step, entries] : log.steps)
    for (const auto& entry : entries)
      for (const auto& [name, value] : entry.values) {
        auto& list = points[prefix + name];
        if (!list.empty() && list.back().step == step)
          list.back() = {step, entry.time, value};
        else
          list.push_back({step, entry.time, value});
      }
}

PointsByName points_of(const fs::path& folder) {
  PointsByName points;
  add_log(folder, folder / "log.ramet", "", points);
  std::error_code error;
  for (const std::string part : {"logs", "system"})
    for (const auto& entry : fs::directory_iterator(folder / part, error))
      if (entry.path().extension() == ".ramet")
        add_log(folder, entry.path(), (part == "system" ? "system/" : "") + entry.path().stem().string() + "/", points);
  return points;
}

/// At most kMostPoints points: of many, the least and the greatest of each of equal runs of them, in their order.
std::vector<LoggedPoint> thinned(const std::vector<LoggedPoint>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<LoggedPoint> kept;
  constexpr size_t kRuns = kMostPoints / 2;
  for (size_t run = 0; run < kRuns; ++run) {
    const size_t begin = points.size() * run / kRuns, end = points.size() * (run + 1) / kRuns;
    size_t least = begin, greatest = begin;
    for (size_t i = begin; i < end; ++i) {
      if (points[i].value < points[least].value || std::isnan(points[least].value)) least = i;
      if (points[i].value > points[greatest].value || std::isnan(points[greatest].value)) greatest = i;
    }
    kept.push_back(points[std::min(least, greatest)]);
    if (least != greatest) kept.push_back(points[std::max(least, greatest)]);
  }
  return kept;
}

json series_json(const fs::path& folder) {
  json series = json::object();
  for (const auto& [name, all] : points_of(folder)) {
    json steps = json::array(), times = json::array(), values = json::array();
    for (const auto& point : thinned(all)) {
      steps.push_back(point.step);
      times.push_back(point.time);
      values.push_back(point.value);
    }
    series[name] = {{"step", std::move(steps)}, {"time", std::move(times)}, {"value", std::move(values)}};
  }
  return series;
}

json files_json(const fs::path& folder) {
  json files = json::object();
  for (const auto& name : run_files(folder)) {
    auto text = read_inside(folder, run_file(folder, name));
    if (!text) continue;
    if (name == "recipe")
      files[name] = std::move(*text);
    else if (json value = json::parse(*text, nullptr, false); !value.is_discarded())
      files[name] = std::move(value);
  }
  return files;
}

/// Small artifacts as data addresses. The page shows images alone by their address.
void add_artifacts(const fs::path& folder, const json& media, json& artifacts) {
  for (const auto& entry : media) {
    const std::string hash = entry.at("artifact"), type = entry.at("type");
    if (!is_hash(hash) || artifacts.contains(hash)) continue;
    const auto bytes = read_inside(folder, folder / "artifacts" / hash);
    const bool plain = type.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789/+.-") == std::string::npos;
    if (bytes && bytes->size() <= kMostArtifact)
      artifacts[hash] =
          "data:" + (plain && !type.empty() ? type : "application/octet-stream") + ";base64," + base64_text(*bytes);
  }
}

json row_with_columns(const Catalogue& catalogue, const std::string& id, const json& details, const json& metrics) {
  json row = row_json(catalogue, id), columns = json::object();
  for (const auto& [key, value] : details.at("config").items()) columns["config." + key] = value;
  for (const auto& metric : metrics) columns[metric.at("name").get<std::string>()] = metric.at("last");
  row["columns"] = std::move(columns);
  return row;
}

json reports_json(const fs::path& runs) {
  json reports = json::object();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs / "reports", error))
    if (entry.path().extension() == ".md" && is_plain_name(entry.path().stem().string()))
      if (auto text = read_inside(runs / "reports", entry.path()))
        reports[entry.path().stem().string()] = std::move(*text);
  return reports;
}

struct ExportQuestion {
  std::vector<std::string> runs;
  std::string hash, title;
};

ExportQuestion parse_question(const HttpRequest& request) {
  const json body = json_body(request, {"runs", "view", "title"});
  ExportQuestion question;
  const auto text = [&](const char* key) {
    const auto found = body.find(key);
    if (found == body.end()) return std::string();
    if (!found->is_string()) throw HttpFailure(400, std::string("'") + key + "' is no text.");
    return found->get<std::string>();
  };
  question.hash = text("view");
  question.title = text("title");
  const auto runs = body.find("runs");
  if (runs == body.end() || !runs->is_array() || runs->empty() || runs->size() > kMostRuns)
    throw HttpFailure(400, "'runs' is a list of 1 to " + std::to_string(kMostRuns) + " runs.");
  for (const auto& run : *runs) {
    if (!run.is_string()) throw HttpFailure(400, "A run is no text.");
    question.runs.push_back(run.get<std::string>());
  }
  return question;
}

}  // namespace

HttpResponse export_html(ApiCall& call) {
  call.query.finish();
  const ExportQuestion question = parse_question(call.request);
  const auto page = call.context.page.text("index.html");
  if (!page) throw HttpFailure(501, "This build of Ramet has no page that could be exported.");
  json data = {{"version", 1},
               {"title", question.title},
               {"hash", question.hash},
               {"made", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
               {"ramet", version()},
               {"runs", json::array()}};
  for (const char* part : {"details", "metrics", "events", "files", "media", "artifacts", "series"})
    data[part] = json::object();
  size_t bytes = 0;
  const auto reader = call.context.store.read();
  for (const auto& id : question.runs) {
    const fs::path folder = call.context.store.run_folder(id);
    data["details"][id] = details_json(*reader, id, folder);
    data["metrics"][id] = metrics_json(*reader, id, folder);
    data["events"][id] = events_json(*reader, id, "", kMostEvents);
    data["files"][id] = files_json(folder);
    data["media"][id] = media_json(*reader, id);
    data["series"][id] = series_json(folder);
    add_artifacts(folder, data["media"][id], data["artifacts"]);
    data["runs"].push_back(row_with_columns(*reader, id, data["details"][id], data["metrics"][id]));
    // Counted as it grows, so that no request takes all memory.
    for (const char* part : {"files", "series"})
      bytes += data[part][id].dump(-1, ' ', false, json::error_handler_t::replace).size();
    if (bytes > kMostExport) throw HttpFailure(413, "These runs have too much for one file. Choose fewer.");
  }
  data["reports"] = reports_json(call.context.store.folder());
  return {.headers = {{"Content-Type", "text/html; charset=utf-8"},
                      {"Content-Disposition", "attachment; filename=\"ramet.html\""}},
          .body = single_file_page(*page, data.dump(-1, ' ', false, json::error_handler_t::replace),
                                   [&](const std::string& name) { return call.context.page.text(name); })};
}

}  // namespace ramet::serve
