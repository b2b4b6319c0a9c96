#include "ramet/track/background_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

#include "ramet/base/error.h"

namespace ramet::track {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(500);
constexpr auto kSync = std::chrono::seconds(5);
constexpr auto kGather = std::chrono::milliseconds(5);
constexpr size_t kGathered = 1 << 20;

}  // namespace

struct BackgroundFile::State {
  int fd = -1;
  std::mutex mutex;
  std::condition_variable wake, written;
  std::string queue;                         // guarded; bytes not yet taken by the thread
  std::string pending;                       // the thread's own: bytes that it is about to write
  uint64_t given = 0, done = 0, synced = 0;  // bytes; guarded
  bool stop = false, flushing = false, asleep = false;
  std::string problem;
  std::thread thread;

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

BackgroundFile::BackgroundFile(const std::filesystem::path& path, const std::string& what)
    : state_(std::make_unique<State>()) {
  state_->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (state_->fd < 0)
    throw Error(
        {.what = "cannot open " + what + " (" + std::generic_category().message(errno) + ")", .where = path.string()},
        ErrorKind::kFailure);
  state_->thread = std::thread([this] { state_->work(); });
}

BackgroundFile::~BackgroundFile() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
  ::close(state_->fd);
}

bool BackgroundFile::append(std::string_view bytes, bool may_drop) {
  std::lock_guard lock(state_->mutex);
  const size_t before = state_->queue.size();
  if (before + bytes.size() > kMostQueued && may_drop) return false;
  state_->queue += bytes;
  state_->given += bytes.size();
  // The thread is woken when it sleeps, or when it has much to do.
  if (state_->asleep || (before < kGathered && state_->queue.size() >= kGathered)) {
    state_->asleep = false;
    state_->wake.notify_one();
  }
  return true;
}

bool BackgroundFile::flush() {
  std::unique_lock lock(state_->mutex);
  const uint64_t wanted = state_->given;
  state_->flushing = true;
  state_->wake.notify_one();
  state_->written.wait(lock,
                       [&] { return state_->synced >= wanted || (!state_->flushing && !state_->problem.empty()); });
  return state_->synced >= wanted;
}

std::string BackgroundFile::problem() const {
  std::lock_guard lock(state_->mutex);
  return state_->problem;
}

}  // namespace ramet::track
