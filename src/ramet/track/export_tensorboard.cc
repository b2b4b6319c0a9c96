#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/annotations.h"
#include "ramet/track/export.h"
#include "ramet/track/json_text.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;

/// Width and height of a PNG; 0 and 0 of other images.
std::pair<int64_t, int64_t> size_of_image(std::string_view bytes) {
  constexpr size_t kWidth = 16, kHeight = 20;
  if (!bytes.starts_with("\x89PNG\r\n\x1a\n") || bytes.size() < kHeight + 4) return {0, 0};
  const auto big_endian = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  return {big_endian(kWidth), big_endian(kHeight)};
}

/// The configuration as a table that TensorBoard's page of texts shows.
std::string config_table(const std::vector<ConfigValue>& config) {
  std::string table = "| key | value |\n| --- | --- |\n";
  for (const auto& [key, value] : config) {
    std::string escaped;
    for (const char c : value) escaped += c == '|' ? "\\|" : std::string(1, c);
    table += "| " + key + " | " + escaped + " |\n";
  }
  return table;
}

class EventExporter {
 public:
  explicit EventExporter(const RunRecord& run) : run_(run) {}

  std::string run(ExportReport& report) {
    const double start = start_of(run_);
    bytes_ = event_file::version(start);
    const std::vector<ConfigValue> config = config_of(run_);
    bytes_ += event_file::begin_session(start, config);
    if (!config.empty()) bytes_ += event_file::text(start, 0, "config", config_table(config));
    if (const Annotations said = read_annotations(run_.path); !said.note.empty())
      bytes_ += event_file::text(start, 0, "note", said.note);
    add_log(run_.log, "", report);
    for (const auto& [name, log] : system_logs(run_.path)) add_log(log, "system/" + name + "/", report);
    for (const MediaRow& media : media_of(run_)) add_media(media, report);
    if (run_.status == RunStatus::kDone || run_.status == RunStatus::kFailed)
      bytes_ += event_file::end_session(std::max(start, end_of(run_)), run_.status == RunStatus::kDone);
    return std::move(bytes_);
  }

 private:
  void add_log(const RunLog& log, const std::string& prefix, ExportReport& report) {
    for (const auto& [step, entries] : log.steps)
      for (const LoggedStep& entry : entries) {
        std::vector<LoggedNumber> values = entry.values;
        for (auto& [name, value] : values) name = prefix + name;
        bytes_ += event_file::scalars(entry.time, step, values);
        report.points += static_cast<int64_t>(values.size());
      }
  }

  void add_media(const MediaRow& media, ExportReport& report) {
    const std::string contents = read_artifact(run_.path, media.artifact);
    const double time = media.time > 0 ? media.time : start_of(run_);
    if (contents.empty()) {
      report.remarks.push_back(media.kind + " '" + media.name + "' is not among the run's artifacts");
      return;
    }
    if (media.kind == "image") {
      const auto [width, height] = size_of_image(contents);
      bytes_ += event_file::image(time, media.step, media.name, contents, width, height);
    } else if (media.kind == "text") {
      bytes_ += event_file::text(time, media.step, media.name, valid_utf8(contents));
    } else if (const auto histogram = parse_histogram(contents); media.kind == "histogram" && histogram) {
      bytes_ += event_file::histogram(time, media.step, media.name, *histogram);
    } else {
      report.remarks.push_back(media.kind + " '" + media.name + "' has no place in an event file");
      return;
    }
    ++report.media;
  }

  const RunRecord& run_;
  std::string bytes_;
};

}  // namespace

ExportReport export_tensorboard(const RunRecord& run, const fs::path& folder) {
  ExportReport report;
  const std::string bytes = EventExporter(run).run(report);
  const fs::path to = folder / run.id;
  std::error_code error;
  fs::create_directories(to, error);
  if (error)
    throw Error({.what = "cannot make the folder (" + error.message() + ")", .where = to.string()},
                ErrorKind::kFailure);
  report.path = to / ("events.out.tfevents." + std::to_string(static_cast<int64_t>(start_of(run))) + "." + run.id);
  write_file_atomic(report.path, bytes);
  return report;
}

}  // namespace ramet::track
