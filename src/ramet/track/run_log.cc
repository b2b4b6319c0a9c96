#include "ramet/track/run_log.h"

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/track/background_file.h"
#include "ramet/track/run_log_frame.h"
#include "ramet/track/run_log_frames.h"

namespace ramet::track {
namespace {}  // namespace

struct RunLogWriter::State {
  explicit State(const std::filesystem::path& path) : file(path, "the run's log") {}

  BackgroundFile file;
  std::mutex mutex;  ///< of all below
  RunLogFrames frames;
  std::string entry;  ///< room for the bytes of one entry
  int64_t dropped = 0, dropped_events = 0, dropped_told = 0;

  /// Adds to `entry` how much was dropped, if that was not said yet.
  void tell_dropped() {
    if (dropped + dropped_events == dropped_told) return;
    dropped_told = dropped + dropped_events;
    nlohmann::json event = {{"event", "dropped"}, {"metrics", dropped}};
    if (dropped_events > 0) event["events"] = dropped_events;
    RunLogFrames::event(entry, event.dump());
  }
};

RunLogWriter::RunLogWriter(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}

RunLogWriter::~RunLogWriter() {
  std::lock_guard lock(state_->mutex);
  state_->entry.clear();
  state_->tell_dropped();
  state_->file.append(state_->entry, false);
}

void RunLogWriter::metrics(int64_t step, std::span<const LoggedNumber> values) {
  for (; values.size() > kMostNames; values = values.subspan(kMostNames)) metrics(step, values.first(kMostNames));
  const double time = seconds_since_1970();
  std::lock_guard lock(state_->mutex);
  state_->entry.clear();
  if (state_->frames.metrics(state_->entry, step, time, values) && state_->file.append(state_->entry, true)) return;
  state_->frames.take_back();
  ++state_->dropped;
}

void RunLogWriter::event(std::string_view json) {
  std::lock_guard lock(state_->mutex);
  state_->entry.clear();
  state_->tell_dropped();
  RunLogFrames::event(state_->entry, json);
  state_->file.append(state_->entry, false);
}

bool RunLogWriter::offer(std::string_view json) {
  std::lock_guard lock(state_->mutex);
  state_->entry.clear();
  if (json.size() < kMostPayload) {
    RunLogFrames::event(state_->entry, json);
    if (state_->file.append(state_->entry, true)) return true;
  }
  ++state_->dropped_events;
  return false;
}

bool RunLogWriter::flush() { return state_->file.flush(); }

int64_t RunLogWriter::dropped() const {
  std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

int64_t RunLogWriter::dropped_events() const {
  std::lock_guard lock(state_->mutex);
  return state_->dropped_events;
}

std::string RunLogWriter::problem() const { return state_->file.problem(); }

}  // namespace ramet::track
