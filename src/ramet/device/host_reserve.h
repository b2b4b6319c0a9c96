#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ramet/base/house.h"

namespace ramet::device {

/// A mapping of zeroed memory, of which the first `touched` bytes from `data` on are there already.
struct HostMapping {
  void* mapping = nullptr;
  size_t mapped = 0;
  std::byte* data = nullptr;  ///< aligned to 2 MiB
  int64_t touched = 0;
};

/// Touches [from, to), so that the system gives the pages.
void touch_pages(std::byte* data, int64_t from, int64_t to);

/// Memory that a thread takes from the system before its size is known, while this process does something else: the
/// system clears each page that it gives, which takes a second or more for a gigabyte. The next HostMemory of at least
/// half so many bytes begins with it, and what it does not need goes back. There is at most one reserve: others take
/// nothing.
class HostReserve {
 public:
  /// Takes nothing where the system has not so much.
  explicit HostReserve(int64_t bytes);
  /// Gives back what no HostMemory has taken.
  ~HostReserve();
  HostReserve(const HostReserve&) = delete;
  HostReserve& operator=(const HostReserve&) = delete;

  /// Takes so many bytes more. Nothing where it is empty, or where the system has not so much.
  void grow(int64_t bytes);
  /// Whether a HostMemory has taken it, or it took nothing at first.
  bool empty() const;

  /// The reserve for a memory of so many bytes, which owns the mapping then, cut to its size; empty: there is none that
  /// fits.
  static HostMapping claim(int64_t bytes);
  /// The memory that the reserve is for will have about so many bytes: the reserve that there is grows to them.
  static void expect(int64_t bytes);
  /// Bytes of the reserve that there is that were taken from the system so far.
  static int64_t touched();
  /// Gives the reserve that there is back to the system.
  static void drop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ramet::device
