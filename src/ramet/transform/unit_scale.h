#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// How a graph is scaled to unit variance.
struct UnitScaling {
  bool u_mup = false;  ///< u-muP (Blake et al., arXiv 2407.17465) on top of unit scaling
  /// Share of a residual's variance that a branch gets (fixed tau). Unset: all terms of a sum count alike (running
  /// mean). u-muP has a rule of its own.
  std::optional<double> residual_tau{};
  // Multipliers of u-muP: of attention's logits, of residual branches against the embedding, of attention's against the
  // others', of the loss' logits.
  double attention = 1, residual = 1, attention_residual = 1, logits = 1;
};

/// How a weight was scaled.
struct ScaledWeight {
  enum class Kind {
    kVector,  ///< bias, gain
    kInput,   ///< a table whose rows are looked up, or another matrix that meets no sum
    kHidden,  ///< of a product
    kOutput   ///< of the product that makes logits
  } kind = Kind::kVector;
  double gradient = 1;  ///< the computed gradient is so many times the loss' true gradient by this weight
  double forward = 1;   ///< factor on the result of the weight's product
  int64_t fan_in = 1;   ///< of products: elements that meet in a sum
  int64_t width = 1;    ///< last dimension
  int64_t depth = 1;    ///< residual branches of the sum that the weight's branch is a part of; 1 outside of branches
};

struct UnitScaled {
  Graph graph;
  std::map<std::string, ScaledWeight> weights;  ///< by name of the graph's state inputs
};

/// Unit scaling (Blake, Orr and Luschi, arXiv 2303.11257) of a forward graph with its loss, whose matrices start with
/// unit variance (`unit_weights`): the graph with `rescale` nodes such that values, and the gradients that
/// `differentiate` will make of it, have about unit variance before the first step. All factors come from the ops'
/// scaling rules (OpDef::scaling), and depend on shapes alone.
///
/// Gradients of weights are true but for one factor each (ScaledWeight::gradient). The paper guarantees that by equal
/// forward and backward factors on all edges of the graph that are no cut-edges. That is more than is needed: what must
/// be equal is the product of backward over forward factors along all ways of a gradient to one value. So every value v
/// has one number c(v), its computed gradient over the true one, and the backward factor of an edge from x to an op
/// with result y is the forward factor times c(x) / c(y): any numbers c give true gradients, and these make them unit.
///
/// A sum of a value with what is computed from it is a residual: its terms get weights whose squares add up to 1.
/// Outputs of the graph, and what is computed from statistics and losses alone, stay as they are. A graph without the
/// output "loss" gets the same forward factors and no backward factors.
/// Throws Error naming the node of an op that has no scaling rule.
UnitScaled unit_scale(const Graph& forward, std::span<const StateTensor> weights, const UnitScaling& how);

/// The weights with matrices that start with unit variance; vectors start as they did.
std::vector<StateTensor> unit_weights(std::vector<StateTensor> weights);
/// Standard deviation of the initial values.
double deviation_of(const StateInit& init);

}  // namespace ramet::transform
