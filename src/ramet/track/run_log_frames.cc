#include "ramet/track/run_log_frames.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/track/run_log_frame.h"

namespace ramet::track {
namespace {

template <typename T>
char* put(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));  // all supported machines are little-endian
  return at + sizeof(T);
}

/// Appends a frame of `size` bytes of payload, which `fill` writes.
template <typename Fill>
void add_frame(std::string& to, size_t size, const Fill& fill) {
  const size_t begin = to.size();
  to.resize(begin + kFrameHeader + size);
  char* const header = to.data() + begin;
  char* const payload = header + kFrameHeader;
  fill(payload);
  std::memcpy(header, kFrameMark.data(), kFrameMark.size());
  put(put(header + kFrameMark.size(), static_cast<uint32_t>(size)), crc32c(payload, size));
}

template <typename Names, typename NameOf>
std::string joined(const Names& names, const NameOf& name_of) {
  std::string text;
  for (const auto& each : names) text += name_of(each) + '\0';
  return text;
}

std::string joined(std::span<const LoggedNumber> values) {
  return joined(values, [](const LoggedNumber& number) { return number.first; });
}

}  // namespace

bool RunLogFrames::metrics(std::string& to, int64_t step, double time, std::span<const LoggedNumber> values) {
  const size_t size = 21 + 8 * values.size();
  const auto [id, added] = id_of(values);
  added_ = added;
  if (added) {
    size_t names = 5;
    for (const auto& [name, value] : values) names += name.size() + 1;
    if (names > kMostPayload || size > kMostPayload) {
      take_back();
      return false;
    }
    add_frame(to, names, [&, number = id](char* at) {
      *at = 'S';
      at = put(at + 1, number);
      for (const auto& [name, value] : values) std::memcpy(at, name.c_str(), name.size() + 1), at += name.size() + 1;
    });
  }
  add_frame(to, size, [&, number = id](char* at) {
    *at = 'M';
    at = put(put(put(at + 1, number), step), time);
    for (const auto& [name, value] : values) at = put(at, value);
  });
  return true;
}

void RunLogFrames::take_back() {
  if (!added_) return;
  added_ = false;
  ids_.erase(joined(sets_.back().names, [](const std::string& name) { return name; }));
  sets_.pop_back();
  last_ = sets_.size();
}

void RunLogFrames::event(std::string& to, std::string_view json) {
  if (json.size() >= kMostPayload)
    internal_error("RunLogFrames::event", "an event of " + std::to_string(json.size()) + " bytes");
  add_frame(to, 1 + json.size(), [&](char* at) {
    *at = 'J';
    std::memcpy(at + 1, json.data(), json.size());
  });
}

/// The id of these names, and whether it is new. Callers log the same sets again and again, in turn: the set that
/// followed the last one last time is tried first.
std::pair<uint32_t, bool> RunLogFrames::id_of(std::span<const LoggedNumber> values) {
  const size_t guess = last_ < sets_.size() ? sets_[last_].next : 0;
  size_t found = guess;
  bool added = false;
  if (guess >= sets_.size() || !matches(guess, values)) {
    const auto [entry, is_new] = ids_.emplace(joined(values), sets_.size());
    found = entry->second, added = is_new;
  }
  if (added) {
    std::vector<std::string> names;
    for (const auto& [name, value] : values) names.push_back(name);
    sets_.push_back({std::move(names), found});
  }
  follow(found);
  return {static_cast<uint32_t>(found), added};
}

bool RunLogFrames::matches(size_t set, std::span<const LoggedNumber> values) const {
  const auto& names = sets_[set].names;
  return std::equal(names.begin(), names.end(), values.begin(), values.end(),
                    [](const std::string& name, const LoggedNumber& number) { return name == number.first; });
}

void RunLogFrames::follow(size_t set) {
  if (last_ < sets_.size()) sets_[last_].next = set;
  last_ = set;
}

}  // namespace ramet::track
