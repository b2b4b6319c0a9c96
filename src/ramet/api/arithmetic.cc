#include "ramet/api/apply.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_random.h"

namespace ramet::v0 {

#define RAMET_UNARY(name)                                       \
  Tensor name(Operand a) {                                      \
    return apply([](ir::Tensor x) { return ops::name(x); }, a); \
  }
#define RAMET_BINARY(name)                                                          \
  Tensor name(Operand a, Operand b) {                                               \
    return apply([](ir::Tensor x, ir::Tensor y) { return ops::name(x, y); }, a, b); \
  }
#define RAMET_UNARY_WITH(name)                                           \
  Tensor name(Operand a, double option) {                                \
    return apply([&](ir::Tensor x) { return ops::name(x, option); }, a); \
  }
#define RAMET_UNARY_WITH_TWO(name)                                              \
  Tensor name(Operand a, double first, double second) {                         \
    return apply([&](ir::Tensor x) { return ops::name(x, first, second); }, a); \
  }
RAMET_UNARY(silu)
RAMET_UNARY_WITH(leaky_relu)
RAMET_UNARY_WITH(elu)
RAMET_UNARY_WITH(celu)
RAMET_UNARY(selu)
RAMET_BINARY(prelu)
RAMET_UNARY(relu6)
RAMET_UNARY_WITH_TWO(hardtanh)
RAMET_UNARY(hardsigmoid)
RAMET_UNARY(hardswish)
RAMET_UNARY(mish)
RAMET_UNARY(softsign)
RAMET_UNARY_WITH_TWO(softplus)
RAMET_UNARY(log_sigmoid)
RAMET_UNARY_WITH(softshrink)
RAMET_UNARY_WITH(hardshrink)
RAMET_UNARY_WITH_TWO(thresholded)
RAMET_BINARY(swiglu)
RAMET_BINARY(remainder)
RAMET_BINARY(fmod)
RAMET_BINARY(floor_divide)
RAMET_BINARY(atan2)
RAMET_BINARY(hypot)
RAMET_BINARY(copysign)
RAMET_BINARY(logaddexp)
RAMET_BINARY(xlogy)
RAMET_BINARY(bitwise_and)
RAMET_BINARY(bitwise_or)
RAMET_BINARY(bitwise_xor)
RAMET_UNARY(bitwise_not)
RAMET_BINARY(shift_left)
RAMET_BINARY(shift_right)
RAMET_UNARY(is_nan)
RAMET_UNARY(is_inf)
RAMET_UNARY(is_finite)
#undef RAMET_UNARY
#undef RAMET_BINARY
#undef RAMET_UNARY_WITH
#undef RAMET_UNARY_WITH_TWO

Tensor glu(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::glu(x, axis); }, a);
}
Tensor hardmax(Operand a, int64_t axis) {
  return apply([&](ir::Tensor x) { return ops::hardmax(x, axis); }, a);
}
Tensor clamp(Operand a, std::optional<double> low, std::optional<double> high) {
  return apply([&](ir::Tensor x) { return ops::clamp(x, low, high); }, a);
}
Tensor addcmul(Operand a, Operand b, Operand c, double factor) {
  return apply([&](ir::Tensor x, ir::Tensor y, ir::Tensor z) { return ops::addcmul(x, y, z, factor); }, a, b, c);
}
Tensor lerp(Operand a, Operand b, Operand weight) {
  return apply([](ir::Tensor x, ir::Tensor y, ir::Tensor w) { return ops::lerp(x, y, w); }, a, b, weight);
}
Tensor nan_to_num(Operand a, double nan, std::optional<double> high, std::optional<double> low) {
  return apply([&](ir::Tensor x) { return ops::nan_to_num(x, nan, high, low); }, a);
}

namespace {

/// Random numbers in training, what `otherwise` gives elsewhere.
template <typename Draw, typename Otherwise>
Tensor drawn(const char* what, const Operand& a, const Draw& draw, const Otherwise& otherwise) {
  detail::Graphs& graphs = detail::Graphs::of(a);
  const std::string name = graphs.is_program() ? "" : graphs.random_name(what);
  return graphs.build_each(a.place(), [&](int which, ir::GraphBuilder&) {
    const ir::Tensor x = graphs.in(which, a.tensor());
    if (!graphs.trains(which)) return std::vector<ir::Tensor>{otherwise(x)};
    return std::vector<ir::Tensor>{
        draw(x, ops::DrawBy{.counter = graphs.counter(which), .seed = 0, .random_name = name})};
  })[0];
}

ir::Tensor filled(ir::Tensor like, double value) { return ops::full(*like.builder, like.dtype(), like.shape(), value); }

}  // namespace

Tensor random_uniform(Operand like, double low, double high) {
  return drawn(
      "uniform", like,
      [&](ir::Tensor x, const ops::DrawBy& by) { return ops::random_uniform(by, x.shape(), low, high, x.dtype()); },
      [&](ir::Tensor x) { return filled(x, (low + high) / 2); });
}
Tensor random_normal(Operand like, double mean, double deviation) {
  return drawn(
      "normal", like,
      [&](ir::Tensor x, const ops::DrawBy& by) {
        return ops::random_normal(by, x.shape(), mean, deviation, x.dtype());
      },
      [&](ir::Tensor x) { return filled(x, mean); });
}
Tensor bernoulli(Operand probabilities) {
  return drawn(
      "bernoulli", probabilities, [](ir::Tensor x, const ops::DrawBy& by) { return ops::bernoulli(by, x); },
      [](ir::Tensor x) { return ops::map_unary("stop_gradient", x); });
}
Tensor drop_path(Operand a, double rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error({.what = "an impossible rate of drop_path",
                 .where = ir::origin_of(a.place()),
                 .found = std::to_string(rate),
                 .expected = "0 or more, and less than 1"});
  return drawn(
      "drop_path", a, [&](ir::Tensor x, const ops::DrawBy& by) { return ops::drop_path(x, by, rate); },
      [](ir::Tensor x) { return x; });
}

}  // namespace ramet::v0
