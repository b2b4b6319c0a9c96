#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/annotations.h"
#include "ramet/track/export.h"
#include "ramet/track/json_text.h"

// What MLflow's server takes, by mlflow/utils/validation.py: 1000 metrics, 100 parameters and 100 tags a request, a
// request of less than 1 MB, names of 250 characters out of letters, digits, "_-. /:", parameters of 6000 characters,
// tags of 5000.

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostMetrics = 1000, kMostParams = 100, kMostRequest = 900'000;
constexpr size_t kMostName = 250, kMostParam = 6000, kMostTag = 5000;
constexpr int kTries = 6;
constexpr double kFirstPause = 0.5, kMostPause = 30;

/// Cut to so many bytes, where a character of UTF-8 ends.
std::string cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t size = most;
  while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

std::string mlflow_name(const std::string& name) {
  std::string allowed = name.substr(0, kMostName);
  for (char& c : allowed) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && std::string_view("_-. /:").find(c) == std::string_view::npos) c = '_';
  }
  return allowed;
}

int64_t milliseconds(double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e3)); }

/// JSON has no NaN: Protocol Buffers' JSON, which MLflow reads, has texts for such numbers.
json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string_view mlflow_status(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning: return "RUNNING";
    case RunStatus::kDone: return "FINISHED";
    case RunStatus::kFailed: return "FAILED";
    case RunStatus::kInterrupted:
    case RunStatus::kKilled: return "KILLED";
    case RunStatus::kPlanned: return "SCHEDULED";
  }
  internal_error("mlflow_status", "unknown run status");
}

/// Calls of the REST API, tried again where that may help.
class MlflowApi {
 public:
  explicit MlflowApi(const MlflowServer& server) : server_(server), base_(server.url) {
    while (base_.ends_with('/')) base_.pop_back();
    if (!base_.starts_with("http://") && !base_.starts_with("https://"))
      throw Error({.what = "not the address of a server",
                   .where = "--mlflow",
                   .found = "'" + server.url + "'",
                   .expected = "http://HOST:PORT or https://HOST"});
  }

  const std::string& base() const { return base_; }

  /// An answer that the server gave, good or bad; throws Error when it gives none.
  ClientResponse send(const std::string& method, const std::string& path, std::string_view body,
                      const std::string& type) const {
    const ClientRequest request{.method = method,
                                .url = base_ + path,
                                .headers = {"Content-Type: " + type, "Accept: application/json"},
                                .body = body};
    ClientResponse response;
    double pause = kFirstPause;
    for (int i = 0; i < kTries; ++i, pause = std::min(pause * 2, kMostPause)) {
      response = server_.send(request);
      const bool passing = response.status == 0 || response.status == 408 || response.status == 429 ||
                           (response.status >= 500 && response.status != 501);
      if (!passing) return response;
      if (i + 1 < kTries) server_.sleep(std::clamp(response.retry_after, pause, std::max(pause, kMostPause)));
    }
    throw Error({.what = "the server does not answer as it should: " +
                         (response.status == 0 ? cut(valid_utf8(response.body), 300) : problem_of(response)),
                 .where = request.url,
                 .remedy = "Is it MLflow's server, and does it run?"},
                ErrorKind::kFailure);
  }

  /// A call whose answer is a JSON object; throws Error when the server refuses.
  json call(const std::string& method, const std::string& path, const json& body) const {
    const std::string text = method == "GET" ? "" : dump_json(body);
    const ClientResponse response = send(method, "/api/2.0/mlflow/" + path, text, "application/json");
    if (response.status >= 200 && response.status < 300) {
      json value = parse_json(response.body);
      if (value.is_object()) return value;
    }
    refuse(response, path);
  }

  [[noreturn]] void refuse(const ClientResponse& response, const std::string& path) const {
    const bool identity = response.status == 401 || response.status == 403;
    throw Error(
        {.what = "the server refuses: " + problem_of(response),
         .where = base_ + "/api/2.0/mlflow/" + path.substr(0, path.find('?')),
         .remedy =
             identity ? "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN" : ""},
        ErrorKind::kFailure);
  }

  static std::string problem_of(const ClientResponse& response) {
    const json value = parse_json(response.body);
    std::string text = "status " + std::to_string(response.status);
    if (value.is_object() && value.contains("message") && value["message"].is_string())
      text += ", " + value["message"].get<std::string>();
    return cut(text, 500);
  }
  static bool is_absent(const ClientResponse& response) {
    return response.status == 404 && response.body.find("RESOURCE_DOES_NOT_EXIST") != std::string::npos;
  }

 private:
  const MlflowServer& server_;
  std::string base_;
};

std::string text_at(const json& object, std::initializer_list<const char*> keys) {
  const json* value = &object;
  for (const char* key : keys) {
    const auto found = value->is_object() ? value->find(key) : value->end();
    if (!value->is_object() || found == value->end()) return "";
    value = &*found;
  }
  return value->is_string() ? value->get<std::string>() : "";
}

/// One run on its way to the server.
class RunPush {
 public:
  RunPush(const RunRecord& run, const MlflowServer& server) : run_(run), server_(server), api_(server) {}

  PushReport push() {
    const std::string experiment = find_experiment();
    find_run(experiment);
    report_.url = api_.base() + "/#/experiments/" + experiment + "/runs/" + report_.run_id;
    push_params();
    push_metrics();
    push_files();
    finish();
    return std::move(report_);
  }

 private:
  std::string find_experiment() {
    const std::string path = "experiments/get-by-name?experiment_name=" + url_encoded(server_.experiment);
    const ClientResponse response = api_.send("GET", "/api/2.0/mlflow/" + path, "", "application/json");
    if (MlflowApi::is_absent(response))
      return text_at(api_.call("POST", "experiments/create", {{"name", server_.experiment}}), {"experiment_id"});
    const json found = parse_json(response.body);
    const std::string id = text_at(found, {"experiment", "experiment_id"});
    if (response.status != 200 || id.empty()) api_.refuse(response, path);
    if (text_at(found, {"experiment", "lifecycle_stage"}) == "deleted")
      throw Error({.what = "the experiment is deleted",
                   .where = api_.base(),
                   .found = "'" + server_.experiment + "'",
                   .remedy = "Restore it in MLflow, or name another with --experiment"},
                  ErrorKind::kFailure);
    return id;
  }

  void find_run(const std::string& experiment) {
    std::string quoted;
    for (const char c : run_.id) quoted += c == '\'' || c == '\\' ? '_' : c;
    const json found = api_.call(
        "POST", "runs/search",
        {{"experiment_ids", {experiment}}, {"filter", "tags.`ramet.run` = '" + quoted + "'"}, {"max_results", 1}});
    json info;
    if (const auto runs = found.find("runs"); runs != found.end() && runs->is_array() && !runs->empty()) {
      info = (*runs)[0];
    } else {
      report_.created = true;
      info = api_.call("POST", "runs/create",
                       {{"experiment_id", experiment},
                        {"run_name", shown_name()},
                        {"start_time", milliseconds(start_of(run_))},
                        {"tags", {{{"key", "ramet.run"}, {"value", quoted}}}}})
                 .value("run", json::object());
    }
    report_.run_id = text_at(info, {"info", "run_id"});
    artifacts_ = text_at(info, {"info", "artifact_uri"});
    if (report_.run_id.empty())
      throw Error({.what = "the server's answer names no run", .where = api_.base()}, ErrorKind::kFailure);
  }

  std::string shown_name() const {
    const std::string name = read_annotations(run_.path).name;
    return name.empty() ? run_.id : name;
  }

  void push_params() {
    json params = json::array();
    size_t shortened = 0, bytes = 0;
    const auto flush = [&] {
      if (params.empty()) return;
      const auto count = static_cast<int64_t>(params.size());
      const std::string body = dump_json({{"run_id", report_.run_id}, {"params", params}});
      const ClientResponse response = api_.send("POST", "/api/2.0/mlflow/runs/log-batch", body, "application/json");
      if (response.status == 200)
        report_.params += count;
      else if (response.status == 400)  // a parameter never changes its value there
        report_.remarks.push_back("parameters were refused: " + MlflowApi::problem_of(response));
      else
        api_.refuse(response, "runs/log-batch");
      params = json::array(), bytes = 0;
    };
    for (const auto& [key, text] : config_of(run_)) {
      const json value = parse_json(text);
      const std::string whole = value.is_string() ? value.get<std::string>() : text, kept = cut(whole, kMostParam);
      shortened += kept.size() < whole.size();
      if (params.size() == kMostParams || bytes + kept.size() > kMostRequest / 2) flush();
      params.push_back({{"key", mlflow_name(key)}, {"value", kept}});
      bytes += kept.size() + kMostName;
    }
    flush();
    if (shortened > 0)
      report_.remarks.push_back(std::to_string(shortened) + " parameters are longer than 6000 characters: cut");
  }

  void push_metrics() {
    std::vector<std::pair<std::string, RunLog>> logs = system_logs(run_.path);
    const int64_t total = count_points(logs);
    json metrics = json::array();
    size_t bytes = 0;
    const auto flush = [&] {
      if (metrics.empty()) return;
      api_.call("POST", "runs/log-batch", {{"run_id", report_.run_id}, {"metrics", metrics}});
      report_.points += static_cast<int64_t>(metrics.size());
      if (server_.progress) server_.progress(report_.points, total);
      metrics = json::array(), bytes = 0;
    };
    const auto add = [&](const RunLog& log, const std::string& prefix) {
      for (const auto& [step, entries] : log.steps)
        for (const LoggedStep& entry : entries)
          for (const auto& [name, value] : entry.values) {
            const std::string key = mlflow_name(prefix + name);
            if (metrics.size() == kMostMetrics || bytes + key.size() + 120 > kMostRequest) flush();
            metrics.push_back(
                {{"key", key}, {"value", number_json(value)}, {"timestamp", milliseconds(entry.time)}, {"step", step}});
            bytes += key.size() + 120;
          }
    };
    add(run_.log, "");
    for (const auto& [name, log] : logs) add(log, logs.size() == 1 ? "system/" : "system/" + name + "/");
    flush();
  }

  int64_t count_points(const std::vector<std::pair<std::string, RunLog>>& logs) const {
    int64_t count = 0;
    const auto add = [&](const RunLog& log) {
      for (const auto& [step, entries] : log.steps)
        for (const LoggedStep& entry : entries) count += static_cast<int64_t>(entry.values.size());
    };
    add(run_.log);
    for (const auto& [name, log] : logs) add(log);
    return count;
  }

  /// The files go through the server, where it stores artifacts itself.
  void push_files() {
    constexpr std::string_view kProxied = "mlflow-artifacts:";
    std::vector<std::pair<std::string, fs::path>> files;
    for (const char* name : {"recipe.toml", "run.json", "machine.json", "plan.json"})
      if (std::error_code error; fs::is_regular_file(run_.path / name, error))
        files.emplace_back(std::string("ramet/") + name, run_.path / name);
    for (const MediaRow& media : media_of(run_))
      if (!read_artifact(run_.path, media.artifact).empty())
        files.emplace_back(artifact_name(media), run_.path / "artifacts" / media.artifact);
    if (!artifacts_.starts_with(kProxied)) {
      report_.remarks.push_back("the server takes no files (its artifacts are at '" + artifacts_ +
                                "'): " + std::to_string(files.size()) + " files stay here");
      return;
    }
    std::string root = artifacts_.substr(kProxied.size());
    if (root.starts_with("//")) root = root.find('/', 2) == std::string::npos ? "" : root.substr(root.find('/', 2));
    while (root.starts_with('/')) root.erase(0, 1);
    for (const auto& [name, path] : files) {
      const MappedFile file(path);
      const ClientResponse response =
          api_.send("PUT", "/api/2.0/mlflow-artifacts/artifacts/" + encoded_path(root + "/" + name), file.view(),
                    "application/octet-stream");
      if (response.status < 200 || response.status >= 300) {
        report_.remarks.push_back("files were refused: " + MlflowApi::problem_of(response));
        return;
      }
      ++report_.artifacts;
    }
  }

  static std::string artifact_name(const MediaRow& media) {
    std::string name;
    for (const char c : media.name) name += c == '/' || c == '\\' || static_cast<uint8_t>(c) < ' ' ? '_' : c;
    const size_t slash = media.type.find('/');
    std::string ending = slash == std::string::npos ? "" : media.type.substr(slash + 1);
    if (ending == "plain") ending = "txt";
    if (ending == "markdown") ending = "md";
    if (ending.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") != std::string::npos) ending = "bin";
    return media.kind + "/" + name + "-" + std::to_string(media.step) + (ending.empty() ? "" : "." + ending);
  }

  static std::string encoded_path(const std::string& path) {
    std::string encoded;
    for (size_t at = 0; at <= path.size();) {
      const size_t end = std::min(path.find('/', at), path.size());
      encoded += (at == 0 ? "" : "/") + url_encoded(std::string_view(path).substr(at, end - at));
      at = end + 1;
    }
    return encoded;
  }

  void finish() {
    const Annotations said = read_annotations(run_.path);
    json tags = json::array();
    const auto tag = [&](const std::string& key, const std::string& value) {
      if (!value.empty()) tags.push_back({{"key", key}, {"value", cut(value, kMostTag)}});
    };
    tag("mlflow.source.name", run_.command);
    tag("mlflow.source.git.commit", run_.git.substr(0, run_.git.find(' ')));
    tag("mlflow.note.content", said.note);
    tag("ramet.version", run_.version);
    tag("ramet.group", said.group);
    for (const std::string& text : said.tags) tag("ramet.tag." + mlflow_name(cut(text, 200)), "true");
    if (!tags.empty()) api_.call("POST", "runs/log-batch", {{"run_id", report_.run_id}, {"tags", tags}});
    json update = {{"run_id", report_.run_id}, {"status", mlflow_status(run_.status)}, {"run_name", shown_name()}};
    if (run_.status != RunStatus::kRunning) update["end_time"] = milliseconds(std::max(start_of(run_), end_of(run_)));
    api_.call("POST", "runs/update", update);
  }

  const RunRecord& run_;
  const MlflowServer& server_;
  MlflowApi api_;
  PushReport report_;
  std::string artifacts_;  ///< where the server keeps the run's files
};

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

PushReport push_to_mlflow(const RunRecord& run, const MlflowServer& server) { return RunPush(run, server).push(); }

HttpAccess mlflow_access() {
  const std::string insecure = environment("MLFLOW_TRACKING_INSECURE_TLS");
  return {.user = environment("MLFLOW_TRACKING_USERNAME"),
          .password = environment("MLFLOW_TRACKING_PASSWORD"),
          .token = environment("MLFLOW_TRACKING_TOKEN"),
          .check_certificates = insecure != "true" && insecure != "1",
          .certificates = environment("MLFLOW_TRACKING_SERVER_CERT_PATH")};
}

}  // namespace ramet::track
