#include <algorithm>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/import.h"
#include "ramet/track/tf_record.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;

/// A run out of events in the order in which they were written.
class EventCollector {
 public:
  explicit EventCollector(ImportedRun& run) : run_(run) {}

  void take(std::string_view payload) {
    FileEvent event = parse_event(payload);
    damaged_ += event.damaged;
    if (event.restart) restart(event.step);
    if (event.time > 0 && (run_.started <= 0 || event.time < run_.started)) run_.started = event.time;
    run_.ended = std::max(run_.ended, event.time);
    for (EventValue& value : event.values) take_value(event, value);
  }

  void finish() {
    if (damaged_ > 0) run_.remarks.push_back(std::to_string(damaged_) + " events are damaged and were read in part");
    if (others_ > 0)
      run_.remarks.push_back(std::to_string(others_) +
                             " values are neither scalars, texts, images nor histograms and were left out");
    // An event file does not say how its run ended, unless a session does.
    if (run_.status.empty() && !running_) run_.status = "done";
  }

 private:
  void take_value(const FileEvent& event, EventValue& value) {
    const auto add = [&](std::string kind, const std::string& name, std::string type, std::string bytes) {
      run_.media.push_back({std::move(kind), name, event.step, event.time, std::move(type), std::move(bytes), ""});
    };
    switch (value.kind) {
      case EventValue::Kind::kScalar: run_.metrics[value.tag].push_back({event.step, event.time, value.scalar}); break;
      case EventValue::Kind::kText: {
        std::string text;
        for (const std::string& part : value.parts) text += (text.empty() ? "" : "\n") + part;
        add("text", value.tag, "text/markdown", std::move(text));
        break;
      }
      case EventValue::Kind::kImage:
        for (size_t i = 0; i < value.parts.size(); ++i) {
          const std::string_view type = image_type(value.parts[i]);
          const std::string name = value.parts.size() == 1 ? value.tag : value.tag + "/" + std::to_string(i);
          add(type.empty() ? "file" : "image", name, std::string(type.empty() ? "application/octet-stream" : type),
              std::move(value.parts[i]));
        }
        break;
      case EventValue::Kind::kHistogram:
        add("histogram", value.tag, "application/json", json_of(value.histogram));
        break;
      case EventValue::Kind::kSession: take_session(value.session); break;
      case EventValue::Kind::kOther: ++others_; break;
    }
  }

  void take_session(const std::string& bytes) {
    EventSession session = parse_session(bytes);
    run_.config.insert(run_.config.end(), session.config.begin(), session.config.end());
    if (!session.group.empty()) run_.group = session.group;
    if (session.started > 0 && (run_.started <= 0 || session.started < run_.started)) run_.started = session.started;
    run_.ended = std::max(run_.ended, session.ended);
    if (session.status == 1) run_.status = "done";
    if (session.status == 2) run_.status = "failed";
    running_ = session.status == 3 || (running_ && session.status == 0);
  }

  /// The run went back to this step: what it had logged from there on counts no more, as TensorBoard has it.
  void restart(int64_t step) {
    const auto later = [&](const auto& logged) { return logged.step >= step; };
    for (auto& [name, points] : run_.metrics) std::erase_if(points, later);
    std::erase_if(run_.metrics, [](const auto& entry) { return entry.second.empty(); });
    std::erase_if(run_.media, later);
  }

  ImportedRun& run_;
  int64_t damaged_ = 0, others_ = 0;
  bool running_ = false;
};

/// The same for each reading, wherever the file lies: the name of the first file, which has a time, a host and a
/// process in it, and a hash of its first record, which has the time to the microsecond.
std::string identity(const fs::path& file) {
  const MappedFile mapped(file);
  constexpr size_t kFirstRecord = 40;
  const Hash hash = hash_text(mapped.view().substr(0, kFirstRecord));
  return file.filename().string() + "-" + hash.hex().substr(0, 12);
}

}  // namespace

void read_event_files(const ImportSource& source, const ImportSink& sink) {
  if (source.files.empty()) return;
  const std::string id = identity(source.files.front());
  if (!sink.wants(id)) return;
  ImportedRun run;
  run.from = name_of(ImportKind::kTensorBoard);
  run.path = fs::absolute(source.path);
  run.id = id;
  run.name = source.name;
  EventCollector collector(run);
  int64_t skipped = 0, records = 0;
  for (size_t i = 0; i < source.files.size(); ++i) {
    const MappedFile file(source.files[i]);
    skipped += read_tf_records(file.view(), [&](std::string_view payload) {
      ++records;
      collector.take(payload);
    });
    if (sink.progress) sink.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(source.files.size()));
  }
  if (skipped > 0 && records == 0)
    throw Error({.what = "no record of an event file is in it: damaged, or a file of another kind with such a name",
                 .where = source.files.front().string(),
                 .found = skipped_bytes_text(skipped)});
  if (skipped > 0) run.remarks.push_back(skipped_bytes_text(skipped));
  collector.finish();
  sink.take(std::move(run));
}

}  // namespace ramet::track
