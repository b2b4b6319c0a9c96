#pragma once

#include "ramet/ir/op.h"
#include "ramet/layout/mesh.h"

namespace ramet::runtime {

/// A node as the device at `position` runs it: where the attribute `cuts` says that an operand is a part
/// (ops/position.h), the attribute `position` says which part. All devices of a stage have one program; this is all in
/// which their kernels differ.
NodeSignature localize(NodeSignature node, const Mesh::Position& position);

}  // namespace ramet::runtime
