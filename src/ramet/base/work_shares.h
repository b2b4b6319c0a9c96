#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace ramet {

/// Units of work [0, count) for the threads of a team. Each thread takes those of its own part in order, and then what
/// others have left, so that all end together although some run slower. Which thread gets a unit is not fixed: no bit
/// of a result may depend on it.
class WorkShares {
 public:
  WorkShares(int64_t count, int threads) : parts_(static_cast<size_t>(threads)) {
    for (int64_t rank = 0; rank < threads; ++rank) {
      Part& part = parts_[static_cast<size_t>(rank)];
      part.next = count * rank / threads;
      part.end = count * (rank + 1) / threads;
    }
  }

  /// The next unit for the thread of that rank; -1: none is left.
  int64_t take(int rank) {
    const size_t parts = parts_.size();
    for (size_t i = 0; i < parts; ++i) {
      Part& part = parts_[(static_cast<size_t>(rank) + i) % parts];
      if (part.next.load(std::memory_order_relaxed) >= part.end) continue;
      if (const int64_t unit = part.next.fetch_add(1, std::memory_order_relaxed); unit < part.end) return unit;
    }
    return -1;
  }

 private:
  struct alignas(64) Part {  // a line of the caches each
    std::atomic<int64_t> next;
    int64_t end = 0;
  };
  std::vector<Part> parts_;
};

}  // namespace ramet
