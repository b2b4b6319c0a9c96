#pragma once

#include <cstdint>
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

/// The loss is the mean of -log softmax(logits)[label] over the rows whose label is >= 0, with logits [N, V] and labels
/// i32[N]. Without such a row it is 0.
struct CrossEntropy {
  Tensor loss;     ///< f32[]
  Tensor count;    ///< rows with a label >= 0, f32[]
  Tensor correct;  ///< of these, the rows whose greatest logit is the label's, f32[]
};
RAMET_API CrossEntropy cross_entropy(Operand logits, Operand labels);

// --- activations; definitions and defaults are PyTorch's ---
RAMET_API Tensor silu(Operand a);
RAMET_API Tensor leaky_relu(Operand a, double slope = 0.01);
RAMET_API Tensor elu(Operand a, double alpha = 1);
RAMET_API Tensor celu(Operand a, double alpha = 1);
RAMET_API Tensor selu(Operand a);
RAMET_API Tensor prelu(Operand a, Operand slope);  ///< `slope` broadcasts
RAMET_API Tensor relu6(Operand a);
RAMET_API Tensor hardtanh(Operand a, double low = -1, double high = 1);
RAMET_API Tensor hardsigmoid(Operand a);
RAMET_API Tensor hardswish(Operand a);
RAMET_API Tensor mish(Operand a);
RAMET_API Tensor softsign(Operand a);
RAMET_API Tensor softplus(Operand a, double beta = 1, double threshold = 20);
RAMET_API Tensor log_sigmoid(Operand a);
RAMET_API Tensor softshrink(Operand a, double lambda = 0.5);
RAMET_API Tensor hardshrink(Operand a, double lambda = 0.5);
RAMET_API Tensor thresholded(Operand a, double threshold, double value = 0);  ///< a where a > threshold, else `value`
RAMET_API Tensor glu(Operand a, int64_t axis = -1);
RAMET_API Tensor swiglu(Operand gate, Operand value);  ///< silu(gate) * value
RAMET_API Tensor hardmax(Operand a, int64_t axis = -1);

// --- more arithmetic ---
RAMET_API Tensor clamp(Operand a, std::optional<double> low, std::optional<double> high);
RAMET_API Tensor remainder(Operand a, Operand b);     ///< the sign is b's
RAMET_API Tensor fmod(Operand a, Operand b);          ///< the sign is a's
RAMET_API Tensor floor_divide(Operand a, Operand b);  ///< rounded down
RAMET_API Tensor atan2(Operand a, Operand b);
RAMET_API Tensor hypot(Operand a, Operand b);
RAMET_API Tensor copysign(Operand a, Operand b);
RAMET_API Tensor logaddexp(Operand a, Operand b);
RAMET_API Tensor addcmul(Operand a, Operand b, Operand c, double factor = 1);  ///< a + factor b c
RAMET_API Tensor lerp(Operand a, Operand b, Operand weight);                   ///< a + weight (b - a)
RAMET_API Tensor xlogy(Operand a, Operand b);                                  ///< a log(b), 0 where a is 0
RAMET_API Tensor nan_to_num(Operand a, double nan = 0, std::optional<double> high = std::nullopt,
                            std::optional<double> low = std::nullopt);
// Bits of integers; of bools, and, or, exclusive or, not.
RAMET_API Tensor bitwise_and(Operand a, Operand b);
RAMET_API Tensor bitwise_or(Operand a, Operand b);
RAMET_API Tensor bitwise_xor(Operand a, Operand b);
RAMET_API Tensor bitwise_not(Operand a);
RAMET_API Tensor shift_left(Operand a, Operand b);
RAMET_API Tensor shift_right(Operand a, Operand b);
RAMET_API Tensor is_nan(Operand a);
RAMET_API Tensor is_inf(Operand a);
RAMET_API Tensor is_finite(Operand a);

// --- random numbers, drawn anew in every micro-batch of training; in evaluations and programs the result is their
// mean. The numbers do not depend on the layout. No gradient flows into them ---
/// Uniform in [low, high), of like's type.
RAMET_API Tensor random_uniform(Operand like, double low = 0, double high = 1);
RAMET_API Tensor random_normal(Operand like, double mean = 0, double deviation = 1);
/// 1 with the probability that the operand gives for each element, else 0.
RAMET_API Tensor bernoulli(Operand probabilities);
/// Stochastic depth: each sample of a [N, ...] is 0 with probability `rate`, and a / (1 - rate) otherwise, in training
/// only. Throws Error unless 0 <= rate < 1.
RAMET_API Tensor drop_path(Operand a, double rate);

// --- losses, with PyTorch's options and definitions; f32. Where a mean has nothing to divide by it is 0. Weights of
// classes and elements (a default Tensor: none) get no gradient ---
enum class LossReduction : uint8_t {
  kNone,  ///< one loss an element, or a row where the loss is one of rows
  kSum,
  kMean
};
struct CrossEntropyOptions {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::kMean;
};
/// Logits [N, C], [N, C, d...] or [C]. Targets are classes, i32 or i64 of that shape without C, or probabilities of the
/// logits' shape; weight: of classes, [C]. Rows of `ignore_index` or of a class below 0 have no loss; a class of C or
/// more is an error at run time.
RAMET_API Tensor cross_entropy_loss(Operand logits, Operand target, Operand weight = Tensor(),
                                    const CrossEntropyOptions& options = {});
/// The same from log-probabilities, without smoothing and without soft targets.
RAMET_API Tensor nll_loss(Operand log_probs, Operand target, Operand weight = Tensor(),
                          const CrossEntropyOptions& options = {});
RAMET_API Tensor binary_cross_entropy(Operand a, Operand target, Operand weight = Tensor(),
                                      LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor binary_cross_entropy_with_logits(Operand a, Operand target, Operand weight = Tensor(),
                                                  Operand positive_weight = Tensor(),
                                                  LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor mse_loss(Operand a, Operand target, LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor l1_loss(Operand a, Operand target, LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor smooth_l1_loss(Operand a, Operand target, double beta = 1,
                                LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor huber_loss(Operand a, Operand target, double delta = 1,
                            LossReduction reduction = LossReduction::kMean);
/// `a` are log-probabilities; so is the target with `log_target`. `batch_mean`: the sum over the first extent.
RAMET_API Tensor kl_divergence(Operand a, Operand target, bool log_target = false,
                               LossReduction reduction = LossReduction::kMean, bool batch_mean = false);
RAMET_API Tensor gaussian_nll_loss(Operand a, Operand target, Operand variance, bool full = false,
                                   double epsilon = 1e-6, LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor poisson_nll_loss(Operand a, Operand target, bool log_input = true, bool full = false,
                                  double epsilon = 1e-8, LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor margin_ranking_loss(Operand a, Operand b, Operand target, double margin = 0,
                                     LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor hinge_embedding_loss(Operand a, Operand target, double margin = 1,
                                      LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor soft_margin_loss(Operand a, Operand target, LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor multilabel_soft_margin_loss(Operand a, Operand target, Operand weight = Tensor(),
                                             LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor multilabel_margin_loss(Operand a, Operand target, LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor multi_margin_loss(Operand a, Operand target, double p = 1, double margin = 1,
                                   Operand weight = Tensor(), LossReduction reduction = LossReduction::kMean);
RAMET_API Tensor cosine_similarity(Operand a, Operand b, int64_t axis = 1, double epsilon = 1e-8);
RAMET_API Tensor cosine_embedding_loss(Operand a, Operand b, Operand target, double margin = 0,
                                       LossReduction reduction = LossReduction::kMean);
struct TripletOptions {
  double margin = 1, p = 2, epsilon = 1e-6;
  bool swap = false;  ///< the negative is as far as from the nearer of anchor and positive
  LossReduction reduction = LossReduction::kMean;
};
RAMET_API Tensor triplet_margin_loss(Operand anchor, Operand positive, Operand negative,
                                     const TripletOptions& options = {});
struct CtcOptions {
  int64_t blank = 0;
  bool zero_infinity = false;                      ///< losses that are infinite, and their gradients, are 0
  LossReduction reduction = LossReduction::kMean;  ///< a mean divides each loss by its target's length first
};
/// Connectionist temporal classification: log_probs [T, N, C], targets [N, S] padded with any class, lengths [N]; all
/// but the first i32 or i64.
RAMET_API Tensor ctc_loss(Operand log_probs, Operand targets, Operand input_lengths, Operand target_lengths,
                          const CtcOptions& options = {});

}  // namespace ramet::v0
