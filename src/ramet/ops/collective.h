#pragma once

#include <string>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// A node all_reduce, all_gather, reduce_scatter or all_to_all as a transport sees it. The group of a device: the
/// devices that differ from it along one mesh axis only; its index there is (coordinate / stride) % parts.
struct CollectiveForm {
  Exchange exchange = Exchange::kNone;
  int64_t axis = 0;  ///< number of the mesh axis (layout/mesh.h)
  int64_t parts = 1, stride = 1;
  std::string kind = "sum";  ///< of reductions: "sum", "max" or "min"
  TensorType input, output;
  /// all_gather, reduce_scatter: the dimension that grows or shrinks is [blocks, parts, inner]; seen as bytes, the
  /// whole tensor is [outer, parts, run] elements with member k's at [:, k, :].
  int64_t outer = 1, run = 1;
};
/// Throws Error naming the node when it is no collective.
CollectiveForm collective_form(const NodeSignature& node);

}  // namespace ramet::ops
