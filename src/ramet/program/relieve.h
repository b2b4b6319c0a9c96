#pragma once

#include <functional>

#include "ramet/program/kernel_library.h"
#include "ramet/program/order.h"

namespace ramet::program {

/// The order with nodes moved behind its peak that need not run before it, since their results are read only later. A
/// weight's gradient that waits long for another gradient of the same weight (of an embedding that is also the last
/// product of a language model) is such a result. The operands wait for the node instead, so it moves only where the
/// peak falls, to the first place where it falls most. `kernel_of` gives a node's kernel: bytes count as in the
/// program, with scratch and with operands that results may overwrite. `peak_bytes` stays the search's own count.
NodeOrder relieve_peak(const Graph& graph, NodeOrder order,
                       const std::function<const KernelChoice&(NodeId)>& kernel_of);

}  // namespace ramet::program
