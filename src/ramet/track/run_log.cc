#include "ramet/track/run_log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/background_file.h"

namespace ramet::track {
namespace {

constexpr std::string_view kMark = "RLF1";
constexpr size_t kFrameHeader = 12;
constexpr size_t kMostPayload = 1 << 20;  // a frame is a line, not a file: bounds what damage can claim
constexpr size_t kMostNames = 4096;
constexpr size_t kMostDepth = 64;

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

std::string RunLogFrames::metrics(int64_t step, double time, std::span<const LoggedNumber> values) {
  const std::string names = joined(values);
  std::string frames;
  const auto [schema, added] = schemas_.emplace(names, next_);
  if (added) {
    std::string payload = "S";
    put(payload, next_++);
    frames = frame(payload + names);
  }
  std::string payload = "M";
  put(payload, schema->second);
  put(payload, step);
  put(payload, time);
  for (const auto& [name, value] : values) put(payload, value);
  return frames + frame(payload);
}

void RunLogFrames::forget(std::span<const LoggedNumber> values) { schemas_.erase(joined(values)); }

std::string RunLogFrames::joined(std::span<const LoggedNumber> values) {
  std::string names;
  for (const auto& [name, value] : values) names += name + '\0';
  return names;
}

std::string RunLogFrames::event(std::string_view json) {
  if (json.size() >= kMostPayload)
    internal_error("RunLogFrames::event", "an event of " + std::to_string(json.size()) + " bytes");
  return frame("J" + std::string(json));
}

struct RunLogWriter::State {
  explicit State(const std::filesystem::path& path) : file(path, "the run's log") {}

  mutable std::mutex mutex;  // guards all but the file, which has its own
  RunLogFrames frames;
  int64_t dropped = 0, dropped_told = 0;
  BackgroundFile file;
};

RunLogWriter::RunLogWriter(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}

RunLogWriter::~RunLogWriter() = default;

void RunLogWriter::metrics(int64_t step, std::span<const LoggedNumber> values) {
  std::lock_guard lock(state_->mutex);
  if (state_->file.append(state_->frames.metrics(step, seconds_now(), values), true)) return;
  state_->frames.forget(values);  // their names may have been in what was dropped
  ++state_->dropped;
}

void RunLogWriter::event(std::string_view json) {
  std::lock_guard lock(state_->mutex);
  const std::string frame = state_->frames.event(json);
  if (state_->dropped > state_->dropped_told) {
    state_->dropped_told = state_->dropped;
    const nlohmann::json dropped = {{"event", "dropped"}, {"metrics", state_->dropped}};
    state_->file.append(state_->frames.event(dropped.dump()), false);
  }
  state_->file.append(frame, false);
}

bool RunLogWriter::flush() { return state_->file.flush(); }

int64_t RunLogWriter::dropped() const {
  std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

std::string RunLogWriter::problem() const { return state_->file.problem(); }

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
