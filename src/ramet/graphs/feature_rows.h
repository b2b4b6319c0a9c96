#pragma once

#include <cstdint>
#include <vector>

#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// The elements of a field of nodes that are not 0, row after row: a node's features as edges from features to the
/// node.
struct FeatureRows {
  int64_t width = 0;            ///< of a row
  std::vector<int64_t> ptr;     ///< the row of node i has the elements [ptr[i], ptr[i + 1])
  std::vector<int32_t> column;  ///< ascending in each row
  std::vector<float> value;

  int64_t host_bytes() const { return std::ssize(ptr) * 8 + std::ssize(column) * 4 + std::ssize(value) * 4; }

  /// Of float field number `field`.
  static FeatureRows of(const GraphSet& set, size_t field);
  /// Elements that any `nodes` different nodes have at most.
  int64_t most(int64_t nodes) const;
};

/// The elements of some rows by row and by column, as lists of edges (ops/neighbors.h) with room for `room` elements
/// and `rows` rows. Columns are the sources. Places behind the last element are 0.
struct FeatureLists {
  int32_t *source, *ptr, *target_of, *by_source, *source_ptr;
  float* value;
};
void fill_lists(const FeatureRows& all, const std::vector<int64_t>& nodes, int64_t rows, int64_t room,
                const FeatureLists& lists);

}  // namespace ramet::graphs
