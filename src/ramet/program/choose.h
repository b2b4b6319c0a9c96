#pragma once

#include <string>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/program/kernel_library.h"
#include "ramet/program/stage.h"

namespace ramet {

/// A kernel for every node. Nodes that differ in name only share one task.
struct KernelChoices {
  std::vector<Task> tasks;
  std::vector<KernelChoice> choices;               ///< one a task
  std::vector<std::vector<int32_t>> task_of_node;  ///< one list a piece; -1 for views
};

/// Asks the library once for each kind of node. Throws its Error when no kernel takes a node.
KernelChoices choose_kernels(std::span<const StagePiece> pieces, const KernelLibrary& library, int threads);

}  // namespace ramet
