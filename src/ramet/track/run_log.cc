#include "ramet/track/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"

namespace ramet::track {
namespace {

constexpr std::string_view kMark = "RLF1";
constexpr size_t kFrameHeader = 12;
constexpr size_t kMostPayload = 1 << 20;  // a frame is a line, not a file: bounds what damage can claim
constexpr size_t kMostNames = 4096;
constexpr size_t kMostDepth = 64;
constexpr auto kRetry = std::chrono::milliseconds(500);
constexpr auto kSync = std::chrono::seconds(5);

template <typename T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // all supported machines are little-endian
  to.append(bytes, sizeof(T));
}
template <typename T>
T get(std::string_view from, size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof(T));
  return value;
}

std::string frame(const std::string& payload) {
  std::string text(kMark);
  put(text, static_cast<uint32_t>(payload.size()));
  put(text, crc32c(payload.data(), payload.size()));
  return text + payload;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct RunLogWriter::State {
  int fd = -1;
  std::mutex mutex;
  std::condition_variable wake, written;
  std::string queue;                         // guarded; frames not yet taken by the thread
  std::string pending;                       // the thread's own: bytes that it is about to write
  uint64_t given = 0, done = 0, synced = 0;  // bytes; guarded
  bool stop = false, flushing = false;
  int64_t dropped = 0, dropped_told = 0;
  std::string problem;
  std::map<std::string, uint32_t> schemas;  // names joined -> id
  std::thread thread;

  /// Queues a frame; false when it had to be dropped.
  bool push(const std::string& text, bool may_drop) {
    if (queue.size() + text.size() > kMostQueued && may_drop) return false;
    queue += text;
    given += text.size();
    wake.notify_one();
    return true;
  }

  void work() {
    auto last_sync = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait_for(lock, pending.empty() ? std::chrono::milliseconds(1000) : kRetry,
                    [&] { return stop || flushing || (!queue.empty() && pending.empty()); });
      // A refused write leaves `pending` behind; more joins it only when it has gone.
      if (pending.empty()) pending.swap(queue);
      const bool last_try = stop, sync = stop || flushing || std::chrono::steady_clock::now() - last_sync > kSync;
      lock.unlock();
      const std::string reason = write_pending();
      if (sync && reason.empty()) ::fdatasync(fd), last_sync = std::chrono::steady_clock::now();
      lock.lock();
      problem = reason;
      done = given - queue.size() - pending.size();
      if (sync && reason.empty()) synced = done;
      if (flushing && (synced == given || !reason.empty())) flushing = false;
      written.notify_all();
      if (last_try && (queue.empty() || !reason.empty())) return;
    }
  }

  /// Writes as much of `pending` as the disk takes; returns why not all.
  std::string write_pending() {
    size_t at = 0;
    std::string reason;
    while (at < pending.size() && reason.empty()) {
      const ssize_t wrote = ::write(fd, pending.data() + at, pending.size() - at);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0)
        reason = std::generic_category().message(wrote < 0 ? errno : ENOSPC);
      else
        at += static_cast<size_t>(wrote);
    }
    pending.erase(0, at);
    return reason;
  }
};

RunLogWriter::RunLogWriter(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (state_->fd < 0)
    throw Error(
        {.what = "cannot open the run's log (" + std::generic_category().message(errno) + ")", .where = path.string()},
        ErrorKind::kFailure);
  state_->thread = std::thread([this] { state_->work(); });
}

RunLogWriter::~RunLogWriter() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
  ::close(state_->fd);
}

void RunLogWriter::metrics(int64_t step, std::span<const LoggedNumber> values) {
  std::string names;
  for (const auto& [name, value] : values) names += name + '\0';
  std::string frames;
  std::lock_guard lock(state_->mutex);
  const auto [schema, added] = state_->schemas.emplace(names, static_cast<uint32_t>(state_->schemas.size()));
  if (added) {
    std::string payload = "S";
    put(payload, schema->second);
    frames = frame(payload + names);
  }
  std::string payload = "M";
  put(payload, schema->second);
  put(payload, step);
  put(payload, seconds_now());
  for (const auto& [name, value] : values) put(payload, value);
  if (!state_->push(frames + frame(payload), true)) {
    if (added) state_->schemas.erase(schema);
    ++state_->dropped;
  }
}

void RunLogWriter::event(std::string_view json) {
  if (json.size() >= kMostPayload)
    internal_error("RunLogWriter::event", "an event of " + std::to_string(json.size()) + " bytes");
  std::lock_guard lock(state_->mutex);
  if (state_->dropped > state_->dropped_told) {
    state_->dropped_told = state_->dropped;
    state_->push(frame("J" + nlohmann::json{{"event", "dropped"}, {"metrics", state_->dropped}}.dump()), false);
  }
  state_->push(frame("J" + std::string(json)), false);
}

bool RunLogWriter::flush() {
  std::unique_lock lock(state_->mutex);
  const uint64_t wanted = state_->given;
  state_->flushing = true;
  state_->wake.notify_one();
  state_->written.wait(lock,
                       [&] { return state_->synced >= wanted || (!state_->flushing && !state_->problem.empty()); });
  return state_->synced >= wanted;
}

int64_t RunLogWriter::dropped() const {
  std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

std::string RunLogWriter::problem() const {
  std::lock_guard lock(state_->mutex);
  return state_->problem;
}

namespace {

/// Puts frames together into a log.
class LogReader {
 public:
  RunLog log;

  /// Takes the payload of a whole frame; false when it makes no sense.
  bool take(std::string_view payload) {
    if (payload.empty()) return false;
    switch (payload[0]) {
      case 'J': return take_event(payload.substr(1));
      case 'S': return take_names(payload.substr(1));
      case 'M': return take_metrics(payload.substr(1));
      default: return false;
    }
  }

 private:
  /// Whether brackets nest deeper than an event needs: printing it again would recurse as deep.
  static bool is_deep(std::string_view text) {
    size_t depth = 0;
    for (const char c : text) {
      if ((c == '{' || c == '[') && ++depth > kMostDepth) return true;
      if ((c == '}' || c == ']') && depth > 0) --depth;
    }
    return false;
  }
  bool take_event(std::string_view text) {
    if (is_deep(text) || !nlohmann::json::accept(text) || !text.starts_with('{')) return false;
    log.events.emplace_back(text);
    return true;
  }
  bool take_names(std::string_view payload) {
    if (payload.size() < 4) return false;
    const auto id = get<uint32_t>(payload, 0);
    std::vector<std::string> names;
    for (payload.remove_prefix(4); !payload.empty(); payload.remove_prefix(names.back().size() + 1)) {
      const size_t end = payload.find('\0');
      if (end == std::string_view::npos || end == 0 || names.size() == kMostNames) return false;
      names.emplace_back(payload.substr(0, end));
    }
    schemas_[id] = std::move(names);  // a resumed run numbers anew: the last meaning stands
    return true;
  }
  bool take_metrics(std::string_view payload) {
    if (payload.size() < 20) return false;
    const auto schema = schemas_.find(get<uint32_t>(payload, 0));
    if (schema == schemas_.end() || payload.size() != 20 + 8 * schema->second.size()) return false;
    LoggedStep entry{.step = get<int64_t>(payload, 4), .time = get<double>(payload, 12), .values = {}};
    for (size_t i = 0; i < schema->second.size(); ++i)
      entry.values.emplace_back(schema->second[i], get<double>(payload, 20 + 8 * i));
    auto& entries = log.steps[entry.step];
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const LoggedStep& other) {
      return std::equal(other.values.begin(), other.values.end(), entry.values.begin(), entry.values.end(),
                        [](const LoggedNumber& a, const LoggedNumber& b) { return a.first == b.first; });
    });
    if (same == entries.end())
      entries.push_back(std::move(entry));
    else
      *same = std::move(entry);
    return true;
  }

  std::map<uint32_t, std::vector<std::string>> schemas_;
};

}  // namespace

RunLog parse_run_log(std::string_view bytes) {
  LogReader reader;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t left = bytes.size() - at;
    if (left >= kFrameHeader && bytes.substr(at, 4) == kMark) {
      const size_t length = get<uint32_t>(bytes, at + 4);
      if (length <= kMostPayload && length <= left - kFrameHeader) {
        const std::string_view payload = bytes.substr(at + kFrameHeader, length);
        if (crc32c(payload.data(), payload.size()) == get<uint32_t>(bytes, at + 8) && reader.take(payload)) {
          at += kFrameHeader + length;
          continue;
        }
      }
    }
    // Not a whole frame: on to the next mark.
    const size_t next = std::min(bytes.find(kMark, at + 1), bytes.size());
    reader.log.skipped_bytes += static_cast<int64_t>(next - at);
    at = next;
  }
  return std::move(reader.log);
}

RunLog read_run_log(const std::filesystem::path& path) { return parse_run_log(read_file(path)); }

std::vector<std::pair<int64_t, double>> RunLog::series(std::string_view name) const {
  std::vector<std::pair<int64_t, double>> points;
  for (const auto& [step, entries] : steps)
    for (const auto& entry : entries)
      for (const auto& [key, value] : entry.values)
        if (key == name) {
          if (!points.empty() && points.back().first == step)
            points.back().second = value;
          else
            points.emplace_back(step, value);
        }
  return points;
}

double RunLog::last(std::string_view name) const {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    for (auto entry = step->second.rbegin(); entry != step->second.rend(); ++entry)
      for (const auto& [key, value] : entry->values)
        if (key == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<std::string> RunLog::names() const {
  std::set<std::string> names;
  for (const auto& [step, entries] : steps)
    for (const auto& entry : entries)
      for (const auto& [key, value] : entry.values) names.insert(key);
  return {names.begin(), names.end()};
}

}  // namespace ramet::track
