#pragma once

#include <string>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/program/kernel_library.h"
#include "ramet/program/stage.h"

namespace ramet::program {

/// A kernel for every node. Nodes that differ in name only share one call.
struct KernelChoices {
  std::vector<Call> calls;
  std::vector<KernelChoice> choices;               ///< one a call
  std::vector<std::vector<int32_t>> call_of_node;  ///< one list a piece; -1 for views
};

/// Bytes that a transport needs beside the operands of a collective when a tensor travels in another order than it lies
/// in memory: the whole tensor, member by member; for all_to_all, the tensor that is sent, then the one that is
/// received.
int64_t exchange_scratch(const NodeSignature& node);

/// Asks the library once for each kind of node. Throws its Error when no kernel takes a node. Collectives are
/// not asked for: their kernel is "exchange".
KernelChoices choose_kernels(std::span<const Piece> pieces, const KernelLibrary& library, int threads);

}  // namespace ramet::program
