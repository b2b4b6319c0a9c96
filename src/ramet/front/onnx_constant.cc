// ONNX's constants, and random numbers.
#include <cmath>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_random.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// The most bytes of a constant that a file asks for by its shape.
constexpr int64_t kMostBytes = int64_t{64} << 20;

void check_size(const OnnxCall& at, const TensorType& type) {
  for (const int64_t extent : type.shape.dims())
    if (extent < 0) at.refuse("a negative extent");
  if (type.bytes() > kMostBytes) at.refuse("a constant of " + std::to_string(type.bytes()) + " bytes is too large");
}

Values constant(const OnnxCall& at) {
  if (at.has("value")) return {at.constant(at.tensor("value"))};
  if (at.has("value_float")) return {at.constant(DType::kF32, {}, {at.number("value_float")})};
  if (at.has("value_int")) return {at.integer_constant({}, {at.integer("value_int")})};
  if (at.has("value_floats")) {
    const std::vector<double> values = at.numbers("value_floats");
    return {at.constant(DType::kF32, {std::ssize(values)}, values)};
  }
  if (at.has("value_ints")) {
    const std::vector<int64_t> values = at.integers("value_ints");
    return {at.integer_constant({std::ssize(values)}, values)};
  }
  if (at.has("value_string") || at.has("value_strings")) at.refuse("strings are not supported");
  at.refuse("sparse constants are not supported");
}

Values constant_of_shape(const OnnxCall& at) {
  const Shape shape(at.known_integers(0, "a shape"));
  HostTensor value = at.has("value") ? at.tensor("value") : HostTensor({DType::kF32, {1}});
  if (value.elements() != 1) at.refuse("the value of ConstantOfShape is not one number");
  for (const int64_t extent : shape.dims())
    if (extent < 0) at.refuse("a negative extent");
  // A broadcast takes no memory, whatever its shape.
  value.type.shape = {};
  if (TensorType{value.type.dtype, shape}.bytes() > (kMostBytes << 6)) at.refuse("the shape is too large");
  return {broadcast_to(at.constant(std::move(value)), shape)};
}

Values range(const OnnxCall& at) {
  const HostTensor &start = at.must_know(0, "the start of Range"), &limit = at.must_know(1, "the limit of Range"),
                   &delta = at.must_know(2, "the step of Range");
  if (start.elements() != 1 || limit.elements() != 1 || delta.elements() != 1) at.refuse("Range takes three numbers");
  const double step = delta.get(0);
  if (step == 0 || std::isnan(step)) at.refuse("the step of Range is 0");
  const double steps = std::ceil((limit.get(0) - start.get(0)) / step);
  const DType dtype = start.type.dtype;
  const int64_t count = steps > 0 ? static_cast<int64_t>(std::min(steps, 1e15)) : 0;
  check_size(at, {dtype, {count}});
  HostTensor made({dtype, {count}});
  for (int64_t i = 0; i < count; ++i) {
    if (!is_floating(dtype)) {
      const int64_t first = load_integer(start.data.data(), dtype, 0), each = load_integer(delta.data.data(), dtype, 0);
      store_integer(made.data.data(), dtype, i, first + i * each);
    } else {
      made.set(i, start.get(0) + static_cast<double>(i) * step);
    }
  }
  return {at.constant(std::move(made))};
}

Values eye_like(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (a.shape().rank() != 2) at.refuse("the operand of EyeLike must be a matrix");
  const DType dtype = at.dtype("dtype", a.dtype());
  const int64_t k = at.integer("k", 0), rows = a.dim(0), columns = a.dim(1);
  check_size(at, {dtype, a.shape()});
  HostTensor made({dtype, a.shape()});
  for (int64_t i = 0; i < rows; ++i)
    if (i + k >= 0 && i + k < columns) made.set(i * columns + i + k, 1);
  return {at.constant(std::move(made))};
}

/// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
Values window(const OnnxCall& at, double a0, double a1, double a2) {
  const int64_t size = at.known_integer(0, "the size of a window");
  const DType dtype = at.dtype("output_datatype", DType::kF32);
  check_size(at, {dtype, {size}});
  const auto n = static_cast<double>(at.flag("periodic", true) ? size : size - 1);
  HostTensor made({dtype, {size}});
  for (int64_t i = 0; i < size; ++i) {
    const double turn = n == 0 ? 0 : 2 * M_PI * static_cast<double>(i) / n;
    made.set(i, a0 - a1 * std::cos(turn) + a2 * std::cos(2 * turn));
  }
  return {at.constant(std::move(made))};
}
Values hann(const OnnxCall& at) { return window(at, 0.5, 0.5, 0); }
Values hamming(const OnnxCall& at) { return window(at, 25.0 / 46, 1 - 25.0 / 46, 0); }
Values blackman(const OnnxCall& at) { return window(at, 0.42, 0.5, 0.08); }

// --- random numbers ---

DrawBy draws(const OnnxCall& at) {
  if (at.importer().options().random != OnnxImporter::Options::Random::kDraw)
    at.refuse("random numbers are drawn in training only");
  return {.counter = at.importer().counter(),
          .seed = at.importer().options().seed,
          .random_name = at.importer().random_name(at.node())};
}
Tensor uniform(const OnnxCall& at, const Shape& shape, DType dtype) {
  return in_type(random_uniform(draws(at), shape, at.number("low", 0), at.number("high", 1)), dtype);
}
Tensor normal(const OnnxCall& at, const Shape& shape, DType dtype) {
  return in_type(random_normal(draws(at), shape, at.number("mean", 0), at.number("scale", 1)), dtype);
}
Values random_uniform(const OnnxCall& at) {
  return {uniform(at, Shape(at.integers("shape")), at.dtype("dtype", DType::kF32))};
}
Values random_uniform_like(const OnnxCall& at) {
  return {uniform(at, at.input(0).shape(), at.dtype("dtype", at.input(0).dtype()))};
}
Values random_normal(const OnnxCall& at) {
  return {normal(at, Shape(at.integers("shape")), at.dtype("dtype", DType::kF32))};
}
Values random_normal_like(const OnnxCall& at) {
  return {normal(at, at.input(0).shape(), at.dtype("dtype", at.input(0).dtype()))};
}
Values bernoulli(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {in_type(ops::bernoulli(draws(at), in_type(a, DType::kF32)), at.dtype("dtype", a.dtype()))};
}

Values dropout(const OnnxCall& at) {
  using Random = OnnxImporter::Options::Random;
  const Tensor a = at.input(0);
  const double rate = at.has(1) ? at.known_number(1, "the rate of Dropout") : at.number("ratio", 0.5);
  bool training = false;
  if (at.has(2)) training = at.known_integer(2, "the training mode of Dropout") != 0;
  if (at.version() < 7) training = !at.flag("is_test");
  const Random random = at.importer().options().random;
  if (training && rate > 0 && random == Random::kDraw) {
    if (at.wants(1)) at.refuse("the mask of Dropout is not supported in training");
    const DrawBy by = draws(at);
    return {ops::dropout(a, by.counter, rate, by.seed, by.random_name)};
  }
  if (training && rate > 0 && random == Random::kRefuse) at.refuse("random numbers are drawn in training only");
  const DType mask = at.version() < 10 ? a.dtype() : DType::kBool;
  return {a, at.wants(1) ? broadcast_to(at.full(mask, {}, 1), a.shape()) : Tensor()};
}

constexpr OnnxEntry kEntries[] = {
    {"Bernoulli", bernoulli},
    {"BlackmanWindow", blackman},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Dropout", dropout},
    {"EyeLike", eye_like},
    {"HammingWindow", hamming},
    {"HannWindow", hann},
    {"RandomNormal", random_normal},
    {"RandomNormalLike", random_normal_like},
    {"RandomUniform", random_uniform},
    {"RandomUniformLike", random_uniform_like},
    {"Range", range},
};

}  // namespace

std::span<const OnnxEntry> onnx_constant_operators() { return kEntries; }

}  // namespace ramet::front
