#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// The ops as functions on tensors. Each appends one node (or a few) and checks types at once; errors name the node.
// Element-wise functions broadcast by NumPy's rule. Axes may be negative.

// --- element-wise ---
Tensor add(Tensor a, Tensor b);
Tensor subtract(Tensor a, Tensor b);
Tensor multiply(Tensor a, Tensor b);
Tensor divide(Tensor a, Tensor b);
Tensor maximum(Tensor a, Tensor b);
Tensor minimum(Tensor a, Tensor b);
Tensor power(Tensor a, Tensor b);
Tensor scale(Tensor a, double factor);     ///< a * factor
Tensor add_scalar(Tensor a, double term);  ///< a + term
/// a * forward, whose gradient is dy * backward: unit scaling's factors (transform/unit_scale.h).
Tensor rescale(Tensor a, double forward, double backward);
Tensor negate(Tensor a);
Tensor exp(Tensor a);
Tensor log(Tensor a);
Tensor sqrt(Tensor a);
Tensor rsqrt(Tensor a);
Tensor tanh(Tensor a);
Tensor sigmoid(Tensor a);
Tensor relu(Tensor a);
Tensor erf(Tensor a);
Tensor gelu(Tensor a);             ///< exact: a * Phi(a)
Tensor gelu_tanh(Tensor a);        ///< Hendrycks and Gimpel's tanh approximation, as GPT-2
Tensor equal(Tensor a, Tensor b);  ///< bool
Tensor less(Tensor a, Tensor b);   ///< bool
Tensor select(Tensor condition, Tensor a, Tensor b);
Tensor cast(Tensor a, DType dtype);
Tensor map_unary(std::string_view op, Tensor a);             ///< any other unary op by name
Tensor map_binary(std::string_view op, Tensor a, Tensor b);  ///< any other binary op by name

// --- roundings (ops/rounding.h) ---
/// Whose draws round: with `counter`, the scalar input i64[2], stochastic, by numbers for the logical tensor
/// `random_name`; without, to nearest even.
struct RoundingBy {
  Tensor counter{};
  int64_t seed = 0;
  std::string random_name{};
};
struct NarrowOptions {
  double scale = 1;
  bool saturate = false;
};
/// scale * a in a floating type; unlike `cast` of any, and with draws or saturation.
Tensor narrow(Tensor a, DType dtype, const NarrowOptions& options = {}, const RoundingBy& by = {});
/// sum + scale * term, in sum's type.
Tensor add_to_sum(Tensor sum, Tensor term, double scale = 1, const RoundingBy& by = {});
/// The f32 number whose halves are bf16 and u16 (base/rounding.h).
Tensor join_halves(Tensor high, Tensor low);
/// And back: the high half and the low one.
std::pair<Tensor, Tensor> split_halves(Tensor a);

// --- shapes ---
Tensor reshape(Tensor a, Shape shape);  ///< one extent may be -1
Tensor transpose(Tensor a, std::vector<int64_t> permutation);
Tensor broadcast_to(Tensor a, Shape shape);
Tensor slice(Tensor a, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> stride = {});
Tensor concat(std::vector<Tensor> parts, int64_t axis);
std::vector<Tensor> split(Tensor a, std::vector<int64_t> sizes, int64_t axis);
Tensor pad(Tensor a, std::vector<int64_t> low, std::vector<int64_t> high, double value = 0);
/// A constant filled with one value.
Tensor full(GraphBuilder& builder, DType dtype, const Shape& shape, double value);
Tensor iota(GraphBuilder& builder, DType dtype, const Shape& shape, int64_t axis);
/// A tensor that the graph carries.
Tensor constant(GraphBuilder& builder, TensorData data);
/// A state after the rows of `values` [M, ...], one after another. `by`: "average" (s = (1 - momentum) s + momentum v),
/// "sum", "max", "min" or "last". Where one of `guards` (f32[]) is not finite the state stays as it is.
Tensor fold(Tensor state, Tensor values, const std::string& by, double momentum = 0,
            const std::vector<Tensor>& guards = {});

// --- reductions (axes empty: all) ---
Tensor reduce_sum(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
Tensor reduce_mean(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
Tensor reduce_max(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
Tensor reduce_min(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
Tensor reduce_prod(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
Tensor argmax(Tensor a, int64_t axis);  ///< i32; first of equals
Tensor cumsum(Tensor a, int64_t axis);
std::pair<Tensor, Tensor> top_k(Tensor a, int64_t k);  ///< values and i32 indices along the last axis
Tensor one_hot(Tensor indices, int64_t depth, DType dtype = DType::kF32);

// --- matrix products ---
/// [..., M, K] x [..., K, N] -> [..., M, N]; leading dimensions broadcast; `transpose_*` swaps the last two of an
/// operand. A rank-2 b with a of higher rank is one product of all rows. Output type: `dtype`, or a's. Sums are f32.
Tensor matmul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false,
              std::optional<DType> dtype = std::nullopt);
/// matmul(a, b) + bias, bias [N]: one node, so that a kernel can add on its f32 tile.
Tensor linear(Tensor a, Tensor weight, Tensor bias, bool transpose_weight = true);
/// "bhqd,bhkd->bhqk"; lowered to transposes, reshapes, matmul and sums.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

// --- networks ---
Tensor softmax(Tensor a, int64_t axis = -1);
Tensor log_softmax(Tensor a, int64_t axis = -1);
Tensor layer_norm(Tensor a, Tensor gain, Tensor bias, double epsilon);  ///< over the last dimension
Tensor rms_norm(Tensor a, Tensor gain, double epsilon);
/// Rows of table [V, H] by i32 indices of any shape -> [..., H]. Index out of range is an error at run time.
Tensor gather(Tensor table, Tensor indices);
/// The gradient of gather: zeros [rows, H] with updates [..., H] added at indices, in order of index position.
Tensor scatter_add(Tensor indices, Tensor updates, int64_t rows);

struct AttentionOptions {
  bool causal = false;
  bool segments = false;      ///< the mask, i32, numbers the sequences of a row: each sees itself alone
  double scale = 0;           ///< 0: 1/sqrt(head size)
  double dropout = 0;         ///< rate on the probabilities
  std::string random_name{};  ///< logical tensor of its random numbers; required with dropout
  int64_t seed = 0;
};
/// Fused attention. qkv: [B, S, 3, heads, D] or three tensors [B, S, heads, D]; mask: i32 or bool [B, S] of keys
/// (0 = hidden), or invalid. -> [B, S, heads, D]. `counter` is the scalar input i64[2], needed with dropout.
Tensor attention(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor counter, const AttentionOptions& options);

/// A cache's table [B, R, ...] with the rows [B, n, ...] of new positions: row i of sample b at first[b] + i (i32[B]).
/// Rows beyond the table are left out. As the next value of a state it is written in place.
Tensor write_rows(Tensor table, Tensor rows, Tensor first);
/// Causal attention of queries [B, n, heads, D] that stand at positions first[b], first[b] + 1, ... (i32[B]) over the
/// keys and values [B, R, heads, D] of positions 0 to each query's own. Later rows of the tables are not read.
Tensor cached_attention(Tensor query, Tensor keys, Tensor values, Tensor first, double scale);

/// Inverted dropout: keeps each element with probability 1 - rate and scales by 1/(1-rate). Numbers come from Philox
/// (seed, kDropout, step, hash64(random_name), micro-batch index * elements + element), 16 bits an element; `counter`
/// is the scalar input "counter" i64[2] = {step, micro-batch index}.
Tensor dropout(Tensor a, Tensor counter, double rate, int64_t seed, const std::string& random_name);

/// Mean over the rows whose label is >= 0 of -log softmax(logits)[label]; logits [N, V] (any float type), labels
/// i32[N]; with `classes` > 0 only so many logits of a row are classes, the others padding
/// -> {mean loss f32[], number of valid rows f32[], number of those whose argmax is right f32[]}. 0 rows give loss 0.
struct CrossEntropy {
  Tensor loss, count, correct;
};
CrossEntropy cross_entropy(Tensor logits, Tensor labels, int64_t classes = 0);

// --- optimizers, for update graphs ---
// Scalars are f32[]. When grad_scale is not finite nothing changes: weights and states come out as they went in.

/// Sum of squares without rounding, as an accumulator of ops/exact_sum.h, which no order shows in. No gradient.
Tensor sum_squares(Tensor a);
/// Number of elements that are not 0 and less than the smallest normal number of their type, as such an accumulator.
Tensor count_underflow(Tensor a);
/// Sum of one or more accumulators.
Tensor exact_sum(const std::vector<Tensor>& sums);
/// An accumulator as f32[], rounded once.
Tensor from_exact(Tensor sum);

/// How many elements have which exponent, as a histogram of ops/exponents.h. No gradient.
Tensor exponent_histogram(Tensor a);
/// Sum of one or more histograms.
Tensor histogram_sum(const std::vector<Tensor>& histograms);
/// Of the elements that are not 0 the share that is 2^exponent or more, or less with `below`: f32[].
Tensor histogram_share(Tensor histogram, int64_t exponent, bool below = false);

/// How an optimizer's states are held: they may be f32, f16 or bf16 each. With `low` (u16) the weight is bf16, the high
/// half of an f32 number whose low half this is (base/rounding.h). `rounding` is that of states narrower than f32.
struct StateForm {
  Tensor low{};
  RoundingBy rounding{};
};
struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
struct SgdResult {
  Tensor weight, momentum;  ///< momentum is invalid when there is none
  Tensor low{};             ///< of a split weight
};
/// PyTorch's SGD without dampening; `momentum` (the state) is ignored when options.momentum is 0.
SgdResult sgd(Tensor weight, Tensor gradient, Tensor momentum, Tensor rate, Tensor grad_scale,
              const SgdOptions& options, const StateForm& form = {});

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = true;  ///< AdamW; false: Adam with L2 in the gradient. LAMB ignores it.
  double norm_cap = 0;    ///< LAMB: most that the weight's norm counts; 0: no limit
};
struct AdamScalars {
  Tensor rate, correction1, correction2, grad_scale;  ///< correction_i = 1 - beta_i^t, t = 1 in the first step
};
struct AdamResult {
  Tensor weight, m, v;
  Tensor low{};  ///< of a split weight
};
/// Adam (Kingma and Ba) and AdamW (Loshchilov and Hutter) by PyTorch's formulas.
AdamResult adam(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamScalars& scalars,
                const AdamOptions& options, const StateForm& form = {});
/// LAMB (You et al., arXiv 1904.00962) with the identity as scaling function: direction, its norms and weight's, and
/// the step along it.
AdamResult lamb(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamScalars& scalars,
                const AdamOptions& options, const StateForm& form = {});

struct LarsOptions {
  double momentum = 0.9, weight_decay = 0;
  double trust_coefficient = 1e-3;  ///< 0: no trust ratio, as for biases and norms
  double norm_cap = 0;              ///< most that the weight's norm counts; 0: no limit
};
/// LARS (You et al., arXiv 1708.03888, algorithm 1): the rate is within the momentum.
SgdResult lars(Tensor weight, Tensor gradient, Tensor momentum, Tensor rate, Tensor grad_scale,
               const LarsOptions& options);

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
struct LionResult {
  Tensor weight, m;
};
/// Lion (Chen et al., arXiv 2302.06675, algorithm 2).
LionResult lion(Tensor weight, Tensor gradient, Tensor m, Tensor rate, Tensor grad_scale, const LionOptions& options);

struct AdafactorOptions {
  double beta1 = 0;                ///< of a moment of the steps; 0: none
  double weight_decay = 0;         ///< times the weight's own rate
  double clip_threshold = 1;       ///< 0: no limit
  double square_epsilon = 1e-30;   ///< eps_1
  double scale_epsilon = 1e-3;     ///< eps_2; 0: rates do not follow the weight's size
  int64_t rows = 0, elements = 0;  ///< of the weight without padding; 0: all
};
/// Second moments: of the rows and columns of a matrix, or of each element; `m` with beta1.
struct AdafactorStates {
  Tensor row{}, column{}, square{}, m{};
};
struct AdafactorResult {
  Tensor weight, row{}, column{}, square{}, m{};
};
/// Adafactor (Shazeer and Stern, arXiv 1804.04235), factored where `states.row` is given. `decay` is 1 - t^-0.8 or so,
/// f32[]. Second moments are f32.
AdafactorResult adafactor(Tensor weight, Tensor gradient, const AdafactorStates& states, Tensor rate, Tensor decay,
                          Tensor grad_scale, const AdafactorOptions& options);

}  // namespace ramet::ops
