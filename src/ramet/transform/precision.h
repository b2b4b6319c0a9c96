#pragma once

#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// What a graph computes in.
struct Precision {
  DType compute = DType::kF32;  ///< f32, bf16 or f16
  /// Products of weights (OpDef::narrow) take f8e4m3 operands, and f8e5m2 gradients in the backward pass; their results
  /// are of `compute`.
  bool narrow = false;
};
/// "f32", "bf16", "f16", or "f8": narrow products beside f16. Throws Error on another name.
Precision precision_from_name(const std::string& name);

/// The same graph computing in `compute` (bf16 or f16) where the ops' precision policies (OpDef::precision) allow:
/// casts are put on the floating inputs of matrix products and attention, f32 stays in losses, statistics and weights
/// (whose casts `hoist` then does once an update). Results of the graph keep their types. With f32 the graph comes back
/// as it was.
Graph lower_precision(const Graph& graph, const Precision& precision);
inline Graph lower_precision(const Graph& graph, DType compute) { return lower_precision(graph, Precision{compute}); }

/// How weights are held between steps: in f32; in f16 or bf16, with no f32 copy; or in two halves, a bf16 and the 16
/// bits that an f32 has beyond it (base/rounding.h).
struct HeldForm {
  DType dtype = DType::kF32;
  bool split = false;
  bool whole() const { return dtype == DType::kF32; }
};
/// The name of a split weight's low half (u16); the weight itself is then its high half.
inline std::string low_half_of(const std::string& weight) { return weight + ".low"; }

/// Rewrites a graph of f32 weights (forward, or forward and backward) to read the weights as they are held. A cast to
/// the held type becomes the weight itself; a cast to another narrow type starts from the held weight. An op that only
/// moves elements (gather) moves held elements, which are then converted to f32. Any other reader of f32, as a bias,
/// gets its own conversion to f32.
Graph hold_weights(const Graph& graph, const std::vector<std::string>& weights, HeldForm form);

}  // namespace ramet::transform
