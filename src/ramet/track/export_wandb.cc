#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/proto.h"
#include "ramet/base/version.h"
#include "ramet/track/annotations.h"
#include "ramet/track/export.h"
#include "ramet/track/json_text.h"
#include "ramet/track/wandb_file.h"

// The messages are those of wandb/proto/wandb_internal.proto; import_wandb.cc lists their numbers. Written besides:
//   Record: num 1, files 6 (files 1 (path 1, policy 2, type 3)), header 21 (version_info 1 (producer 1, min_consumer
//   2)),
//     footer 22

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kHistory = 2, kSummary = 3, kFiles = 6, kStats = 7, kRun = 17, kExit = 18, kHeader = 21, kFooter = 22;
constexpr std::string_view kOldestServer = "0.70.0";  // that reads these records, as W&B's own files say
constexpr uint64_t kMediaFile = 2;

/// W&B's JSON has NaN and infinities as JavaScript writes them.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return json(value).dump();
}

ProtoMessage timestamp(double seconds) {
  const double whole = std::floor(seconds);
  ProtoMessage message;
  message.number(1, static_cast<uint64_t>(static_cast<int64_t>(whole)));
  message.number(2, static_cast<uint64_t>((seconds - whole) * 1e9));
  return message;
}

ProtoMessage item(const std::string& key, const std::string& value_json) {
  ProtoMessage message;
  message.bytes(1, key).bytes(16, value_json);
  return message;
}

/// A run's id as W&B allows it: at most 128 characters, and none of / \ # ? % :
std::string wandb_id(const std::string& id) {
  std::string allowed = id.substr(0, 128);
  for (char& c : allowed)
    if (std::string_view("/\\#?%:").find(c) != std::string_view::npos) c = '-';
  return allowed;
}

class WandbExporter {
 public:
  WandbExporter(const RunRecord& run, fs::path folder, std::string project)
      : run_(run), folder_(std::move(folder)), project_(std::move(project)), start_(start_of(run)) {}

  std::string run(ExportReport& report) {
    add_header();
    add_run();
    add_media(report);
    add_history(report);
    add_system(report);
    add_summary();
    if (run_.status != RunStatus::kRunning && run_.status != RunStatus::kKilled) add_exit();
    return file_.bytes();
  }

 private:
  void add(int kind, const ProtoMessage& message) {
    ProtoMessage record;
    record.number(1, ++records_).message(kind, message);
    file_.add(record.data());
  }

  void add_header() {
    ProtoMessage version_info, header;
    version_info.bytes(1, std::string("ramet ") + version()).bytes(2, kOldestServer);
    header.message(1, version_info);
    add(kHeader, header);
  }

  /// Keys with dots become nested, as W&B shows a configuration, unless a key is the beginning of another.
  ProtoMessage config() const {
    const std::vector<ConfigValue> values = config_of(run_);
    std::set<std::string> keys;
    for (const auto& [key, value] : values) keys.insert(key);
    const bool nests = std::none_of(keys.begin(), keys.end(), [&](const std::string& key) {
      const auto longer = keys.lower_bound(key + ".");
      return longer != keys.end() && longer->starts_with(key + ".");
    });
    ProtoMessage message;
    for (const auto& [key, value] : values) {
      ProtoMessage update;
      if (!nests || key.find('.') == std::string::npos) {
        update.bytes(1, key);
      } else {
        for (size_t at = 0; at <= key.size();) {
          const size_t end = std::min(key.find('.', at), key.size());
          update.bytes(2, std::string_view(key).substr(at, end - at));
          at = end + 1;
        }
      }
      update.bytes(16, value);
      message.message(1, update);
    }
    return message;
  }

  void add_run() {
    const Annotations said = read_annotations(run_.path);
    ProtoMessage message;
    message.bytes(1, wandb_id(run_.id)).bytes(3, project_).message(4, config());
    if (!said.group.empty()) message.bytes(6, said.group);
    message.bytes(8, said.name.empty() ? run_.id : said.name);
    if (!said.note.empty()) message.bytes(9, said.note);
    for (const std::string& tag : said.tags) message.bytes(10, tag);
    message.message(17, timestamp(start_));
    if (!run_.git.empty()) {
      ProtoMessage git;
      git.bytes(2, run_.git.substr(0, run_.git.find(' ')));
      message.message(21, git);
    }
    add(kRun, message);
  }

  /// Images go to files/media/images, where `wandb sync` finds them; histograms and texts into the history.
  void add_media(ExportReport& report) {
    ProtoMessage files;
    for (const MediaRow& media : media_of(run_)) {
      const std::string contents = read_artifact(run_.path, media.artifact);
      std::string value;
      if (contents.empty())
        report.remarks.push_back(media.kind + " '" + media.name + "' is not among the run's artifacts");
      else if (media.kind == "image")
        value = image(media, contents, files);
      else if (media.kind == "text")
        value = dump_json(json(valid_utf8(contents)));
      else if (const auto histogram = parse_histogram(contents); media.kind == "histogram" && histogram)
        value = dump_json({{"_type", "histogram"}, {"values", histogram->counts}, {"bins", histogram->edges}});
      else
        report.remarks.push_back(media.kind + " '" + media.name + "' has no place in a .wandb file");
      if (value.empty()) continue;
      media_[media.step].emplace_back(media.name, value);
      ++report.media;
    }
    if (!files.data().empty()) add(kFiles, files);
  }

  std::string image(const MediaRow& media, const std::string& contents, ProtoMessage& files) {
    const size_t slash = media.type.find('/');
    const std::string format = slash == std::string::npos ? "png" : media.type.substr(slash + 1);
    if (format.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") != std::string::npos) return "";
    const std::string path = "media/images/" + media.artifact + "." + format;
    fs::create_directories(folder_ / "files" / "media" / "images");
    write_file_atomic(folder_ / "files" / path, contents);
    ProtoMessage entry;
    entry.bytes(1, path).number(3, kMediaFile);
    files.message(1, entry);
    json value = {{"_type", "image-file"}, {"path", path}, {"size", contents.size()}, {"format", format}};
    if (!media.caption.empty()) value["caption"] = media.caption;
    return dump_json(value);
  }

  /// A row for each step: W&B's steps only grow.
  void add_history(ExportReport& report) {
    std::set<int64_t> steps;
    for (const auto& [step, entries] : run_.log.steps) steps.insert(step);
    for (const auto& [step, media] : media_) steps.insert(step);
    for (const int64_t step : steps) {
      std::map<std::string, std::string> row;
      double time = 0;
      if (const auto logged = run_.log.steps.find(step); logged != run_.log.steps.end())
        for (const LoggedStep& entry : logged->second) {
          time = std::max(time, entry.time);
          for (const auto& [name, value] : entry.values) row[name] = number_text(value);
        }
      report.points += static_cast<int64_t>(row.size());
      if (const auto media = media_.find(step); media != media_.end())
        for (const auto& [name, value] : media->second) row[name] = value;
      if (time <= 0) time = last_time_ > 0 ? last_time_ : start_;
      last_time_ = time, last_step_ = step;
      ProtoMessage message, number;
      for (const auto& [name, value] : row) message.message(1, item(name, value));
      message.message(1, item("_step", std::to_string(step)));
      message.message(1, item("_runtime", number_text(std::max(0.0, time - start_))));
      message.message(1, item("_timestamp", number_text(time)));
      number.number(1, static_cast<uint64_t>(step));
      message.message(2, number);
      add(kHistory, message);
    }
  }

  void add_system(ExportReport& report) {
    const auto logs = system_logs(run_.path);
    for (const auto& [host, log] : logs)
      for (const auto& [step, entries] : log.steps)
        for (const LoggedStep& entry : entries) {
          ProtoMessage message;
          message.message(2, timestamp(entry.time));
          for (const auto& [name, value] : entry.values) {
            message.message(3, item(logs.size() == 1 ? name : host + "." + name, number_text(value)));
            ++report.points;
          }
          add(kStats, message);
        }
  }

  void add_summary() {
    ProtoMessage message;
    for (const std::string& name : run_.log.names()) message.message(1, item(name, number_text(run_.log.last(name))));
    message.message(1, item("_step", std::to_string(last_step_)));
    message.message(1, item("_runtime", number_text(runtime())));
    message.message(1, item("_timestamp", number_text(last_time_)));
    add(kSummary, message);
  }

  double runtime() const { return std::max(0.0, last_time_ - start_); }

  void add_exit() {
    ProtoMessage exit, footer;
    if (run_.status != RunStatus::kDone) exit.number(1, 1);
    exit.number(2, static_cast<uint64_t>(runtime()));
    add(kExit, exit);
    add(kFooter, footer);
  }

  const RunRecord& run_;
  const fs::path folder_;
  const std::string project_;
  const double start_;
  WandbFile file_;
  uint64_t records_ = 0;
  std::map<int64_t, std::vector<std::pair<std::string, std::string>>> media_;  ///< by step
  int64_t last_step_ = 0;
  double last_time_ = 0;
};

}  // namespace

ExportReport export_wandb(const RunRecord& run, const fs::path& folder, const std::string& project) {
  ExportReport report;
  const auto started = static_cast<std::time_t>(start_of(run));
  std::tm parts{};
  ::gmtime_r(&started, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d_%H%M%S", &parts);
  const std::string id = wandb_id(run.id);
  report.path = folder / (std::string("offline-run-") + time + "-" + id);
  std::error_code error;
  fs::create_directories(report.path / "files", error);
  if (error)
    throw Error({.what = "cannot make the folder (" + error.message() + ")", .where = report.path.string()},
                ErrorKind::kFailure);
  write_file_atomic(report.path / ("run-" + id + ".wandb"), WandbExporter(run, report.path, project).run(report));
  return report;
}

}  // namespace ramet::track
