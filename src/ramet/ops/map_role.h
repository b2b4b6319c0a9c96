#pragma once

#include <cstdint>

#include "ramet/base/house.h"

namespace ramet::ir {
struct NodeSignature;
}  // namespace ramet::ir

namespace ramet::ops {

/// What a node can be inside of a map (ops/map_program.h).
enum class MapRole : uint8_t {
  kNone,
  kProgram,  ///< a map itself, or an element-wise node: it has a program (map_program_of)
  kSumRows,  ///< output 0 is the sum of input 0 over all dimensions but the last, as an output `sum_rows` of a map is
  kSpread    ///< output 0 is input 0, broadcast by NumPy's rule
};
MapRole map_role(const NodeSignature& node);

}  // namespace ramet::ops
