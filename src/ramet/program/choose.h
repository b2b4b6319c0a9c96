#pragma once

#include <array>
#include <string>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/program/kernel_library.h"

namespace ramet {

/// A kernel for every node. Nodes that differ in name only share one task.
struct KernelChoices {
  std::vector<Task> tasks;
  std::vector<KernelChoice> choices;                            ///< one a task
  std::array<std::vector<int32_t>, kSegmentCount> task_of_node; ///< -1 for views
};

/// The graphs of a step in the order of SegmentId.
std::array<const Graph*, kSegmentCount> graphs_of(const StepGraph& step);

/// Asks the library once for each kind of node. Throws its Error when no kernel takes a node.
KernelChoices choose_kernels(const StepGraph& step, const KernelLibrary& library, int threads);

}  // namespace ramet
