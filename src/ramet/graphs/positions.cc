// Where nodes stand in their graph, as numbers that a network can read.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {
namespace {

constexpr int64_t kMostNodes = 1000;  ///< the time of what follows grows with the cube of their number

/// A dense square matrix of a graph's nodes.
struct Square {
  explicit Square(int64_t size) : size(size), values(static_cast<size_t>(size * size)) {}
  double& at(int64_t row, int64_t column) { return values[static_cast<size_t>(row * size + column)]; }
  double at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * size + column)]; }

  int64_t size;
  std::vector<double> values;
};

/// Turns rows and columns p and q of a symmetric matrix so that its element (p, q) becomes 0, and the columns of
/// `vectors` likewise (Golub and Van Loan, Matrix Computations, section 8.5).
void rotate(Square& matrix, Square& vectors, int64_t p, int64_t q) {
  const double apart = (matrix.at(q, q) - matrix.at(p, p)) / (2 * matrix.at(p, q));
  const double tangent = (apart < 0 ? -1.0 : 1.0) / (std::abs(apart) + std::sqrt(1 + apart * apart));
  const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = tangent * cosine;
  const auto turn = [&](double& first, double& second) {
    const double x = first, y = second;
    first = cosine * x - sine * y;
    second = sine * x + cosine * y;
  };
  for (int64_t i = 0; i < matrix.size; ++i) turn(matrix.at(i, p), matrix.at(i, q));
  for (int64_t i = 0; i < matrix.size; ++i) turn(matrix.at(p, i), matrix.at(q, i));
  for (int64_t i = 0; i < matrix.size; ++i) turn(vectors.at(i, p), vectors.at(i, q));
  matrix.at(p, q) = matrix.at(q, p) = 0;
}

/// Jacobi's method, in a fixed order of rotations: `matrix` becomes diagonal, the columns of the result are its
/// eigenvectors.
Square eigenvectors(Square& matrix) {
  constexpr int kMostSweeps = 60;
  Square vectors(matrix.size);
  for (int64_t i = 0; i < matrix.size; ++i) vectors.at(i, i) = 1;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool changed = false;
    for (int64_t p = 0; p < matrix.size; ++p)
      for (int64_t q = p + 1; q < matrix.size; ++q)
        if (std::abs(matrix.at(p, q)) > 1e-15) rotate(matrix, vectors, p, q), changed = true;
    if (!changed) break;
  }
  return vectors;
}

/// The edges of a graph between different nodes, each once. Throws Error where the reverse of an edge is not there.
std::set<std::pair<int32_t, int32_t>> undirected_edges(const EdgeTable& edges, size_t graph) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (auto e = static_cast<size_t>(edges.ptr[graph]); e < static_cast<size_t>(edges.ptr[graph + 1]); ++e)
    if (edges.source[e] != edges.target[e]) pairs.emplace(edges.source[e], edges.target[e]);
  for (const auto& [source, target] : pairs)
    if (!pairs.contains({target, source}))
      throw Error({.what = "the Laplacian is of graphs whose edges go in both directions",
                   .where = "graph " + std::to_string(graph) + ", edge " + std::to_string(source) + " to " +
                            std::to_string(target),
                   .remedy = "Apply `undirected` first"});
  return pairs;
}

/// 1 - D^-1/2 A D^-1/2; a node without edges has a row of zeros.
Square laplacian_of(const std::set<std::pair<int32_t, int32_t>>& pairs, int64_t nodes) {
  std::vector<double> degree(static_cast<size_t>(nodes));
  for (const auto& [source, target] : pairs) ++degree[static_cast<size_t>(target)];
  Square matrix(nodes);
  for (int64_t i = 0; i < nodes; ++i) matrix.at(i, i) = degree[static_cast<size_t>(i)] > 0 ? 1 : 0;
  for (const auto& [source, target] : pairs)
    matrix.at(target, source) =
        -1 / std::sqrt(degree[static_cast<size_t>(source)] * degree[static_cast<size_t>(target)]);
  return matrix;
}

/// Calls `positions_of(graph, first node, nodes)` for each graph.
template <typename Positions>
void for_graphs(const GraphTables& tables, const NodeTable& nodes, const char* name, const Positions& positions_of) {
  for (size_t graph = 0; graph < static_cast<size_t>(tables.graphs); ++graph) {
    const int64_t first = nodes.ptr[graph], count = nodes.ptr[graph + 1] - first;
    if (count > kMostNodes)
      throw Error({.what = "the graph has too many nodes for these positions",
                   .where = std::string(name) + ", graph " + std::to_string(graph),
                   .found = std::to_string(count) + " nodes",
                   .expected = "at most " + std::to_string(kMostNodes)});
    positions_of(graph, first, count);
  }
}

}  // namespace

void add_laplacian(GraphTables& tables, const std::string& key, int64_t count) {
  const EdgeTable& edges = edges_within(tables, key);
  const NodeTable& nodes = tables.nodes_of(edges.type.target);
  std::vector<float> values(static_cast<size_t>(nodes.ptr.back() * count));
  for_graphs(tables, nodes, "laplacian", [&](size_t graph, int64_t first, int64_t size) {
    Square matrix = laplacian_of(undirected_edges(edges, graph), size);
    const Square vectors = eigenvectors(matrix);
    std::vector<int64_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), int64_t{0});
    // Rounding does not decide the order of equal eigenvalues.
    const auto rank = [&](int64_t i) { return std::round(matrix.at(i, i) * 1e9); };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
    for (int64_t k = 0; k < std::min(count, size - 1); ++k) {
      const int64_t column = order[static_cast<size_t>(k) + 1];
      double sign = 1;
      for (int64_t i = 0; i < size; ++i)
        if (std::abs(vectors.at(i, column)) > 1e-6) {
          sign = vectors.at(i, column) < 0 ? -1 : 1;
          break;
        }
      for (int64_t i = 0; i < size; ++i)
        values[static_cast<size_t>((first + i) * count + k)] = static_cast<float>(sign * vectors.at(i, column));
    }
  });
  tables.set_field({.name = "laplacian", .of = edges.type.target, .shape = Shape{count}}, values);
}

void add_returns(GraphTables& tables, const std::string& key, int64_t steps) {
  const EdgeTable& edges = edges_within(tables, key);
  const NodeTable& nodes = tables.nodes_of(edges.type.target);
  std::vector<float> values(static_cast<size_t>(nodes.ptr.back() * steps));
  for_graphs(tables, nodes, "returns", [&](size_t graph, int64_t first, int64_t size) {
    std::vector<double> degree(static_cast<size_t>(size)), at(static_cast<size_t>(size)), next;
    const auto begin = static_cast<size_t>(edges.ptr[graph]), end = static_cast<size_t>(edges.ptr[graph + 1]);
    for (size_t e = begin; e < end; ++e) ++degree[static_cast<size_t>(edges.source[e])];
    for (int64_t start = 0; start < size; ++start) {
      at.assign(static_cast<size_t>(size), 0.0);
      at[static_cast<size_t>(start)] = 1;
      for (int64_t step = 0; step < steps; ++step) {
        next.assign(static_cast<size_t>(size), 0.0);
        for (size_t e = begin; e < end; ++e) {
          const auto source = static_cast<size_t>(edges.source[e]);
          next[static_cast<size_t>(edges.target[e])] += at[source] / degree[source];
        }
        at.swap(next);
        values[static_cast<size_t>((first + start) * steps + step)] =
            static_cast<float>(at[static_cast<size_t>(start)]);
      }
    }
  });
  tables.set_field({.name = "returns", .of = edges.type.target, .shape = Shape{steps}}, values);
}

}  // namespace ramet::graphs
