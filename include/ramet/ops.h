#pragma once

#include <optional>

#include "ramet/tensor.h"

namespace ramet::v0 {

// The ops, as functions on tensors of a model under construction. Each call checks types; errors name the line of the
// call. Element-wise functions broadcast by NumPy's rule. A negative axis counts from the end.

// --- element-wise ---
RAMET_API Tensor add(Operand a, Operand b);
RAMET_API Tensor subtract(Operand a, Operand b);
RAMET_API Tensor multiply(Operand a, Operand b);
RAMET_API Tensor divide(Operand a, Operand b);
RAMET_API Tensor maximum(Operand a, Operand b);
RAMET_API Tensor minimum(Operand a, Operand b);
RAMET_API Tensor power(Operand a, Operand b);
RAMET_API Tensor scale(Operand a, double factor);     ///< a * factor
RAMET_API Tensor add_scalar(Operand a, double term);  ///< a + term
RAMET_API Tensor negate(Operand a);
RAMET_API Tensor exp(Operand a);
RAMET_API Tensor log(Operand a);
RAMET_API Tensor sqrt(Operand a);
RAMET_API Tensor rsqrt(Operand a);
RAMET_API Tensor tanh(Operand a);
RAMET_API Tensor sigmoid(Operand a);
RAMET_API Tensor relu(Operand a);
RAMET_API Tensor erf(Operand a);
RAMET_API Tensor gelu(Operand a);                                  ///< exact: a * Phi(a)
RAMET_API Tensor gelu_tanh(Operand a);                             ///< the tanh approximation, as in GPT-2
RAMET_API Tensor equal(Operand a, Operand b);                      ///< a == b, bool
RAMET_API Tensor less(Operand a, Operand b);                       ///< a < b, bool
RAMET_API Tensor select(Operand condition, Operand a, Operand b);  ///< a where condition is true, else b
RAMET_API Tensor cast(Operand a, DType dtype);
/// Any other element-wise op by name, such as "floor" or "abs". An unknown name is an Error that lists the known ones.
RAMET_API Tensor map_unary(std::string_view op, Operand a);
RAMET_API Tensor map_binary(std::string_view op, Operand a, Operand b);
/// a, unchanged; no gradient passes through.
RAMET_API Tensor stop_gradient(Operand a);

inline Tensor operator+(Operand a, Operand b) { return add(a, b); }
inline Tensor operator-(Operand a, Operand b) { return subtract(a, b); }
inline Tensor operator*(Operand a, Operand b) { return multiply(a, b); }
inline Tensor operator/(Operand a, Operand b) { return divide(a, b); }
inline Tensor operator+(Operand a, double b) { return add_scalar(a, b); }
inline Tensor operator+(double a, Operand b) { return add_scalar(b, a); }
inline Tensor operator-(Operand a, double b) { return add_scalar(a, -b); }
inline Tensor operator*(Operand a, double b) { return scale(a, b); }
inline Tensor operator*(double a, Operand b) { return scale(b, a); }
inline Tensor operator/(Operand a, double b) { return scale(a, 1 / b); }
inline Tensor operator-(Operand a) { return negate(a); }

// --- shapes ---
RAMET_API Tensor reshape(Operand a, Shape shape);  ///< one extent may be -1: it is computed
RAMET_API Tensor transpose(Operand a, std::vector<int64_t> permutation);
RAMET_API Tensor broadcast_to(Operand a, Shape shape);
RAMET_API Tensor slice(Operand a, std::vector<int64_t> start, std::vector<int64_t> stop,
                       std::vector<int64_t> stride = {});
RAMET_API Tensor concat(const std::vector<Tensor>& parts, int64_t axis,
                        const std::source_location& place = std::source_location::current());
RAMET_API std::vector<Tensor> split(Operand a, std::vector<int64_t> sizes, int64_t axis);
RAMET_API Tensor pad(Operand a, std::vector<int64_t> low, std::vector<int64_t> high, double value = 0);

// --- reductions (no axes: over all dimensions) ---
RAMET_API Tensor reduce_sum(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_mean(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_max(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_min(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_prod(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor argmax(Operand a, int64_t axis);  ///< i32 indices; the first among equals
RAMET_API Tensor cumsum(Operand a, int64_t axis);
RAMET_API std::pair<Tensor, Tensor> top_k(Operand a, int64_t k);  ///< values and i32 indices along the last axis
RAMET_API Tensor one_hot(Operand indices, int64_t depth, DType dtype = DType::kF32);

// --- matrix products ---
/// [..., M, K] x [..., K, N] -> [..., M, N]. Leading dimensions broadcast. `transpose_*` swaps the last two dimensions
/// of its operand. Sums are f32. The result has type `dtype`, by default a's.
RAMET_API Tensor matmul(Operand a, Operand b, bool transpose_a = false, bool transpose_b = false,
                        std::optional<DType> dtype = std::nullopt);
/// a weight^T + bias: [..., in] -> [..., out], with weight [out, in] and bias [out]. Without transpose_weight the
/// weight is [in, out].
RAMET_API Tensor linear(Operand a, Operand weight, Operand bias, bool transpose_weight = true);
/// Einstein summation, such as "bhqd,bhkd->bhqk".
RAMET_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
                        const std::source_location& place = std::source_location::current());

// --- networks ---
RAMET_API Tensor softmax(Operand a, int64_t axis = -1);
RAMET_API Tensor log_softmax(Operand a, int64_t axis = -1);
RAMET_API Tensor layer_norm(Operand a, Operand gain, Operand bias, double epsilon = 1e-5);  ///< over the last dimension
RAMET_API Tensor rms_norm(Operand a, Operand gain, double epsilon = 1e-6);                  ///< the same
/// Rows of table [V, H] at i32 indices [...] -> [..., H]. An index outside of [0, V) is an error at run time.
RAMET_API Tensor gather(Operand table, Operand indices);
/// Zeros [rows, H], to which updates [..., H] are added at i32 row indices [...], in the order of their positions.
RAMET_API Tensor scatter_add(Operand indices, Operand updates, int64_t rows);

struct AttentionOptions {
  bool causal = false;    ///< a query sees no later keys
  bool segments = false;  ///< the mask, i32, numbers the sequences of a row; each sequence sees only itself
  double scale = 0;       ///< 0: 1/sqrt(head size)
  double dropout = 0;     ///< rate on the probabilities, in training only
};
/// Fused attention of query, key and value, each [B, S, heads, D] -> [B, S, heads, D]. mask: i32 or bool [B, S] over
/// keys (0: hidden); a default Tensor means no mask.
RAMET_API Tensor attention(Operand query, Operand key, Operand value, Operand mask = Tensor(),
                           const AttentionOptions& options = {});
/// Sets elements to 0 with probability `rate` and scales the others by 1/(1 - rate), in training only: in evaluations
/// and programs the result is `a`. Throws Error unless 0 <= rate < 1.
RAMET_API Tensor dropout(Operand a, double rate);
/// `training` in training, `evaluation` in evaluations and programs; both must have the same type. For example, a batch
/// norm uses the statistics of the batch in training, and kept statistics in evaluations.
RAMET_API Tensor by_use(Operand training, Operand evaluation);

/// Weights of one recurrent layer in one direction, with PyTorch's shapes and order of gates: LSTM i, f, g, o (G is 4),
/// GRU r, z, n (G is 3), RNN (G is 1). H units; the state has R = H elements, or those of a projection.
struct RecurrentWeights {
  Tensor input;          ///< [G H, I]
  Tensor hidden;         ///< [G H, R]
  Tensor input_bias{};   ///< [G H], or none
  Tensor hidden_bias{};  ///< [G H], or none
  Tensor projection{};   ///< LSTM: [R, H], or none
  Tensor peepholes{};    ///< LSTM: [3, H] of i, f and o, or none
};
struct RecurrentOptions {
  bool reverse = false;     ///< take the steps of each sample from its last to its first
  Tensor lengths{};         ///< i32[B]: steps of each sample; a default Tensor: all samples have T
  bool reset_after = true;  ///< GRU: PyTorch's form; false is ONNX's linear_before_reset = 0
  bool relu = false;        ///< RNN: relu instead of tanh
};
struct Recurrent {
  Tensor output;  ///< [T, B, R]; 0 at and behind a sample's length
  Tensor hidden;  ///< [B, R], the state after each sample's last step
  Tensor cell;    ///< f32[B, H], of LSTM alone
};
/// A recurrent layer over input [T, B, I] (T steps of B samples), from the states `hidden` [B, R] and `cell` f32[B, H];
/// default Tensors mean zeros. Gradients flow through outputs and states.
RAMET_API Recurrent lstm(Operand input, const RecurrentWeights& weights, Operand hidden = Tensor(),
                         Operand cell = Tensor(), const RecurrentOptions& options = {});
RAMET_API Recurrent gru(Operand input, const RecurrentWeights& weights, Operand hidden = Tensor(),
                        const RecurrentOptions& options = {});
RAMET_API Recurrent rnn(Operand input, const RecurrentWeights& weights, Operand hidden = Tensor(),
                        const RecurrentOptions& options = {});

/// The loss is the mean of -log softmax(logits)[label] over the rows whose label is >= 0, with logits [N, V] and labels
/// i32[N]. Without such a row it is 0.
struct CrossEntropy {
  Tensor loss;     ///< f32[]
  Tensor count;    ///< rows with a label >= 0, f32[]
  Tensor correct;  ///< of these, the rows whose greatest logit is the label's, f32[]
};
RAMET_API CrossEntropy cross_entropy(Operand logits, Operand labels);

}  // namespace ramet::v0
