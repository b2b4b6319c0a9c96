#pragma once

#include <optional>
#include <utility>
#include <vector>

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

// Norms over channels, of a [N, C], [N, C, space...] or, with channels_last, [N, space..., C]. Gains and biases are
// [C]; a default Tensor stands for 1 and 0. For a batch norm with running statistics see batch_norm_layer
// (ramet/model.h).
struct BatchNorm {
  Tensor output;
  Tensor mean, variance;  ///< of the micro-batch, f32[C]; the variance divides by the number of elements
};
/// (a - mean) / sqrt(variance + epsilon) * gain + bias with the statistics of the micro-batch over samples and space.
RAMET_API BatchNorm batch_norm(Operand a, Operand gain = Tensor(), Operand bias = Tensor(), double epsilon = 1e-5,
                               bool channels_last = false);
/// The same with given statistics, f32[C].
RAMET_API Tensor batch_norm_apply(Operand a, Operand gain, Operand bias, Operand mean, Operand variance,
                                  double epsilon = 1e-5, bool channels_last = false);
/// Statistics of each sample over the space and C / groups neighbouring channels.
RAMET_API Tensor group_norm(Operand a, Operand gain, Operand bias, int64_t groups, double epsilon = 1e-5,
                            bool channels_last = false);
/// Statistics of each sample and channel over the space.
RAMET_API Tensor instance_norm(Operand a, Operand gain = Tensor(), Operand bias = Tensor(), double epsilon = 1e-5,
                               bool channels_last = false);
/// a (k + alpha mean(a^2))^-beta, with the mean over `size` neighbouring channels, size / 2 of them before; channels
/// beyond the ends count as zeros.
RAMET_API Tensor local_response_norm(Operand a, int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1,
                                     bool channels_last = false);

/// Windows of a pooling over one to three spatial dimensions. Each list has one entry a dimension.
struct PoolOptions {
  std::vector<int64_t> taps;           ///< extent of the window
  std::vector<int64_t> strides{};      ///< empty: those of `taps`, so that windows do not overlap
  std::vector<int64_t> dilations{};    ///< empty: 1
  std::vector<int64_t> low{}, high{};  ///< padding before and after; empty: 0
  bool ceil_mode = false;              ///< the last window may reach beyond the padding, but must start before its end
  bool count_padding = true;           ///< whether an average counts padding as zeros
  bool channels_last = false;          ///< a is [N, space..., C], not [N, C, space...]
};
/// Greatest element of each window; padding is no element. NaN wins; of equals the first.
RAMET_API Tensor max_pool(Operand a, const PoolOptions& options);
/// Also the place of that element: i32, its row-major position in the input's space.
RAMET_API std::pair<Tensor, Tensor> max_pool_with_indices(Operand a, const PoolOptions& options);
/// Sum of each window over `divisor`, or for 0 over the number of its taps.
RAMET_API Tensor average_pool(Operand a, const PoolOptions& options, int64_t divisor = 0);
/// (sum |a|^power)^(1/power) of each window.
RAMET_API Tensor lp_pool(Operand a, const PoolOptions& options, double power);
/// Pooling to given extents: output o of a dimension takes elements floor(o n / size) to ceil((o + 1) n / size) - 1.
RAMET_API Tensor adaptive_average_pool(Operand a, const std::vector<int64_t>& sizes, bool channels_last = false);
RAMET_API Tensor adaptive_max_pool(Operand a, const std::vector<int64_t>& sizes, bool channels_last = false);
/// Over all of the space, whose dimensions become 1.
RAMET_API Tensor global_average_pool(Operand a, bool channels_last = false);
RAMET_API Tensor global_max_pool(Operand a, bool channels_last = false);

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

/// The loss is the mean of -log softmax(logits)[label] over the rows whose label is >= 0, with logits [N, V] and labels
/// i32[N]. Without such a row it is 0.
struct CrossEntropy {
  Tensor loss;     ///< f32[]
  Tensor count;    ///< rows with a label >= 0, f32[]
  Tensor correct;  ///< of these, the rows whose greatest logit is the label's, f32[]
};
RAMET_API CrossEntropy cross_entropy(Operand logits, Operand labels);

}  // namespace ramet::v0
