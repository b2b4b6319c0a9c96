#pragma once

#include <cstdint>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::layout {

/// What a piece of the step does: a part that runs in one go on one device.
enum class PieceKind : uint8_t {
  kForward,  ///< of one chunk of the model, once a micro-batch; all of the step where it is not partitioned
  kBackward,
  kWeightGradient,  ///< what of the backward pass no other piece waits for (zero-bubble schedules)
  kPrepare,         ///< derived states of one chunk, from its weights
  kUpdate,          ///< a part of the update, once a step
  kProgram          ///< of a named program, of one chunk
};
inline constexpr int kPieceKindCount = 6;
/// "forward", "backward", "weight_gradient", "prepare", "update", "program"
std::string_view name_of(PieceKind kind);

}  // namespace ramet::layout
