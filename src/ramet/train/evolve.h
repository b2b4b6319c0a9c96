#pragma once

#include <set>
#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/metrics.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

// Training with patterns that change (model/evolve.h).

/// The scalar with the number of updates made before this step.
inline constexpr const char* kUpdates = "updates";

/// Names of the values of sparse weights whose moments are corrected by the steps of each block. Throws Error where
/// the model asks for it and the optimizer has no such corrections.
std::set<std::string> own_step_values(const Model& model, const TrainOptions& options);
/// The name of the state f32 [R, C, slots, 1, 1] that holds, for the values of a sparse weight, the number of updates
/// that were made before each block was new.
std::string births_name(const std::string& values);

/// Whether new blocks of a program's sparse weights are those with the greatest gradients.
bool grows_by_gradient(const Graph& program);
/// Values of the sparse weights whose new blocks are found so.
std::vector<std::string> values_by_gradient(const Model& model, const Graph& program);
/// The graph that finds the candidates of `program`, of `both`: the loss and its gradients by those values.
Graph candidates_graph(const Model& model, const Graph& program, const Graph& both);
/// The name of the program that does it.
inline constexpr const char* kCandidates = "evolve_candidates";

/// Lets the values of sparse weights, and all that the optimizer keeps of them, follow their blocks in a program of a
/// step whose states are complete. Throws Error naming the state for those that cannot, and for frozen weights.
Graph with_carried_states(const Model& model, const TrainOptions& options, const StepGraph& step, const Graph& program);

/// The numbers of a change of patterns, where one followed the step: density, churn (the share of stored blocks that
/// are new) and explored (the share of all blocks that were ever stored), of all weights together and of each, and the
/// norm of each weight's values.
void add_evolve_numbers(const Model& model, const ClusterResults& results, Numbers& numbers);

}  // namespace ramet::train
