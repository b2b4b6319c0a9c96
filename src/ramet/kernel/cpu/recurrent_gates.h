#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"

namespace ramet::kernel::cpu {

/// One sample's row of one step of a recurrent node (ops/recurrent.h): pointers to its first unit. `void` rows are of
/// the node's type T, others f32. Where a row has several gates, these stand `hidden` elements apart.
struct RecurrentRow {
  int64_t hidden = 0;
  const void* x = nullptr;           ///< forward: inputs of the gates
  const float* bias = nullptr;       ///< gru: of the product of n, or null
  const float* peepholes = nullptr;  ///< lstm: [3,H], or null
  const void* h = nullptr;           ///< the state before the step
  const float* c_before = nullptr;   ///< lstm: the cell before the step, in a backward pass
  float* z = nullptr;                ///< the product with the weight, [G H] forward, [R] backward, or null for 0
  float* inner = nullptr;            ///< gru with the reset before: the product of n forward, its gradient backward
  void* gates = nullptr;             ///< kept gates
  float* cells = nullptr;            ///< lstm: the cell after the step, kept
  float* c = nullptr;                ///< lstm: the cell, or its gradient, in place
  void* out = nullptr;               ///< forward: the new state, or m before a projection
  void* state = nullptr;             ///< forward: the new state again, or null
  const void* y = nullptr;           ///< rnn_grad: the new state
  const void* dy = nullptr;
  float* direct = nullptr;    ///< gradient of the state that does not come through the product
  const float* dm = nullptr;  ///< lstm_grad behind a projection: the gradient of m
  void* dx = nullptr;
  void* operand = nullptr;  ///< what the next product reads: r h, dn, or dr and dz
  void* extra = nullptr;    ///< gru_grad: `recurrent` or `reset`; lstm_grad: `unprojected`; state_grad: dstate
};

/// Each works on units [begin, end) of the row.
struct RecurrentLoops {
  using Loop = void (*)(const RecurrentRow&, int64_t begin, int64_t end);
  Loop lstm, gru, gru_only_n, gru_reset, gru_candidate, tanh, relu;
  Loop lstm_grad, gru_grad, gru_only_n_grad, gru_candidate_grad, gru_reset_grad, tanh_grad, relu_grad;
  Loop state_grad;  ///< the gradient of a projected state, rounded, to `extra`
  Loop carry;       ///< a step that the sample does not have: direct += z
  Loop widen;       ///< direct = dy
  Loop finish;      ///< out = direct + z
};
/// For f32, bf16 or f16, for the instruction set at hand.
const RecurrentLoops& recurrent_loops(DType dtype);

}  // namespace ramet::kernel::cpu
