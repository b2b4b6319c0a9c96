#include "ramet/base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ramet/base/error.h"

namespace ramet {
namespace {

constexpr int kMostThreads = 4096;
constexpr int kSpins = 4000;  // tens of microseconds: longer than the gap between two kernels

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

struct ThreadTeam::State {
  std::vector<std::thread> workers;
  std::atomic<uint64_t> epoch{0};  // counts tasks given out
  std::atomic<int> unfinished{0};  // workers still busy with the current task
  std::atomic<int> sleepers{0};
  const std::function<void(int)>* body = nullptr;
  bool stop = false;
  std::atomic<bool> running{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::exception_ptr failure;

  void record_failure() {
    std::lock_guard lock(mutex);
    if (!failure) failure = std::current_exception();
  }

  void work(int rank) {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && epoch.load(std::memory_order_acquire) == seen; ++i) pause_cpu();
      if (epoch.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return epoch.load() != seen; });
        sleepers.fetch_sub(1);
      }
      ++seen;
      if (stop) return;
      try {
        (*body)(rank);
      } catch (...) {
        record_failure();
      }
      unfinished.fetch_sub(1, std::memory_order_release);
    }
  }

  void finish() {
    stop = true;
    {
      // Under the lock, so that a worker between its test and its sleep cannot miss it.
      std::lock_guard lock(mutex);
      epoch.fetch_add(1);
      wake.notify_all();
    }
    for (auto& worker : workers) worker.join();
  }

  void publish() {
    epoch.fetch_add(1);  // sequentially consistent: a worker either sees it or is counted as a sleeper
    if (sleepers.load() > 0) {
      std::lock_guard lock(mutex);
      wake.notify_all();
    }
  }
};

ThreadTeam::ThreadTeam(int threads) : state_(std::make_unique<State>()) {
  if (threads < 1 || threads > kMostThreads)
    throw Error({.what = "a thread team of a wrong size",
                 .found = std::to_string(threads) + " threads",
                 .expected = "1 to " + std::to_string(kMostThreads)});
  try {
    for (int rank = 1; rank < threads; ++rank)
      state_->workers.emplace_back([state = state_.get(), rank] { state->work(rank); });
  } catch (const std::system_error& error) {
    const size_t started = state_->workers.size() + 1;
    state_->finish();
    throw Error({.what = std::string("the system refuses more threads (") + error.what() + ")",
                 .found = std::to_string(threads) + " threads",
                 .expected = "at most " + std::to_string(started) + " now",
                 .remedy = "Ask for fewer threads, or raise the limit of processes"},
                ErrorKind::kFailure);
  }
}

ThreadTeam::~ThreadTeam() { state_->finish(); }

int ThreadTeam::size() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadTeam::run(const std::function<void(int)>& body) {
  if (state_->running.exchange(true, std::memory_order_acquire))
    internal_error("ThreadTeam::run", "a team was given a task before the last one had ended");
  struct Done {
    std::atomic<bool>& running;
    ~Done() { running.store(false, std::memory_order_release); }
  } done{state_->running};
  if (state_->workers.empty()) return body(0);
  state_->body = &body;
  state_->failure = nullptr;
  state_->unfinished.store(static_cast<int>(state_->workers.size()));
  state_->publish();
  try {
    body(0);
  } catch (...) {
    state_->record_failure();
  }
  for (int spins = 0; state_->unfinished.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins)
      pause_cpu();
    else
      std::this_thread::yield();
  }
  if (state_->failure) std::rethrow_exception(std::exchange(state_->failure, nullptr));
}

void ThreadTeam::split(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t blocks = (count - 1) / grain + 1;
  const int64_t parts = std::min<int64_t>(blocks, size());
  if (parts == 1) return body(0, count, 0);  // not worth waking threads
  run([&](int rank) {
    if (rank >= parts) return;
    const int64_t begin = blocks * rank / parts * grain;
    const int64_t end = std::min(count, blocks * (rank + 1) / parts * grain);
    if (begin < end) body(begin, end, rank);
  });
}

namespace {

/// Processors that the cgroup (version 2) at `path`, or any above it, grants: quota over period, rounded up.
int granted_processors(std::string path) {
  double granted = kMostThreads;
  for (;;) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    double quota = 0, period = 0;  // an unlimited group says "max", which is no number
    if (file >> quota >> period && quota > 0 && period > 0) granted = std::min(granted, quota / period);
    if (path.empty()) return std::max(1, static_cast<int>(std::ceil(granted)));
    path.erase(path.find_last_of('/'));
  }
}

std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.size() > 4 ? line.substr(3) : "";
  return "";
}

}  // namespace

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0;
  const int allowed = known ? CPU_COUNT(&set) : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::min(allowed, granted_processors(own_cgroup()));
}

}  // namespace ramet
