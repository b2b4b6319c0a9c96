#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ramet/kernel/kernel.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rounding.h"

namespace ramet::kernel::cpu {

/// A node that changes states (ops/optimizer.cc), prepared to run.
struct StateNode {
  explicit StateNode(const NodeSignature& signature);

  NodeSignature node;
  bool draws = false, split = false;
  std::optional<Position> position;  ///< when it draws for a part of a tensor
};

/// One tensor of such a node.
struct StateOperand {
  int operand = 0;  ///< index among the inputs, or the outputs
  StateRole role = StateRole::kPlain;
  int from = -1;  ///< of an output: the input that it takes the place of; -1: none
};
struct StateTensors {
  std::vector<StateOperand> inputs, outputs;
  bool saturate = true;  ///< narrow outputs are never infinite
};

/// Walks over the tensors of a node in blocks that stay in the first-level cache, as f32 whatever their types: inputs
/// are widened (two halves of a split weight joined), outputs rounded (and drawn for, and split) as the node says. The
/// only place where kernels load and store narrow types.
class StateBlocks {
 public:
  /// Of one block, on one thread: `in` and `out` in the order of the tensors; an output may lie over its input.
  using Body = std::function<void(int64_t count, const float* const* in, float* const* out, int rank)>;

  StateBlocks(const StateNode& state, StateTensors tensors, const KernelContext& context);
  void run(const Body& body) const;
  /// Every output becomes the input that it takes the place of, to the bit.
  void keep() const;

  /// Scratch that `run` uses, at its begin.
  static int64_t room_bytes(int threads);

 private:
  struct Room;
  const float* read(size_t tensor, int64_t first, int64_t count, const Room& room) const;
  float* target(size_t tensor, int64_t first, const Room& room) const;
  void write(size_t tensor, const float* from, int64_t first, int64_t count, Room& room) const;
  const uint16_t* draw_block(int64_t first, int64_t count, const Room& room) const;
  const uint16_t* draws_of(int output, int64_t first, int64_t count, Room& room) const;
  const uint16_t* low_in() const;
  uint16_t* low_out() const;
  bool is_split(int input) const { return state_.split && input == 0; }

  const StateNode& state_;
  const StateTensors tensors_;
  const KernelContext& context_;
  std::optional<RoundingDraw> draw_;
  int64_t block_ = 0;
};

}  // namespace ramet::kernel::cpu
