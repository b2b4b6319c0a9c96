#include "ramet/serve/live.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/serve/access.h"
#include "ramet/track/run_directory.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;

constexpr auto kLook = std::chrono::seconds(1);
constexpr auto kHeartbeat = std::chrono::seconds(15);
constexpr auto kWholeFolder = std::chrono::seconds(30);
constexpr auto kAfterChange = std::chrono::seconds(5);  // a new folder becomes a run some moments later

/// Bytes of all logs of a run.
uint64_t log_bytes_of(const fs::path& run) {
  std::error_code error;
  uint64_t bytes = fs::file_size(run / "log.ramet", error);
  if (error) bytes = 0;
  for (const char* folder : {"logs", "system"})
    for (const auto& entry : fs::directory_iterator(run / folder, error)) {
      const uint64_t more = entry.file_size(error);
      if (!error) bytes += more;
    }
  return bytes;
}

std::string event_text(const std::string& id, std::string_view event, std::string_view data) {
  return "id: " + id + "\nevent: " + std::string(event) + "\ndata: " + std::string(data) + "\n\n";
}

}  // namespace

EventHub::EventHub() : epoch_(random_token().substr(0, 8)) {}

std::string EventHub::id_of(uint64_t number) const { return epoch_ + "-" + std::to_string(number); }

void EventHub::send(std::string_view event, std::string_view data) {
  std::lock_guard lock(mutex_);
  ++sent_;
  kept_.emplace_back(sent_, event_text(id_of(sent_), event, data));
  if (kept_.size() > kKept) kept_.pop_front();
  std::erase_if(streams_, [&](const auto& stream) { return !stream->write(kept_.back().second); });
}

void EventHub::heartbeat() {
  std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const auto& stream) { return !stream->write(": heartbeat\n\n"); });
}

std::shared_ptr<EventStream> EventHub::subscribe(std::string_view last_event_id) {
  auto stream = std::make_shared<EventStream>();
  std::lock_guard lock(mutex_);
  if (closed_) {
    stream->close();
    return stream;
  }
  // The browser asks again after two seconds when the stream breaks.
  stream->write("retry: 2000\n\n" + event_text(id_of(sent_), "hello", "{}"));
  const bool ours = last_event_id.size() > epoch_.size() + 1 && last_event_id.starts_with(epoch_ + "-");
  uint64_t seen = 0;
  bool known = false;
  if (ours) {
    const std::string_view number = last_event_id.substr(epoch_.size() + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), seen);
    known = error == std::errc() && end == number.data() + number.size() && seen <= sent_ &&
            (seen == sent_ || (!kept_.empty() && seen + 1 >= kept_.front().first));
  }
  for (const auto& [number, text] : kept_)
    if (known && number > seen) stream->write(text);
  if (!last_event_id.empty() && !known) stream->write(event_text(id_of(sent_), "runs", "{}"));
  streams_.push_back(stream);
  return stream;
}

size_t EventHub::subscribers() const {
  std::lock_guard lock(mutex_);
  return streams_.size();
}

void EventHub::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& stream : streams_) stream->close();
  streams_.clear();
}

RunWatcher::RunWatcher(Store& store, EventHub& hub) : store_(store), hub_(hub) {
  inotify_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (inotify_ >= 0)
    ::inotify_add_watch(inotify_, store_.folder().c_str(),
                        IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR);
  thread_ = std::thread([this] { watch(); });
  heart_ = std::thread([this] { beat(); });
}

RunWatcher::~RunWatcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  thread_.join();
  heart_.join();
  if (inotify_ >= 0) ::close(inotify_);
}

bool RunWatcher::wait(std::chrono::seconds time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [&] { return stop_; });
}

void RunWatcher::beat() {
  while (wait(kHeartbeat)) hub_.heartbeat();
}

void RunWatcher::watch() {
  auto whole = Clock::now(), dirty = Clock::now() - kAfterChange;
  do {
    const auto start = Clock::now();
    if (folder_changed()) dirty = start;
    const bool everything = start - dirty < kAfterChange || start - whole > kWholeFolder;
    if (everything) whole = start;
    try {
      look(everything);
    } catch (const std::exception&) {
      // A folder that is away for a moment, a full disk: the next look tries again.
    }
    last_seconds_ = seconds_since(start);
    ++looks_;
  } while (wait(kLook));
}

bool RunWatcher::folder_changed() {
  // What the catalogue writes there itself does not count.
  alignas(inotify_event) char buffer[16 << 10];
  bool changed = false;
  for (ssize_t size = 1; inotify_ >= 0 && size > 0;) {
    size = ::read(inotify_, buffer, sizeof buffer);
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      const std::string_view name = event->len > 0 ? event->name : "";
      changed = changed || (event->mask & IN_Q_OVERFLOW) != 0 || !name.starts_with("catalogue.");
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  return changed;
}

void RunWatcher::look(bool everything) {
  std::vector<std::string> changed;
  bool list_changed = false;
  if (everything) {
    IndexReport report = store_.indexer().index();
    list_changed = !report.removed.empty();
    changed = std::move(report.changed);
  } else {
    for (const auto& [id, told] : running_) {
      const uint64_t bytes = log_bytes_of(store_.folder() / id);
      if (std::exchange(log_bytes_[id], bytes) == bytes && is_running(store_.folder() / id)) continue;
      store_.indexer().index_run(id);
      changed.push_back(id);
    }
  }
  tell(changed, list_changed);
}

void RunWatcher::tell(const std::vector<std::string>& ids, bool list_changed) {
  // Another process may index, so the rows say what is new, not the reports alone.
  const RunPage page = store_.read()->runs(first_runs("status = \"running\"", -1));
  std::map<std::string, std::string> now;
  const auto hint = [&](const std::string& id, int64_t steps, const std::string& status) {
    const nlohmann::json data = {{"id", id}, {"steps", steps}, {"status", status}};
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  for (const auto& run : page.runs) {
    const std::string data = hint(run.id, run.steps, run.status);
    const auto told = running_.find(run.id);
    list_changed = list_changed || told == running_.end();
    if (told == running_.end() || told->second != data) hub_.send("run", data);
    now[run.id] = data;
  }
  for (const auto& [id, told] : running_) {
    if (now.contains(id)) continue;
    list_changed = true;
    log_bytes_.erase(id);
    try {
      const RunDetails run = store_.read()->run(id);
      hub_.send("run", hint(id, run.steps, run.status));
    } catch (const Error&) {  // its folder is gone
    }
  }
  for (const auto& id : ids) list_changed = list_changed || !now.contains(id);
  running_ = std::move(now);
  if (list_changed) hub_.send("runs", "{}");
}

}  // namespace ramet::serve
