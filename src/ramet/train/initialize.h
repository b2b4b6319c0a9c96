#pragma once

#include <cstddef>
#include <span>

#include "ramet/base/thread_team.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

/// Fills the bytes of a state (f32), or of a part of it that begins with element `first` (a multiple of 4), with its
/// first value, 0 in padding: each element is a function of (seed, the state's name, the element's index) alone, so
/// that it can be drawn anywhere in any order. Truncated normals are drawn again beyond two deviations.
void initialize_state(const StateTensor& state, uint64_t seed, std::span<std::byte> bytes, ThreadTeam& team,
                      int64_t first = 0);

/// The same in the state's own type. Integers are drawn uniformly from a to b - 1; other numbers are rounded to the
/// type.
void initialize_as_held(const StateTensor& state, uint64_t seed, std::span<std::byte> bytes, ThreadTeam& team,
                        int64_t first = 0);

}  // namespace ramet::train
