#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ramet/transform/recompute.h"

namespace ramet::transform {

/// The problem that `fit_activations` solves.
struct FitProblem {
  std::vector<int> stage_of;  ///< of each layer, and of the nodes behind the layers
  int64_t byte_limit = 0;     ///< for each stage's peak
  bool may_stream = false;    ///< activations may wait in streaming memory
  bool in_parts = false;      ///< the model is cut between layers, so every layer keeps its inputs
  bool to_files = false;      ///< streaming memory is files
  Rates rates{};
  /// A stage's choices add at most this share (of 1) to the time that its forward and backward pass takes when
  /// everything is kept; infinity: no limit.
  double time_share = std::numeric_limits<double>::infinity();
  /// Bytes that each stage needs under a choices; `recomputed` is the step with it. Asked a dozen times.
  std::function<std::vector<int64_t>(const StepGraph& recomputed, const ActivationChoices& choices)> peaks;
};

/// Chooses for each layer whether its activations stay, are recomputed (the cheap ones, or all), or are streamed. Every
/// stage's peak must be within the limit. Among such choices it takes the fastest one found: the time is that of the
/// recomputed nodes' operations and bytes and of the streamed bytes both ways, at the problem's rates. Layers that
/// stream come first on a stage, since their activations wait longest, then those that are recomputed, then those that
/// stay. It is a knapsack problem with few kinds of items: peaks of choices in which all layers do the same give the
/// bytes that a layer saves; mixtures of at most three of these make a front of bytes against seconds, along which each
/// stage's limit is searched with real peaks, all stages at once. Deterministic. When nothing fits, each stage has the
/// choices of the least peak; on one device, inputs of layers are then dropped too where that lowers it. With a
/// limit to the time inputs stay, and no step on the front costs over two shares of the time for a share of the memory,
/// or half of one within a sixteenth of the limit.
ActivationChoices fit_activations(const StepGraph& step, const FitProblem& problem);

/// "stream 0-3, recompute 4-6, recompute cheap 7, keep 8-11, head" for people; the head is what follows the layers.
std::string text_of(const ActivationChoices& choices);

}  // namespace ramet::transform
