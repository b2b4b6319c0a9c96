#pragma once

#include <string>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// A node of a recurrent layer (`lstm`, `gru`, `rnn`) or of its backward pass (`lstm_grad`, ...) as its kernels see it.
/// T steps, B samples, H hidden units, R elements of the state (H, or fewer with a projection), G gates.
///
/// Gates stand in this order: lstm i, f, g, o (Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al.
/// 2000); gru r, z, n (Cho et al., arXiv 1406.1078). Peepholes (Gers and Schmidhuber 2000) are those of i, f and o.
/// A step is, with s(x) = 1 / (1 + e^-x), x_g the node's input for gate g and W_g the rows of `weight` for g:
///
///   lstm  i = s(x_i + W_i h + p_i c), f = s(x_f + W_f h + p_f c), g = tanh(x_g + W_g h), c' = f c + i g,
///         o = s(x_o + W_o h + p_o c'), m = o tanh(c'), h' = m, or P m with a projection P (Sak et al., arXiv
///         1402.1128)
///   gru   r = s(x_r + W_r h), z = s(x_z + W_z h), h' = (1 - z) n + z h; with the reset after the product
///         n = tanh(x_n + r (W_n h + b)), before it n = tanh(x_n + W_n (r h)); with `only_n`, of one step and the reset
///         after the product, x_r and x_z hold W_r h and W_z h already and `weight` is W_n alone: where h is among what
///         x is made of, one product then makes both parts
///   rnn   h' = f(x + W h), f = tanh or relu
///
/// Sums of products are f32. The state h is of the type of x and rounded to it at every step; c is f32; the projection
/// is rounded to the type of x before it is used. A step at or behind the length of a sample changes no state of the
/// sample, and its output is 0; a reversed node takes the steps from the last to the first.
struct RecurrentForm {
  enum class Cell { kLstm, kGru, kTanh, kRelu };
  Cell cell = Cell::kLstm;
  bool gradient = false;    ///< the node is a backward pass
  bool reverse = false;     ///< steps are taken from the last to the first
  bool reset_after = true;  ///< gru: r multiplies the product with W_n, not h
  bool first_state = true;  ///< a backward pass gives the gradient of h0
  bool only_n = false;      ///< gru: the weight is that of n alone
  int64_t steps = 0, batch = 0, hidden = 0, state = 0, gates = 0;
  /// Blocks of H in a row of the gates that the forward pass keeps: lstm 4 (all gates), gru 3, or 4 with the reset
  /// after the product (r, z, n, W_n h + b), rnn 0.
  int64_t kept = 0;
  DType dtype = DType::kF32;
  std::string blocked{};  ///< format in which the weight is blocked bytes; "": it is not
  // Positions of the inputs; -1: absent.
  int x = -1, weight = -1, h0 = -1, c0 = -1;
  int bias = -1, peepholes = -1, projection = -1, lengths = -1;
  int y = -1, kept_gates = -1, cells = -1;  ///< outputs of the forward pass, of a backward pass
  int dy = -1, dh = -1, dc = -1;            ///< gradients of y and of the last states

  bool lstm() const { return cell == Cell::kLstm; }
  bool gru() const { return cell == Cell::kGru; }
  int64_t gate_width() const { return gates * hidden; }
  /// Rows of the weight.
  int64_t weight_rows() const { return only_n ? hidden : gate_width(); }
  /// Whether there is one step, which all samples have.
  bool reads_h0() const { return steps == 1 && lengths < 0; }
  Shape sequence(int64_t width) const { return Shape{steps, batch, width}; }

  /// Outputs of a forward pass: y [T,B,R], the last h [B,R], then lstm: the last c f32[B,H], gates [T,B,4H], cells
  /// f32[T,B,H]; gru: gates [T,B,kept H].
  struct Forward {
    int y = 0, h = 1, c = -1, gates = -1, cells = -1;
  };
  Forward forward() const;
  /// Outputs of a backward pass, -1 where absent: gradients of x and of the first states (h0 with first_state);
  /// `previous` [T,B,R], the h that each step read, but where that is h0 alone (reads_h0); with peepholes
  /// `previous_cells` f32[T,B,H]; with a projection `dstate` [T,B,R], the gradient of each h, and `unprojected`
  /// [T,B,H], each m; gru with the reset after the product: `recurrent` [T,B,3H] ([T,B,H] with only_n), the gradient of
  /// W h + b; before it: `reset` [T,B,H], each r h.
  struct Backward {
    int dx = 0, dh0 = -1, dc0 = -1, previous = -1, previous_cells = -1, dstate = -1, unprojected = -1, recurrent = -1,
        reset = -1;
  };
  Backward backward() const;
};
/// Throws Error naming the node when the operands do not fit.
RecurrentForm recurrent_form(const NodeSignature& node);
/// Types of the outputs.
std::vector<TensorType> recurrent_outputs(const RecurrentForm& form);

}  // namespace ramet::ops
