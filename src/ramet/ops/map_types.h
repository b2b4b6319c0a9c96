#pragma once

#include <span>
#include <string>
#include <vector>

#include "ramet/ops/map_program.h"

namespace ramet::ops {

/// The attribute `dtypes` of a node with outputs of these types: "bf16,f32".
std::string dtypes_text(std::span<const DType> dtypes);
/// Element types of the outputs that a node's attribute `dtypes` gives ("bf16,f32"), for inputs of these types. Throws
/// Error naming the node when they do not fit its program.
std::vector<DType> map_output_dtypes(const NodeSignature& node, const MapProgram& program,
                                     std::span<const DType> inputs);

}  // namespace ramet::ops
