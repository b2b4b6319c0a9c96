#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/error.h"

namespace ramet::front {

/// A front end's table from operators to their translations: the entries of all families in the order of the operators'
/// names. An Entry has the operator's name in `op`.
template <class Entry>
class SortedTable {
 public:
  /// One operator stands once: an error of ours otherwise.
  explicit SortedTable(std::initializer_list<std::span<const Entry> (*)()> families) {
    for (const auto family : families)
      for (const Entry& entry : family()) entries_.push_back(entry);
    std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
    for (size_t i = 1; i < entries_.size(); ++i)
      if (entries_[i].op == entries_[i - 1].op)
        internal_error("SortedTable", std::string(entries_[i].op) + " stands twice in the table");
  }

  /// Null where the table has no such operator.
  const Entry* find(std::string_view op) const {
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), op,
                                        [](const auto& entry, std::string_view name) { return entry.op < name; });
    return found != entries_.end() && found->op == op ? &*found : nullptr;
  }

  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.op);
    return names;
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace ramet::front
