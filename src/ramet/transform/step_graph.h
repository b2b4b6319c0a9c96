#pragma once

#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// What a state tensor is, for memory reports, checkpoints and layouts.
enum class StateKind : uint8_t {
  kWeight,       ///< logical weights: saved, hashed
  kOptimizer,    ///< moments, step counts: saved
  kAccumulator,  ///< gradients between micro-batches and update: not saved
  kDerived       ///< computed from weights by `derive` (casts, packings): not saved
};
std::string_view name_of(StateKind kind);

/// How a state starts.
struct StateInit {
  enum class Kind : uint8_t { kZeros, kConstant, kNormal, kTruncatedNormal, kUniform } kind = Kind::kZeros;
  double a = 0, b = 0;  ///< constant; mean and deviation; low and high
};

/// What a dimension of a state means, for layouts that cut by meaning: "embed" (the hidden size), "heads", "mlp" (the
/// inner size of feed-forward), "vocab"; "" says nothing. A joint query-key-value dimension is 3 blocks of heads. The
/// last `padding` entries of a first dimension mean nothing: they only make it divide; they are 0 in weights, and not
/// in exported files.
struct LogicalAxis {
  std::string name;
  int64_t blocks = 1;
  int64_t padding = 0;
  friend bool operator==(const LogicalAxis&, const LogicalAxis&) = default;
};
/// "heads", "3*heads", "vocab+47", "-"
std::string text_of(const LogicalAxis& axis);

/// A tensor that outlives the step.
struct StateTensor {
  std::string name;
  TensorType type;
  StateKind kind;
  StateInit init;
  std::string group;                ///< weights: "decay" or "no_decay", or a user's own group
  std::vector<LogicalAxis> axes{};  ///< one a dimension, or none; optimizer states and accumulators have their weight's

  /// The type without padding, which stands behind all else.
  TensorType unpadded() const;
};

/// A whole training step before it knows of devices (DESIGN, the way a model takes). The step is:
/// for each lane, zero the accumulators, run `micro` for each of its micro-batches in order; combine the lanes'
/// accumulators by a balanced binary tree; run `update`, then `derive`. With lanes = micro_batches_per_lane = 1 the
/// compiler joins micro and update into one program. `derive` also runs once after weights are loaded.
struct StepGraph {
  std::vector<StateTensor> states;
  Graph micro{"micro"};
  Graph update{"update"};
  Graph derive{"derive"};
  Graph evaluate{"evaluate"};  ///< forward only, without dropout, on the same states; no nodes when not wanted
  int64_t lanes = 1;
  int64_t micro_batches_per_lane = 1;

  const StateTensor& state(const std::string& name) const;  ///< throws Error on an unknown name
  int64_t micro_batches() const { return lanes * micro_batches_per_lane; }
};

/// Verifies the four graphs and that their state inputs and outputs agree with `states`.
void verify(const StepGraph& step, const std::string& after);

/// Text of all: states, then the graphs.
std::string print(const StepGraph& step);

}  // namespace ramet::transform
