#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ramet/device/cuda/driver.h"

namespace ramet::device {

/// Bytes of memory, of the card or of the host.
struct ByteRange {
  uint64_t begin = 0, end = 0;
  ByteRange() = default;
  ByteRange(const void* data, int64_t bytes)
      : begin(reinterpret_cast<uint64_t>(data)), end(begin + static_cast<uint64_t>(bytes)) {}
};

/// What a piece of work reads and writes.
struct Touched {
  std::vector<ByteRange> reads{}, writes{};
  bool everything = false;  ///< nobody knows: it is done between all work before and all work behind
};

/// The work that is recorded as a graph, by what it touches: a node is done behind the nodes that wrote what it reads,
/// and behind those that read or wrote what it writes; the order in which work was given shows in nothing else.
class RecordedOrder {
 public:
  /// The nodes that such work must be done behind, without those that others of them are done behind.
  std::vector<CuGraphNode> before(const Touched& touched) const;
  /// Notes the node of such work, which was made behind the nodes that `before` gave.
  void note(const Touched& touched, CuGraphNode node);
  int nodes() const { return static_cast<int>(nodes_.size()); }
  /// Nodes that are done one behind the other, in the longest such line.
  int longest_line() const { return longest_; }

 private:
  static constexpr int kNone = -1;
  struct Segment {
    uint64_t end = 0;
    int writer = kNone;
    std::vector<int> readers;  ///< since it was written
  };
  struct Node {
    CuGraphNode handle = nullptr;
    std::vector<uint64_t> behind{};  ///< a bit for each node that it is done behind, itself included
    int line = 1;                    ///< nodes of the longest line that ends with it
  };

  std::vector<int> numbers_before(const Touched& touched) const;
  void note_read(const ByteRange& range, int node);
  void note_write(const ByteRange& range, int node);
  /// Makes a segment begin at `at`, where one crosses it.
  void cut(uint64_t at);
  bool is_behind(int node, int other) const;

  std::map<uint64_t, Segment> segments_;  // by their begin
  std::vector<Node> nodes_;
  int between_ = kNone;  // the last node that touched everything
  int longest_ = 0;
};

}  // namespace ramet::device
