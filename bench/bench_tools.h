#pragma once

// What the kernel benchmarks share: times, the peak of plain fused multiply-adds on the same cores, the load.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/peak.h"

namespace ramet::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds for timing a team: of one thread, the processor time that it got, which other processes on the machine do
/// not add to; of several, the clock.
inline double seconds_of(const ThreadTeam& team) {
  if (team.size() > 1) return seconds();
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Shortest of several runs within `budget` seconds, at least two unless the first is long: other processes only ever
/// add time.
inline double best_time(const ThreadTeam& team, double budget, const std::function<void()>& run) {
  double best = 1e30;
  const double end = seconds() + budget;
  for (int i = 0; i < 1 || (i < 2 && best < 0.25) || seconds() < end; ++i) {
    const double start = seconds_of(team);
    run();
    best = std::min(best, seconds_of(team) - start);
  }
  return best;
}

/// Bytes at 64, with small values in them (any 16 or 32 bits of them are a small float).
class Buffer {
 public:
  explicit Buffer(int64_t bytes)
      : bytes_(std::max<int64_t>(64, (bytes + 63) / 64 * 64)),
        data_(static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(bytes_)))) {
    auto* words = reinterpret_cast<uint32_t*>(data_);
    for (int64_t i = 0; i < bytes_ / 4; ++i)
      words[i] = 0x3c003c00u + static_cast<uint32_t>(i * 2654435761u >> 8 & 0x01ff01ff);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return data_; }

 private:
  int64_t bytes_;
  char* data_;
};

/// Peak in GF/s of the team: fused multiply-adds of f32, or pairs of bf16 where the processor has them.
inline double peak(ThreadTeam& team, bool bf16) {
  double best = 0;
  for (int i = 0; i < 40; ++i) {
    const double start = seconds_of(team);
    std::vector<double> flops(static_cast<size_t>(team.size()));
    team.run([&](int rank) { flops[static_cast<size_t>(rank)] = fma_loop(bf16, 200000); });
    double total = 0;
    for (double each : flops) total += each;
    best = std::max(best, total / (seconds_of(team) - start) * 1e-9);
  }
  return best;
}

inline void print_load() {
  double load[3] = {};
  if (getloadavg(load, 3) == 3) std::printf("load average %.2f %.2f %.2f\n", load[0], load[1], load[2]);
}

/// Calls `measure(dtype, team, peak in GF/s)` for bf16 and f32 on one thread and on two, under a line with the load and
/// the peak.
inline void beside_peaks(const std::function<void(DType, ThreadTeam&, double)>& measure) {
  std::printf("%s, %s\n", cpu_model().c_str(), cpu_kernel_class().c_str());
  for (int threads : {1, 2}) {
    if (threads > available_processors()) continue;
    ThreadTeam team(threads);
    for (DType dtype : {DType::kBF16, DType::kF32}) {
      const double best = peak(team, dtype == DType::kBF16);
      print_load();
      std::printf("%d thread%s: peak %.1f GF/s in %s\n", threads, threads > 1 ? "s" : "", best,
                  std::string(name_of(dtype)).c_str());
      measure(dtype, team, best);
    }
  }
}

}  // namespace ramet::bench
