#include "ramet/track/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/track/run_log_frame.h"

namespace ramet::track {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(500);
constexpr auto kSync = std::chrono::seconds(5);
constexpr auto kGather = std::chrono::milliseconds(5);
constexpr size_t kGathered = 1 << 20;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

void add_event(std::string& to, std::string_view json) {
  add_frame(to, 1 + json.size(), [&](char* at) {
    *at = 'J';
    std::memcpy(at + 1, json.data(), json.size());
  });
}

/// The sets of names that a log has given ids to.
class Schemas {
 public:
  /// The id of these names, and whether it is new. Callers log the same sets again and again, in turn: the set that
  /// followed the last one last time is tried first.
  std::pair<uint32_t, bool> id_of(std::span<const LoggedNumber> values) {
    const size_t guess = last_ < sets_.size() ? sets_[last_].next : 0;
    size_t found = sets_.size();
    if (guess < sets_.size() && matches(guess, values)) {
      found = guess;
    } else {
      std::string joined;
      for (const auto& [name, value] : values) joined += name + '\0';
      const auto [entry, added] = ids_.emplace(joined, sets_.size());
      found = entry->second;
      if (added) {
        std::vector<std::string> names;
        for (const auto& [name, value] : values) names.push_back(name);
        sets_.push_back({std::move(names), found});
        follow(found);
        return {static_cast<uint32_t>(found), true};
      }
    }
    follow(found);
    return {static_cast<uint32_t>(found), false};
  }
  /// Takes the newest id back.
  void forget_newest() {
    std::string joined;
    for (const auto& name : sets_.back().names) joined += name + '\0';
    ids_.erase(joined);
    sets_.pop_back();
    last_ = sets_.size();
  }

 private:
  struct Set {
    std::vector<std::string> names;
    size_t next;
  };
  bool matches(size_t set, std::span<const LoggedNumber> values) const {
    const auto& names = sets_[set].names;
    return std::equal(names.begin(), names.end(), values.begin(), values.end(),
                      [](const std::string& name, const LoggedNumber& number) { return name == number.first; });
  }
  void follow(size_t set) {
    if (last_ < sets_.size()) sets_[last_].next = set;
    last_ = set;
  }
  std::vector<Set> sets_;
  std::unordered_map<std::string, size_t> ids_;
  size_t last_ = 0;
};

}  // namespace

struct RunLogWriter::State {
  int fd = -1;
  std::mutex mutex;
  std::condition_variable wake, written;
  std::string queue;                         // guarded; frames not yet taken by the thread
  std::string pending;                       // the thread's own: bytes that it is about to write
  uint64_t given = 0, done = 0, synced = 0;  // bytes; guarded
  bool stop = false, flushing = false, asleep = false;
  int64_t dropped = 0, dropped_events = 0, dropped_told = 0;
  std::string problem;
  Schemas schemas;
  std::thread thread;

  bool is_full(size_t more) const { return queue.size() + more > kMostQueued; }
  /// Counts what was queued since `before`, and wakes the thread when it sleeps or has much to do.
  void queued(size_t before) {
    given += queue.size() - before;
    if (asleep || (before < kGathered && queue.size() >= kGathered)) asleep = false, wake.notify_one();
  }
  /// Says how much was dropped, if that was not said yet.
  void tell_dropped() {
    if (dropped + dropped_events == dropped_told) return;
    dropped_told = dropped + dropped_events;
    nlohmann::json event = {{"event", "dropped"}, {"metrics", dropped}};
    if (dropped_events > 0) event["events"] = dropped_events;
    add_event(queue, event.dump());
  }

  void work() {
    auto last_sync = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    for (;;) {
      asleep = queue.empty();
      const auto urgent = [&] { return stop || flushing; };
      if (!pending.empty()) {
        wake.wait_for(lock, kRetry, urgent);
      } else if (!urgent()) {
        wake.wait_for(lock, std::chrono::seconds(1), [&] { return urgent() || !queue.empty(); });
        // What comes within some milliseconds is written at once: a system call for each entry would be slow.
        if (!queue.empty()) wake.wait_for(lock, kGather, [&] { return urgent() || queue.size() >= kGathered; });
      }
      asleep = false;
      if (stop && pending.empty()) tell_dropped_at_end();
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
  void tell_dropped_at_end() {
    const size_t before = queue.size();
    tell_dropped();
    given += queue.size() - before;
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
  for (; values.size() > kMostNames; values = values.subspan(kMostNames)) metrics(step, values.first(kMostNames));
  const double time = seconds_now();
  const size_t size = 21 + 8 * values.size();
  std::lock_guard lock(state_->mutex);
  std::string& queue = state_->queue;
  if (state_->is_full(kFrameHeader + size)) {
    ++state_->dropped;
    return;
  }
  const size_t before = queue.size();
  const auto [id, added] = state_->schemas.id_of(values);
  if (added) {
    size_t names = 5;
    for (const auto& [name, value] : values) names += name.size() + 1;
    if (names > kMostPayload || size > kMostPayload || state_->is_full(kFrameHeader * 2 + names + size)) {
      state_->schemas.forget_newest();
      ++state_->dropped;
      return;
    }
    add_frame(queue, names, [&](char* at) {
      *at = 'S';
      at = put(at + 1, id);
      for (const auto& [name, value] : values) std::memcpy(at, name.c_str(), name.size() + 1), at += name.size() + 1;
    });
  }
  add_frame(queue, size, [&](char* at) {
    *at = 'M';
    at = put(put(put(at + 1, id), step), time);
    for (const auto& [name, value] : values) at = put(at, value);
  });
  state_->queued(before);
}

void RunLogWriter::event(std::string_view json) {
  if (json.size() >= kMostPayload)
    internal_error("RunLogWriter::event", "an event of " + std::to_string(json.size()) + " bytes");
  std::lock_guard lock(state_->mutex);
  const size_t before = state_->queue.size();
  state_->tell_dropped();
  add_event(state_->queue, json);
  state_->queued(before);
}

bool RunLogWriter::offer(std::string_view json) {
  std::lock_guard lock(state_->mutex);
  if (json.size() >= kMostPayload || state_->is_full(kFrameHeader + 1 + json.size())) {
    ++state_->dropped_events;
    return false;
  }
  const size_t before = state_->queue.size();
  add_event(state_->queue, json);
  state_->queued(before);
  return true;
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

int64_t RunLogWriter::dropped_events() const {
  std::lock_guard lock(state_->mutex);
  return state_->dropped_events;
}

std::string RunLogWriter::problem() const {
  std::lock_guard lock(state_->mutex);
  return state_->problem;
}

}  // namespace ramet::track
