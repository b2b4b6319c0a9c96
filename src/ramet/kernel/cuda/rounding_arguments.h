#pragma once

#include <string>

#include "ramet/base/rng.h"
#include "ramet/kernel/cuda/device/update_arguments.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rounding.h"

namespace ramet::kernel::cuda {

/// The random bits of a node, when it rounds stochastically, but for the counter.
inline ramet_device::RoundingArguments rounding_of(const NodeSignature& node) {
  if (!ops::rounds_stochastically(node)) return {};
  const RandomStream stream(static_cast<uint64_t>(node.attributes.get_int("seed")), RandomPurpose::kRounding, 0,
                            static_cast<uint64_t>(node.attributes.get_int("tensor")));
  return {.counter = nullptr,
          .logical = node.inputs[0].elements(),
          .key0 = stream.key()[0],
          .key1 = stream.key()[1],
          .tensor = stream.tensor()};
}

inline std::string refuse_rounding(const NodeSignature& node) {
  const bool part = ops::rounds_stochastically(node) && !ops::Position(node).whole();
  return part ? "it draws for a part of a tensor" : "";
}

}  // namespace ramet::kernel::cuda
