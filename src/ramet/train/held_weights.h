#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ramet/ops/build.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/precision.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

/// How weights are held (`weights`).
HeldForm held_form(const TrainOptions& options);

/// Draws for stochastic rounding of the held form of `name`.
RoundingBy drawn_rounding(GraphBuilder& build, const TrainOptions& options, const std::string& name);

/// The states that hold f32 weights: each weight in its held type, followed by its low half if it is split.
std::vector<StateTensor> held_weights(const std::vector<StateTensor>& weights, HeldForm form);

/// Bytes of the states that hold some elements of a weight.
struct HeldBytes {
  std::vector<std::byte> weight, low;  ///< low: of a split weight, else empty
};
/// f32 numbers as they are held, rounded to nearest even.
HeldBytes hold(std::span<const float> values, HeldForm form);
/// And back, exactly.
void release(const HeldBytes& held, HeldForm form, std::span<float> values);

}  // namespace ramet::train
