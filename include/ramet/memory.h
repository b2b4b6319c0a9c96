#pragma once

#include <cstdint>
#include <memory>

#include "ramet/version.h"

namespace ramet::v0 {

/// Memory that a thread takes from the system ahead of its use, while this program does something else, such as tracing
/// a module. The next Training on one device that takes at least half so many bytes begins with this memory, and so is
/// there sooner: the system clears each page that it gives. There is at most one reserve: others take nothing.
class RAMET_API MemoryReserve {
 public:
  explicit MemoryReserve(int64_t bytes);
  /// Gives back what no Training has taken.
  ~MemoryReserve();
  MemoryReserve(MemoryReserve&&) noexcept;
  MemoryReserve& operator=(MemoryReserve&&) noexcept;

  /// Takes so many bytes more, such as those that this program has just given back. Nothing where it is empty, or where
  /// the system has not so much.
  void grow(int64_t bytes);
  /// Whether a Training has taken it, or the system had not so much.
  bool empty() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Gives the system back what this process does not use at this time: free memory of malloc, and pages of libraries
/// that are as their files have them, which come back when they are read again. Returns the bytes of such pages.
RAMET_API int64_t trim_memory();

}  // namespace ramet::v0
