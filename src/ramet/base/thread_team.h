#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ramet/base/house.h"

namespace ramet {

/// The threads of one device. Work is split statically by index, so the share of a thread depends only on the size of
/// the team. No bit of a kernel's result may depend on that size.
class ThreadTeam {
 public:
  /// A team of `threads` in [1, 4096], the caller among them. Workers spin briefly, then sleep. Throws Error when the
  /// system refuses so many.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  /// Runs `body(rank)` once on every thread and waits for all. An exception in a body is rethrown here
  /// after all have ended. One call at a time: a call from inside a body, or from a second thread meanwhile, throws.
  void run(const std::function<void(int rank)>& body);
  /// Splits [0, count) into contiguous parts, one a thread, cut at multiples of `grain`, and runs
  /// `body(begin, end, rank)` for each part that is not empty.
  void split(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end, int rank)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Number of processors this process may use: its affinity, and its cgroup's share of time rounded up.
int available_processors();

}  // namespace ramet
