#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ramet/base/thread_team.h"
#include "ramet/kernel/kernel.h"
#include "ramet/program/executable.h"

namespace ramet::measure {

/// Plain memory for measurements, in huge pages where there are any, as an arena is; zero at first.
class Scratchpad {
 public:
  explicit Scratchpad(int64_t bytes);
  ~Scratchpad();
  Scratchpad(const Scratchpad&) = delete;
  Scratchpad& operator=(const Scratchpad&) = delete;
  /// The next `bytes`, aligned to 64.
  std::byte* take(int64_t bytes);

 private:
  size_t bytes_, used_ = 0;
  std::byte* memory_;
};

/// Pushes a call's operands out of the caches, as the rest of a step does between two runs of the same work.
class Evictor {
 public:
  explicit Evictor(ThreadTeam& team);
  void run();

 private:
  static constexpr int64_t kBytes = int64_t{24} << 20;
  ThreadTeam& team_;
  Scratchpad pad_;
  std::byte* data_;
  int turn_ = 0;
};

/// Devices that run a call again and again beside the one that is measured: caches, memory and power are shared.
class Neighbours {
 public:
  Neighbours(const Call& call, const Backend& backend, int threads, int count);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Numbers that kernels meet, into fresh memory: floats of 0.005 to 0.02 either side of 0 (no denormals, no
/// infinities), integers 0 (valid as indices and labels).
void fill_for_measurement(std::byte* data, const TensorType& type);

/// What some work took, measured several times.
struct Timing {
  double seconds = 0;  ///< median
  double spread = 0;   ///< half the distance of the quartiles, as a share of the median
};
/// Of at least one measurement.
Timing timing_of(std::vector<double> seconds);

/// A few runs of a call, with operands that have been evicted before each run where an evictor is given. At least one,
/// then until `most_runs` or `most_seconds`. `prepare` fills the inputs where small floats, and integers of 0,
/// will not do.
Timing time_call(const Call& call, const Backend& backend, ThreadTeam& team, int most_runs, double most_seconds,
                 Evictor* evictor = nullptr, const std::function<void(std::span<std::byte* const>)>& prepare = {});

/// A call of one op, as the backend would compute it.
Call make_call(const Backend& backend, int threads, const std::string& op, std::vector<TensorType> inputs,
               Attributes attributes);

/// Memory that a call's operands and scratch need.
int64_t operand_bytes(const Call& call);

}  // namespace ramet::measure
