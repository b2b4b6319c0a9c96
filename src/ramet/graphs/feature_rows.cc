#include "ramet/graphs/feature_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace ramet::graphs {

FeatureRows FeatureRows::of(const GraphSet& set, size_t field) {
  const Field& found = set.fields()[field];
  FeatureRows rows{.width = found.shape.elements(), .ptr = {0}, .column = {}, .value = {}};
  const auto count = static_cast<int64_t>(set.bytes(field).size()) / std::max<int64_t>(1, found.value_bytes());
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < rows.width; ++k)
      if (const double value = field_number(found, set.bytes(field), i * rows.width + k); value != 0)
        rows.column.push_back(static_cast<int32_t>(k)), rows.value.push_back(static_cast<float>(value));
    rows.ptr.push_back(std::ssize(rows.column));
  }
  rows.ptr.shrink_to_fit(), rows.column.shrink_to_fit(), rows.value.shrink_to_fit();
  return rows;
}

int64_t FeatureRows::most(int64_t nodes) const {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i + 1 < ptr.size(); ++i) sizes.push_back(ptr[i + 1] - ptr[i]);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  return std::accumulate(sizes.begin(), sizes.begin() + std::min(nodes, std::ssize(sizes)), int64_t{0});
}

void fill_lists(const FeatureRows& all, const std::vector<int64_t>& nodes, int64_t rows, int64_t room,
                const FeatureLists& lists) {
  int32_t count = 0;
  lists.ptr[0] = 0;
  std::fill(lists.source_ptr, lists.source_ptr + all.width + 1, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto node = static_cast<size_t>(nodes[i]);
    for (int64_t e = all.ptr[node]; e < all.ptr[node + 1]; ++e, ++count) {
      lists.source[count] = all.column[static_cast<size_t>(e)];
      lists.value[count] = all.value[static_cast<size_t>(e)];
      ++lists.source_ptr[lists.source[count] + 1];
    }
    lists.ptr[i + 1] = count;
  }
  std::fill(lists.ptr + nodes.size() + 1, lists.ptr + rows + 1, count);
  for (int64_t k = 0; k < all.width; ++k) lists.source_ptr[k + 1] += lists.source_ptr[k];
  // Elements of one column keep the order of their rows.
  std::vector<int32_t> next(lists.source_ptr, lists.source_ptr + all.width);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (int32_t e = lists.ptr[i]; e < lists.ptr[i + 1]; ++e) {
      const int32_t at = next[static_cast<size_t>(lists.source[e])]++;
      lists.by_source[at] = e;
      lists.target_of[at] = static_cast<int32_t>(i);
    }
  for (int32_t* tail : {lists.source, lists.by_source, lists.target_of}) std::fill(tail + count, tail + room, 0);
  std::fill(lists.value + count, lists.value + room, 0.0f);
}

}  // namespace ramet::graphs
