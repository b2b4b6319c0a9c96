#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// What of a layer's forward pass is computed again in its backward pass instead of being kept.
enum class RecomputeLevel : uint8_t {
  kNone,
  kCheap,  ///< what costs little: element-wise nodes, norms, dropout (OpDef::cheap)
  kLayer,  ///< everything inside the layer; only its inputs are kept
};

struct RecomputeOptions {
  enum class Mode : uint8_t {
    kNone,
    kCheap,   ///< every layer at level kCheap
    kLayers,  ///< the layers named in `layers` (all, when empty) at level kLayer
    kAll,     ///< only every sqrt(L)-th layer boundary is kept (Chen et al. 2016)
    kFit      ///< the least cost that brings the peak to `byte_limit`
  } mode = Mode::kNone;
  std::vector<int64_t> layers;
  int64_t byte_limit = 0;
  bool in_parts = false;  ///< the model is cut between layers: every layer keeps its inputs, whatever the mode
};

/// How the activations of one layer wait for its backward pass.
struct LayerActivations {
  RecomputeLevel recompute = RecomputeLevel::kNone;
  bool drop_input = false;  ///< its inputs are not kept either, but recomputed from the layer before
  bool stream = false;      ///< what is kept waits in streaming memory, where there is some for activations
  friend bool operator==(const LayerActivations&, const LayerActivations&) = default;
};

/// By layer, and one more: what follows the layers, of which nothing is recomputed.
using ActivationPlan = std::vector<LayerActivations>;

/// "none", "cheap", "layer", "layer:0,3,5", "all", "fit:2GiB"; throws Error naming these.
RecomputeOptions parse_recompute(const std::string& text);

/// What a device does in a second, as far as it matters whether activations are computed again or streamed. The values
/// given are a ratio that processors with 16-bit products and the memory of their day have.
struct Rates {
  double flops = 4e11;        ///< operations of large matrix products
  double bandwidth = 2.5e10;  ///< bytes of device memory, read and written; what streams from host memory is copied
  double files = 1.5e9;       ///< bytes to or from files, which move while devices compute

  double seconds(const Cost& cost) const;
};

/// Layers of a micro graph: the parts of all its stacks (transform/parts.h), which these functions number in their order.
size_t count_layers(const Graph& micro);

/// What options of any mode but kFit mean for a model of so many layers; nothing is streamed. Throws Error when it has
/// not all of the layers that they name.
ActivationPlan plan_activations(const RecomputeOptions& options, size_t layers);

/// Rewrites `micro`. The backward pass is known by NodeInfo::pass. Recomputed nodes are exact
/// copies placed just before they are needed, so no bit changes.
StepGraph recompute(const StepGraph& step, const ActivationPlan& plan);

/// What options of any mode mean for a step on one device; `peak_bytes` gives the memory that a candidate needs (asked
/// by mode kFit only, a handful of times; see fit_activations.h).
ActivationPlan plan_activations(const StepGraph& step, const RecomputeOptions& options, const Rates& rates,
                                const std::function<int64_t(const StepGraph&)>& peak_bytes);
/// The step with that.
StepGraph recompute(const StepGraph& step, const RecomputeOptions& options,
                    const std::function<int64_t(const StepGraph&)>& peak_bytes = {});

}  // namespace ramet::transform
