#include "ramet/track/imported_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/annotations.h"
#include "ramet/track/json_text.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log_frames.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostName = 500;         // bytes of a metric's or a key's name
constexpr size_t kMostValue = 64 << 10;   // bytes of a value of the configuration
constexpr size_t kMostEvent = 256 << 10;  // bytes of an event with configuration
constexpr size_t kMostTogether = 4000;    // values of one entry of the log
constexpr size_t kMostShapes = 256;       // sets of names that appear together
constexpr double kMostSeconds = 4e11;     // the year 14,600: later times are no times
constexpr std::string_view kStaging = ".import-";

/// At most `most` bytes of valid UTF-8 without NUL.
std::string clean(std::string_view text, size_t most) {
  std::string kept(text.substr(0, most));
  std::erase(kept, '\0');
  return valid_utf8(kept);
}

std::string clean_name(std::string_view text) {
  const std::string name = clean(text, kMostName);
  return name.empty() ? "unnamed" : name;
}

/// One line, as tags and groups must be.
std::string clean_line(std::string_view text) {
  std::string line = clean(text, 150);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  return line;
}

double clean_time(double seconds) { return seconds > 0 && seconds < kMostSeconds ? seconds : 0; }

std::string counted(size_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

using Series = std::map<std::string, std::vector<ImportedPoint>>;

/// Leaves one value a step, in the order of steps.
class SeriesSettler {
 public:
  explicit SeriesSettler(Series& all) {
    Series clean;
    for (auto& [name, points] : all) {
      auto& to = clean[clean_name(name)];
      to.insert(to.end(), points.begin(), points.end());
    }
    for (auto& [name, points] : clean) settle(points);
    all = std::move(clean);
  }

  void tell(std::vector<std::string>& remarks) const {
    if (numbered_ > 0)
      remarks.push_back(counted(numbered_, "metric has", "metrics have") +
                        " all values at one step: they are numbered from 0");
    if (replaced_ > 0)
      remarks.push_back(counted(replaced_, "value was", "values were") +
                        " logged again at the same step: the last counts");
  }

 private:
  void settle(std::vector<ImportedPoint>& points) {
    for (ImportedPoint& point : points) point.time = clean_time(point.time);
    const auto same = [&](const ImportedPoint& point) { return point.step == points.front().step; };
    if (points.size() > 1 && std::all_of(points.begin(), points.end(), same)) {
      for (size_t i = 0; i < points.size(); ++i) points[i].step = static_cast<int64_t>(i);
      ++numbered_;
      return;
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const ImportedPoint& a, const ImportedPoint& b) { return a.step < b.step; });
    size_t kept = 0;
    for (size_t i = 0; i < points.size(); ++i)
      if (i + 1 == points.size() || points[i + 1].step != points[i].step) points[kept++] = points[i];
    replaced_ += points.size() - kept;
    points.resize(kept);
  }

  size_t numbered_ = 0, replaced_ = 0;
};

/// Writes the points of a log in the order of steps and times; values of one moment stand in one entry.
class PointWriter {
 public:
  PointWriter(RunLogFrames& frames, FileWriter& file, double no_time)
      : frames_(frames), file_(file), no_time_(no_time) {}

  void write(const Series& all) {
    struct Place {
      int64_t step;
      double time;
      const std::string* name;
      double value;
    };
    std::vector<Place> places;
    for (const auto& [name, points] : all)
      for (const ImportedPoint& point : points) places.push_back({point.step, point.time, &name, point.value});
    std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::tie(a.step, a.time) < std::tie(b.step, b.time);
    });
    std::vector<LoggedNumber> values;
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      values.emplace_back(*place.name, place.value);
      const bool last = i + 1 == places.size() || places[i + 1].step != place.step || places[i + 1].time != place.time;
      if (!last && values.size() < kMostTogether) continue;
      put(place.step, place.time, values);
      values.clear();
    }
  }

 private:
  /// Sets of names that change all the time would repeat the names all the time: their values stand alone.
  void put(int64_t step, double time, const std::vector<LoggedNumber>& values) {
    std::string shape;
    for (const auto& [name, value] : values) shape += name + '\0';
    const double at = time > 0 ? time : no_time_;
    if (shapes_.contains(shape) || shapes_.size() < kMostShapes || values.size() == 1) {
      if (values.size() > 1) shapes_.insert(shape);
      write(step, at, values);
      return;
    }
    for (const LoggedNumber& value : values) write(step, at, {&value, 1});
  }
  void write(int64_t step, double time, std::span<const LoggedNumber> values) {
    std::string bytes;
    frames_.metrics(bytes, step, time, values);
    file_.write(bytes);
  }

  RunLogFrames& frames_;
  FileWriter& file_;
  const double no_time_;
  std::set<std::string> shapes_;
};

/// A folder that is removed with all in it, unless it was renamed.
class StagingFolder {
 public:
  StagingFolder(const fs::path& parent, const std::string& name, double started)
      : path_(parent / (std::string(kStaging) + new_run_path(parent, name, started).filename().string())) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error)
      throw Error({.what = "cannot make a run's folder (" + error.message() + ")", .where = path_.string()},
                  ErrorKind::kFailure);
  }
  ~StagingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  const fs::path& path() const { return path_; }
  /// Its name as a run.
  std::string id() const { return path_.filename().string().substr(kStaging.size()); }

 private:
  fs::path path_;
};

/// What a killed import left behind a day ago or longer.
void remove_leftovers(const fs::path& runs) {
  std::error_code error;
  std::vector<fs::path> old;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& entry : fs::directory_iterator(runs, error)) {
    std::error_code unknown;
    const auto written = entry.last_write_time(unknown);
    if (!unknown && entry.path().filename().string().starts_with(kStaging) && now - written > std::chrono::hours(24))
      old.push_back(entry.path());
  }
  for (const fs::path& path : old) fs::remove_all(path, error);
}

class RunWriter {
 public:
  RunWriter(const ImportedRun& run, const fs::path& folder) : run_(run), folder_(folder) {}

  void write_log() {
    FileWriter file(folder_ / "log.ramet");
    RunLogFrames frames;
    const auto write_event = [&](const std::string& text) {
      std::string bytes;
      RunLogFrames::event(bytes, text);
      file.write(bytes);
    };
    const auto event = [&](const json& value) { write_event(dump_json(value)); };
    event({{"event", "start"}, {"time", run_.started}, {"imported_from", run_.from}});
    write_config(event);
    PointWriter(frames, file, run_.started).write(run_.metrics);
    for (const ImportedMedia& media : run_.media) event(logged(media));
    for (const std::string& text : run_.events)
      if (text.size() <= kMostEvent) write_event(text);
    if (!run_.status.empty()) {
      json end = {{"event", "end"}, {"status", run_.status}, {"time", run_.ended}};
      if (!run_.error.empty()) end["error"] = clean(run_.error, kMostValue);
      event(end);
    }
    file.close();
  }

  void write_system() {
    if (run_.system.empty()) return;
    fs::create_directories(folder_ / "system");
    FileWriter file(folder_ / "system" / "imported-0.ramet");
    RunLogFrames frames;
    PointWriter(frames, file, run_.started).write(run_.system);
    file.close();
  }

  void write_artifacts() {
    if (run_.media.empty()) return;
    fs::create_directories(folder_ / "artifacts");
    for (const ImportedMedia& media : run_.media) {
      const fs::path path = folder_ / "artifacts" / hash_text(media.bytes).hex();
      if (!fs::exists(path)) write_file_atomic(path, media.bytes);
    }
  }

  void write_facts(const std::string& id, int64_t points) {
    json imported = {{"from", run_.from}, {"path", run_.path.string()}, {"id", run_.id}, {"points", points}};
    if (!run_.source.empty()) imported["source"] = run_.source;
    if (!run_.artifacts.empty()) imported["artifacts"] = run_.artifacts;
    if (!run_.remarks.empty()) imported["remarks"] = run_.remarks;
    write_import_facts(folder_, id,
                       {.name = run_.name,
                        .started = run_.started,
                        .command = clean(run_.command, kMostValue),
                        .git = clean(run_.git, kMostName),
                        .imported = dump_json(imported)});
  }

 private:
  template <typename Event>
  void write_config(const Event& event) {
    json values = json::object();
    size_t bytes = 0;
    const auto flush = [&] {
      if (!values.empty()) event({{"event", "config"}, {"values", values}});
      values = json::object(), bytes = 0;
    };
    for (const auto& [key, text] : run_.config) {
      if (bytes + key.size() + text.size() > kMostEvent) flush();
      bytes += key.size() + text.size();
      values[key] = parse_json(text);
    }
    flush();
  }

  static json logged(const ImportedMedia& media) {
    json event = {{"event", "logged"},
                  {"kind", media.kind},
                  {"name", clean_name(media.name)},
                  {"step", media.step},
                  {"time", clean_time(media.time)},
                  {"artifact", hash_text(media.bytes).hex()},
                  {"type", media.type},
                  {"bytes", media.bytes.size()}};
    if (!media.caption.empty()) event["caption"] = clean(media.caption, kMostValue);
    return event;
  }

  const ImportedRun& run_;
  const fs::path& folder_;
};

/// Brings a run into the form in which it is written.
void complete(ImportedRun& run) {
  SeriesSettler(run.metrics).tell(run.remarks);
  SeriesSettler system(run.system);
  run.started = clean_time(run.started), run.ended = clean_time(run.ended);
  for (const auto& [name, points] : run.metrics)
    for (const ImportedPoint& point : points) {
      if (point.time <= 0) continue;
      if (run.started <= 0 || point.time < run.started) run.started = point.time;
      run.ended = std::max(run.ended, point.time);
    }
  if (run.started <= 0) run.started = static_cast<double>(std::time(nullptr));
  run.ended = std::max(run.started, run.ended);
  run.name = clean_name(run.name.empty() ? run.id : run.name);
  size_t cut = 0;
  std::map<std::string, std::string> config;  // the last value of a key counts
  for (auto& [key, text] : run.config) {
    if (text.size() > kMostValue) text = dump_json(json(text.substr(0, kMostValue))), ++cut;
    config[clean_name(key)] = std::move(text);
  }
  run.config.assign(config.begin(), config.end());
  if (cut > 0)
    run.remarks.push_back(counted(cut, "value", "values") + " of the configuration " + (cut == 1 ? "is" : "are") +
                          " longer than 64 KiB: only the beginning was kept");
}

void annotate(const fs::path& folder, const ImportedRun& run) {
  if (run.tags.empty() && run.note.empty() && run.group.empty()) return;
  AnnotationChanges changes;
  std::vector<std::string> tags;
  for (const std::string& tag : run.tags)
    if (const std::string line = clean_line(tag); !line.empty()) tags.push_back(line);
  if (!tags.empty()) changes.tags = tags;
  if (!run.note.empty()) changes.note = clean(run.note, kMostValue);
  if (const std::string group = clean_line(run.group); !group.empty()) changes.group = group;
  annotate_run(folder, changes);
}

/// Moves what was written anew into the folder that the run has: each file as a whole, and run.json last.
void replace_run(const fs::path& from, const fs::path& to) {
  fs::create_directories(to / "artifacts");
  for (const char* folder : {"artifacts", "system"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(from / folder, none)) {
      fs::create_directories(to / folder);
      fs::rename(entry.path(), to / folder / entry.path().filename());
    }
  }
  fs::rename(from / "log.ramet", to / "log.ramet");
  fs::rename(from / "run.json", to / "run.json");
  sync_directory(to);
}

}  // namespace

size_t ImportedRun::points() const {
  size_t count = 0;
  for (const auto& [name, points] : metrics) count += points.size();
  return count;
}

std::map<std::string, fs::path> list_imported(const fs::path& runs) {
  std::map<std::string, fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs, error)) {
    if (!is_run(entry.path())) continue;
    json facts;
    try {
      facts = parse_json(read_file(entry.path() / "run.json"));
    } catch (const Error&) {
      continue;
    }
    const auto imported = facts.is_object() ? facts.find("imported") : facts.end();
    if (!facts.is_object() || imported == facts.end() || !imported->is_object()) continue;
    const auto from = imported->find("from"), id = imported->find("id");
    if (from == imported->end() || id == imported->end() || !from->is_string() || !id->is_string()) continue;
    found.emplace(from->get<std::string>() + " " + id->get<std::string>(), entry.path());
  }
  return found;
}

RunImporter::RunImporter(fs::path runs, bool again)
    : runs_(std::move(runs)), again_(again), known_(list_imported(runs_)) {
  remove_leftovers(runs_);
}

fs::path RunImporter::find(const std::string& from, const std::string& id) const {
  const auto found = known_.find(from + " " + clean(id, kMostName));
  return found == known_.end() ? fs::path() : found->second;
}

ImportResult RunImporter::add(ImportedRun run) {
  run.id = clean(run.id, kMostName);
  ImportResult result;
  result.run = find(run.from, run.id);
  if (!result.run.empty() && !again_) {
    result.kind = ImportResult::Kind::kAlreadyThere;
    return result;
  }
  complete(run);
  result.metrics = static_cast<int64_t>(run.metrics.size());
  result.points = static_cast<int64_t>(run.points());
  result.media = static_cast<int64_t>(run.media.size());
  result.remarks = run.remarks;
  const StagingFolder staging(runs_, run.name, run.started);
  const bool replaces = !result.run.empty();
  const std::string id = replaces ? result.run.filename().string() : staging.id();
  try {
    RunWriter writer(run, staging.path());
    writer.write_log();
    writer.write_system();
    writer.write_artifacts();
    writer.write_facts(id, result.points);
    if (replaces) {
      replace_run(staging.path(), result.run);
      result.kind = ImportResult::Kind::kReplaced;
    } else {
      annotate(staging.path(), run);
      result.run = runs_ / id;
      fs::rename(staging.path(), result.run);
      sync_directory(runs_);
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(
        {.what = "cannot write an imported run (" + error.code().message() + ")", .where = error.path1().string()},
        ErrorKind::kFailure);
  }
  known_[run.from + " " + run.id] = result.run;
  return result;
}

}  // namespace ramet::track
