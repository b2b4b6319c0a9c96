#include "ramet/track/run_indexer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>

#include "ramet/base/hash.h"
#include "ramet/track/annotations.h"
#include "ramet/track/log_indexer.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_record.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 4 << 20;
constexpr size_t kTailBytes = 64;
constexpr int64_t kFresh = 100'000'000;  // nanoseconds: a change so shortly after another may have the same time
const char* const kLogFolders[] = {"logs", "system"};

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

/// The files of a folder below an open one whose names have the ending of logs.
std::vector<std::string> logs_in(int root, const std::string& folder, const std::string& below) {
  std::vector<std::string> names;
  const int fd = ::openat(root, folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return names;
  DIR* const open = ::fdopendir(fd);
  if (!open) {
    ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(open))
    if (std::string name = entry->d_name; name.ends_with(".ramet") && name.size() > 6)
      names.push_back(below + "/" + name);
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

/// What tells that a run's folder has changed.
struct FolderState {
  std::string stamp;                    ///< of all but the logs; "" when it may change without a trace
  std::map<std::string, int64_t> logs;  ///< sizes
};

FolderState state_of(int root, const std::string& id) {
  FolderState state;
  struct stat facts;
  int64_t newest = 0;
  for (const char* const file : {"", "/annotations.json", "/checkpoints"}) {
    if (::fstatat(root, (id + file).c_str(), &facts, 0) != 0) {
      state.stamp += "-;";
      continue;
    }
    newest = std::max(newest, nanoseconds(facts.st_mtim));
    state.stamp += std::to_string(nanoseconds(facts.st_mtim)) + "," + std::to_string(facts.st_size) + ";";
  }
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (nanoseconds(now) - newest < kFresh) state.stamp.clear();
  std::vector<std::string> files = {"log.ramet"};
  for (const char* const folder : kLogFolders)
    if (::fstatat(root, (id + "/" + folder).c_str(), &facts, 0) == 0 && S_ISDIR(facts.st_mode))
      for (auto& file : logs_in(root, id + "/" + folder, folder)) files.push_back(std::move(file));
  for (const auto& file : files)
    if (::fstatat(root, (id + "/" + file).c_str(), &facts, 0) == 0 && S_ISREG(facts.st_mode))
      state.logs[file] = facts.st_size;
  return state;
}

/// "2026-11-23T15:00:19.123456+0100" as seconds since 1970; 0 when it is something else.
double seconds_of(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!rest) return 0;
  double fraction = 0;
  if (*rest == '.') {
    double scale = 0.1;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, scale /= 10) fraction += scale * (*rest - '0');
  }
  int64_t offset = 0;
  if (*rest == '+' || *rest == '-') {
    const int digits = std::atoi(rest + 1);
    offset = (*rest == '-' ? -1 : 1) * (digits / 100 * 3600 + digits % 100 * 60);
  }
  return static_cast<double>(::timegm(&parts) - offset) + fraction;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::localtime_r(&whole, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts);
  return text;
}

std::string without_quotes(const std::string& text) {
  if (text.front() == '\'') return text.substr(1, text.size() - 2);
  std::string plain;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\' || i + 2 >= text.size()) {
      plain += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n': plain += '\n'; break;
      case 't': plain += '\t'; break;
      case 'r': plain += '\r'; break;
      default: plain += text[i];
    }
  }
  return plain;
}

/// Where reading a log stands.
struct LogPlace {
  int64_t size = 0, read = 0, skipped = 0;
  std::string names, tail;
};

/// Reads what is new in a log; false when what was read before is not there any more.
bool read_log(const fs::path& path, LogPlace& place, LogIndexer& indexer, int64_t& bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw Error({.what = "cannot read a log (" + std::string(std::strerror(errno)) + ")", .where = path.string()});
  struct Closed {
    int fd;
    ~Closed() { ::close(fd); }
  } const closed{fd};
  struct stat facts;
  if (::fstat(fd, &facts) != 0 || facts.st_size < place.read) return false;
  if (!place.tail.empty()) {
    std::string before(place.tail.size(), '\0');
    if (::pread(fd, before.data(), before.size(), place.read - static_cast<int64_t>(before.size())) !=
            static_cast<ssize_t>(before.size()) ||
        before != place.tail)
      return false;
  }
  RunLogScanner scanner(indexer);
  if (!scanner.restore(place.names)) return false;
  std::string buffer;
  int64_t at = place.read + 0;
  for (bool at_end = false; !at_end;) {
    const size_t kept = buffer.size();
    buffer.resize(kept + kReadBytes);
    const ssize_t got = ::pread(fd, buffer.data() + kept, kReadBytes, at);
    if (got < 0)
      throw Error({.what = "cannot read a log (" + std::string(std::strerror(errno)) + ")", .where = path.string()});
    buffer.resize(kept + static_cast<size_t>(got));
    at += got, bytes += got;
    at_end = got == 0;
    const size_t done = scanner.scan(buffer, at_end);
    if (done > 0) {
      place.tail = buffer.substr(done - std::min(done, kTailBytes), std::min(done, kTailBytes));
      place.read += static_cast<int64_t>(done);
      buffer.erase(0, done);
    }
  }
  place.size = at;
  place.skipped += scanner.skipped_bytes();
  place.names = scanner.saved_names();
  return true;
}

}  // namespace

FieldValue typed_value(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    return without_quotes(text);
  const char* const end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto read = std::from_chars(text.data(), end, integer); read.ec == std::errc() && read.ptr == end)
    return integer;
  double real = 0;
  if (const auto read = std::from_chars(text.data(), end, real);
      read.ec == std::errc() && read.ptr == end && std::isfinite(real))
    return real;
  return text;
}

void put_config(Database& database, int64_t run, const std::string& key, const FieldValue& value,
                const std::string& source) {
  static constexpr const char* const kKinds[] = {"none", "bool", "integer", "real", "text"};
  Statement row = database.prepare(
      "INSERT OR REPLACE INTO config(run, key, source, kind, integer, real, text) VALUES (?, ?, ?, ?, ?, ?, ?)");
  row.bind_all(run, key, source, std::string_view(kKinds[value.index()]));
  const bool* const truth = std::get_if<bool>(&value);
  const int64_t* const integer = std::get_if<int64_t>(&value);
  const double* const real = std::get_if<double>(&value);
  if (truth || integer)
    row.bind(truth ? static_cast<int64_t>(*truth) : *integer);
  else
    row.bind_null();
  if (truth || integer || real)
    row.bind(truth ? static_cast<double>(*truth) : integer ? static_cast<double>(*integer) : *real);
  else
    row.bind_null();
  row.bind(std::string_view(field_text(value))).run();
}

std::vector<std::string> run_ids(const fs::path& runs_folder) {
  std::vector<std::string> ids;
  const int root = ::open(runs_folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return ids;
  DIR* const open = ::fdopendir(root);
  if (!open) {
    ::close(root);
    return ids;
  }
  while (const dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] == '.') continue;
    struct stat facts;
    const std::string id = entry->d_name;
    if (::fstatat(root, (id + "/run.json").c_str(), &facts, 0) == 0 && S_ISREG(facts.st_mode)) ids.push_back(id);
  }
  ::closedir(open);
  std::sort(ids.begin(), ids.end());
  return ids;
}

RunIndexer::RunIndexer(Database& database, fs::path runs_folder)
    : database_(database), folder_(std::move(runs_folder)) {
  root_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
RunIndexer::~RunIndexer() {
  if (root_ >= 0) ::close(root_);
}

std::unordered_map<std::string, KnownRun> RunIndexer::known_runs() {
  std::unordered_map<std::string, KnownRun> known;
  std::unordered_map<int64_t, KnownRun*> by_key;
  Statement runs = database_.prepare("SELECT key, id, stamp, status FROM runs");
  while (runs.step()) {
    KnownRun& run = known[runs.text(1)];
    run.key = runs.integer(0), run.stamp = runs.text(2), run.status = runs.text(3);
    by_key[run.key] = &run;
  }
  Statement logs = database_.prepare("SELECT run, file, size FROM logs");
  while (logs.step())
    if (const auto run = by_key.find(logs.integer(0)); run != by_key.end())
      run->second->logs[logs.text(1)] = logs.integer(2);
  return known;
}

bool RunIndexer::has_changed(const std::string& id, const KnownRun& known) const {
  if (known.status == "running" && !is_running(folder_ / id)) return true;
  const FolderState now = state_of(root_, id);
  return now.stamp.empty() || now.stamp != known.stamp || now.logs != known.logs;
}

int64_t RunIndexer::metric_id(const std::string& name) {
  const auto known = metric_ids_.find(name);
  if (known != metric_ids_.end()) return known->second;
  database_.prepare("INSERT OR IGNORE INTO metrics(name) VALUES (?)").bind(std::string_view(name)).run();
  Statement row = database_.prepare("SELECT id FROM metrics WHERE name = ?");
  row.bind(std::string_view(name)).step();
  return metric_ids_[name] = row.integer(0);
}

void RunIndexer::remove(int64_t key) {
  database_.prepare("DELETE FROM chunk_data WHERE id IN (SELECT data FROM chunks WHERE run = ?)").bind(key).run();
  for (const char* const table :
       {"config", "tags", "facts", "summaries", "chunks", "events", "artifacts", "alerts", "lineage", "logs"})
    database_.prepare("DELETE FROM " + std::string(table) + " WHERE run = ?").bind(key).run();
  database_.prepare("DELETE FROM runs WHERE key = ?").bind(key).run();
}

void RunIndexer::index_facts(int64_t key, const fs::path& run) {
  const RunRecord record = read_run_facts(run);
  const Annotations annotations = read_annotations(run);
  std::string checkpoints;
  for (const auto& name : record.checkpoints) checkpoints += (checkpoints.empty() ? "" : "\n") + name;
  database_
      .prepare(
          "UPDATE runs SET name = ?, recipe_name = ?, started = ?, started_seconds = ?, group_name = ?, note = ?, "
          "colour = ?, pinned = ?, archived = ?, version = ?, command = ?, git = ?, machine = ?, kernel_class = ?, "
          "checkpoints = ? WHERE key = ?")
      .bind_all(annotations.name.empty() ? record.name : annotations.name, record.name, record.started,
                seconds_of(record.started), annotations.group, annotations.note, annotations.colour,
                static_cast<int64_t>(annotations.pinned), static_cast<int64_t>(annotations.archived), record.version,
                record.command, record.git, record.machine, record.kernel_class, checkpoints, key)
      .run();
  database_.prepare("DELETE FROM tags WHERE run = ?").bind(key).run();
  for (const auto& tag : annotations.tags)
    database_.prepare("INSERT OR IGNORE INTO tags(run, tag) VALUES (?, ?)").bind_all(key, tag).run();
  database_.prepare("DELETE FROM config WHERE run = ? AND source = 'recipe'").bind(key).run();
  for (const auto& [name, value] : record.recipe) put_config(database_, key, name, typed_value(value), "recipe");
}

RunIndexed RunIndexer::index(const std::string& id, const KnownRun* known) {
  const fs::path run = folder_ / id;
  const FolderState now = state_of(root_, id);
  RunIndexed result;
  int64_t key = known ? known->key : 0;
  if (!known) {
    database_.prepare("INSERT INTO runs(id) VALUES (?)").bind(std::string_view(id)).run();
    key = database_.last_row();
    result.changed = true;
  }
  if (!known || now.stamp.empty() || now.stamp != known->stamp) index_facts(key, run);
  if (!known || now.logs != known->logs) {
    LogIndexer indexer(database_, key, [this](const std::string& name) { return metric_id(name); });
    std::map<std::string, LogPlace> places;
    Statement rows = database_.prepare("SELECT file, size, read, skipped, names, tail FROM logs WHERE run = ?");
    rows.bind(key);
    while (rows.step())
      places[rows.text(0)] = {rows.integer(1), rows.integer(2), rows.integer(3), std::string(rows.blob(4)),
                              std::string(rows.blob(5))};
    bool whole =
        std::all_of(places.begin(), places.end(), [&](const auto& place) { return now.logs.contains(place.first); });
    for (const auto& [file, size] : now.logs) {
      if (!whole) break;
      LogPlace& place = places[file];
      if (place.size == size && known) continue;
      // Before it is read: a "start" event asks which logs there are.
      database_
          .prepare(
              "INSERT OR IGNORE INTO logs(run, file, size, read, skipped, names, tail) VALUES (?, ?, 0, 0, 0, "
              "x'', x'')")
          .bind_all(key, file)
          .run();
      indexer.begin(file);
      whole = read_log(run / file, place, indexer, result.bytes);
      database_
          .prepare("UPDATE logs SET size = ?, read = ?, skipped = ?, names = ?, tail = ? WHERE run = ? AND file = ?")
          .bind_all(place.size, place.read, place.skipped)
          .bind_blob(place.names)
          .bind_blob(place.tail)
          .bind_all(key, file)
          .run();
    }
    if (!whole && known) {
      remove(key);
      return index(id, nullptr);
    }
    indexer.finish();
    result.points = indexer.points();
    result.changed = true;
  }
  std::string status;
  double ended = 0;
  {
    Statement row = database_.prepare(
        "SELECT log_status, ended_seconds, (SELECT MAX(last_time) FROM summaries WHERE run = key), status FROM runs "
        "WHERE "
        "key = ?");
    row.bind(key).step();
    status = row.text(0), ended = row.real(1);
    if (ended == 0 && !row.is_null(2)) ended = row.real(2);
    if (is_running(run)) status = "running", ended = 0;
    if (status.empty()) status = "killed";
    result.changed |= row.text(3) != status;
  }
  result.changed |= known && (now.stamp.empty() || now.stamp != known->stamp);
  database_
      .prepare(
          "UPDATE runs SET status = ?, ended = ?, ended_seconds = ?, stamp = ?, skipped_bytes = (SELECT "
          "COALESCE(SUM(skipped), 0) FROM logs WHERE run = key) WHERE key = ?")
      .bind_all(status, ended > 0 ? time_text(ended) : std::string(), ended, now.stamp, key)
      .run();
  return result;
}

}  // namespace ramet::track
