#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/thread_team.h"
#include "ramet/ops/element_moves.h"

namespace ramet::kernel::cpu {

/// Moves elements of any type between two strided views of the same extents: what transpose, broadcast_to, slice, pad,
/// concat, split and reverse come down to. Rows that are dense on both sides are copied whole; where the dense
/// dimensions differ, tiles are turned in cache.
class StridedCopy {
 public:
  /// Of elements of 1, 2, 4 or 8 bytes.
  StridedCopy(const ops::ElementMove& move, int64_t size);
  /// `from` and `to`: where the views begin.
  void run(const void* from, void* to, ThreadTeam& team) const;

 private:
  enum class Kind { kEmpty, kRows, kTiles, kElements };
  void copy_rows(const char* from, char* to, ThreadTeam& team) const;
  void copy_elements(const char* from, char* to, ThreadTeam& team) const;
  template <typename T>
  void copy_tiles(const T* from, T* to, ThreadTeam& team) const;
  /// Offsets in elements of the outer dimensions' position `index`.
  void offsets(int64_t index, size_t inner, int64_t* from, int64_t* to) const;

  std::vector<int64_t> extents_, from_, to_;  ///< neighbours merged; tiles: the two turned dimensions last
  int64_t size_;
  Kind kind_ = Kind::kEmpty;
};

}  // namespace ramet::kernel::cpu
