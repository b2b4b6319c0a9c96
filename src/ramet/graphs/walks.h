#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ramet/data/source.h"
#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// One graph's edges by the node that they come from, for walks along them.
class WalkGraph {
 public:
  /// Of a set with the field "edge.split", the edges of its part "train" alone. Throws Error for a set of several
  /// graphs or types, and for one without edges.
  explicit WalkGraph(const GraphSet& set);

  int64_t nodes() const { return std::ssize(ptr_) - 1; }
  /// The nodes that the edges of a node lead to, ascending; one that several edges lead to stands as often.
  std::span<const int32_t> next(int32_t node) const {
    const auto at = static_cast<size_t>(node);
    return std::span(next_).subspan(static_cast<size_t>(ptr_[at]), static_cast<size_t>(ptr_[at + 1] - ptr_[at]));
  }
  bool has_edge(int32_t from, int32_t to) const;
  int64_t host_bytes() const { return std::ssize(next_) * 4 + std::ssize(ptr_) * 8; }

 private:
  std::vector<int64_t> ptr_;
  std::vector<int32_t> next_;
};

struct WalkOptions {
  int64_t length = 20;    ///< nodes of a walk
  int64_t per_node = 10;  ///< walks of an epoch that begin in each node
  int64_t group = 128;    ///< walks of a sample
  int64_t negatives = 0;  ///< nodes drawn for each walk
  /// A walk that came from t goes on from v to x with the weight 1 / p if x is t, 1 if an edge leads from t to x, and 1
  /// / q otherwise (node2vec; Grover and Leskovec, arXiv 1607.00653).
  double p = 1, q = 1;
  bool shuffle = true;  ///< the starts in a new order in every epoch
  uint64_t seed = 0;
};

/// Biased random walks: sample i holds the walks [i * group, (i + 1) * group) of an endless sequence of epochs. Tensors
/// of B samples: "walks" i32 [B, group, length], and "negatives" i32 [B, group, negatives], drawn from all nodes. In a
/// node without edges a walk stays. A walk is a function of (seed, its place in the sequence) and the graph alone.
class WalkSource final : public Source {
 public:
  /// Throws Error for sizes, p or q that are not positive.
  WalkSource(const GraphSet& set, WalkOptions options);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index * options_.group / walks(); }
  int64_t epoch_samples(int64_t epoch) const override;
  Hash identity() const override;
  std::string text_of(int64_t index) const override { return "walks " + std::to_string(index); }
  int64_t host_bytes() const override { return graph_.host_bytes(); }

  const WalkGraph& graph() const { return graph_; }
  int64_t walks() const { return graph_.nodes() * options_.per_node; }  ///< of an epoch

 private:
  void walk(int64_t number, int32_t start, int32_t* nodes) const;

  WalkGraph graph_;
  WalkOptions options_;
  Hash contents_;
};

}  // namespace ramet::graphs
