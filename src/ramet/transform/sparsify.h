#pragma once

#include <map>
#include <optional>
#include <string>

#include "ramet/ops/sparse.h"

namespace ramet::transform {

/// Names of the two states that stand for a sparse weight.
std::string values_name(const std::string& weight);
std::string index_name(const std::string& weight);

/// A weight as one matrix: [rows, columns, 1, ...], or several matrices [stacked, rows of each, columns] one above the
/// other.
struct WeightMatrix {
  int64_t rows = 0, columns = 0, stacked = 1;
};
/// Nothing for weights of other shapes.
std::optional<WeightMatrix> matrix_of(const Shape& shape);

/// Why the weight cannot be sparse in this graph, with the first node that reads the weight, or an output that gives
/// it, other than as a matrix of products, transposed or not, or a table of look-ups (ops/sparse_readers.h); "" where
/// it can.
std::string why_not_sparse(const Graph& graph, const std::string& weight);

/// The rows that products of the graph multiply by the weight.
int64_t tokens_of_products(const Graph& graph, const std::string& weight);

/// The graph with block-sparse products and look-ups in place of those by the named weights. The states `values_name`
/// and `index_name` replace each weight. `fixed`: their patterns never change.
Graph sparsify(const Graph& graph, const std::map<std::string, SparseGrid>& grids, bool fixed = true);

}  // namespace ramet::transform
