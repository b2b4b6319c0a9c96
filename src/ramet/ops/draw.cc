#include "ramet/ops/draw.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_random.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rounding.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

DrawKind kind_of(const NodeSignature& node) {
  const std::string& name = node.attributes.get_string("kind");
  if (name == "uniform") return DrawKind::kUniform;
  if (name == "normal") return DrawKind::kNormal;
  if (name == "integer") return DrawKind::kInteger;
  refuse(node, "unknown kind of random numbers", "'" + name + "'", "uniform, normal or integer");
}

std::vector<TensorType> infer(const NodeSignature& node) {
  require_type(node, 0, "counter", counter_type());
  const DrawForm form = draw_form(node);
  const TensorType type{node.attributes.get_dtype("dtype"), shape_attribute(node, "shape")};
  if (form.kind == DrawKind::kInteger ? !is_index(type.dtype) : !is_floating(type.dtype))
    refuse(node, "random numbers of the wrong element type", type.text(),
           form.kind == DrawKind::kInteger ? "i32 or i64" : "a floating-point type");
  return {type};
}

ShardingRule sharding(const NodeSignature& node) {
  RuleBuilder rule;
  rule.input({{rule.factor(2, true)}});
  ShardingRule::Operand out;
  for (const int64_t extent : node.outputs[0].shape.dims()) out.push_back({rule.factor(extent)});
  return rule.output(out).build();
}

void check_name(const std::string& op, const std::string& name, Tensor counter) {
  if (name.empty())
    throw Error({.what = "random numbers need the name of their logical tensor",
                 .where = op,
                 .remedy = "Give random_name, unique in the model"});
  if (!counter.valid())
    throw Error({.what = "random numbers need the input 'counter'",
                 .where = op + " '" + name + "'",
                 .expected = "an i64[2] scalar input {step, micro-batch index}"});
}

Tensor draw(const char* kind, const DrawBy& by, DType dtype, const Shape& shape, double a, double b) {
  check_name(kind, by.random_name, by.counter);
  return by.counter.builder->op("draw", {by.counter},
                                {{"kind", std::string(kind)},
                                 {"dtype", dtype},
                                 {"shape", shape.dims()},
                                 {"a", a},
                                 {"b", b},
                                 {"seed", by.seed},
                                 {"tensor", static_cast<int64_t>(hash64(by.random_name))}});
}

}  // namespace

DrawForm draw_form(const NodeSignature& node) {
  DrawForm form;
  form.kind = kind_of(node);
  form.a = node.attributes.get_float("a");
  form.b = node.attributes.get_float("b");
  form.seed = static_cast<uint64_t>(node.attributes.get_int("seed"));
  form.tensor = static_cast<uint64_t>(node.attributes.get_int("tensor"));
  const std::string found = text_of(form.a) + " and " + text_of(form.b);
  if (!std::isfinite(form.a) || !std::isfinite(form.b)) refuse(node, "'a' and 'b' must be finite", found);
  if (form.kind == DrawKind::kNormal && form.b < 0) refuse(node, "a deviation below 0", text_of(form.b), "0 or more");
  if (form.kind == DrawKind::kUniform && form.b < form.a) refuse(node, "bounds in the wrong order", found, "a <= b");
  if (form.kind == DrawKind::kInteger) {
    const bool whole = form.a == std::floor(form.a) && form.b == std::floor(form.b);
    const bool fits = std::fabs(form.a) <= 0x1p31 && form.b - form.a >= 1 && form.b - form.a <= 0x1p31;
    if (!whole || !fits) refuse(node, "no range of whole numbers", found, "whole numbers a < b, at most 2^31 of them");
  }
  return form;
}

void Drawing::fill(int64_t index, int64_t count, float* to) const {
  for (int64_t i = 0; i < count;) {
    const uint64_t element = first_ + static_cast<uint64_t>(index + i);
    if (form_.kind == DrawKind::kInteger) {
      to[i] = static_cast<float>(integer(index + i));
      ++i;
      continue;
    }
    const int64_t run = std::min<int64_t>(4 - static_cast<int64_t>(element % 4), count - i);
    if (form_.kind == DrawKind::kUniform) {
      const auto words = stream_.block(element / 4);
      for (int64_t j = 0; j < run; ++j, ++i) {
        const uint32_t word = words[(element + static_cast<uint64_t>(j)) % 4];
        to[i] = static_cast<float>(form_.a + (form_.b - form_.a) * (static_cast<double>(word >> 8) * 0x1p-24));
      }
    } else {
      const auto normals = stream_.normal_block(element / 4);
      for (int64_t j = 0; j < run; ++j, ++i)
        to[i] = static_cast<float>(form_.a + form_.b * normals[(element + static_cast<uint64_t>(j)) % 4]);
    }
  }
}

void register_draw_ops(OpRegistry& registry) {
  OpDef op;
  op.name = "draw";
  op.doc = "(counter i64[2]) -> random numbers by logical element, anew in every micro-batch (ops/draw.h)";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("kind", Kind::kString, "\"uniform\", \"normal\" or \"integer\""),
                   required_attribute("dtype", Kind::kDType, "of the result"),
                   required_attribute("shape", Kind::kInts, "of the result"),
                   required_attribute("a", Kind::kFloat, "low, or mean"),
                   required_attribute("b", Kind::kFloat, "high, which is not drawn, or deviation"),
                   required_attribute("seed", Kind::kInt, "of the random numbers"),
                   required_attribute("tensor", Kind::kInt, "id of the logical tensor: hash64 of its name")};
  op.infer = infer;
  op.gradient_stops = true;
  op.sharding = sharding;
  op.localize = localize_shape;
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 40); };
  op.positional = OpDef::kPositionalOutput;
  registry.add(std::move(op));
}

Tensor random_uniform(const DrawBy& by, const Shape& shape, double low, double high, DType dtype) {
  return draw("uniform", by, dtype, shape, low, high);
}
Tensor random_normal(const DrawBy& by, const Shape& shape, double mean, double deviation, DType dtype) {
  return draw("normal", by, dtype, shape, mean, deviation);
}
Tensor random_integers(const DrawBy& by, const Shape& shape, int64_t low, int64_t high, DType dtype) {
  return draw("integer", by, dtype, shape, static_cast<double>(low), static_cast<double>(high));
}

Tensor bernoulli(const DrawBy& by, const Shape& shape, double probability, DType dtype) {
  check_name("bernoulli", by.random_name, by.counter);
  if (!(probability >= 0 && probability <= 1))
    throw Error({.what = "a probability out of range",
                 .where = "bernoulli '" + by.random_name + "'",
                 .found = text_of(probability),
                 .expected = "0 to 1"});
  const Tensor chance = full(*by.counter.builder, DType::kF32, {}, probability);
  return cast(less(random_uniform(by, shape), chance), dtype);
}
Tensor bernoulli(const DrawBy& by, Tensor probabilities) {
  const Tensor drawn = random_uniform(by, probabilities.shape());
  // A cast even of f32: where the recipe computes in fewer bits, the draws must not.
  return cast(less(drawn, cast(probabilities, DType::kF32)), probabilities.dtype());
}

Tensor drop_path(Tensor a, const DrawBy& by, double rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error({.what = "the rate of drop_path is out of range",
                 .where = "drop_path '" + by.random_name + "'",
                 .found = text_of(rate),
                 .expected = "0 <= rate < 1"});
  if (rate == 0) return a;
  if (a.shape().rank() == 0)
    throw Error({.what = "drop_path of a scalar, which has no samples", .where = "drop_path '" + by.random_name + "'"});
  std::vector<int64_t> dims(static_cast<size_t>(a.shape().rank()), 1);
  dims[0] = a.dim(0);
  const Tensor kept = bernoulli(by, Shape(dims), 1 - rate);
  return scale(multiply(a, cast_to(kept, a.dtype())), 1 / (1 - rate));
}

}  // namespace ramet::ops
