#pragma once

#include <optional>

#include "ramet/ir/op.h"
#include "ramet/ops/map_program.h"

namespace ramet::ops {

// An epilogue is a map program that a node applies to its own result: the bits are those of the node without the
// program and of a node `map` behind it. Kernels compute it while the result is in their caches. The attribute
// `epilogue` is the program's text. Input 0 of the program is the result, in the result's type; the other inputs are
// the node's last ones. They broadcast to the result's shape. The attribute `epilogue_dtype` is the element
// type of the program's only output (absent: that of the result); the output is not summed. A program that draws random
// numbers is no epilogue.

/// Most inputs of such a program.
inline constexpr int kMostEpilogueInputs = 16;

/// Adds the two attributes to an op of one output, and wraps its rules so that they include the epilogue. To be called
/// when the op is complete. Rules that the op had before see nodes without an epilogue.
void take_epilogues(OpDef& op);

inline bool has_epilogue(const NodeSignature& node) { return node.attributes.has("epilogue"); }

/// The node without its epilogue: its own inputs, and its result as the epilogue reads it. A node that has no epilogue
/// is returned as it is. Throws Error naming the node when the attributes do not fit.
NodeSignature without_epilogue(const NodeSignature& node);
/// The node `map` that stands for the epilogue: its inputs are the result of `without_epilogue(node)`, then the node's
/// last inputs.
NodeSignature epilogue_map(const NodeSignature& node);

/// The attributes of `node` with `map` as its epilogue, where input `input` of `map` is the node's result. Empty when
/// `map` cannot be an epilogue.
std::optional<Attributes> epilogue_attributes(const NodeSignature& node, const NodeSignature& map, int input);

}  // namespace ramet::ops
