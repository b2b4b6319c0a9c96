#include "ramet/graphs/edge_lists.h"

#include <algorithm>
#include <vector>

namespace ramet::graphs {

void fill_edge_lists(std::span<const int32_t> source, std::span<const int32_t> target, const EdgePlaces& places) {
  const auto edges = std::ssize(source);
  std::copy(source.begin(), source.end(), places.source);
  for (int32_t* list : {places.source, places.target_of, places.by_source})
    std::fill(list + edges, list + places.room, 0);
  const auto count = [](std::span<const int32_t> ends, int32_t* pointers, int64_t rows) {
    std::fill(pointers, pointers + rows + 1, 0);
    for (const int32_t node : ends) ++pointers[node + 1];
    for (int64_t i = 0; i < rows; ++i) pointers[i + 1] += pointers[i];
  };
  count(target, places.ptr, places.rows);
  count(source, places.source_ptr, places.source_rows);
  std::vector<int32_t> next(places.source_ptr, places.source_ptr + places.source_rows);
  for (size_t e = 0; e < source.size(); ++e) {
    const int32_t at = next[static_cast<size_t>(source[e])]++;
    places.by_source[at] = static_cast<int32_t>(e);
    places.target_of[at] = target[e];
  }
}

}  // namespace ramet::graphs
