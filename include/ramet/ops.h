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

/// The loss is the mean of -log softmax(logits)[label] over the rows whose label is >= 0, with logits [N, V] and labels
/// i32[N]. Without such a row it is 0.
struct CrossEntropy {
  Tensor loss;     ///< f32[]
  Tensor count;    ///< rows with a label >= 0, f32[]
  Tensor correct;  ///< of these, the rows whose greatest logit is the label's, f32[]
};
RAMET_API CrossEntropy cross_entropy(Operand logits, Operand labels);

// --- resizing, sampling, patches: activations are [N, C, space...], or [N, space..., C] with channels_last ---

struct ResizeOptions {
  /// PyTorch's modes: "nearest", "nearest-exact", "linear" (for any number of dimensions), "bicubic".
  std::string mode = "nearest";
  bool corners = false;          ///< the centres of the outermost elements stay where they are (align_corners)
  bool antialias = false;        ///< filters as wide as the step when the result is smaller
  std::vector<double> scales{};  ///< output elements an input element, one a dimension of space; empty: by the extents
  bool channels_last = false;
};
/// Space resized to `sizes`, one a dimension, as torch.nn.functional.interpolate.
RAMET_API Tensor resize(Operand a, const std::vector<int64_t>& sizes, const ResizeOptions& options = {});

struct GridSampleOptions {
  std::string method = "linear";  ///< "nearest", "linear", "cubic"
  std::string padding = "zeros";  ///< what is read outside: "zeros", "border", "reflection"
  bool corners = false;           ///< -1 and 1 are the centres of the outermost elements, not their outer edges
  bool channels_last = false;
};
/// a [N, C, in...] read at the positions grid [N, out..., d] -> [N, C, out...]. Coordinates go from -1 to 1, that of
/// the last dimension of space first, as torch.nn.functional.grid_sample.
RAMET_API Tensor grid_sample(Operand a, Operand grid, const GridSampleOptions& options = {});
/// Positions [N, space..., d] for grid_sample, of affine maps theta [N, d, d + 1]; d is 2 or 3.
RAMET_API Tensor affine_grid(Operand theta, const std::vector<int64_t>& space, bool corners = false);

/// [..., C r r, H, W] -> [..., C, H r, W r] for r = factor, and the inverse.
RAMET_API Tensor pixel_shuffle(Operand a, int64_t factor, bool channels_last = false);
RAMET_API Tensor pixel_unshuffle(Operand a, int64_t factor, bool channels_last = false);
/// Channels [groups, C / groups] in the order [C / groups, groups].
RAMET_API Tensor channel_shuffle(Operand a, int64_t groups, bool channels_last = false);

struct PatchOptions {
  std::vector<int64_t> taps;                    ///< extents of a patch, one a dimension of space
  std::vector<int64_t> strides{}, dilations{};  ///< empty: 1
  std::vector<int64_t> low{}, high{};           ///< zeros around space; empty: 0
  bool channels_last = false;
};
/// Patches as columns: [N, C, space...] -> [N, C taps, patches], as torch.nn.functional.unfold.
RAMET_API Tensor im2col(Operand a, const PatchOptions& options);
/// Columns added up where im2col read them -> [N, C, sizes...], as torch.nn.functional.fold.
RAMET_API Tensor col2im(Operand columns, const std::vector<int64_t>& sizes, const PatchOptions& options);

}  // namespace ramet::v0
