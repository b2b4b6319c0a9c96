#include "ramet/track/run_log_frames.h"

#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/track/run_log_frame.h"

namespace ramet::track {
namespace {

template <typename T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // all supported machines are little-endian
  to.append(bytes, sizeof(T));
}

std::string frame(const std::string& payload) {
  std::string text(kFrameMark);
  put(text, static_cast<uint32_t>(payload.size()));
  put(text, crc32c(payload.data(), payload.size()));
  return text + payload;
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

}  // namespace ramet::track
