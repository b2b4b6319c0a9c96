#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "ramet/array.h"
#include "ramet/model.h"
#include "ramet/tensor.h"

namespace ramet::v0 {

/// Sizes of the graphs of one input of a model: `samples` graphs of a micro-batch, each with room for `nodes` and
/// `edges`.
struct GraphEdgesOptions {
  int64_t nodes = 0, edges = 0;
  int64_t samples = 1;
  int64_t sources = 0;  ///< rows that edges come from, where these are of another kind; 0: they are the nodes
  std::string name{};   ///< what the names of the inputs begin with
};

/// The edges of graphs as inputs of a model, for messages of one's own. Rows of nodes are [samples, nodes, ...], rows
/// of edges [samples, edges, ...]. The inputs, i32, are NAMEsource, NAMEtarget_of and NAMEby_source [samples, edges],
/// NAMEptr [samples, nodes + 1] and NAMEsource_ptr [samples, sources + 1]; EdgeLists makes their arrays. A sum is one
/// chain in the order of the edges (docs/graphs.md).
///
///     GraphEdges graph(m, {.nodes = 200, .edges = 1200});
///     Tensor message = relu(graph.of_targets(a) + graph.of_sources(b));  // a row for each edge
///     x = graph.sum(message);                                           // a row for each node
class RAMET_API GraphEdges {
 public:
  /// Declares the inputs. Throws Error for sizes below 1, and for names in use.
  GraphEdges(ModelBuilder& m, GraphEdgesOptions options,
             const std::source_location& place = std::source_location::current());

  /// For each edge the row of the node that it comes from; `x` [samples, sources, ...].
  Tensor of_sources(Operand x) const;
  /// For each edge the row of the node that it ends in.
  Tensor of_targets(Operand x) const;
  /// For each node the sum over the edges that end in it, and so on. Without edges it is 0.
  Tensor sum(Operand messages) const;
  Tensor mean(Operand messages) const;
  Tensor max(Operand messages) const;
  Tensor min(Operand messages) const;
  /// For each edge its share among the edges of its target: exp over the sum of exp.
  Tensor softmax(Operand scores) const;
  /// sum(weight * of_sources(x)), without a row for each edge. `weight` [samples, edges], or [samples, edges, heads];
  /// without it, 1.
  Tensor neighbor_sum(Operand x, Operand weight = Tensor()) const;
  /// For each edge the product of its target's row of `a` and its source's row of `b`, [samples, edges, heads], or with
  /// 0 heads [samples, edges].
  Tensor neighbor_dot(Operand a, Operand b, int64_t heads = 0) const;

  const GraphEdgesOptions& options() const { return options_; }

 private:
  GraphEdgesOptions options_;
  Tensor source_, target_of_, by_source_, ptr_, source_ptr_;
};

/// The arrays of the inputs of GraphEdges, sample after sample.
class RAMET_API EdgeLists {
 public:
  explicit EdgeLists(GraphEdgesOptions options) : options_(std::move(options)) {}
  /// Adds a sample: edges in any order, by the numbers of their nodes. Returns the edge that stands at each place, for
  /// arrays of values of edges. Throws Error for a node that there is not, and for more edges than there is room.
  std::vector<int64_t> add(std::span<const int32_t> source, std::span<const int32_t> target);
  /// The inputs' arrays, valid as long as this object lives and no sample is added.
  NamedViews views() const;

 private:
  GraphEdgesOptions options_;
  std::vector<int32_t> source_, target_of_, by_source_, ptr_, source_ptr_;
};

}  // namespace ramet::v0
