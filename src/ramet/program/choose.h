#pragma once

#include <string>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/program/kernel_library.h"
#include "ramet/program/stage.h"

namespace ramet::program {

/// A kernel for every node. Nodes that differ in name only share one task.
struct KernelChoices {
  std::vector<Task> tasks;
  std::vector<KernelChoice> choices;               ///< one a task
  std::vector<std::vector<int32_t>> task_of_node;  ///< one list a piece; -1 for views
};

/// Bytes that a transport needs beside the operands of a collective, where a tensor does not lie as it travels: the
/// whole one, member by member; all_to_all: what goes, then what comes.
int64_t exchange_scratch(const NodeSignature& node);

/// Asks the library once for each kind of node. Throws its Error when no kernel takes a node. Collectives are
/// not asked for: their kernel is "exchange".
KernelChoices choose_kernels(std::span<const Piece> pieces, const KernelLibrary& library, int threads);

}  // namespace ramet::program
