#include "ramet/api/graphs.h"

#include "ramet/api/apply.h"
#include "ramet/base/error.h"
#include "ramet/ops.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/ops/build_recurrent.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/build_sparse.h"

namespace ramet::v0 {
namespace {

using detail::Graphs;

/// An op on a list of tensors.
template <typename Op>
Tensor apply_list(const Op& op, const std::vector<Tensor>& list, const std::source_location& place) {
  if (list.empty()) throw Error({.what = "an op on no tensors", .where = ir::origin_of(place)});
  Graphs& graphs = Graphs::of(Operand(list[0], place));
  for (const Tensor& tensor : list) check_together(graphs, place, {&Operand(tensor, place).tensor()});
  return graphs.build_each(place, [&](int which, ir::GraphBuilder&) {
    std::vector<ir::Tensor> tensors;
    for (const Tensor& tensor : list) tensors.push_back(graphs.in(which, tensor));
    return std::vector<ir::Tensor>{op(tensors)};
  })[0];
}

template <typename Op>
std::pair<Tensor, Tensor> apply_pair(const Op& op, const Operand& a) {
  const auto made = apply_many(
      [&](ir::Tensor x) {
        const auto [first, second] = op(x);
        return std::vector<ir::Tensor>{first, second};
      },
      a);
  return {made[0], made[1]};
}

/// An op on a tensor and a list, in which default tensors stand for what is left out.
template <typename Op>
Tensor apply_beside(const Op& op, const Operand& a, const std::vector<Tensor>& list) {
  Graphs& graphs = Graphs::of(a);
  for (const Tensor& tensor : list) check_together(graphs, a.place(), {&tensor});
  return graphs.build_each(a.place(), [&](int which, ir::GraphBuilder&) {
    std::vector<ir::Tensor> tensors;
    for (const Tensor& tensor : list) tensors.push_back(graphs.in(which, tensor));
    return std::vector<ir::Tensor>{op(graphs.in(which, a.tensor()), tensors)};
  })[0];
}

}  // namespace

#define RAMET_UNARY(name)                                       \
  Tensor name(Operand a) {                                      \
    return apply([](ir::Tensor x) { return ops::name(x); }, a); \
  }
#define RAMET_BINARY(name)                                                          \
  Tensor name(Operand a, Operand b) {                                               \
    return apply([](ir::Tensor x, ir::Tensor y) { return ops::name(x, y); }, a, b); \
  }
#define RAMET_REDUCTION(name)                                                     \
  Tensor name(Operand a, const std::vector<int64_t>& axes, bool keep_dims) {      \
    return apply([&](ir::Tensor x) { return ops::name(x, axes, keep_dims); }, a); \
  }

RAMET_BINARY(add)
RAMET_BINARY(subtract)
RAMET_BINARY(multiply)
RAMET_BINARY(divide)
RAMET_BINARY(maximum)
RAMET_BINARY(minimum)
RAMET_BINARY(power)
RAMET_BINARY(equal)
RAMET_BINARY(less)
RAMET_UNARY(negate)
RAMET_UNARY(exp)
RAMET_UNARY(log)
RAMET_UNARY(sqrt)
RAMET_UNARY(rsqrt)
RAMET_UNARY(tanh)
RAMET_UNARY(sigmoid)
RAMET_UNARY(relu)
RAMET_UNARY(erf)
RAMET_UNARY(gelu)
RAMET_UNARY(gelu_tanh)
RAMET_REDUCTION(reduce_sum)
RAMET_REDUCTION(reduce_mean)
RAMET_REDUCTION(reduce_max)
RAMET_REDUCTION(reduce_min)
RAMET_REDUCTION(reduce_prod)
RAMET_REDUCTION(log_sum_exp)
RAMET_REDUCTION(any)
RAMET_REDUCTION(all)
RAMET_REDUCTION(count_nonzero)
#undef RAMET_UNARY
#undef RAMET_BINARY
#undef RAMET_REDUCTION

Tensor scale(Operand a, double factor) {
  return apply([&](ir::Tensor x) { return ops::scale(x, factor); }, a);
}
Tensor add_scalar(Operand a, double term) {
  return apply([&](ir::Tensor x) { return ops::add_scalar(x, term); }, a);
}
Tensor select(Operand condition, Operand a, Operand b) {
  return apply([](ir::Tensor x, ir::Tensor y, ir::Tensor z) { return ops::select(x, y, z); }, condition, a, b);
}
Tensor cast(Operand a, DType dtype) {
  return apply([&](ir::Tensor x) { return ops::cast(x, dtype); }, a);
}
Tensor map_unary(std::string_view op, Operand a) {
  return apply([&](ir::Tensor x) { return ops::map_unary(op, x); }, a);
}
Tensor map_binary(std::string_view op, Operand a, Operand b) {
  return apply([&](ir::Tensor x, ir::Tensor y) { return ops::map_binary(op, x, y); }, a, b);
}
Tensor stop_gradient(Operand a) { return map_unary("stop_gradient", a); }

Tensor reshape(Operand a, Shape shape) {
  return apply([&](ir::Tensor x) { return ops::reshape(x, shape); }, a);
}
Tensor transpose(Operand a, std::vector<int64_t> permutation) {
  return apply([&](ir::Tensor x) { return ops::transpose(x, permutation); }, a);
}
Tensor broadcast_to(Operand a, Shape shape) {
  return apply([&](ir::Tensor x) { return ops::broadcast_to(x, shape); }, a);
}
Tensor slice(Operand a, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> stride) {
  return apply([&](ir::Tensor x) { return ops::slice(x, start, stop, stride); }, a);
}
Tensor concat(const std::vector<Tensor>& parts, int64_t axis, const std::source_location& place) {
  return apply_list([&](const std::vector<ir::Tensor>& all) { return ops::concat(all, axis); }, parts, place);
}
std::vector<Tensor> split(Operand a, std::vector<int64_t> sizes, int64_t axis) {
  return apply_many([&](ir::Tensor x) { return ops::split(x, sizes, axis); }, a);
}
Tensor pad(Operand a, std::vector<int64_t> low, std::vector<int64_t> high, double value) {
  return apply([&](ir::Tensor x) { return ops::pad(x, low, high, value); }, a);
}

Tensor argmax(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::argmax(x, axis); }, a);
}
Tensor cumsum(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::cumsum(x, axis); }, a);
}
std::pair<Tensor, Tensor> top_k(Operand a, int64_t k) {
  return apply_pair([&](ir::Tensor x) { return ops::top_k(x, k); }, a);
}
Tensor variance(Operand a, const std::vector<int64_t>& axes, double correction, bool keep_dims) {
  return apply([&](ir::Tensor x) { return ops::variance(x, axes, correction, keep_dims); }, a);
}
Tensor standard_deviation(Operand a, const std::vector<int64_t>& axes, double correction, bool keep_dims) {
  return apply([&](ir::Tensor x) { return ops::standard_deviation(x, axes, correction, keep_dims); }, a);
}
Tensor vector_norm(Operand a, double order, const std::vector<int64_t>& axes, bool keep_dims) {
  return apply([&](ir::Tensor x) { return ops::vector_norm(x, order, axes, keep_dims); }, a);
}
Tensor argmin(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::argmin(x, axis); }, a);
}

Tensor gather_elements(Operand a, Operand indices, int64_t axis, bool from_end) {
  return apply([&](ir::Tensor x, ir::Tensor i) { return ops::gather_elements(x, i, axis, from_end); }, a, indices);
}
Tensor scatter_elements(Operand a, Operand indices, Operand updates, int64_t axis, const std::string& by,
                        bool include_self, bool from_end) {
  const ops::UpdateBy how{.by = by, .include_self = include_self};
  return apply(
      [&](ir::Tensor x, ir::Tensor i, ir::Tensor u) { return ops::scatter_elements(x, i, u, axis, how, from_end); }, a,
      indices, updates);
}
Tensor index_select(Operand a, Operand indices, int64_t axis, bool from_end) {
  return apply([&](ir::Tensor x, ir::Tensor i) { return ops::index_select(x, i, axis, from_end); }, a, indices);
}
Tensor gather_nd(Operand a, Operand indices, int64_t batch_dims, bool from_end) {
  return apply([&](ir::Tensor x, ir::Tensor i) { return ops::gather_nd(x, i, batch_dims, from_end); }, a, indices);
}
Tensor scatter_nd(Operand a, Operand indices, Operand updates, const std::string& by, bool include_self,
                  bool from_end) {
  const ops::UpdateBy how{.by = by, .include_self = include_self};
  return apply([&](ir::Tensor x, ir::Tensor i, ir::Tensor u) { return ops::scatter_nd(x, i, u, how, from_end); }, a,
               indices, updates);
}
Tensor index(Operand a, const std::vector<Tensor>& indices) {
  return apply_beside([](ir::Tensor x, const std::vector<ir::Tensor>& all) { return ops::index(x, all); }, a, indices);
}
Tensor index_put(Operand a, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate) {
  std::vector<Tensor> all = indices;
  all.push_back(values);
  return apply_beside(
      [&](ir::Tensor x, std::vector<ir::Tensor> tensors) {
        const ir::Tensor last = tensors.back();
        tensors.pop_back();
        return ops::index_put(x, tensors, last, accumulate);
      },
      a, all);
}
Tensor masked_scatter(Operand a, Operand mask, Operand source) {
  return apply([](ir::Tensor x, ir::Tensor m, ir::Tensor s) { return ops::masked_scatter(x, m, s); }, a, mask, source);
}

std::pair<Tensor, Tensor> sort(Operand a, int64_t axis, bool descending) {
  return apply_pair([&](ir::Tensor x) { return ops::sort(x, axis, descending); }, a);
}
Tensor argsort(Operand a, int64_t axis, bool descending) {
  return apply([&](ir::Tensor x) { return ops::argsort(x, axis, descending); }, a);
}
std::pair<Tensor, Tensor> top_k(Operand a, int64_t k, int64_t axis, bool largest) {
  return apply_pair([&](ir::Tensor x) { return ops::top_k(x, k, axis, largest); }, a);
}
Tensor search_sorted(Operand sorted, Operand values, bool right, Operand sorter) {
  return apply([&](ir::Tensor s, ir::Tensor v, ir::Tensor by) { return ops::search_sorted(s, v, right, by); }, sorted,
               values, sorter);
}
Tensor cumprod(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::cumprod(x, axis); }, a);
}
std::pair<Tensor, Tensor> cummax(Operand a, int64_t axis) {
  return apply_pair([&](ir::Tensor x) { return ops::cummax(x, axis); }, a);
}
std::pair<Tensor, Tensor> cummin(Operand a, int64_t axis) {
  return apply_pair([&](ir::Tensor x) { return ops::cummin(x, axis); }, a);
}
Tensor linear_scan(Operand factors, Operand terms, int64_t axis, bool reverse) {
  return apply([&](ir::Tensor f, ir::Tensor t) { return ops::linear_scan(f, t, axis, reverse); }, factors, terms);
}

Tensor move_axis(Operand a, int64_t from, int64_t to) {
  return apply([&](ir::Tensor x) { return ops::move_axis(x, from, to); }, a);
}
Tensor slice_axis(Operand a, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  return apply([&](ir::Tensor x) { return ops::slice_axis(x, axis, start, stop, step); }, a);
}
Tensor select_index(Operand a, int64_t axis, int64_t index) {
  return apply([&](ir::Tensor x) { return ops::select_index(x, axis, index); }, a);
}
Tensor flip(Operand a, const std::vector<int64_t>& axes) {
  return apply([&](ir::Tensor x) { return ops::flip(x, axes); }, a);
}
Tensor roll(Operand a, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes) {
  return apply([&](ir::Tensor x) { return ops::roll(x, shifts, axes); }, a);
}
Tensor tile(Operand a, const std::vector<int64_t>& repeats) {
  return apply([&](ir::Tensor x) { return ops::tile(x, repeats); }, a);
}
Tensor repeat_interleave(Operand a, int64_t repeats, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::repeat_interleave(x, repeats, axis); }, a);
}
Tensor stack(const std::vector<Tensor>& parts, int64_t axis, const std::source_location& place) {
  return apply_list([&](const std::vector<ir::Tensor>& all) { return ops::stack(all, axis); }, parts, place);
}
Tensor tril(Operand a, int64_t diagonal) {
  return apply([&](ir::Tensor x) { return ops::tril(x, diagonal); }, a);
}
Tensor triu(Operand a, int64_t diagonal) {
  return apply([&](ir::Tensor x) { return ops::triu(x, diagonal); }, a);
}
Tensor pad_by(Operand a, const std::vector<int64_t>& low, const std::vector<int64_t>& high, const std::string& mode) {
  return apply([&](ir::Tensor x) { return ops::pad_by(x, low, high, mode); }, a);
}
Tensor slice_scatter(Operand a, Operand part, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  return apply([&](ir::Tensor x, ir::Tensor p) { return ops::slice_scatter(x, p, axis, start, stop, step); }, a, part);
}
Tensor select_scatter(Operand a, Operand part, int64_t axis, int64_t index) {
  return apply([&](ir::Tensor x, ir::Tensor p) { return ops::select_scatter(x, p, axis, index); }, a, part);
}
Tensor diagonal(Operand a, int64_t offset, int64_t axis1, int64_t axis2) {
  return apply([&](ir::Tensor x) { return ops::diagonal(x, offset, axis1, axis2); }, a);
}
Tensor unfold(Operand a, int64_t axis, int64_t size, int64_t step) {
  return apply([&](ir::Tensor x) { return ops::unfold(x, axis, size, step); }, a);
}

Tensor one_hot(Operand indices, int64_t depth, DType dtype) {
  return apply([&](ir::Tensor x) { return ops::one_hot(x, depth, dtype); }, indices);
}

Tensor matmul(Operand a, Operand b, bool transpose_a, bool transpose_b, std::optional<DType> dtype) {
  return apply([&](ir::Tensor x, ir::Tensor y) { return ops::matmul(x, y, transpose_a, transpose_b, dtype); }, a, b);
}
Tensor linear(Operand a, Operand weight, Operand bias, bool transpose_weight) {
  return apply([&](ir::Tensor x, ir::Tensor w, ir::Tensor b) { return ops::linear(x, w, b, transpose_weight); }, a,
               weight, bias);
}
Tensor sparse_matmul(Operand a, Operand values, Operand index, int64_t cell_rows, int64_t cell_columns, bool transpose,
                     bool fixed) {
  return apply([&](ir::Tensor x, ir::Tensor v,
                   ir::Tensor i) { return ops::sparse_matmul(x, v, i, {cell_rows, cell_columns, fixed}, transpose); },
               a, values, index);
}
Tensor sparse_outer(Operand a, Operand b, Operand index, int64_t cell_rows, int64_t cell_columns, int64_t block_rows,
                    int64_t block_columns, bool grouped) {
  return apply(
      [&](ir::Tensor x, ir::Tensor y, ir::Tensor i) {
        return ops::sparse_outer(x, y, i, {cell_rows, cell_columns}, block_rows, block_columns, grouped);
      },
      a, b, index);
}
Tensor sparse_softmax(Operand values, Operand index, int64_t cell_rows, int64_t cell_columns, const std::string& keep) {
  return apply([&](ir::Tensor v, ir::Tensor i) { return ops::sparse_softmax(v, i, {cell_rows, cell_columns}, keep); },
               values, index);
}
Tensor sparse_gather(Operand numbers, Operand values, Operand index, int64_t cell_rows, int64_t cell_columns) {
  return apply(
      [&](ir::Tensor n, ir::Tensor v, ir::Tensor i) { return ops::sparse_gather(n, v, i, {cell_rows, cell_columns}); },
      numbers, values, index);
}
Tensor sparse_scatter_add(Operand numbers, Operand rows, Operand index, int64_t cell_rows, int64_t cell_columns,
                          int64_t block_rows, int64_t block_columns) {
  return apply(
      [&](ir::Tensor n, ir::Tensor r, ir::Tensor i) {
        return ops::sparse_scatter_add(n, r, i, {cell_rows, cell_columns}, block_rows, block_columns);
      },
      numbers, rows, index);
}
Tensor sparse_attention(Operand q, Operand k, Operand v, Operand index, int64_t cell_rows, int64_t cell_columns,
                        int64_t block_rows, int64_t block_columns, double scale, const std::string& keep) {
  return apply(
      [&](ir::Tensor x, ir::Tensor y, ir::Tensor z, ir::Tensor i) {
        return ops::sparse_attention(x, y, z, i, {cell_rows, cell_columns}, block_rows, block_columns, scale, keep);
      },
      q, k, v, index);
}
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, const std::source_location& place) {
  return apply_list([&](const std::vector<ir::Tensor>& all) { return ops::einsum(equation, all); }, operands, place);
}

Tensor softmax(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::softmax(x, axis); }, a);
}
Tensor log_softmax(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::log_softmax(x, axis); }, a);
}
Tensor layer_norm(Operand a, Operand gain, Operand bias, double epsilon) {
  return apply([&](ir::Tensor x, ir::Tensor g, ir::Tensor b) { return ops::layer_norm(x, g, b, epsilon); }, a, gain,
               bias);
}
Tensor rms_norm(Operand a, Operand gain, double epsilon) {
  return apply([&](ir::Tensor x, ir::Tensor g) { return ops::rms_norm(x, g, epsilon); }, a, gain);
}
BatchNorm batch_norm(Operand a, Operand gain, Operand bias, double epsilon, bool channels_last) {
  const auto made = apply_many(
      [&](ir::Tensor x, ir::Tensor g, ir::Tensor b) {
        const ops::BatchNorm norm = ops::batch_norm(x, g, b, epsilon, channels_last);
        return std::vector<ir::Tensor>{norm.output, norm.mean, norm.variance};
      },
      a, gain, bias);
  return {made[0], made[1], made[2]};
}
Tensor batch_norm_apply(Operand a, Operand gain, Operand bias, Operand mean, Operand variance, double epsilon,
                        bool channels_last) {
  return apply([&](ir::Tensor x, ir::Tensor g, ir::Tensor b, ir::Tensor m,
                   ir::Tensor v) { return ops::batch_norm_apply(x, g, b, m, v, epsilon, channels_last); },
               a, gain, bias, mean, variance);
}
Tensor group_norm(Operand a, Operand gain, Operand bias, int64_t groups, double epsilon, bool channels_last) {
  return apply([&](ir::Tensor x, ir::Tensor g,
                   ir::Tensor b) { return ops::group_norm(x, g, b, groups, epsilon, channels_last); },
               a, gain, bias);
}
Tensor instance_norm(Operand a, Operand gain, Operand bias, double epsilon, bool channels_last) {
  return apply(
      [&](ir::Tensor x, ir::Tensor g, ir::Tensor b) { return ops::instance_norm(x, g, b, epsilon, channels_last); }, a,
      gain, bias);
}
Tensor local_response_norm(Operand a, int64_t size, double alpha, double beta, double k, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::local_response_norm(x, size, alpha, beta, k, channels_last); }, a);
}

namespace {

ops::PoolOptions engine_options(const PoolOptions& options) {
  return {options.taps, options.strides,   options.dilations,     options.low,
          options.high, options.ceil_mode, options.count_padding, options.channels_last};
}

}  // namespace

Tensor max_pool(Operand a, const PoolOptions& options) {
  return apply([&](ir::Tensor x) { return ops::max_pool(x, engine_options(options)); }, a);
}
std::pair<Tensor, Tensor> max_pool_with_indices(Operand a, const PoolOptions& options) {
  return apply_pair([&](ir::Tensor x) { return ops::max_pool_with_indices(x, engine_options(options)); }, a);
}
Tensor average_pool(Operand a, const PoolOptions& options, int64_t divisor) {
  return apply([&](ir::Tensor x) { return ops::average_pool(x, engine_options(options), divisor); }, a);
}
Tensor lp_pool(Operand a, const PoolOptions& options, double power) {
  return apply([&](ir::Tensor x) { return ops::lp_pool(x, engine_options(options), power); }, a);
}
Tensor adaptive_average_pool(Operand a, const std::vector<int64_t>& sizes, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::adaptive_average_pool(x, sizes, channels_last); }, a);
}
Tensor adaptive_max_pool(Operand a, const std::vector<int64_t>& sizes, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::adaptive_max_pool(x, sizes, channels_last); }, a);
}
std::pair<Tensor, Tensor> adaptive_max_pool_with_indices(Operand a, const std::vector<int64_t>& sizes,
                                                         bool channels_last) {
  return apply_pair([&](ir::Tensor x) { return ops::adaptive_max_pool_with_indices(x, sizes, channels_last); }, a);
}
Tensor global_average_pool(Operand a, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::global_average_pool(x, channels_last); }, a);
}
Tensor global_max_pool(Operand a, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::global_max_pool(x, channels_last); }, a);
}

Tensor gather(Operand table, Operand indices) {
  return apply([](ir::Tensor t, ir::Tensor i) { return ops::gather(t, i); }, table, indices);
}
Tensor scatter_add(Operand indices, Operand updates, int64_t rows) {
  return apply([&](ir::Tensor i, ir::Tensor u) { return ops::scatter_add(i, u, rows); }, indices, updates);
}
Tensor pair_distance(Operand a, Operand b, const std::string& norm, Operand w) {
  return apply([&](ir::Tensor x, ir::Tensor y, ir::Tensor z) { return ops::pair_distance(x, y, norm, z); }, a, b, w);
}

namespace {

ops::ConvolutionOptions convolution_options(const ConvolutionOptions& options) {
  return {.strides = options.strides,
          .dilations = options.dilations,
          .low = options.low,
          .high = options.high,
          .groups = options.groups};
}

}  // namespace

Tensor convolution(Operand input, Operand filter, Operand bias, const ConvolutionOptions& options) {
  return apply(
      [&](ir::Tensor x, ir::Tensor w, ir::Tensor b) { return ops::convolution(x, w, b, convolution_options(options)); },
      input, filter, bias);
}
Tensor convolution_transposed(Operand input, Operand filter, Operand bias, const ConvolutionOptions& options,
                              const std::vector<int64_t>& output_padding) {
  return apply(
      [&](ir::Tensor x, ir::Tensor w, ir::Tensor b) {
        return ops::convolution_transposed(x, w, b, convolution_options(options), output_padding);
      },
      input, filter, bias);
}

Tensor attention(Operand query, Operand key, Operand value, Operand mask, const AttentionOptions& options) {
  return attention_with(query, key, value, {.key_mask = mask.tensor()}, options);
}

Tensor attention_with(Operand query, Operand key, Operand value, const ScoreOptions& scores,
                      const AttentionOptions& options) {
  Graphs& graphs = Graphs::of(query);
  check_together(graphs, query.place(), {&key.tensor(), &value.tensor(), &scores.key_mask, &scores.mask, &scores.bias});
  ops::AttentionOptions how{.causal = options.causal,
                            .segments = options.segments,
                            .scale = options.scale,
                            .random_name = options.dropout > 0 ? graphs.random_name("attention") : ""};
  return graphs.build_each(query.place(), [&](int which, ir::GraphBuilder& build) {
    how.dropout = graphs.trains(which) ? options.dropout : 0;
    const auto in = [&](const Tensor& tensor) { return graphs.in(which, tensor); };
    ops::ScoreOptions terms{.key_mask = in(scores.key_mask),
                            .mask = in(scores.mask),
                            .bias = in(scores.bias),
                            .bottom_right = scores.bottom_right,
                            .window_left = scores.window_left,
                            .window_right = scores.window_right,
                            .soft_cap = scores.soft_cap};
    if (scores.alibi && query.shape().rank() == 4) {
      const std::vector<double> slopes = ops::alibi_slopes(query.dim(2));
      terms.slopes = ops::constant(build, ir::TensorData(HostTensor::of(DType::kF32, {query.dim(2)}, slopes)));
    }
    return std::vector<ir::Tensor>{ops::attention_with(in(query.tensor()), in(key.tensor()), in(value.tensor()), terms,
                                                       how, how.dropout > 0 ? graphs.counter(which) : ir::Tensor{})};
  })[0];
}

namespace {

Tensor relative_bias(const Operand& table, const HostTensor& buckets) {
  Graphs& graphs = Graphs::of(table);
  return graphs.build_each(table.place(), [&](int which, ir::GraphBuilder& build) {
    const ir::Tensor indices = ops::constant(build, ir::TensorData(buckets));
    return std::vector<ir::Tensor>{ops::relative_bias(graphs.in(which, table.tensor()), indices)};
  })[0];
}

}  // namespace

Tensor t5_bias(Operand table, int64_t queries, int64_t keys, bool bidirectional, int64_t max_distance) {
  const int64_t buckets = table.shape().rank() == 2 ? table.dim(0) : 2;
  return relative_bias(table, ops::t5_buckets(queries, keys, bidirectional, buckets, max_distance));
}

Tensor swin_bias(Operand table, int64_t height, int64_t width) {
  const HostTensor places = ops::swin_places(height, width);
  const int64_t rows = (2 * height - 1) * (2 * width - 1);
  if (table.shape().rank() != 2 || table.dim(0) != rows)
    throw Error({.what = "the table of relative places has the wrong shape",
                 .where = "swin_bias at " + ir::origin_of(table.place()),
                 .found = table.type().text(),
                 .expected = "[" + std::to_string(rows) + ",heads]"});
  return relative_bias(table, places);
}

Tensor rotary(Operand a, const RotaryOptions& options) {
  Graphs& graphs = Graphs::of(a);
  if (a.shape().rank() != 4)
    throw Error({.what = "rotary positions need queries or keys",
                 .where = "rotary at " + ir::origin_of(a.place()),
                 .found = a.type().text(),
                 .expected = "[batch,positions,heads,head size]"});
  const auto frequencies = options.frequencies.empty()
                               ? ops::rotary_frequencies(options.rotated > 0 ? options.rotated : a.dim(3), options.base)
                               : options.frequencies;
  return graphs.build_each(a.place(), [&](int which, ir::GraphBuilder& build) {
    const ops::RotaryTables angles = ops::rotary_tables(build, a.dim(1), frequencies);
    return std::vector<ir::Tensor>{
        ops::rotary(graphs.in(which, a.tensor()), angles,
                    options.neighbours ? ops::RotaryPairs::kNeighbours : ops::RotaryPairs::kHalves)};
  })[0];
}

namespace {

/// Recurrent layers: `op` is a function on the engine's tensors and options.
template <typename Op>
Recurrent recurrent(const Operand& input, const std::vector<RecurrentWeights>& weights, const Operand& hidden,
                    const Operand& cell, const RecurrentOptions& options, const Op& op) {
  Graphs& graphs = Graphs::of(input);
  check_together(graphs, input.place(), {&options.lengths, &hidden.tensor(), &cell.tensor()});
  for (const RecurrentWeights& each : weights)
    check_together(graphs, input.place(),
                   {&each.input, &each.hidden, &each.input_bias, &each.hidden_bias, &each.projection, &each.peepholes});
  const std::vector<Tensor> results = graphs.build_each(input.place(), [&](int which, ir::GraphBuilder&) {
    const auto in = [&](const Tensor& tensor) { return graphs.in(which, tensor); };
    std::vector<ops::RecurrentWeights> own;
    for (const RecurrentWeights& each : weights)
      own.push_back({in(each.input), in(each.hidden), in(each.input_bias), in(each.hidden_bias), in(each.projection),
                     in(each.peepholes)});
    const ops::RecurrentOptions how{options.reverse, in(options.lengths), options.reset_after, options.relu};
    const ops::Recurrent made = op(in(input.tensor()), own, in(hidden.tensor()), in(cell.tensor()), how);
    std::vector<ir::Tensor> all{made.output, made.hidden};
    if (made.cell.valid()) all.push_back(made.cell);
    return all;
  });
  return {results[0], results[1], results.size() > 2 ? results[2] : Tensor()};
}

ops::RecurrentCell recurrent_cell(const std::string& kind, const std::source_location& place) {
  if (kind == "lstm") return ops::RecurrentCell::kLstm;
  if (kind == "gru") return ops::RecurrentCell::kGru;
  if (kind == "rnn") return ops::RecurrentCell::kRnn;
  throw Error({.what = "there is no such recurrent cell",
               .where = "recurrent_layers at " + ir::origin_of(place),
               .found = kind,
               .expected = "lstm, gru or rnn"});
}

}  // namespace

Recurrent lstm(Operand input, const RecurrentWeights& weights, Operand hidden, Operand cell,
               const RecurrentOptions& options) {
  return recurrent(input, {weights}, hidden, cell, options,
                   [](auto x, auto& own, auto h, auto c, auto& how) { return ops::lstm(x, own[0], h, c, how); });
}
Recurrent gru(Operand input, const RecurrentWeights& weights, Operand hidden, const RecurrentOptions& options) {
  return recurrent(input, {weights}, hidden, Tensor(), options,
                   [](auto x, auto& own, auto h, auto, auto& how) { return ops::gru(x, own[0], h, how); });
}
Recurrent rnn(Operand input, const RecurrentWeights& weights, Operand hidden, const RecurrentOptions& options) {
  return recurrent(input, {weights}, hidden, Tensor(), options,
                   [](auto x, auto& own, auto h, auto, auto& how) { return ops::rnn(x, own[0], h, how); });
}
Recurrent recurrent_layers(const std::string& kind, Operand input, const std::vector<RecurrentWeights>& weights,
                           bool both_directions, Operand hidden, Operand cell, const RecurrentOptions& options) {
  const ops::RecurrentCell which = recurrent_cell(kind, input.place());
  return recurrent(input, weights, hidden, cell, options, [&](auto x, auto& own, auto h, auto c, auto& how) {
    return ops::recurrent_layers(which, x, own, both_directions, h, c, how);
  });
}

Tensor dropout(Operand a, double rate) {
  Graphs& graphs = Graphs::of(a);
  if (!(rate >= 0 && rate < 1))
    throw Error({.what = "an impossible rate of dropout",
                 .where = ir::origin_of(a.place()),
                 .found = std::to_string(rate),
                 .expected = "0 or more, and less than 1"});
  if (rate == 0 || graphs.is_program()) return a.tensor();
  const std::string name = graphs.random_name("dropout");
  return graphs.build_each(a.place(), [&](int which, ir::GraphBuilder&) {
    const ir::Tensor x = graphs.in(which, a.tensor());
    return std::vector<ir::Tensor>{graphs.trains(which) ? ops::dropout(x, graphs.counter(which), rate, 0, name) : x};
  })[0];
}

Tensor by_use(Operand training, Operand evaluation) {
  Graphs& graphs = Graphs::of(training);
  check_together(graphs, training.place(), {&evaluation.tensor()});
  if (training.type() != evaluation.type())
    throw Error({.what = "what training and evaluation use must have one type",
                 .where = "by_use at " + ir::origin_of(training.place()),
                 .found = training.type().text() + " and " + evaluation.type().text()});
  return graphs.build_each(training.place(), [&](int which, ir::GraphBuilder&) {
    return std::vector<ir::Tensor>{graphs.in(which, graphs.trains(which) ? training.tensor() : evaluation.tensor())};
  })[0];
}

CrossEntropy cross_entropy(Operand logits, Operand labels) {
  const auto made = apply_many(
      [](ir::Tensor x, ir::Tensor y) {
        const ops::CrossEntropy entropy = ops::cross_entropy(x, y);
        return std::vector<ir::Tensor>{entropy.loss, entropy.count, entropy.correct};
      },
      logits, labels);
  return {made[0], made[1], made[2]};
}

}  // namespace ramet::v0
