#pragma once

#include <cstdint>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::layout {

/// The kind of a piece of the step. A piece runs in one go on one device.
enum class PieceKind : uint8_t {
  kForward,  ///< of one part of the model, once a micro-batch; all of the step where it is not partitioned
  kBackward,
  kWeightGradient,  ///< the nodes of the backward pass that no other piece waits for (zero-bubble schedules)
  kPrepare,         ///< derived states of one part, from its weights
  kUpdate,          ///< a part of the update, once a step
  kProgram          ///< of a named program, of one part
};
inline constexpr int kPieceKindCount = 6;
/// "forward", "backward", "weight_gradient", "prepare", "update", "program"
std::string_view name_of(PieceKind kind);

}  // namespace ramet::layout
