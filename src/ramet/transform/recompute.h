#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet {

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

/// "none", "cheap", "layer", "layer:0,3,5", "all", "fit:2GiB"; throws Error naming these.
RecomputeOptions parse_recompute(const std::string& text);

/// Rewrites `micro`. Layers are found by the scope "layerN" in node names, the backward pass by "/backward". Recomputed
/// nodes are exact copies placed just before they are needed, so no bit changes. `peak_bytes` gives the memory that a
/// candidate needs (asked by mode kFit only, a handful of times); when even the strongest level does not fit, that one
/// is returned and the caller refuses it.
StepGraph recompute(StepGraph step, const RecomputeOptions& options,
                    const std::function<int64_t(const StepGraph&)>& peak_bytes = {});

}  // namespace ramet
