#pragma once

#include <optional>
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
/// What is added to the scores of an attention, [B, heads, S, T], and which keys a query sees, beside AttentionOptions.
/// Query q stands at position q among the keys, or at q + T - S with `bottom_right`. Default Tensors mean none.
struct ScoreOptions {
  Tensor key_mask{};   ///< i32 or bool [B, T]; 0: hidden
  Tensor mask{};       ///< i32 or bool of any shape that broadcasts to the scores; 0: hidden; not with `key_mask`
  Tensor bias{};       ///< floating-point, broadcasts to the scores, to which it is added; -infinity hides
  bool alibi = false;  ///< scores lose slope * distance, with the slopes of ALiBi (arXiv 2108.12409)
  bool bottom_right = false;  ///< the last query stands at the last key
  int64_t window_left = -1;   ///< hide keys more than so many positions before the query; -1: none
  int64_t window_right = -1;  ///< the same after the query
  double soft_cap = 0;        ///< scores s become cap tanh(s / cap) before bias and mask; 0: none
};
/// Fused attention of query [B, S, heads, D], key [B, T, key heads, D] and value [B, T, key heads, E] -> [B, S, heads,
/// E]. Each head of keys serves heads / key heads neighbouring query heads. A query that sees no key gives 0.
RAMET_API Tensor attention_with(Operand query, Operand key, Operand value, const ScoreOptions& scores,
                                const AttentionOptions& options = {});
/// A bias [1, heads, S, T] of attention from a table [buckets, heads], a weight, by T5's buckets of relative positions
/// (arXiv 1910.10683): half of the buckets are for single distances, the others grow up to `max_distance`. Without
/// `bidirectional` all keys behind the query share bucket 0.
RAMET_API Tensor t5_bias(Operand table, int64_t queries, int64_t keys, bool bidirectional, int64_t max_distance = 128);
/// A bias [1, heads, N, N] of attention among the N = height * width places of a window, from Swin's table
/// [(2 height - 1)(2 width - 1), heads], a weight (arXiv 2103.14030, equation 4).
RAMET_API Tensor swin_bias(Operand table, int64_t height, int64_t width);

struct RotaryOptions {
  int64_t rotated = 0;                ///< elements of a head that turn, from the first on; 0: all
  double base = 10000;                ///< frequencies are base^(-2 i / rotated)
  std::vector<double> frequencies{};  ///< of each pair, instead of `base`
  bool neighbours = false;  ///< pairs are elements 2 i and 2 i + 1 (GPT-J), not i and i + rotated / 2 (GPT-NeoX, Llama)
};
/// Queries or keys [B, S, heads, D] with pairs of elements rotated by position * frequency (arXiv 2104.09864).
RAMET_API Tensor rotary(Operand a, const RotaryOptions& options = {});
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
