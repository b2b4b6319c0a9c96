#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/json_text.h"
#include "ramet/track/run_log.h"
#include "ramet/track/run_log_frame.h"

namespace ramet::track {
namespace {

template <typename T>
T get(std::string_view from, size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof(T));
  return value;
}
template <typename T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

/// Splits names that each end with NUL; false when the bytes are not that.
bool split_names(std::string_view bytes, std::vector<std::string>& names) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\0');
    if (end == std::string_view::npos || end == 0 || names.size() == kMostNames) return false;
    names.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  return true;
}

/// Where in `bytes` a whole frame's payload stands behind `at`; empty when there is none.
std::string_view payload_at(std::string_view bytes, size_t at) {
  const size_t left = bytes.size() - at;
  if (left < kFrameHeader || bytes.substr(at, kFrameMark.size()) != kFrameMark) return {};
  const size_t length = get<uint32_t>(bytes, at + 4);
  if (length == 0 || length > kMostPayload || length > left - kFrameHeader) return {};
  const std::string_view payload = bytes.substr(at + kFrameHeader, length);
  return crc32c(payload.data(), payload.size()) == get<uint32_t>(bytes, at + 8) ? payload : std::string_view();
}

/// Whether more bytes could make a whole frame of what begins at `at`.
bool may_be_cut(std::string_view bytes, size_t at) {
  const size_t left = bytes.size() - at;
  if (!kFrameMark.starts_with(bytes.substr(at, std::min(left, kFrameMark.size())))) return false;
  return left < kFrameHeader ||
         (get<uint32_t>(bytes, at + 4) <= kMostPayload && get<uint32_t>(bytes, at + 4) > left - kFrameHeader);
}

}  // namespace

size_t RunLogScanner::scan(std::string_view bytes, bool at_end) {
  size_t at = 0, done = 0;
  while (at < bytes.size()) {
    const std::string_view payload = payload_at(bytes, at);
    if (!payload.empty() && take(payload)) {
      skipped_ += static_cast<int64_t>(at - done);
      at += kFrameHeader + payload.size();
      done = at;
      continue;
    }
    if (!at_end && may_be_cut(bytes, at)) break;
    // Not a whole frame: on to the next mark.
    at = std::min(bytes.find(kFrameMark, at + 1), bytes.size());
    if (at == bytes.size() && !at_end) {
      // The end may hold the first letters of a mark.
      at -= std::min(bytes.size() - done, kFrameMark.size() - 1);
      while (at < bytes.size() && !kFrameMark.starts_with(bytes.substr(at))) ++at;
      skipped_ += static_cast<int64_t>(at - done);
      done = at;
      break;
    }
  }
  return done;
}

bool RunLogScanner::take(std::string_view payload) {
  switch (payload[0]) {
    case 'J': {
      const std::string_view text = payload.substr(1);
      if (!text.starts_with('{') || is_deep_json(text) || !nlohmann::json::accept(text)) return false;
      visitor_.on_event(text);
      return true;
    }
    case 'S': return take_names(payload.substr(1));
    case 'M': return take_metrics(payload.substr(1));
    default: return false;
  }
}

bool RunLogScanner::take_names(std::string_view payload) {
  if (payload.size() < 4) return false;
  const auto id = get<uint32_t>(payload, 0);
  std::vector<std::string> names;
  if (!split_names(payload.substr(4), names)) return false;
  visitor_.on_names(id, names_[id] = std::move(names));
  return true;
}

bool RunLogScanner::take_metrics(std::string_view payload) {
  if (payload.size() < 20) return false;
  const auto id = get<uint32_t>(payload, 0);
  const auto names = names_.find(id);
  if (names == names_.end() || payload.size() != 20 + 8 * names->second.size()) return false;
  values_.resize(names->second.size());
  if (!values_.empty()) std::memcpy(values_.data(), payload.data() + 20, 8 * values_.size());
  visitor_.on_metrics(id, get<int64_t>(payload, 4), get<double>(payload, 12), values_);
  return true;
}

std::string RunLogScanner::saved_names() const {
  std::string saved;
  for (const auto& [id, names] : names_) {
    std::string joined;
    for (const auto& name : names) joined += name + '\0';
    put(saved, id);
    put(saved, static_cast<uint32_t>(joined.size()));
    saved += joined;
  }
  return saved;
}

bool RunLogScanner::restore(std::string_view saved) {
  names_.clear();
  while (!saved.empty()) {
    const size_t size = saved.size() < 8 ? 0 : get<uint32_t>(saved, 4);
    std::vector<std::string> names;
    if (saved.size() < 8 || size > saved.size() - 8 || !split_names(saved.substr(8, size), names)) {
      names_.clear();
      return false;
    }
    names_[get<uint32_t>(saved, 0)] = std::move(names);
    saved.remove_prefix(8 + size);
  }
  for (const auto& [id, names] : names_) visitor_.on_names(id, names);
  return true;
}

namespace {

/// Puts a whole log together.
class LogReader final : public RunLogVisitor {
 public:
  RunLog log;

  void on_names(uint32_t id, const std::vector<std::string>& names) override { names_[id] = names; }
  void on_metrics(uint32_t id, int64_t step, double time, std::span<const double> values) override {
    LoggedStep entry{.step = step, .time = time, .values = {}};
    const auto& names = names_[id];
    for (size_t i = 0; i < values.size(); ++i) entry.values.emplace_back(names[i], values[i]);
    auto& entries = log.steps[step];
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const LoggedStep& other) {
      return std::equal(other.values.begin(), other.values.end(), entry.values.begin(), entry.values.end(),
                        [](const LoggedNumber& a, const LoggedNumber& b) { return a.first == b.first; });
    });
    if (same == entries.end())
      entries.push_back(std::move(entry));
    else
      *same = std::move(entry);
  }
  void on_event(std::string_view json) override {
    log.events.emplace_back(json);
    if (const auto from = resumed_from(json)) log.steps.erase(log.steps.upper_bound(*from), log.steps.end());
  }

 private:
  std::map<uint32_t, std::vector<std::string>> names_;
};

}  // namespace

std::optional<int64_t> resumed_from(std::string_view event) {
  if (event.find("\"from_step\"") == std::string_view::npos) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(event, nullptr, false);
  if (!json.is_object() || json.value("event", nlohmann::json()) != "start") return std::nullopt;
  const auto from = json.find("from_step");
  if (from == json.end() || !from->is_number_integer()) return std::nullopt;
  return from->get<int64_t>();
}

RunLog parse_run_log(std::string_view bytes) {
  LogReader reader;
  RunLogScanner scanner(reader);
  const size_t done = scanner.scan(bytes, true);
  reader.log.skipped_bytes = scanner.skipped_bytes() + static_cast<int64_t>(bytes.size() - done);
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
