#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// Strings over bytes with a value each, walked a byte at a time. Edges live in one open-addressing table, so that
/// building costs a probe for each byte and a vocabulary takes a few MiB.
class ByteTrie {
 public:
  /// Room for `edges` edges (at most one for each byte inserted); node ids below `roots` are roots.
  ByteTrie(size_t edges, uint32_t roots) : slots_(std::bit_ceil(edges * 2 + 2)), values_(roots, -1) {}

  void insert(uint32_t root, std::string_view text, int32_t value) {
    uint32_t node = root;
    for (const char c : text) {
      Edge& edge = slots_[probe(node, static_cast<uint8_t>(c))];
      if (edge.child == 0) {
        edge = {key(node, static_cast<uint8_t>(c)), static_cast<uint32_t>(values_.size())};
        values_.push_back(-1);
      }
      node = edge.child;
    }
    values_[node] = value;
  }
  /// The node after `node` on `byte`, or 0 (no edge leads to a root).
  uint32_t step(uint32_t node, uint8_t byte) const { return slots_[probe(node, byte)].child; }
  /// The value of the string that ends at `node`, or -1.
  int32_t value(uint32_t node) const { return values_[node]; }

 private:
  struct Edge {
    uint32_t key = 0, child = 0;
  };
  static uint32_t key(uint32_t node, uint8_t byte) { return node << 8 | byte; }
  size_t probe(uint32_t node, uint8_t byte) const {
    const size_t mask = slots_.size() - 1;
    const uint32_t wanted = key(node, byte);
    size_t slot = (wanted * 0x9E3779B97F4A7C15ull >> 32) & mask;
    while (slots_[slot].child != 0 && slots_[slot].key != wanted) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Edge> slots_;
  std::vector<int32_t> values_;
};

}  // namespace ramet::text
