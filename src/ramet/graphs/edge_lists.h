#pragma once

#include <cstdint>
#include <span>

namespace ramet::graphs {

/// Where the lists of the edges of a pack or of a graph go (ops/neighbors.h): `source`, `target_of` and `by_source`
/// have room for `room` edges, `ptr` has rows + 1 places and `source_ptr` source_rows + 1.
struct EdgePlaces {
  int32_t *source, *target_of, *by_source, *ptr, *source_ptr;
  int64_t rows, source_rows, room;
};
/// Writes the lists of edges that are sorted by target. Places behind the last edge are 0. Among the edges of one
/// source the order stays.
void fill_edge_lists(std::span<const int32_t> source, std::span<const int32_t> target, const EdgePlaces& places);

}  // namespace ramet::graphs
