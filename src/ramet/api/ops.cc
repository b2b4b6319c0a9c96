#include "ramet/api/graphs.h"

#include "ramet/base/error.h"
#include "ramet/ops.h"
#include "ramet/ops/build_recurrent.h"

namespace ramet::v0 {
namespace {

using detail::Graphs;

/// Throws Error unless all operands belong to one model or program; those that were never made are allowed to be there.
void check_together(const Graphs& graphs, const std::source_location& place, std::initializer_list<const Tensor*> all) {
  for (const Tensor* tensor : all)
    if (!Graphs::has(*tensor, graphs))
      throw Error({.what = "tensors of two models or programs in one op", .where = ir::origin_of(place)});
}

/// An op of several results: `op` is a function on the engine's tensors.
template <typename Op, typename... Operands>
std::vector<Tensor> apply_many(const Op& op, const Operand& first, const Operands&... more) {
  Graphs& graphs = Graphs::of(first);
  check_together(graphs, first.place(), {&first.tensor(), &more.tensor()...});
  return graphs.build_each(first.place(), [&](int which, ir::GraphBuilder&) -> std::vector<ir::Tensor> {
    return op(graphs.in(which, first.tensor()), graphs.in(which, more.tensor())...);
  });
}
template <typename Op, typename... Operands>
Tensor apply(const Op& op, const Operand& first, const Operands&... more) {
  return apply_many([&](auto... tensors) { return std::vector<ir::Tensor>{op(tensors...)}; }, first, more...)[0];
}

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
  const auto made = apply_many(
      [&](ir::Tensor x) {
        const auto [values, indices] = ops::top_k(x, k);
        return std::vector<ir::Tensor>{values, indices};
      },
      a);
  return {made[0], made[1]};
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
Tensor gather(Operand table, Operand indices) {
  return apply([](ir::Tensor t, ir::Tensor i) { return ops::gather(t, i); }, table, indices);
}
Tensor scatter_add(Operand indices, Operand updates, int64_t rows) {
  return apply([&](ir::Tensor i, ir::Tensor u) { return ops::scatter_add(i, u, rows); }, indices, updates);
}

Tensor attention(Operand query, Operand key, Operand value, Operand mask, const AttentionOptions& options) {
  Graphs& graphs = Graphs::of(query);
  check_together(graphs, query.place(), {&key.tensor(), &value.tensor(), &mask.tensor()});
  ops::AttentionOptions how{.causal = options.causal,
                            .segments = options.segments,
                            .scale = options.scale,
                            .random_name = options.dropout > 0 ? graphs.random_name("attention") : ""};
  return graphs.build_each(query.place(), [&](int which, ir::GraphBuilder&) {
    how.dropout = graphs.trains(which) ? options.dropout : 0;
    const auto in = [&](const Operand& operand) { return graphs.in(which, operand.tensor()); };
    return std::vector<ir::Tensor>{ops::attention(in(query), in(key), in(value), in(mask),
                                                  how.dropout > 0 ? graphs.counter(which) : ir::Tensor{}, how)};
  })[0];
}

namespace {

/// A recurrent layer: `op` is a function on the engine's tensors and options.
template <typename Op>
Recurrent recurrent(const Operand& input, const RecurrentWeights& weights, const Operand& hidden, const Operand& cell,
                    const RecurrentOptions& options, const Op& op) {
  Graphs& graphs = Graphs::of(input);
  check_together(graphs, input.place(),
                 {&weights.input, &weights.hidden, &weights.input_bias, &weights.hidden_bias, &weights.projection,
                  &weights.peepholes, &options.lengths, &hidden.tensor(), &cell.tensor()});
  const std::vector<Tensor> results = graphs.build_each(input.place(), [&](int which, ir::GraphBuilder&) {
    const auto in = [&](const Tensor& tensor) { return graphs.in(which, tensor); };
    const ops::RecurrentWeights own{in(weights.input),       in(weights.hidden),     in(weights.input_bias),
                                    in(weights.hidden_bias), in(weights.projection), in(weights.peepholes)};
    const ops::RecurrentOptions how{options.reverse, in(options.lengths), options.reset_after, options.relu};
    const ops::Recurrent made = op(in(input.tensor()), own, in(hidden.tensor()), in(cell.tensor()), how);
    std::vector<ir::Tensor> all{made.output, made.hidden};
    if (made.cell.valid()) all.push_back(made.cell);
    return all;
  });
  return {results[0], results[1], results.size() > 2 ? results[2] : Tensor()};
}

}  // namespace

Recurrent lstm(Operand input, const RecurrentWeights& weights, Operand hidden, Operand cell,
               const RecurrentOptions& options) {
  return recurrent(input, weights, hidden, cell, options, [](auto... all) { return ops::lstm(all...); });
}
Recurrent gru(Operand input, const RecurrentWeights& weights, Operand hidden, const RecurrentOptions& options) {
  return recurrent(input, weights, hidden, Tensor(), options,
                   [](auto x, auto& own, auto h, auto, auto& how) { return ops::gru(x, own, h, how); });
}
Recurrent rnn(Operand input, const RecurrentWeights& weights, Operand hidden, const RecurrentOptions& options) {
  return recurrent(input, weights, hidden, Tensor(), options,
                   [](auto x, auto& own, auto h, auto, auto& how) { return ops::rnn(x, own, h, how); });
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
