#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ramet/ops/exponents.h"
#include "ramet/program/executable.h"

namespace ramet::runtime {

/// A tensor whose exponents a check of numerics counts.
struct NumericsRow {
  enum class Kind : uint8_t {
    kWeight,
    kOptimizer,  ///< a state of the optimizer
    kGradient,   ///< of a weight, summed over the step, before it is scaled and clipped
    kActivation  ///< an instruction's output in a micro-batch: activations and their gradients
  };
  Kind kind = Kind::kActivation;
  std::string name;  ///< of the weight, the state or the node
  std::string op;    ///< of the node
  TensorType type;   ///< as a device holds it
  int stage = 0;
  int32_t superstep = -1;  ///< of the step, where it is made first; -1: before
};
/// "weight", "optimizer", "gradient", "activation"
std::string_view name_of(NumericsRow::Kind kind);

/// The rows of an executable, in the order of its program, and where they are. All devices of a stage have the same.
/// Outputs of instructions are left out when they are integers, single numbers, parts of a sum that a collective
/// completes, or of a step of the optimizer.
struct NumericsTable {
  /// A state, or operand `operand` of an instruction of a segment.
  struct Place {
    int32_t state = -1, segment = -1, instruction = -1, operand = 0;
    bool input = false;
  };
  std::vector<NumericsRow> rows;
  std::vector<Place> places;
};
NumericsTable numerics_table(const Executable& executable);

/// The counts of one tensor over all devices and micro-batches of one step, in the bins of ops/exponents.h. A
/// weight, state or gradient that several devices hold counts once; an activation that tensor shards all hold whole
/// counts once a shard.
struct NumericsRecord {
  NumericsRow row;
  std::array<int64_t, kExponentBins> bins{};
};

}  // namespace ramet::runtime
