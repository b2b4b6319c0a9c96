#include "ramet/kernel/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet::kernel::cpu {
namespace {

/// Calls `visit` with a value of the unsigned type of `size` bytes.
template <typename Visit>
void with_size(int64_t size, const Visit& visit) {
  switch (size) {
    case 1: return visit(uint8_t{});
    case 2: return visit(uint16_t{});
    case 4: return visit(uint32_t{});
    case 8: return visit(uint64_t{});
    default: internal_error("StridedCopy", "elements of " + std::to_string(size) + " bytes");
  }
}

constexpr int64_t kTile = 64;
constexpr int64_t kGrainBytes = 16384;

}  // namespace

StridedCopy::StridedCopy(const ops::ElementMove& move, int64_t size) : size_(size) {
  if (move.elements() == 0) return;
  const ops::ElementMove merged = move.merged();
  extents_ = merged.extents, from_ = merged.from, to_ = merged.to;
  kind_ = Kind::kElements;
  if (from_.back() == 1 && to_.back() == 1) {
    kind_ = Kind::kRows;
    return;
  }
  const auto dense = std::find(from_.begin(), from_.end(), 1);
  if (to_.back() != 1 || dense == from_.end()) return;
  // The dimension that is dense in `from` moves next to the last one, which is dense in `to`.
  const auto at = dense - from_.begin();
  for (std::vector<int64_t>* list : {&extents_, &from_, &to_}) {
    const int64_t moved = (*list)[static_cast<size_t>(at)];
    list->erase(list->begin() + at);
    list->insert(list->end() - 1, moved);
  }
  kind_ = Kind::kTiles;
}

void StridedCopy::offsets(int64_t index, size_t inner, int64_t* from, int64_t* to) const {
  *from = *to = 0;
  for (size_t axis = extents_.size() - inner; axis-- > 0;) {
    const int64_t at = index % extents_[axis];
    index /= extents_[axis];
    *from += at * from_[axis];
    *to += at * to_[axis];
  }
}

void StridedCopy::copy_rows(const char* from, char* to, ThreadTeam& team) const {
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < extents_.size(); ++axis) rows *= extents_[axis];
  const int64_t bytes = extents_.back() * size_;
  if (rows == 1) {
    team.split(bytes, kGrainBytes, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  const size_t last = extents_.size() - 2;  // walked without divisions
  team.split(rows, std::max<int64_t>(1, kGrainBytes / bytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end;) {
      int64_t source, target;
      offsets(row, 1, &source, &target);
      const int64_t run = std::min(end - row, extents_[last] - row % extents_[last]);
      for (int64_t i = 0; i < run; ++i)
        std::memcpy(to + (target + i * to_[last]) * size_, from + (source + i * from_[last]) * size_,
                    static_cast<size_t>(bytes));
      row += run;
    }
  });
}

void StridedCopy::copy_elements(const char* from, char* to, ThreadTeam& team) const {
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < extents_.size(); ++axis) rows *= extents_[axis];
  const int64_t count = extents_.back(), source_step = from_.back(), target_step = to_.back();
  with_size(size_, [&]<typename T>(T) {
    team.split(rows, std::max<int64_t>(1, kGrainBytes / (count * size_)), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t source, target;
        offsets(row, 1, &source, &target);
        const T* a = reinterpret_cast<const T*>(from) + source;
        T* b = reinterpret_cast<T*>(to) + target;
        for (int64_t i = 0; i < count; ++i) b[i * target_step] = a[i * source_step];
      }
    });
  });
}

template <typename T>
void StridedCopy::copy_tiles(const T* from, T* to, ThreadTeam& team) const {
  const size_t rank = extents_.size();
  const int64_t rows = extents_[rank - 2], columns = extents_[rank - 1];  // from is dense along rows, to along columns
  const int64_t from_step = from_[rank - 1], to_step = to_[rank - 2];
  int64_t outer = 1;
  for (size_t axis = 0; axis + 2 < rank; ++axis) outer *= extents_[axis];
  const int64_t row_tiles = (rows + kTile - 1) / kTile;
  team.split(outer * row_tiles, std::max<int64_t>(1, kGrainBytes / (kTile * columns * size_)),
             [&](int64_t begin, int64_t end, int) {
               for (int64_t task = begin; task < end; ++task) {
                 int64_t source, target;
                 offsets(task / row_tiles, 2, &source, &target);
                 const int64_t first = task % row_tiles * kTile, last = std::min(rows, first + kTile);
                 for (int64_t column = 0; column < columns; column += kTile) {
                   const int64_t stop = std::min(columns, column + kTile);
                   // By way of a small square: reading down a column of memory would meet the same few lines of the
                   // cache.
                   T square[kTile * (kTile + 1)];
                   for (int64_t c = column; c < stop; ++c)
                     std::memcpy(square + (c - column) * (kTile + 1), from + source + first + c * from_step,
                                 static_cast<size_t>(last - first) * sizeof(T));
                   for (int64_t r = first; r < last; ++r) {
                     T* b = to + target + r * to_step;
                     for (int64_t c = column; c < stop; ++c) b[c] = square[(c - column) * (kTile + 1) + r - first];
                   }
                 }
               }
             });
}

void StridedCopy::run(const void* from, void* to, ThreadTeam& team) const {
  const auto* source = static_cast<const char*>(from);
  auto* target = static_cast<char*>(to);
  if (kind_ == Kind::kRows) copy_rows(source, target, team);
  if (kind_ == Kind::kElements) copy_elements(source, target, team);
  if (kind_ == Kind::kTiles)
    with_size(size_, [&]<typename T>(T) { copy_tiles(static_cast<const T*>(from), static_cast<T*>(to), team); });
}

}  // namespace ramet::kernel::cpu
