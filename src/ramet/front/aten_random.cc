#include <cmath>
#include <limits>

#include "ramet/front/aten_network.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_indexing.h"

// Random numbers and dropouts: by logical element, the same on every layout.

namespace ramet::front {
namespace {

DType float_of(DType dtype) { return is_floating(dtype) ? dtype : DType::kF32; }

/// Uniform numbers of the result's shape.
Tensor uniform(const Translation& at, double low, double high) {
  return random_uniform(draws_of(at), at.result().shape, low, high, float_of(at.result().dtype));
}
Tensor standard_normal(const Translation& at, const Shape& shape) {
  return random_normal(draws_of(at), shape, 0, 1, float_of(at.result().dtype));
}

/// Uniform in (0, 1): half a step above the multiples of 2^-24.
Tensor open_uniform(const Translation& at, const Shape& shape) {
  return add_scalar(random_uniform(draws_of(at), shape, 0, 1 - 0x1p-23), 0x1p-25);
}
/// Exponential numbers of rate 1.
Tensor exponential_of(const Translation& at, const Shape& shape) { return negate(log(open_uniform(at, shape))); }
/// Gumbel's numbers.
Tensor gumbel_of(const Translation& at, const Shape& shape) { return negate(log(exponential_of(at, shape))); }

std::vector<Tensor> rands(const Translation& at) { return {uniform(at, 0, 1)}; }
std::vector<Tensor> uniforms(const Translation& at) { return {uniform(at, at.number("from", 0), at.number("to", 1))}; }
std::vector<Tensor> randns(const Translation& at) { return {standard_normal(at, at.result().shape)}; }

std::vector<Tensor> normals(const Translation& at) {
  const auto constant_of = [&](const char* name, double absent) { return at.number(name, absent); };
  const bool mean = at.has("mean") && !at.is_number("mean"), deviation = at.has("std") && !at.is_number("std");
  if (!mean && !deviation)
    return {random_normal(draws_of(at), at.result().shape, constant_of("mean", 0), constant_of("std", 1),
                          float_of(at.result().dtype))};
  Tensor made = standard_normal(at, at.result().shape);
  if (at.has("std")) made = multiply(made, at.tensor("std"));
  return {at.has("mean") ? add(made, at.tensor("mean")) : made};
}

std::vector<Tensor> randints(const Translation& at) {
  const DType dtype = at.result().dtype == DType::kI64 ? DType::kI64 : DType::kI32;
  return {random_integers(draws_of(at), at.result().shape, at.integer("low", 0), at.integer("high"), dtype)};
}

/// The order of uniform numbers.
std::vector<Tensor> randperms(const Translation& at) {
  return {argsort(random_uniform(draws_of(at), at.result().shape), 0)};
}

std::vector<Tensor> exponentials(const Translation& at) {
  return {scale(exponential_of(at, at.result().shape), 1 / at.number("lambd", 1))};
}
std::vector<Tensor> log_normals(const Translation& at) {
  const Tensor z = random_normal(draws_of(at), at.result().shape, at.number("mean", 1), at.number("std", 2));
  return {exp(z)};
}

/// Where nothing is drawn, each number is its mean, as with dropout.
std::vector<Tensor> bernoullis(const Translation& at) {
  const TensorType& result = at.result();
  if (!at.draws() && is_floating(result.dtype)) {
    if (at.is_number("p")) return {full(at.build(), result.dtype, result.shape, at.number("p"))};
    return {at.has("p") ? broadcast_to(at.tensor("p"), result.shape) : at.tensor("self")};
  }
  if (at.is_number("p")) return {bernoulli(draws_of(at), result.shape, at.number("p"), float_of(result.dtype))};
  const Tensor chances = at.has("p") ? broadcast_to(at.tensor("p"), result.shape) : at.tensor("self");
  return {bernoulli(draws_of(at), without_gradient(in_f32(chances)))};
}

/// Classes by their weights: the greatest of Gumbel's numbers plus the logarithms of the weights.
std::vector<Tensor> multinomials(const Translation& at) {
  const Tensor weights = log(in_f32(without_gradient(at.tensor("self"))));
  const int64_t count = at.integer("num_samples");
  if (!at.flag("replacement", false)) return {top_k(add(weights, gumbel_of(at, weights.shape())), count).second};
  std::vector<int64_t> each = weights.shape().dims(), drawn = each;
  each.insert(each.end() - 1, 1), drawn.insert(drawn.end() - 1, count);
  return {argmax(add(reshape(weights, Shape(each)), gumbel_of(at, Shape(drawn))), -1)};
}

// --- dropouts ---

/// Whether the call drops elements, by its own argument too: a module in evaluation mode says no.
bool drops(const Translation& at) { return at.draws() && at.flag("train", true) && at.number("p") > 0; }

Tensor zeros_like(const Translation& at, Tensor a) { return full(at.build(), a.dtype(), a.shape(), 0); }

std::vector<Tensor> dropouts(const Translation& at) {
  const Tensor a = at.tensor("input");
  if (!drops(at)) return {a};
  if (at.number("p") >= 1) return {multiply(a, zeros_like(at, a))};
  return {dropout(a, at.counter(), at.number("p"), at.seed(), at.random_name())};
}

/// Also the mask, which is drawn apart only where somebody reads it.
std::vector<Tensor> native_dropouts(const Translation& at) {
  if (!at.reads(1)) return {dropouts(at)[0], {}};
  const Tensor a = at.tensor("input");
  const double rate = at.number("p");
  if (!drops(at)) return {a, full(at.build(), DType::kBool, a.shape(), 1)};
  const Tensor kept = bernoulli(draws_of(at), a.shape(), 1 - rate, a.dtype());
  const Tensor made = rate >= 1 ? multiply(a, kept) : scale(multiply(a, kept), 1 / (1 - rate));
  return {made, cast(kept, DType::kBool)};
}

/// One draw a channel of a sample, or one an element.
Shape noise_shape(Tensor a, bool channels) {
  std::vector<int64_t> dims = a.shape().dims();
  for (size_t i = 2; channels && i < dims.size(); ++i) dims[i] = 1;
  return Shape(dims);
}

std::vector<Tensor> feature_dropouts(const Translation& at) {
  const Tensor a = at.tensor("input");
  const double rate = at.number("p");
  if (!drops(at)) return {a};
  const Tensor kept = bernoulli(draws_of(at), noise_shape(a, true), 1 - rate, a.dtype());
  return {multiply(a, rate >= 1 ? kept : scale(kept, 1 / (1 - rate)))};
}

/// Dropped elements become the limit of selu; mean and variance stay (Klambauer et al., arXiv 1706.02515).
Tensor alpha_dropout_of(const Translation& at, bool channels) {
  constexpr double kAlpha = 1.7580993408473766;
  const Tensor a = at.tensor("input");
  const double rate = at.number("p");
  if (!drops(at)) return a;
  if (rate >= 1) return multiply(a, zeros_like(at, a));
  const Tensor kept = bernoulli(draws_of(at), noise_shape(a, channels), 1 - rate, a.dtype());
  const double factor = 1 / std::sqrt((kAlpha * kAlpha * rate + 1) * (1 - rate));
  const Tensor limit = scale(add_scalar(kept, rate - 1), kAlpha * factor);
  return add(multiply(a, scale(kept, factor)), limit);
}
std::vector<Tensor> alpha_dropouts(const Translation& at) { return {alpha_dropout_of(at, false)}; }
std::vector<Tensor> feature_alpha_dropouts(const Translation& at) { return {alpha_dropout_of(at, true)}; }

constexpr OperatorEntry kOperators[] = {
    {"aten.dropout", dropouts},
    {"aten.native_dropout", native_dropouts},
    {"aten.feature_dropout", feature_dropouts},
    {"aten.alpha_dropout", alpha_dropouts},
    {"aten.feature_alpha_dropout", feature_alpha_dropouts},
    {"aten.bernoulli", bernoullis},
    {"aten.rand", rands},
    {"aten.rand_like", rands},
    {"aten.uniform", uniforms},
    {"aten.randn", randns},
    {"aten.randn_like", randns},
    {"aten.normal", normals},
    {"aten.normal_functional", normals},
    {"aten.randint", randints},
    {"aten.randint_like", randints},
    {"aten.randperm", randperms},
    {"aten.exponential", exponentials},
    {"aten.log_normal", log_normals},
    {"aten.multinomial", multinomials},
};

}  // namespace

std::span<const OperatorEntry> random_operators() { return kOperators; }

}  // namespace ramet::front
