// Every function of the public ramet/ops.h writes what the engine's function of that name writes, with each of its
// options at the engine's place: the nodes of both graphs are compared. That the engine's functions compute what they
// should: tests/ops.
#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "ramet/api/graphs.h"
#include "ramet/base/file.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_paths.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/ops/build_random.h"
#include "ramet/ops/build_recurrent.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/build_sparse.h"

#include "ramet/ramet.h"

namespace ramet::tests {
namespace {

/// Inputs of ops; `none` is left out.
template <typename Tensor>
struct In {
  Tensor a;            // f32[2,4,6]
  Tensor b;            // f32[2,4,6]
  Tensor c;            // f32[2,4,6]
  Tensor image;        // f32[2,4,6,6]
  Tensor square;       // f32[6,6]
  Tensor row;          // f32[6]
  Tensor channels;     // f32[4]
  Tensor mask;         // bool[2,4,6]
  Tensor whole;        // i32[2,4,6]
  Tensor other;        // i32[2,4,6]
  Tensor index;        // i32[3]
  Tensor places;       // i32[2,3,6]
  Tensor updates;      // f32[2,3,6]
  Tensor coordinates;  // i32[3,2]
  Tensor values;       // f32[3,6]
  Tensor many;         // i32[3,6]
  Tensor labels;       // i32[2,6]
  Tensor pairs;        // i32[2,2]
  Tensor numbers;      // i32[6]
  Tensor wide_labels;  // f32[2,6]
  Tensor two;          // i32[2]
  Tensor both;         // f32[2]
  Tensor filter;       // f32[8,2,3,3]
  Tensor transposed;   // f32[4,2,3,3]
  Tensor query;        // f32[2,5,4,6]
  Tensor key;          // f32[2,7,2,6]
  Tensor value;        // f32[2,7,2,3]
  Tensor key_mask;     // i32[2,7]
  Tensor bias;         // f32[1,4,5,7]
  Tensor bias_mask;    // bool[2,1,5,7]
  Tensor table;        // f32[3,4]
  Tensor grid;         // f32[2,3,3,2]
  Tensor theta;        // f32[2,2,3]
  Tensor columns;      // f32[2,16,9]
  Tensor steps;        // f32[5,2,3]
  Tensor gates;        // f32[16,3]
  Tensor state;        // f32[16,4]
  Tensor gate_bias;    // f32[16]
  Tensor projection;   // f32[3,4]
  Tensor peepholes;    // f32[3,4]
  Tensor small;        // f32[2,3]
  Tensor hidden;       // f32[2,4]
  Tensor states;       // f32[2,2,4]
  Tensor three;        // f32[12,3]
  Tensor of_three;     // f32[12,4]
  Tensor twelve;       // f32[12]
  Tensor both_rows;    // f32[2,2]
  Tensor eight;        // f32[2,8]
  Tensor keys;         // f32[8,2]
  Tensor stored;       // f32[1,2,2,1,2]
  Tensor slots;        // i32[1,2,2]
  Tensor one_gate;     // f32[4,3]
  Tensor of_one;       // f32[4,4]
  Tensor edge_ptr;     // i32[2,5]
  Tensor edge_list;    // i32[2,7]
  Tensor edge_weight;  // f32[2,7,2]
  Tensor none{};
};

/// An input for each field: `make(name, dtype, shape)`.
template <typename Tensor, typename Make>
In<Tensor> inputs_by(const Make& make) {
  constexpr DType f32 = DType::kF32, i32 = DType::kI32, flag = DType::kBool;
  int count = 0;
  const auto next = [&](DType dtype, const Shape& shape) { return make("in" + std::to_string(count++), dtype, shape); };
  In<Tensor> made;
  made.a = next(f32, {2, 4, 6});
  made.b = next(f32, {2, 4, 6});
  made.c = next(f32, {2, 4, 6});
  made.image = next(f32, {2, 4, 6, 6});
  made.square = next(f32, {6, 6});
  made.row = next(f32, Shape{6});
  made.channels = next(f32, Shape{4});
  made.mask = next(flag, {2, 4, 6});
  made.whole = next(i32, {2, 4, 6});
  made.other = next(i32, {2, 4, 6});
  made.index = next(i32, Shape{3});
  made.places = next(i32, {2, 3, 6});
  made.updates = next(f32, {2, 3, 6});
  made.coordinates = next(i32, {3, 2});
  made.values = next(f32, {3, 6});
  made.many = next(i32, {3, 6});
  made.labels = next(i32, {2, 6});
  made.pairs = next(i32, {2, 2});
  made.numbers = next(i32, Shape{6});
  made.wide_labels = next(f32, {2, 6});
  made.two = next(i32, Shape{2});
  made.both = next(f32, Shape{2});
  made.filter = next(f32, {8, 2, 3, 3});
  made.transposed = next(f32, {4, 2, 3, 3});
  made.query = next(f32, {2, 5, 4, 6});
  made.key = next(f32, {2, 7, 2, 6});
  made.value = next(f32, {2, 7, 2, 3});
  made.key_mask = next(i32, {2, 7});
  made.bias = next(f32, {1, 4, 5, 7});
  made.bias_mask = next(flag, {2, 1, 5, 7});
  made.table = next(f32, {3, 4});
  made.grid = next(f32, {2, 3, 3, 2});
  made.theta = next(f32, {2, 2, 3});
  made.columns = next(f32, {2, 16, 9});
  made.steps = next(f32, {5, 2, 3});
  made.gates = next(f32, {16, 3});
  made.state = next(f32, {16, 4});
  made.gate_bias = next(f32, Shape{16});
  made.projection = next(f32, {3, 4});
  made.peepholes = next(f32, {3, 4});
  made.small = next(f32, {2, 3});
  made.hidden = next(f32, {2, 4});
  made.states = next(f32, {2, 2, 4});
  made.three = next(f32, {12, 3});
  made.of_three = next(f32, {12, 4});
  made.twelve = next(f32, Shape{12});
  made.both_rows = next(f32, {2, 2});
  made.eight = next(f32, {2, 8});
  made.keys = next(f32, {8, 2});
  made.stored = next(f32, {1, 2, 2, 1, 2});
  made.slots = next(i32, {1, 2, 2});
  made.one_gate = next(f32, {4, 3});
  made.of_one = next(f32, {4, 4});
  made.edge_ptr = next(i32, {2, 5});
  made.edge_list = next(i32, {2, 7});
  made.edge_weight = next(f32, {2, 7, 2});
  return made;
}

using PublicIn = In<v0::Tensor>;
using EngineIn = In<ir::Tensor>;

// The results of a function, in a list.
template <typename Tensor>
std::vector<Tensor> list_of(const Tensor& tensor) {
  return {tensor};
}
template <typename Tensor>
std::vector<Tensor> list_of(const std::vector<Tensor>& tensors) {
  return tensors;
}
template <typename Tensor>
std::vector<Tensor> list_of(const std::pair<Tensor, Tensor>& tensors) {
  return {tensors.first, tensors.second};
}
std::vector<v0::Tensor> list_of(const v0::BatchNorm& norm) { return {norm.output, norm.mean, norm.variance}; }
std::vector<ir::Tensor> list_of(const ops::BatchNorm& norm) { return {norm.output, norm.mean, norm.variance}; }
std::vector<v0::Tensor> list_of(const v0::CrossEntropy& loss) { return {loss.loss, loss.count, loss.correct}; }
std::vector<ir::Tensor> list_of(const ops::CrossEntropy& loss) { return {loss.loss, loss.count, loss.correct}; }
std::vector<v0::Tensor> list_of(const v0::PathStatistics& m) { return {m.sum, m.squares, m.most, m.least}; }
std::vector<ir::Tensor> list_of(const ops::PathStatistics& m) { return {m.sum, m.squares, m.most, m.least}; }
std::vector<v0::Tensor> list_of(const v0::Recurrent& made) {
  std::vector<v0::Tensor> all{made.output, made.hidden};
  if (made.cell.valid()) all.push_back(made.cell);
  return all;
}
std::vector<ir::Tensor> list_of(const ops::Recurrent& made) {
  std::vector<ir::Tensor> all{made.output, made.hidden};
  if (made.cell.valid()) all.push_back(made.cell);
  return all;
}

/// The counter of random numbers, which the public functions declare where they first need one.
ir::Tensor counter(ir::Tensor beside) {
  return beside.builder->input("counter", DType::kI64, Shape{2}, ir::InputRole::kScalar);
}

struct Case {
  std::string name;
  std::function<std::vector<v0::Tensor>(const PublicIn&)> of_public;
  std::function<std::vector<ir::Tensor>(const EngineIn&)> of_engine;
};

void PrintTo(const Case& item, std::ostream* stream) { *stream << item.name; }

// A call that reads the same for both; and one for each.
#define BOTH(name, ...)                                                         \
  cases.push_back({#name,                                                       \
                   [](const PublicIn& in) {                                     \
                     using namespace v0;                                        \
                     using LossReduction [[maybe_unused]] = v0::LossReduction;  \
                     return list_of(__VA_ARGS__);                               \
                   },                                                           \
                   [](const EngineIn& in) {                                     \
                     using namespace ops;                                       \
                     using LossReduction [[maybe_unused]] = ops::LossReduction; \
                     return list_of(__VA_ARGS__);                               \
                   }});
#define EACH(name, of_public, of_engine)                                        \
  cases.push_back({#name, [](const PublicIn& in) { return list_of of_public; }, \
                   [](const EngineIn& in) { return list_of of_engine; }});

void add_elementwise(std::vector<Case>& cases) {
#define UNARY(name) BOTH(name, name(in.a))
#define BINARY(name) BOTH(name, name(in.a, in.b))
#define OF_INTEGERS(name) BOTH(name, name(in.whole, in.other))
  UNARY(negate) UNARY(exp) UNARY(log) UNARY(sqrt) UNARY(rsqrt) UNARY(tanh) UNARY(sigmoid) UNARY(relu) UNARY(erf);
  UNARY(gelu) UNARY(gelu_tanh) UNARY(silu) UNARY(selu) UNARY(relu6) UNARY(hardsigmoid) UNARY(hardswish) UNARY(mish);
  UNARY(softsign) UNARY(log_sigmoid) UNARY(is_nan) UNARY(is_inf) UNARY(is_finite);
  BINARY(add) BINARY(subtract) BINARY(multiply) BINARY(divide) BINARY(maximum) BINARY(minimum) BINARY(power);
  BINARY(equal) BINARY(less) BINARY(prelu) BINARY(swiglu) BINARY(remainder) BINARY(fmod) BINARY(floor_divide);
  BINARY(atan2) BINARY(hypot) BINARY(copysign) BINARY(logaddexp) BINARY(xlogy);
  OF_INTEGERS(bitwise_and) OF_INTEGERS(bitwise_or) OF_INTEGERS(bitwise_xor);
  OF_INTEGERS(shift_left) OF_INTEGERS(shift_right);
#undef UNARY
#undef BINARY
#undef OF_INTEGERS
  BOTH(bitwise_not, bitwise_not(in.whole));
  BOTH(scale, scale(in.a, 1.5));
  BOTH(add_scalar, add_scalar(in.a, 2.5));
  BOTH(select, select(in.mask, in.a, in.b));
  BOTH(cast, cast(in.a, DType::kBF16));
  BOTH(map_unary, map_unary("floor", in.a));
  BOTH(map_binary, map_binary("hypot", in.b, in.a));
  BOTH(leaky_relu, leaky_relu(in.a, 0.3));
  BOTH(elu, elu(in.a, 0.7));
  BOTH(celu, celu(in.a, 0.7));
  BOTH(hardtanh, hardtanh(in.a, -2, 3));
  BOTH(softplus, softplus(in.a, 2, 5));
  BOTH(softshrink, softshrink(in.a, 0.2));
  BOTH(hardshrink, hardshrink(in.a, 0.2));
  BOTH(thresholded, thresholded(in.a, 0.2, 7));
  BOTH(glu, glu(in.a, 1));
  BOTH(hardmax, hardmax(in.a, 1));
  BOTH(clamp, clamp(in.a, std::nullopt, 0.5));
  BOTH(clamp, clamp(in.a, -0.5, std::nullopt));
  BOTH(addcmul, addcmul(in.a, in.b, in.c, 0.3));
  BOTH(lerp, lerp(in.a, in.b, in.c));
  BOTH(nan_to_num, nan_to_num(in.a, 1, 2, -3));
  EACH(stop_gradient, (v0::stop_gradient(in.a)), (ops::map_unary("stop_gradient", in.a)));
}

void add_shapes(std::vector<Case>& cases) {
  BOTH(reshape, reshape(in.a, {4, -1}));
  BOTH(transpose, transpose(in.a, {2, 0, 1}));
  BOTH(broadcast_to, broadcast_to(in.row, {3, 6}));
  BOTH(slice, slice(in.a, {0, 1, 1}, {2, 4, 6}, {1, 2, 3}));
  BOTH(concat, concat(std::vector{in.a, in.b}, 1));
  BOTH(split, split(in.a, {1, 3}, 1));
  BOTH(pad, pad(in.a, {0, 1, 2}, {1, 0, 3}, 0.5));
  BOTH(move_axis, move_axis(in.a, 0, 2));
  BOTH(slice_axis, slice_axis(in.a, 2, 1, -1, 2));
  BOTH(select_index, select_index(in.a, 1, 2));
  BOTH(flip, flip(in.a, {0, 2}));
  BOTH(roll, roll(in.a, {1, 2}, {2, 1}));
  BOTH(tile, tile(in.a, {1, 2, 3}));
  BOTH(repeat_interleave, repeat_interleave(in.a, 3, 1));
  BOTH(stack, stack(std::vector{in.a, in.b}, 1));
  BOTH(tril, tril(in.a, -1));
  BOTH(triu, triu(in.a, 2));
  BOTH(pad_by, pad_by(in.a, {0, 1, 2}, {0, 2, 1}, "reflect"));
  BOTH(slice_scatter, slice_scatter(in.a, in.updates, 1, 0, 3, 1));
  BOTH(select_scatter, select_scatter(in.a, in.wide_labels, 1, 2));
  BOTH(diagonal, diagonal(in.a, 1, 2, 1));
  BOTH(unfold, unfold(in.a, 2, 3, 2));
}

void add_reductions(std::vector<Case>& cases) {
#define REDUCTION(name) BOTH(name, name(in.a, {2, 0}, true))
  REDUCTION(reduce_sum) REDUCTION(reduce_mean) REDUCTION(reduce_max) REDUCTION(reduce_min) REDUCTION(reduce_prod);
  REDUCTION(log_sum_exp) REDUCTION(count_nonzero);
#undef REDUCTION
  BOTH(any, any(in.mask, {1}, true));
  BOTH(all, all(in.mask, {1}, true));
  BOTH(variance, variance(in.a, {1}, 0.5, true));
  BOTH(standard_deviation, standard_deviation(in.a, {1}, 0.5, true));
  BOTH(vector_norm, vector_norm(in.a, 3, {1}, true));
  BOTH(argmin, argmin(in.a, 1));
  BOTH(argmax, argmax(in.a, 1));
  BOTH(cumsum, cumsum(in.a, 1));
  BOTH(top_k, top_k(in.a, 2));
  BOTH(top_k, top_k(in.a, 2, 1, false));
  BOTH(one_hot, one_hot(in.index, 5, DType::kF16));
}

void add_indexing(std::vector<Case>& cases) {
  BOTH(gather_elements, gather_elements(in.a, in.places, 1, true));
  EACH(scatter_elements, (v0::scatter_elements(in.a, in.places, in.updates, 1, "mul", false, true)),
       (ops::scatter_elements(in.a, in.places, in.updates, 1, {.by = "mul", .include_self = false}, true)));
  BOTH(index_select, index_select(in.a, in.index, 1, true));
  BOTH(gather_nd, gather_nd(in.a, in.coordinates, 0, true));
  BOTH(gather_nd, gather_nd(in.a, in.pairs, 1, false));
  EACH(scatter_nd, (v0::scatter_nd(in.a, in.coordinates, in.values, "max", false, true)),
       (ops::scatter_nd(in.a, in.coordinates, in.values, {.by = "max", .include_self = false}, true)));
  BOTH(index, index(in.a, std::vector{in.none, in.index, in.index}));
  BOTH(index_put, index_put(in.a, std::vector{in.none, in.none, in.numbers}, in.c, true));
  BOTH(masked_scatter, masked_scatter(in.a, in.mask, in.b));
  BOTH(sort, sort(in.a, 1, true));
  BOTH(argsort, argsort(in.a, 1, true));
  BOTH(search_sorted, search_sorted(in.a, in.b, true, in.whole));
  BOTH(cumprod, cumprod(in.a, 1));
  BOTH(cummax, cummax(in.a, 1));
  BOTH(cummin, cummin(in.a, 1));
  BOTH(linear_scan, linear_scan(in.a, in.b, 1, true));
  BOTH(gather, gather(in.square, in.index));
  BOTH(scatter_add, scatter_add(in.index, in.values, 5));
  BOTH(pair_distance, pair_distance(in.a, in.b, "complex", in.c));
  BOTH(pair_distance, pair_distance(in.a, in.b, "l1", in.none));
}

ops::NeighborLists lists(const EngineIn& in) {
  return {.source = in.edge_list,
          .ptr = in.edge_ptr,
          .target = in.edge_list,
          .by_source = in.edge_list,
          .source_ptr = in.edge_ptr};
}
ops::PathLists path_lists(const EngineIn& in) {
  return {.source = in.edge_list, .relation = in.edge_list, .ptr = in.edge_ptr};
}

void add_graphs(std::vector<Case>& cases) {
  BOTH(segment_sum, segment_sum(in.edge_weight, in.edge_ptr));
  BOTH(segment_mean, segment_mean(in.edge_weight, in.edge_ptr));
  BOTH(segment_max, segment_max(in.edge_weight, in.edge_ptr));
  BOTH(segment_min, segment_min(in.edge_weight, in.edge_ptr));
  BOTH(segment_softmax, segment_softmax(in.edge_weight, in.edge_ptr));
  BOTH(segment_expand, segment_expand(in.a, in.edge_ptr, 7));
  BOTH(gather_rows, gather_rows(in.a, in.edge_list));
  EACH(neighbor_sum,
       (v0::neighbor_sum(in.a, in.edge_list, in.edge_ptr, in.edge_list, in.edge_list, in.edge_ptr, in.edge_weight)),
       (ops::neighbor_sum(in.a, lists(in), in.edge_weight)));
  EACH(neighbor_sum, (v0::neighbor_sum(in.a, in.edge_list, in.edge_ptr, in.edge_list, in.edge_list, in.edge_ptr)),
       (ops::neighbor_sum(in.a, lists(in))));
  EACH(neighbor_dot,
       (v0::neighbor_dot(in.a, in.b, in.edge_list, in.edge_ptr, in.edge_list, in.edge_list, in.edge_ptr, 2)),
       (ops::neighbor_dot(in.a, in.b, lists(in), 2)));
  EACH(path_sum, (v0::path_sum(in.a, in.b, in.c, in.edge_list, in.edge_list, in.edge_ptr, "rotation", 2)),
       (ops::path_sum(in.a, in.b, in.c, path_lists(in), "rotation", 2)));
  EACH(path_statistics, (v0::path_statistics(in.a, in.b, in.c, in.edge_list, in.edge_list, in.edge_ptr, "sum")),
       (ops::path_statistics(in.a, in.b, in.c, path_lists(in), "sum")));
}

void add_products(std::vector<Case>& cases) {
  BOTH(matmul, matmul(in.a, in.a, true, false, DType::kF32));
  BOTH(matmul, matmul(in.a, in.a, false, true, DType::kBF16));
  BOTH(linear, linear(in.a, in.square, in.row, false));
  EACH(sparse_matmul, (v0::sparse_matmul(in.eight, in.stored, in.slots, 2, 4)),
       (ops::sparse_matmul(in.eight, in.stored, in.slots, {2, 4})));
  EACH(sparse_matmul, (v0::sparse_matmul(in.both_rows, in.stored, in.slots, 2, 4, true)),
       (ops::sparse_matmul(in.both_rows, in.stored, in.slots, {2, 4}, true)));
  EACH(sparse_outer, (v0::sparse_outer(in.both_rows, in.eight, in.slots, 2, 4, 1, 2)),
       (ops::sparse_outer(in.both_rows, in.eight, in.slots, {2, 4}, 1, 2)));
  EACH(sparse_softmax, (v0::sparse_softmax(in.stored, in.slots, 2, 4, "lower")),
       (ops::sparse_softmax(in.stored, in.slots, {2, 4}, "lower")));
  EACH(sparse_gather, (v0::sparse_gather(in.numbers, in.stored, in.slots, 2, 4)),
       (ops::sparse_gather(in.numbers, in.stored, in.slots, {2, 4})));
  EACH(sparse_scatter_add, (v0::sparse_scatter_add(in.two, in.eight, in.slots, 2, 4, 1, 2)),
       (ops::sparse_scatter_add(in.two, in.eight, in.slots, {2, 4}, 1, 2)));
  EACH(sparse_attention, (v0::sparse_attention(in.both_rows, in.keys, in.keys, in.slots, 2, 4, 1, 2, 0.5, "upper")),
       (ops::sparse_attention(in.both_rows, in.keys, in.keys, in.slots, {2, 4}, 1, 2, 0.5, "upper")));
  BOTH(einsum, einsum("nab,bc->nac", std::vector{in.a, in.square}));
  BOTH(convolution, convolution(in.image, in.filter, in.none,
                                {.strides = {1, 2}, .dilations = {2, 1}, .low = {1, 2}, .high = {3, 0}, .groups = 2}));
  BOTH(convolution_transposed,
       convolution_transposed(in.image, in.transposed, in.channels,
                              {.strides = {2, 3}, .dilations = {2, 1}, .low = {1, 2}, .high = {0, 1}, .groups = 2},
                              {1, 2}));
}

void add_networks(std::vector<Case>& cases) {
  BOTH(softmax, softmax(in.a, 1));
  BOTH(log_softmax, log_softmax(in.a, 1));
  BOTH(layer_norm, layer_norm(in.a, in.row, in.row, 1e-3));
  BOTH(rms_norm, rms_norm(in.a, in.row, 1e-3));
  BOTH(batch_norm, batch_norm(in.a, in.row, in.none, 1e-3, true));
  BOTH(batch_norm_apply, batch_norm_apply(in.a, in.channels, in.none, in.channels, in.channels, 1e-3, false));
  BOTH(group_norm, group_norm(in.a, in.row, in.none, 3, 1e-3, true));
  BOTH(instance_norm, instance_norm(in.a, in.row, in.none, 1e-3, true));
  BOTH(local_response_norm, local_response_norm(in.image, 3, 0.1, 0.5, 2, true));
  BOTH(max_pool, max_pool(in.image, {.taps = {2, 3},
                                     .strides = {1, 2},
                                     .dilations = {2, 1},
                                     .low = {1, 0},
                                     .high = {0, 1},
                                     .ceil_mode = true,
                                     .channels_last = true}));
  BOTH(max_pool_with_indices, max_pool_with_indices(in.image, {.taps = {2, 3}, .ceil_mode = true}));
  BOTH(average_pool, average_pool(in.image, {.taps = {3, 3}, .low = {1, 0}, .count_padding = false}, 7));
  BOTH(lp_pool, lp_pool(in.image, {.taps = {3, 2}, .strides = {1, 2}}, 3));
  BOTH(adaptive_average_pool, adaptive_average_pool(in.image, {2, 3}, true));
  BOTH(adaptive_max_pool, adaptive_max_pool(in.image, {2, 3}, true));
  BOTH(adaptive_max_pool_with_indices, adaptive_max_pool_with_indices(in.image, {2, 3}, true));
  BOTH(global_average_pool, global_average_pool(in.image, true));
  BOTH(global_max_pool, global_max_pool(in.image, true));
}

void add_attention(std::vector<Case>& cases) {
  EACH(attention, (v0::attention(in.query, in.key, in.value, in.key_mask, {.causal = true, .scale = 0.3})),
       (ops::attention_with(in.query, in.key, in.value, {.key_mask = in.key_mask}, {.causal = true, .scale = 0.3})));
  EACH(attention_with,
       (v0::attention_with(in.query, in.key, in.value,
                           {.mask = in.bias_mask,
                            .bias = in.bias,
                            .alibi = true,
                            .bottom_right = true,
                            .window_left = 2,
                            .window_right = 1,
                            .soft_cap = 3})),
       (ops::attention_with(
           in.query, in.key, in.value,
           {.mask = in.bias_mask,
            .bias = in.bias,
            .slopes = ops::constant(*in.query.builder,
                                    ir::TensorData(HostTensor::of(DType::kF32, Shape{4}, ops::alibi_slopes(4)))),
            .bottom_right = true,
            .window_left = 2,
            .window_right = 1,
            .soft_cap = 3})));
  EACH(attention_with,
       (v0::attention_with(in.key, in.key, in.value, {.key_mask = in.key_mask}, {.segments = true, .dropout = 0.2})),
       (ops::attention_with(in.key, in.key, in.value, {.key_mask = in.key_mask},
                            {.segments = true, .dropout = 0.2, .random_name = "name"}, counter(in.key))));
  EACH(t5_bias, (v0::t5_bias(in.square, 5, 7, false, 40)),
       (ops::relative_bias(in.square,
                           ops::constant(*in.square.builder, ir::TensorData(ops::t5_buckets(5, 7, false, 6, 40))))));
  EACH(swin_bias, (v0::swin_bias(in.table, 2, 1)),
       (ops::relative_bias(in.table, ops::constant(*in.square.builder, ir::TensorData(ops::swin_places(2, 1))))));
  EACH(rotary, (v0::rotary(in.query, {.rotated = 4, .base = 100, .neighbours = true})),
       (ops::rotary(in.query, ops::rotary_tables(*in.query.builder, 5, ops::rotary_frequencies(4, 100)),
                    ops::RotaryPairs::kNeighbours)));
  EACH(rotary, (v0::rotary(in.query, {.frequencies = {1, 0.5}})),
       (ops::rotary(in.query, ops::rotary_tables(*in.query.builder, 5, {1, 0.5}))));
}

void add_random(std::vector<Case>& cases) {
  const auto drawn = [](ir::Tensor like) { return ops::DrawBy{.counter = counter(like), .random_name = "name"}; };
  EACH(dropout, (v0::dropout(in.a, 0.3)), (ops::dropout(in.a, counter(in.a), 0.3, 0, "name")));
  cases.push_back({"random_uniform", [](const PublicIn& in) { return list_of(v0::random_uniform(in.a, -1, 2)); },
                   [=](const EngineIn& in) { return list_of(ops::random_uniform(drawn(in.a), in.a.shape(), -1, 2)); }});
  cases.push_back({"random_normal", [](const PublicIn& in) { return list_of(v0::random_normal(in.a, 1, 2)); },
                   [=](const EngineIn& in) { return list_of(ops::random_normal(drawn(in.a), in.a.shape(), 1, 2)); }});
  cases.push_back({"bernoulli", [](const PublicIn& in) { return list_of(v0::bernoulli(in.a)); },
                   [=](const EngineIn& in) { return list_of(ops::bernoulli(drawn(in.a), in.a)); }});
  cases.push_back({"drop_path", [](const PublicIn& in) { return list_of(v0::drop_path(in.a, 0.3)); },
                   [=](const EngineIn& in) { return list_of(ops::drop_path(in.a, drawn(in.a), 0.3)); }});
  // What training uses.
  EACH(by_use, (v0::by_use(in.a, in.b)), (in.a));
}

void add_losses(std::vector<Case>& cases) {
  EACH(cross_entropy, (v0::cross_entropy(in.hidden, in.two)), (ops::cross_entropy(in.hidden, in.two)));
  EACH(cross_entropy_loss,
       (v0::cross_entropy_loss(in.a, in.labels, in.channels,
                               {.label_smoothing = 0.2, .ignore_index = 3, .reduction = v0::LossReduction::kSum})),
       (ops::cross_entropy_loss(
           in.a, in.labels,
           {.weight = in.channels, .label_smoothing = 0.2, .ignore_index = 3, .reduction = ops::LossReduction::kSum})));
  EACH(nll_loss,
       (v0::nll_loss(in.a, in.labels, in.channels, {.ignore_index = 3, .reduction = v0::LossReduction::kNone})),
       (ops::nll_loss(in.a, in.labels,
                      {.weight = in.channels, .ignore_index = 3, .reduction = ops::LossReduction::kNone})));
  BOTH(binary_cross_entropy, binary_cross_entropy(in.a, in.b, in.c, LossReduction::kSum));
  BOTH(binary_cross_entropy_with_logits,
       binary_cross_entropy_with_logits(in.a, in.b, in.c, in.row, LossReduction::kNone));
  BOTH(mse_loss, mse_loss(in.a, in.b, LossReduction::kSum));
  BOTH(l1_loss, l1_loss(in.a, in.b, LossReduction::kNone));
  BOTH(smooth_l1_loss, smooth_l1_loss(in.a, in.b, 0.3, LossReduction::kSum));
  BOTH(huber_loss, huber_loss(in.a, in.b, 0.3, LossReduction::kNone));
  BOTH(kl_divergence, kl_divergence(in.a, in.b, true, LossReduction::kSum, true));
  BOTH(gaussian_nll_loss, gaussian_nll_loss(in.a, in.b, in.c, true, 1e-3, LossReduction::kSum));
  BOTH(poisson_nll_loss, poisson_nll_loss(in.a, in.b, false, true, 1e-3, LossReduction::kNone));
  BOTH(margin_ranking_loss, margin_ranking_loss(in.a, in.b, in.c, 0.3, LossReduction::kSum));
  BOTH(hinge_embedding_loss, hinge_embedding_loss(in.a, in.b, 0.3, LossReduction::kNone));
  BOTH(soft_margin_loss, soft_margin_loss(in.a, in.b, LossReduction::kSum));
  BOTH(multilabel_soft_margin_loss, multilabel_soft_margin_loss(in.values, in.values, in.row, LossReduction::kSum));
  BOTH(multilabel_margin_loss, multilabel_margin_loss(in.values, in.many, LossReduction::kNone));
  BOTH(multi_margin_loss, multi_margin_loss(in.hidden, in.two, 2, 0.3, in.channels, LossReduction::kSum));
  BOTH(cosine_similarity, cosine_similarity(in.a, in.b, 2, 1e-3));
  BOTH(cosine_embedding_loss, cosine_embedding_loss(in.hidden, in.hidden, in.both, 0.3, LossReduction::kSum));
  BOTH(triplet_margin_loss,
       triplet_margin_loss(in.a, in.b, in.c,
                           {.margin = 0.3, .p = 3, .epsilon = 1e-3, .swap = true, .reduction = LossReduction::kNone}));
  BOTH(ctc_loss, ctc_loss(in.steps, in.labels, in.two, in.two,
                          {.blank = 2, .zero_infinity = true, .reduction = LossReduction::kSum}));
}

void add_resizing(std::vector<Case>& cases) {
  EACH(
      resize,
      (v0::resize(in.image, {3, 9}, {.mode = "bicubic", .corners = true, .scales = {0.5, 1.5}, .channels_last = true})),
      (ops::resize(in.image, {3, 9}, {ops::resample_rule_of_mode("bicubic", true, false), {0.5, 1.5}, true})));
  EACH(resize, (v0::resize(in.image, {3, 9}, {.mode = "linear", .antialias = true})),
       (ops::resize(in.image, {3, 9}, {ops::resample_rule_of_mode("linear", false, true)})));
  BOTH(grid_sample, grid_sample(in.image, in.grid,
                                {.method = "cubic", .padding = "border", .corners = true, .channels_last = true}));
  BOTH(affine_grid, affine_grid(in.theta, {3, 4}, true));
  BOTH(pixel_shuffle, pixel_shuffle(in.image, 2, false));
  BOTH(pixel_unshuffle, pixel_unshuffle(in.image, 2, true));
  BOTH(channel_shuffle, channel_shuffle(in.image, 3, true));
  BOTH(im2col, im2col(in.image, {.taps = {2, 3},
                                 .strides = {1, 2},
                                 .dilations = {2, 1},
                                 .low = {1, 0},
                                 .high = {0, 1},
                                 .channels_last = true}));
  BOTH(col2im, col2im(in.columns, {4, 4}, {.taps = {2, 2}}));
}

void add_recurrent(std::vector<Case>& cases) {
  BOTH(lstm, lstm(in.steps, {in.gates, in.gates, in.gate_bias, in.gate_bias, in.projection, in.peepholes}, in.small,
                  in.hidden, {.reverse = true, .lengths = in.two}));
  BOTH(gru, gru(in.steps, {in.three, in.of_three, in.none, in.twelve}, in.hidden, {.reset_after = false}));
  BOTH(rnn, rnn(in.steps, {in.one_gate, in.of_one}, in.hidden, {.relu = true}));
  EACH(recurrent_layers,
       (v0::recurrent_layers("lstm", in.steps, {{in.gates, in.state}, {in.gates, in.state}}, true, in.states, in.states,
                             {.lengths = in.two})),
       (ops::recurrent_layers(ops::RecurrentCell::kLstm, in.steps, {{in.gates, in.state}, {in.gates, in.state}}, true,
                              in.states, in.states, {.lengths = in.two})));
}

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const auto add : {add_elementwise, add_shapes, add_reductions, add_indexing, add_graphs, add_products,
                         add_networks, add_attention, add_random, add_losses, add_resizing, add_recurrent})
    add(cases);
  return cases;
}

/// A graph's nodes, one a line, without the names that random numbers have.
std::string listing(const ir::Graph& graph, const std::vector<ir::ValueId>& results) {
  std::string text;
  for (const ir::Node& node : graph.nodes()) {
    text += node.op->name;
    for (const ir::ValueId input : node.inputs) text += " " + std::to_string(input);
    for (const auto& [name, value] : node.attributes)
      if (name != "tensor") text += " " + name + "=" + ir::text_of(value);
    for (const ir::ValueId output : node.outputs) text += " -> " + graph.type(output).text();
    text += "\n";
  }
  for (const ir::ValueId result : results) text += "result " + std::to_string(result) + "\n";
  return text;
}

class EveryOp : public testing::TestWithParam<Case> {};

TEST_P(EveryOp, IsTheEnginesFunction) {
  const Case& item = GetParam();
  v0::ModelBuilder model("public");
  const PublicIn of_model = inputs_by<v0::Tensor>(
      [&](const std::string& name, DType dtype, const Shape& shape) { return model.input(name, dtype, shape); });
  const std::vector<v0::Tensor> found = item.of_public(of_model);
  v0::detail::Graphs& graphs = v0::detail::Graphs::of(of_model.a);
  std::vector<ir::ValueId> ids;
  for (const v0::Tensor& tensor : found) ids.push_back(graphs.in(0, tensor).id);

  ir::Graph graph("engine");
  ir::GraphBuilder build(graph);
  const EngineIn of_engine = inputs_by<ir::Tensor>(
      [&](const std::string& name, DType dtype, const Shape& shape) { return build.input(name, dtype, shape); });
  std::vector<ir::ValueId> wanted;
  for (const ir::Tensor& tensor : item.of_engine(of_engine)) wanted.push_back(tensor.id);
  EXPECT_EQ(listing(graphs.graph(0), ids), listing(graph, wanted));
}

INSTANTIATE_TEST_SUITE_P(Public, EveryOp, testing::ValuesIn(every_case()),
                         [](const auto& info) { return info.param.name + "_" + std::to_string(info.index); });

TEST(EveryOpTable, HasAllFunctionsOfTheHeader) {
  std::set<std::string> known;
  for (const Case& item : every_case()) known.insert(item.name);
  const std::string header = read_file(RAMET_SOURCE_DIR "/include/ramet/ops.h");
  const std::regex declaration(R"(RAMET_API [\w:<>, ]+ (\w+)\()");
  int count = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it, ++count)
    EXPECT_TRUE(known.contains((*it)[1])) << (*it)[1] << " has no case in this file";
  EXPECT_GT(count, 150);
}

}  // namespace
}  // namespace ramet::tests
