#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace ramet {

/// The threads of one device. Work is split statically by index, so who does what depends only on the
/// size of the team; kernels must not let that decide a bit of any result.
class ThreadTeam {
 public:
  /// A team of `threads` >= 1, the caller among them. Workers spin briefly, then sleep.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  /// Runs `body(rank)` once on every thread and waits for all. An exception in a body is rethrown here
  /// after all have ended. Not reentrant.
  void run(const std::function<void(int rank)>& body);
  /// Splits [0, count) into contiguous parts, one a thread, cut at multiples of `grain`, and runs
  /// `body(begin, end, rank)` for each part that is not empty.
  void split(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end, int rank)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Number of processors this process may use (affinity and cgroup limits respected).
int available_processors();

}  // namespace ramet
