#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ramet/serve/http.h"
#include "ramet/serve/store.h"

namespace ramet::serve {

/// Sends hints to all event streams. The last few are kept, so that a page that was away for a moment misses none.
class EventHub {
 public:
  EventHub();

  /// Sends an event with JSON data.
  void send(std::string_view event, std::string_view data);
  /// Sends a comment that keeps connections open, and forgets streams that have ended.
  void heartbeat();
  /// A new stream: after `last_event_id`, when it is one of ours that is still kept, else from now on behind an event
  /// "runs", which asks the page to read all again.
  std::shared_ptr<EventStream> subscribe(std::string_view last_event_id);
  size_t subscribers() const;
  /// Ends all streams.
  void close();

 private:
  static constexpr size_t kKept = 512;
  std::string id_of(uint64_t number) const;

  mutable std::mutex mutex_;
  std::string epoch_;  ///< tells the numbers of this server from those of another
  uint64_t sent_ = 0;
  bool closed_ = false;
  std::deque<std::pair<uint64_t, std::string>> kept_;
  std::vector<std::shared_ptr<EventStream>> streams_;
};

/// Follows the runs of a folder: takes into the catalogue what logs have grown by, and tells the hub. A second is
/// enough for people. Runs that go on are looked at each second, the whole folder when it changed and every half a
/// minute.
class RunWatcher {
 public:
  RunWatcher(Store& store, EventHub& hub);
  ~RunWatcher();

  /// Seconds that the last look took; how many there were.
  double last_seconds() const { return last_seconds_; }
  int64_t looks() const { return looks_; }

 private:
  void watch();
  void beat();
  /// False when it is time to stop.
  bool wait(std::chrono::seconds time);
  void look(bool everything);
  void tell(const std::vector<std::string>& ids, bool list_changed);
  bool folder_changed();

  Store& store_;
  EventHub& hub_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  int inotify_ = -1;
  std::map<std::string, std::string> running_;  ///< runs that go on, and the state that the hub was told last
  std::map<std::string, uint64_t> log_bytes_;   ///< of their logs
  std::atomic<double> last_seconds_ = 0;
  std::atomic<int64_t> looks_ = 0;
  std::thread thread_, heart_;
};

}  // namespace ramet::serve
