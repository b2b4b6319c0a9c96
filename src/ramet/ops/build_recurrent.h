#pragma once

#include <vector>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Recurrent layers as functions on tensors; time is the first dimension (T steps of B samples). ops/recurrent.h has the
// equations, the order of the gates and the treatment of lengths. G is 4 for LSTM, 3 for GRU, 1 for RNN; R is H, or the
// width of a projection.

struct RecurrentOptions {
  bool reverse = false;     ///< takes the steps of each sample from its last to its first
  Tensor lengths{};         ///< i32[B]: steps of each sample, 0 to T (larger counts as T); invalid: all have T
  bool reset_after = true;  ///< GRU: PyTorch's form; false is ONNX's linear_before_reset = 0
  bool relu = false;        ///< RNN: relu instead of tanh
  bool only_n = false;      ///< gru_steps: `weight` is that of n alone, x holds the products of r and z (one step)
};

/// Weights of one layer in one direction, with PyTorch's shapes and order of gates.
struct RecurrentWeights {
  Tensor input;          ///< [G H, I]
  Tensor hidden;         ///< [G H, R]
  Tensor input_bias{};   ///< [G H], or invalid
  Tensor hidden_bias{};  ///< [G H], or invalid
  Tensor projection{};   ///< LSTM: [R, H], or invalid
  Tensor peepholes{};    ///< LSTM: [3, H] of i, f and o, or invalid
};

struct Recurrent {
  Tensor output;  ///< [T, B, R]; 0 at and behind a sample's length
  Tensor hidden;  ///< [B, R], the state after each sample's last step
  Tensor cell{};  ///< f32[B, H], LSTM's
};

enum class RecurrentCell { kLstm, kGru, kRnn };

/// One layer in one direction over input [T, B, I]: the product of all steps with the inputs' weights in one, then the
/// node that goes through time. States [B, R] and f32 [B, H] come in (invalid: zeros) and go out, with gradients.
Recurrent lstm(Tensor input, const RecurrentWeights& weights, Tensor hidden = {}, Tensor cell = {},
               const RecurrentOptions& options = {});
Recurrent gru(Tensor input, const RecurrentWeights& weights, Tensor hidden = {}, const RecurrentOptions& options = {});
Recurrent rnn(Tensor input, const RecurrentWeights& weights, Tensor hidden = {}, const RecurrentOptions& options = {});

/// Several layers, each on the output of the one before it. `weights` and the states of `hidden` [N, B, R] and `cell`
/// [N, B, H] are in the order of layers; with `both_directions`, those of the reverse direction follow those of the
/// forward direction, layer by layer, and the outputs [T, B, 2 R] are joined.
Recurrent recurrent_layers(RecurrentCell kind, Tensor input, const std::vector<RecurrentWeights>& weights,
                           bool both_directions = false, Tensor hidden = {}, Tensor cell = {},
                           const RecurrentOptions& options = {});

// The nodes themselves, on x = input W^T + bias [T, B, G H].
Recurrent lstm_steps(Tensor x, Tensor weight, Tensor hidden, Tensor cell, Tensor peepholes = {}, Tensor projection = {},
                     const RecurrentOptions& options = {});
/// `bias` f32[H] is that of W_n h, with the reset after the product alone.
Recurrent gru_steps(Tensor x, Tensor weight, Tensor hidden, Tensor bias = {}, const RecurrentOptions& options = {});
Recurrent rnn_steps(Tensor x, Tensor weight, Tensor hidden, const RecurrentOptions& options = {});

}  // namespace ramet::ops
