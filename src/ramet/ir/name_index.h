#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace ramet::ir {

/// Finds the entries of a growing list by their names, in constant time. The list itself keeps the names: the index
/// holds numbers alone, so that copies of a graph stay cheap.
class NameIndex {
 public:
  /// Number of the entry called `name`, or -1. `name_of(i)` is the name of entry i.
  template <class NameOf>
  int32_t find(std::string_view name, const NameOf& name_of) const {
    if (slots_.empty()) return -1;
    const uint32_t hash = hash_of(name);
    for (size_t slot = hash & mask(); slots_[slot].entry >= 0; slot = (slot + 1) & mask())
      if (slots_[slot].hash == hash && name_of(slots_[slot].entry) == name) return slots_[slot].entry;
    return -1;
  }

  /// Adds entry number `entry`, the last of the list. The caller has checked that `name` is new.
  void add(std::string_view name, int32_t entry) {
    if (2 * (static_cast<size_t>(entry) + 1) > slots_.size()) grow();
    put({hash_of(name), entry});
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t entry = -1;  ///< -1: free
  };

  static uint32_t hash_of(std::string_view name) { return static_cast<uint32_t>(std::hash<std::string_view>{}(name)); }
  size_t mask() const { return slots_.size() - 1; }  // the number of slots is a power of two
  void put(Slot entry) {
    size_t slot = entry.hash & mask();
    while (slots_[slot].entry >= 0) slot = (slot + 1) & mask();
    slots_[slot] = entry;
  }
  void grow() {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 16 : 2 * old.size(), {});
    for (const Slot& slot : old)
      if (slot.entry >= 0) put(slot);
  }

  std::vector<Slot> slots_;
};

}  // namespace ramet::ir
