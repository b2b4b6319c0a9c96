#pragma once

#include <functional>

#include "ramet/program/kernel_library.h"
#include "ramet/program/order.h"

namespace ramet::program {

/// The order with nodes moved behind its peak that need not run before: those whose results are read only later, and
/// take more bytes than the operands that then have to wait for them. A weight's gradient that waits long for another
/// gradient of the same weight (of an embedding that is also the last product of a language model) is such a result.
/// A node moves only where the peak falls, to the first place where it falls most. `kernel_of` gives a node's kernel:
/// bytes count as in the program, with scratch and with operands that results may overwrite.
NodeOrder relieve_peak(const Graph& graph, NodeOrder order,
                       const std::function<const KernelChoice&(NodeId)>& kernel_of);

}  // namespace ramet::program
