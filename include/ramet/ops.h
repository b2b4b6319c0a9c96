#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

RAMET_API Tensor move_axis(Operand a, int64_t from, int64_t to);
/// Elements [start, stop) along one axis, every step-th; negative bounds count from the end.
RAMET_API Tensor slice_axis(Operand a, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
RAMET_API Tensor select_index(Operand a, int64_t axis, int64_t index);  ///< without the axis
RAMET_API Tensor flip(Operand a, const std::vector<int64_t>& axes);
/// Elements shifts[i] places further along axes[i], those at the end first; no axes: along the flat tensor.
RAMET_API Tensor roll(Operand a, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes = {});
RAMET_API Tensor tile(Operand a, const std::vector<int64_t>& repeats);  ///< the whole, repeats[i] times
RAMET_API Tensor repeat_interleave(Operand a, int64_t repeats, int64_t axis);
RAMET_API Tensor stack(const std::vector<Tensor>& parts, int64_t axis,
                       const std::source_location& place = std::source_location::current());
/// The last two dimensions with 0 above (below) a diagonal; `diagonal` > 0 names one further to the right.
RAMET_API Tensor tril(Operand a, int64_t diagonal = 0);
RAMET_API Tensor triu(Operand a, int64_t diagonal = 0);
/// Padding by what is there: "reflect", "symmetric", "edge" or "wrap".
RAMET_API Tensor pad_by(Operand a, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
                        const std::string& mode);
/// `a` with slice_axis(a, axis, start, stop, step) = part, or select_index(a, axis, index) = part.
RAMET_API Tensor slice_scatter(Operand a, Operand part, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
RAMET_API Tensor select_scatter(Operand a, Operand part, int64_t axis, int64_t index);
/// Elements whose coordinates on the axes differ by `offset`, as a new last dimension.
RAMET_API Tensor diagonal(Operand a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
/// Windows of `size` elements every `step` along an axis; their elements are a new last dimension.
RAMET_API Tensor unfold(Operand a, int64_t axis, int64_t size, int64_t step);

// --- reductions (no axes: over all dimensions) ---
RAMET_API Tensor reduce_sum(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_mean(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_max(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_min(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor reduce_prod(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
/// Mean square deviation from the mean times n / (n - correction), and its square root.
RAMET_API Tensor variance(Operand a, const std::vector<int64_t>& axes = {}, double correction = 1,
                          bool keep_dims = false);
RAMET_API Tensor standard_deviation(Operand a, const std::vector<int64_t>& axes = {}, double correction = 1,
                                    bool keep_dims = false);
RAMET_API Tensor log_sum_exp(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
/// (sum of |a|^order)^(1/order); infinity: the greatest |a|, minus infinity: the least, 0: how many are not 0.
RAMET_API Tensor vector_norm(Operand a, double order = 2, const std::vector<int64_t>& axes = {},
                             bool keep_dims = false);
RAMET_API Tensor any(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);  ///< bool
RAMET_API Tensor all(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);  ///< bool
RAMET_API Tensor count_nonzero(Operand a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
RAMET_API Tensor argmin(Operand a, int64_t axis);  ///< i32 indices; the first among equals
RAMET_API Tensor argmax(Operand a, int64_t axis);  ///< i32 indices; the first among equals
RAMET_API Tensor cumsum(Operand a, int64_t axis);
RAMET_API std::pair<Tensor, Tensor> top_k(Operand a, int64_t k);  ///< values and i32 indices along the last axis
RAMET_API Tensor one_hot(Operand indices, int64_t depth, DType dtype = DType::kF32);

// --- elements by index; indices are i32 or i64, and one out of range is an error at run time ---
/// out[i, j, k] = a[i, indices[i, j, k], k] for axis 1, and so for other axes. The indices have a's rank, and at most
/// a's extents on the other axes. With from_end, here and below, a negative index counts from the end.
RAMET_API Tensor gather_elements(Operand a, Operand indices, int64_t axis, bool from_end = false);
/// `a` with updates at the elements that gather_elements would read. `by`: "set" (the last update wins), "add", "mul",
/// "min", "max" or "mean". Updates of one element are joined in order of position, in f32, with the element itself or
/// without (include_self).
RAMET_API Tensor scatter_elements(Operand a, Operand indices, Operand updates, int64_t axis,
                                  const std::string& by = "set", bool include_self = true, bool from_end = false);
/// a[..., indices, ...]: the dimensions of the indices replace `axis`.
RAMET_API Tensor index_select(Operand a, Operand indices, int64_t axis, bool from_end = false);
/// Indices [B..., I..., n] hold coordinates on the n axes of `a` behind `batch_dims` shared dimensions.
RAMET_API Tensor gather_nd(Operand a, Operand indices, int64_t batch_dims = 0, bool from_end = false);
/// `a` with updates at coordinates [I..., n]; `by` and `include_self` as for scatter_elements.
RAMET_API Tensor scatter_nd(Operand a, Operand indices, Operand updates, const std::string& by = "set",
                            bool include_self = true, bool from_end = false);
/// a[indices[0], indices[1], ...], as in NumPy and PyTorch: a default Tensor is a full slice, index tensors broadcast,
/// and negative indices count from the end. Masks are refused: the size of the result would depend on data.
RAMET_API Tensor index(Operand a, const std::vector<Tensor>& indices);
/// `a` with a[indices...] = values (+= with accumulate). In place of all indices, one bool mask may stand.
RAMET_API Tensor index_put(Operand a, const std::vector<Tensor>& indices, const Tensor& values,
                           bool accumulate = false);
/// `a` with the next element of `source` wherever the mask is true.
RAMET_API Tensor masked_scatter(Operand a, Operand mask, Operand source);

// --- order and running results along an axis ---
/// Elements in order and their i32 indices; equal elements keep their order, a NaN counts as the greatest.
RAMET_API std::pair<Tensor, Tensor> sort(Operand a, int64_t axis = -1, bool descending = false);
RAMET_API Tensor argsort(Operand a, int64_t axis = -1, bool descending = false);
/// The k greatest (or least) elements along any axis, in order, and their i32 indices.
RAMET_API std::pair<Tensor, Tensor> top_k(Operand a, int64_t k, int64_t axis, bool largest = true);
/// How many elements of `sorted` (ascending along the last axis) are less than each value; with `right`, or equal: i32.
/// `sorter` may give the indices that bring `sorted` into order, as argsort does.
RAMET_API Tensor search_sorted(Operand sorted, Operand values, bool right = false, Operand sorter = Tensor());
RAMET_API Tensor cumprod(Operand a, int64_t axis);
/// The greatest (least) element so far and its i32 index.
RAMET_API std::pair<Tensor, Tensor> cummax(Operand a, int64_t axis);
RAMET_API std::pair<Tensor, Tensor> cummin(Operand a, int64_t axis);
/// h[t] = factors[t] * h[t-1] + terms[t], h[-1] = 0; with `reverse` from the last element to the first.
RAMET_API Tensor linear_scan(Operand factors, Operand terms, int64_t axis, bool reverse = false);

// --- matrix products ---
/// [..., M, K] x [..., K, N] -> [..., M, N]. Leading dimensions broadcast. `transpose_*` swaps the last two dimensions
/// of its operand. Sums are f32. The result has type `dtype`, by default a's.
RAMET_API Tensor matmul(Operand a, Operand b, bool transpose_a = false, bool transpose_b = false,
                        std::optional<DType> dtype = std::nullopt);
/// a weight^T + bias: [..., in] -> [..., out], with weight [out, in] and bias [out]. Without transpose_weight the
/// weight is [in, out].
RAMET_API Tensor linear(Operand a, Operand weight, Operand bias, bool transpose_weight = true);
/// The product with a block-sparse matrix (ramet/sparse.h): a [..., columns] by the transposed matrix gives [...,
/// rows]; with `transpose`, a [..., rows] by the matrix gives [..., columns]. `values` [R, C, slots, block rows, block
/// columns] and `index` i32 [R, C, slots] are those of a SparseCells whose R x C cells have `cell_rows` x
/// `cell_columns` elements. The sums are f32, in order of the stored elements in each cell; neither zeros nor the size
/// of blocks change a bit. An index that does not ascend within its cell is an error at run time.
/// Values of 6 dimensions [G, R, C, slots, ...] are those of G matrices, each for its part a[g] of a; the index may be
/// [G, R, C, slots], too. `fixed` says that the index never changes: machines that place blocks ahead are then faster.
RAMET_API Tensor sparse_matmul(Operand a, Operand values, Operand index, int64_t cell_rows, int64_t cell_columns,
                               bool transpose = false, bool fixed = false);
/// The sums over all leading dimensions of a[..., i] b[..., j] at the stored elements, f32: the gradient of `values`.
/// With `grouped`, the first dimension of a, b and the result is the number of a matrix.
RAMET_API Tensor sparse_outer(Operand a, Operand b, Operand index, int64_t cell_rows, int64_t cell_columns,
                              int64_t block_rows, int64_t block_columns, bool grouped = false);
/// Softmax over the stored elements of each row of a sparse matrix (or of several). `keep` is "all", "lower" (columns
/// up to the row, as causal attention needs) or "upper" (columns from the row on); other elements become 0.
RAMET_API Tensor sparse_softmax(Operand values, Operand index, int64_t cell_rows, int64_t cell_columns,
                                const std::string& keep = "all");
/// Rows `numbers` [I...] of a sparse table as dense rows [I..., columns]: an embedding. With the values and the index
/// of a sparse_matmul, the embedding is tied to it.
RAMET_API Tensor sparse_gather(Operand numbers, Operand values, Operand index, int64_t cell_rows, int64_t cell_columns);
/// `rows` [I..., columns] added at the rows `numbers` [I...] of a sparse table that stores blocks of block_rows x
/// block_columns at `index`: f32 values. The gradient of sparse_gather; what falls on no stored block is left out.
RAMET_API Tensor sparse_scatter_add(Operand numbers, Operand rows, Operand index, int64_t cell_rows,
                                    int64_t cell_columns, int64_t block_rows, int64_t block_columns);
/// softmax(scale q k^T) v over the stored blocks of a matrix [queries, keys] that all leading dimensions share: q [...,
/// queries, depth], k [..., keys, depth], v [..., keys, width] -> [..., queries, width]. `keep` as in sparse_softmax.
RAMET_API Tensor sparse_attention(Operand q, Operand k, Operand v, Operand index, int64_t cell_rows,
                                  int64_t cell_columns, int64_t block_rows, int64_t block_columns, double scale,
                                  const std::string& keep = "all");
/// Einstein summation, such as "bhqd,bhkd->bhqk".
RAMET_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
                        const std::source_location& place = std::source_location::current());

// --- convolutions ---
/// Lists have one number a dimension of space; empty: 1 (strides, dilations) or 0 (zeros before and behind the input).
struct ConvolutionOptions {
  std::vector<int64_t> strides{}, dilations{}, low{}, high{};
  int64_t groups = 1;  ///< of channels: each group of outputs reads its own group of inputs
};
/// Cross-correlation, as networks call convolution, over one to three dimensions of space: input [N, C, space...],
/// filter [O, C / groups, taps...], bias [O] -> [N, O, space...]. An extent becomes (extent + low + high - dilation *
/// (taps - 1) - 1) / stride + 1, rounded down. Sums are f32. The compiler chooses the order in which activations lie in
/// memory; models are written with channels first.
RAMET_API Tensor convolution(Operand input, Operand filter, Operand bias = Tensor(),
                             const ConvolutionOptions& options = {});
/// The gradient of a convolution by its input, as an op of its own: input [N, C, space...], filter
/// [C, O / groups, taps...], bias [O] -> [N, O, space...]. An extent becomes
/// (extent - 1) * stride - low - high + dilation * (taps - 1) + 1 + output_padding, which is below the stride or the
/// dilation (empty: 0).
RAMET_API Tensor convolution_transposed(Operand input, Operand filter, Operand bias = Tensor(),
                                        const ConvolutionOptions& options = {},
                                        const std::vector<int64_t>& output_padding = {});

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
RAMET_API std::pair<Tensor, Tensor> adaptive_max_pool_with_indices(Operand a, const std::vector<int64_t>& sizes,
                                                                   bool channels_last = false);
/// Over all of the space, whose dimensions become 1.
RAMET_API Tensor global_average_pool(Operand a, bool channels_last = false);
RAMET_API Tensor global_max_pool(Operand a, bool channels_last = false);

// --- graphs, B samples of N nodes with E edges; lists are i32 ---
// Edges are sorted by the node that they end in: `ptr` [B, N + 1] says that node i has the edges ptr[i] to ptr[i + 1],
// and `source` [B, E] says from which node an edge comes. The same edges sorted by the node that they come from:
// `source_ptr` [B, N + 1]; `target` [B, E], the node in which each of them ends; and `by_source` [B, E], its place
// among the edges sorted the other way. Places behind the last edge hold none. A sum is one chain in the order of the
// edges.

/// Edges [B, E, ...] summed for each node -> [B, N, ...]; 0 for a node without edges, here and below.
RAMET_API Tensor segment_sum(Operand edges, Operand ptr);
RAMET_API Tensor segment_mean(Operand edges, Operand ptr);
RAMET_API Tensor segment_max(Operand edges, Operand ptr);  ///< the gradient goes to the first among equals
RAMET_API Tensor segment_min(Operand edges, Operand ptr);
/// exp(edges) over its sum, for the edges of each node: [B, E, ...].
RAMET_API Tensor segment_softmax(Operand edges, Operand ptr);
/// Rows [B, N, ...] given to each of `edges` edges of a node: [B, edges, ...].
RAMET_API Tensor segment_expand(Operand rows, Operand ptr, int64_t edges);
/// Rows [B, V, ...] at indices [B, ...]: those of a sample are rows of that sample.
RAMET_API Tensor gather_rows(Operand rows, Operand indices);
/// For each node the sum over its edges of weight times the source's row: x [B, N, F] -> [B, N, F]. `weight` [B, E], or
/// [B, E, heads] with head h for features [h F / heads, (h + 1) F / heads); without it, 1.
RAMET_API Tensor neighbor_sum(Operand x, Operand source, Operand ptr, Operand target, Operand by_source,
                              Operand source_ptr, Operand weight = Tensor());
/// For each edge the sum of a[target] * b[source] over the features of a head: [B, E, heads], or with 0 heads [B, E].
RAMET_API Tensor neighbor_dot(Operand a, Operand b, Operand source, Operand ptr, Operand target, Operand by_source,
                              Operand source_ptr, int64_t heads = 0);

/// Messages along the edges of a graph with relations (Zhu et al., arXiv 2106.06935): for each node its own message,
/// own [B, N, F], and those of its edges in order. A message is the source's row of x [B, N, F] and the row of the
/// edge's relation of `relations` [B, R, F], by `relation` i32 [B, E]: their "product", their "sum", or the "rotation"
/// of complex numbers, whose real parts are the first half of each run of `width` features (0: of all). No tensor of
/// edges exists.
RAMET_API Tensor path_sum(Operand own, Operand x, Operand relations, Operand source, Operand relation, Operand ptr,
                          const std::string& message, int64_t width = 0);
/// The sum of the same messages, the sum of their squares, the greatest and the least, each [B, N, F].
struct PathStatistics {
  Tensor sum;
  Tensor squares;
  Tensor most;   ///< the gradient goes to the first among equals
  Tensor least;  ///< likewise
};
RAMET_API PathStatistics path_statistics(Operand own, Operand x, Operand relations, Operand source, Operand relation,
                                         Operand ptr, const std::string& message, int64_t width = 0);

/// Rows of table [V, H] at i32 indices [...] -> [..., H]. An index outside of [0, V) is an error at run time.
RAMET_API Tensor gather(Operand table, Operand indices);
/// Zeros [rows, H], to which updates [..., H] are added at i32 row indices [...], in the order of their positions.
RAMET_API Tensor scatter_add(Operand indices, Operand updates, int64_t rows);
/// Distances between the rows a [G, M, D] and the columns b [G, K, D] of each group -> f32 [G, M, K], without a tensor
/// of pairs: the norm of a - w * b over the features. `norm`: "l1", "squares" (no root), "complex" (sum of moduli, real
/// parts in the first half of the features) or "box" (w holds widths). w [G, M, D]; without it, 1. With b [G, K, T D]
/// and w [G, M, T D], the sum of T products is taken off a. Where G is 1, b may be a table [K, ...].
RAMET_API Tensor pair_distance(Operand a, Operand b, const std::string& norm, Operand w = Tensor());

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
/// Layers of the cell "lstm", "gru" or "rnn", each over the outputs of the layer before. There are `weights` for each
/// layer, or, with `both_directions`, for each layer the forward and the backward direction, whose outputs stand side
/// by side. States are [layers directions, B, R], and of LSTM f32[layers directions, B, H].
RAMET_API Recurrent recurrent_layers(const std::string& kind, Operand input,
                                     const std::vector<RecurrentWeights>& weights, bool both_directions = false,
                                     Operand hidden = Tensor(), Operand cell = Tensor(),
                                     const RecurrentOptions& options = {});

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
