// The elementary functions of the CPU kernels against double: largest error in units in the last place, and special
// values. Run through the map evaluator, as users reach them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ramet/kernel/cpu/map.h"

namespace ramet::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> evaluate(const std::string& op, const std::vector<std::vector<float>>& operands, double p = 0) {
  MapProgram program;
  program.inputs = static_cast<int>(operands.size());
  MapProgram::Step step;
  step.op = map_op_index(op);
  step.parameter = p;
  for (int i = 0; i < program.inputs; ++i) step.operands.push_back(i);
  program.steps.push_back(step);
  program.outputs.push_back({program.inputs, MapProgram::Reduce::kNone});
  const auto count = static_cast<int64_t>(operands[0].size());
  const TensorType type{DType::kF32, Shape{count}};
  const std::vector<TensorType> inputs(operands.size(), type), outputs{type};
  const cpu::MapEvaluator evaluator(program, type.shape, inputs, outputs, 1);
  std::vector<std::byte> scratch(static_cast<size_t>(evaluator.scratch_bytes()) + 64);
  std::vector<float> result(operands[0].size());
  std::vector<const void*> from;
  for (const auto& operand : operands) from.push_back(operand.data());
  void* to[] = {result.data()};
  ThreadTeam team(1);
  void* aligned = scratch.data();
  size_t room = scratch.size();
  std::align(64, static_cast<size_t>(evaluator.scratch_bytes()), aligned, room);
  evaluator.run(from, to, aligned, team);
  return result;
}

/// Error of `got` in units in the last place of f32 at the size of `exact`; denormals count in the smallest one.
double ulps(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e9;
  const double magnitude = std::fabs(exact);
  if (magnitude >= 0x1.ffffffp127) return std::isinf(got) && (got > 0) == (exact > 0) ? 0 : 1e9;
  if (std::isinf(got) || std::isnan(got)) return magnitude > 0x1.fffff0p127 ? 1 : 1e9;
  const int exponent = magnitude == 0 ? -126 : std::max(-126, std::ilogb(magnitude));
  return std::fabs(got - exact) / std::ldexp(1.0, exponent - 23);
}

/// Floats spread evenly over the bit patterns of [low, high], both signs where the range has them.
std::vector<float> samples(float low, float high, int count) {
  const auto ordered = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return bits < 0 ? static_cast<int64_t>(std::numeric_limits<int32_t>::min()) - bits : static_cast<int64_t>(bits);
  };
  const int64_t begin = ordered(low), end = ordered(high);
  std::vector<float> result;
  for (int i = 0; i < count; ++i) {
    const int64_t at =
        begin + (end - begin) / (count - 1) * i + (int64_t{i} * 7919) % std::max<int64_t>(1, (end - begin) / count);
    const auto bits = static_cast<int32_t>(at < 0 ? std::numeric_limits<int32_t>::min() - at : at);
    result.push_back(std::bit_cast<float>(bits));
  }
  return result;
}
/// And evenly over the numbers themselves.
std::vector<float> uniform(float low, float high, int count) {
  std::vector<float> result;
  for (int i = 0; i < count; ++i)
    result.push_back(low + (high - low) * (static_cast<float>(i) + 0.37f) / static_cast<float>(count));
  return result;
}

struct UnaryCase {
  const char* op;
  double (*exact)(double);
  float low, high;
  double most_ulps;     ///< where there is fused multiply-add
  double smallest = 0;  ///< results below it count against it instead: absolute error
};

double phi(double x) { return std::exp(-0.5 * x * x) * 0.3989422804014327; }
double cdf(double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); }
double gelu_tanh(double x) { return x / (1 + std::exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x))); }

double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
/// By the meaning of the op, in double.
double trigamma(double x) { return map_op("trigamma").scalar(x, 0, 0, 0, 0); }
double digamma(double x) { return map_op("digamma").scalar(x, 0, 0, 0, 0); }

const UnaryCase kCases[] = {
    {"exp", std::exp, -104, 89, 1.1},
    {"expm1", std::expm1, -40, 89, 1.6},
    {"log", std::log, 0, 3e38f, 0.9},
    {"log1p", std::log1p, -0.99999f, 3e38f, 1.6},
    {"tanh", std::tanh, -12, 12, 1.4},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -87, 90, 2.6},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }, -80, 90, 3.3},
    {"softplus", [](double x) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); }, -80, 90, 2.1},
    {"erf", std::erf, -7, 7, 1.7},
    {"gelu", [](double x) { return x * cdf(x); }, -2, 20, 7.5},
    {"gelu", [](double x) { return x * cdf(x); }, -12.5f, -2, 100},
    {"gelu_tanh", gelu_tanh, -4, -1, 23.0},
    {"gelu_tanh", gelu_tanh, -1, 20, 6.5},
    {"sin", std::sin, -1e5f, 1e5f, 1.6},
    {"cos", std::cos, -1e5f, 1e5f, 1.6},
    {"sin", std::sin, 1e5f, 3e38f, 1.6},
    {"cos", std::cos, -3e38f, -1e5f, 1.6},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1e-38f, 3e38f, 1.5},
    {"sqrt", std::sqrt, 0, 3e38f, 0.51},
    {"reciprocal", [](double x) { return 1 / x; }, 1e-38f, 1e38f, 0.51},
    // Computed in f64 and rounded once.
    {"exp2", std::exp2, -150, 130, 0.51},
    {"log2", std::log2, 0, 3e38f, 0.51},
    {"log10", std::log10, 0, 3e38f, 0.51},
    {"tan", std::tan, -1e5f, 1e5f, 2.1},
    {"tan", std::tan, 1e5f, 3e38f, 2.1},
    {"sinh", std::sinh, -95, 95, 0.51},
    {"cosh", std::cosh, -95, 95, 0.51},
    {"asinh", std::asinh, -3e38f, 3e38f, 0.51},
    {"acosh", std::acosh, 1, 3e38f, 0.51},
    {"atanh", std::atanh, -1, 1, 0.51},
    {"asin", std::asin, -1, 1, 0.51},
    {"acos", std::acos, -1, 1, 0.51},
    {"atan", std::atan, -3e38f, 3e38f, 0.51},
    {"erfc", std::erfc, -10, 11, 0.51},
    {"lgamma", log_gamma, 1e-38f, 0.9f, 0.51},
    {"lgamma", log_gamma, 0.9f, 2.1f, 8},  // 0 at 1 and 2: right to 1e-14 beside it
    {"lgamma", log_gamma, 2.1f, 3e36f, 0.51},
    {"lgamma", log_gamma, -40, -1e-38f, 0.6, 1e-3},
    {"digamma", digamma, 1e-37f, 1.4f, 0.51},
    {"digamma", digamma, 1.6f, 3e38f, 0.51},
    {"digamma", digamma, -20, -1e-37f, 0.6, 1e-3},
    {"trigamma", trigamma, 1e-18f, 1.4f, 0.51},
    {"trigamma", trigamma, 1.6f, 1e37f, 0.51},
    {"trigamma", trigamma, -20, -1e-18f, 0.6, 1e-3},
};

class MathTest : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(MathTest, IsWithinItsErrorOfDouble) {
  const UnaryCase& test = GetParam();
  std::vector<float> points = samples(test.low, test.high, 400'000);
  const std::vector<float> even = uniform(std::max(test.low, -100.0f), std::min(test.high, 100.0f), 400'000);
  if (test.low < 100 && test.high > -100) points.insert(points.end(), even.begin(), even.end());
  const std::vector<float> results = evaluate(test.op, {points});
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double exact = test.exact(points[i]);
    const bool small = std::fabs(exact) < test.smallest;  // measured by what counts instead
    const double error = small ? std::fabs(results[i] - exact) / (test.smallest * 0x1p-23) : ulps(results[i], exact);
    if (error > worst) worst = error, at = points[i];
  }
  std::printf("%-12s %.3f ulp at %.9g\n", test.op, worst, static_cast<double>(at));
  EXPECT_LE(worst, test.most_ulps) << test.op << " of " << at << " = " << evaluate(test.op, {{at}})[0] << ", not "
                                   << test.exact(at);
}
INSTANTIATE_TEST_SUITE_P(All, MathTest, ::testing::ValuesIn(kCases), [](const auto& info) {
  return std::string(info.param.op) + "_" + std::to_string(info.index);
});

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(Math, SpecialValues) {
  struct Special {
    const char* op;
    float argument, result;
  };
  const Special specials[] = {{"exp", kInf, kInf},
                              {"exp", -kInf, 0},
                              {"exp", kNan, kNan},
                              {"exp", 0, 1},
                              {"exp", 88.8f, kInf},
                              {"exp", -200, 0},
                              {"expm1", -0.0f, -0.0f},
                              {"expm1", kInf, kInf},
                              {"expm1", -kInf, -1},
                              {"expm1", kNan, kNan},
                              {"log", 0, -kInf},
                              {"log", -0.0f, -kInf},
                              {"log", -1, kNan},
                              {"log", kInf, kInf},
                              {"log", -kInf, kNan},
                              {"log", kNan, kNan},
                              {"log", 1, 0},
                              {"log1p", -1, -kInf},
                              {"log1p", -2, kNan},
                              {"log1p", -0.0f, -0.0f},
                              {"log1p", kInf, kInf},
                              {"log1p", kNan, kNan},
                              {"tanh", kInf, 1},
                              {"tanh", -kInf, -1},
                              {"tanh", -0.0f, -0.0f},
                              {"tanh", kNan, kNan},
                              {"sigmoid", kInf, 1},
                              {"sigmoid", -kInf, 0},
                              {"sigmoid", kNan, kNan},
                              {"sigmoid", 0, 0.5f},
                              {"silu", kInf, kInf},
                              {"silu", -kInf, -0.0f},
                              {"silu", kNan, kNan},
                              {"softplus", kInf, kInf},
                              {"softplus", -kInf, 0},
                              {"softplus", kNan, kNan},
                              {"erf", kInf, 1},
                              {"erf", -kInf, -1},
                              {"erf", -0.0f, -0.0f},
                              {"erf", kNan, kNan},
                              {"gelu", kInf, kInf},
                              {"gelu", -kInf, -0.0f},
                              {"gelu", kNan, kNan},
                              {"gelu", 0, 0},
                              {"gelu_tanh", kInf, kInf},
                              {"gelu_tanh", -kInf, -0.0f},
                              {"gelu_tanh", kNan, kNan},
                              {"sin", kInf, kNan},
                              {"sin", -0.0f, -0.0f},
                              {"cos", -kInf, kNan},
                              {"cos", 0, 1},
                              {"sin", kNan, kNan},
                              {"rsqrt", 0, kInf},
                              {"rsqrt", kInf, 0},
                              {"rsqrt", -1, kNan},
                              {"sign", kNan, kNan},
                              {"sign", -3, -1},
                              {"relu", kNan, kNan},
                              {"relu", -1, 0},
                              {"exp2", 3, 8},
                              {"exp2", -kInf, 0},
                              {"exp2", kInf, kInf},
                              {"exp2", kNan, kNan},
                              {"log2", 8, 3},
                              {"log2", 0, -kInf},
                              {"log2", -1, kNan},
                              {"log2", kInf, kInf},
                              {"log10", 1000, 3},
                              {"log10", -0.0f, -kInf},
                              {"log10", kNan, kNan},
                              {"tan", kInf, kNan},
                              {"tan", -0.0f, -0.0f},
                              {"sinh", kInf, kInf},
                              {"sinh", -kInf, -kInf},
                              {"sinh", -0.0f, -0.0f},
                              {"cosh", -kInf, kInf},
                              {"cosh", 0, 1},
                              {"cosh", kNan, kNan},
                              {"asinh", -kInf, -kInf},
                              {"asinh", -0.0f, -0.0f},
                              {"asinh", kNan, kNan},
                              {"acosh", 1, 0},
                              {"acosh", 0.5f, kNan},
                              {"acosh", -3, kNan},
                              {"acosh", kInf, kInf},
                              {"atanh", 1, kInf},
                              {"atanh", -1, -kInf},
                              {"atanh", 1.5f, kNan},
                              {"atanh", -0.0f, -0.0f},
                              {"asin", 2, kNan},
                              {"asin", -0.0f, -0.0f},
                              {"asin", 1, 1.57079637f},
                              {"acos", -1, 3.14159274f},
                              {"acos", 1, 0},
                              {"acos", -2, kNan},
                              {"atan", kInf, 1.57079637f},
                              {"atan", -0.0f, -0.0f},
                              {"atan", kNan, kNan},
                              {"erfc", kInf, 0},
                              {"erfc", -kInf, 2},
                              {"erfc", kNan, kNan},
                              {"lgamma", 0, kInf},
                              {"lgamma", -3, kInf},
                              {"lgamma", 1, 0},
                              {"lgamma", kInf, kInf},
                              {"lgamma", -kInf, kInf},
                              {"lgamma", kNan, kNan},
                              {"digamma", 0, -kInf},
                              {"digamma", -2, kNan},
                              {"digamma", kInf, kInf},
                              {"digamma", kNan, kNan},
                              {"trigamma", 0, kInf},
                              {"trigamma", -2, kInf},
                              {"trigamma", kInf, 0},
                              {"trigamma", -kInf, kNan},
                              {"trigamma", kNan, kNan},
                              {"trunc", -1.5f, -1},
                              {"round", 2.5f, 2},
                              {"round", -3.5f, -4},
                              {"floor", -0.5f, -1},
                              {"ceil", 0.5f, 1}};
  for (const Special& special : specials)
    EXPECT_TRUE(same(evaluate(special.op, {{special.argument}})[0], special.result))
        << special.op << "(" << special.argument << ") = " << evaluate(special.op, {{special.argument}})[0] << ", not "
        << special.result;
}

TEST(Math, DenormalsAreRight) {
  for (float x : {0x1p-149f, 0x1.8p-130f, 0x1.fffffcp-127f}) {
    EXPECT_LE(ulps(evaluate("log", {{x}})[0], std::log(static_cast<double>(x))), 1.0) << x;
    EXPECT_EQ(evaluate("tanh", {{x}})[0], x);
    EXPECT_EQ(evaluate("sin", {{x}})[0], x);
  }
  for (float x : {-88.0f, -95.0f, -103.0f})
    EXPECT_LE(ulps(evaluate("exp", {{x}})[0], std::exp(static_cast<double>(x))), 1.0);
}

TEST(Math, SlopesFollowTheirFormulas) {
  const std::vector<float> points = uniform(-12, 12, 100'000), ones(points.size(), 1.0f);
  const auto check = [&](const char* op, double most, auto exact) {
    const std::vector<float> results = evaluate(op, {points, ones});
    for (size_t i = 0; i < points.size(); ++i)
      ASSERT_NEAR(results[i], exact(static_cast<double>(points[i])), most) << op << " of " << points[i];
  };
  check("gelu_grad", 3e-7, [](double x) { return cdf(x) + x * phi(x); });
  check("gelu_tanh_grad", 1e-6, [](double x) {
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = std::tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
  });
  check("silu_grad", 4e-7, [](double x) {
    const double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  });
  for (const char* op : {"gelu_grad", "gelu_tanh_grad", "silu_grad"}) {
    EXPECT_EQ(evaluate(op, {{kInf}, {1}})[0], 1) << op;
    EXPECT_EQ(evaluate(op, {{-kInf}, {1}})[0], 0) << op;
    EXPECT_TRUE(std::isnan(evaluate(op, {{kNan}, {1}})[0])) << op;
  }
}

TEST(Math, PowerIsAsC) {
  const float bases[] = {0, -0.0f, 1, -1, 2, -2, 0.5f, -0.5f, 1e-40f, 3e38f, 10, -8, kInf, -kInf, kNan, 1.0000001f};
  const float exponents[] = {0,        -0.0f, 1,     -1,       2,      3,    -3,    0.5f, -0.5f,
                             1.0f / 3, 1e9f,  -1e9f, 16777215, 1e-30f, kInf, -kInf, kNan};
  for (float a : bases)
    for (float b : exponents) {
      const float got = evaluate("power", {{a}, {b}})[0];
      const double exact = std::pow(static_cast<double>(a), static_cast<double>(b));
      if (std::isnan(exact) || exact == 0 || std::isinf(static_cast<float>(exact)))
        EXPECT_TRUE(same(got, static_cast<float>(exact))) << a << " to the " << b << " = " << got << ", not " << exact;
      else
        EXPECT_LE(ulps(got, exact), 0.6) << a << " to the " << b << " = " << got << ", not " << exact;
    }
  const std::vector<float> points = samples(1e-30f, 1e30f, 50'000);
  const std::vector<float> exponent = uniform(-1.2f, 1.2f, 50'000);
  const std::vector<float> results = evaluate("power", {points, exponent});
  for (size_t i = 0; i < points.size(); ++i)
    ASSERT_LE(ulps(results[i], std::pow(static_cast<double>(points[i]), static_cast<double>(exponent[i]))), 0.6)
        << points[i];
}

}  // namespace
}  // namespace ramet::tests
