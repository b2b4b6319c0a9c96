#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Which values of a layer's forward pass are computed again in its backward pass instead of being kept.
enum class RecomputeLevel : uint8_t {
  kNone,
  kCheap,  ///< cheap nodes: element-wise ones, norms, dropout (OpDef::cheap)
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
  bool in_parts = false;  ///< the model is cut between layers, so every layer keeps its inputs, whatever the mode
};

/// How the activations of one layer wait for its backward pass.
struct LayerActivations {
  RecomputeLevel recompute = RecomputeLevel::kNone;
  bool drop_input = false;  ///< its inputs are not kept either; they are recomputed from the layer before
  bool stream = false;      ///< kept values wait in streaming memory, if the layout has some for activations
  friend bool operator==(const LayerActivations&, const LayerActivations&) = default;
};

/// One entry a layer, and one for the nodes behind the layers, which are never recomputed.
using ActivationChoices = std::vector<LayerActivations>;

/// "none", "cheap", "layer", "layer:0,3,5", "all", "fit:2GiB"; throws Error naming these.
RecomputeOptions parse_recompute(const std::string& text);

/// What a device does in a second, as far as the choice between recomputing and streaming depends on it. The default
/// values are in the ratio that processors with 16-bit products and their memory have.
struct Rates {
  double flops = 4e11;        ///< operations of large matrix products
  double bandwidth = 2.5e10;  ///< bytes of device memory, read and written; streaming from host memory is a copy
  double files = 1.5e9;       ///< bytes to or from files, which move while devices compute

  double seconds(const Cost& cost) const;
};

/// Layers of a micro graph: the parts of all its stacks (transform/layers.h), which these functions number in their
/// order.
size_t count_layers(const Graph& micro);

/// The choices that options of any mode but kFit mean for a model of so many layers; nothing is streamed. Throws Error
/// when the options name a layer that the model lacks.
ActivationChoices choose_activations(const RecomputeOptions& options, size_t layers);

/// Rewrites `micro`. NodeInfo::pass tells which nodes are of the backward pass. Recomputed nodes are exact copies
/// placed just before their first use, so no bit changes.
StepGraph recompute(const StepGraph& step, const ActivationChoices& choices);

/// The choices that options of any mode mean for a step on one device. `peak_bytes` gives the memory that a candidate
/// needs; only mode kFit calls it, a few times, and only that mode reads the share of time (see fit_activations.h).
ActivationChoices choose_activations(const StepGraph& step, const RecomputeOptions& options, const Rates& rates,
                                     const std::function<int64_t(const StepGraph&)>& peak_bytes,
                                     double time_share = std::numeric_limits<double>::infinity());
/// The step recomputed by these choices.
StepGraph recompute(const StepGraph& step, const RecomputeOptions& options,
                    const std::function<int64_t(const StepGraph&)>& peak_bytes = {});

}  // namespace ramet::transform
