#include <cmath>
#include <limits>

#include "ops/op_cases.h"
#include "ramet/ops/map_program.h"

namespace ramet::tests {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

/// 24 values in [-2, 2], none nearer than 0.07 to 0 or to one of the others.
std::vector<double> apart(double shift = 0) {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back((i * 7 % 24 - 11.5) * 0.16 + shift);
  return values;
}

CaseInput f32(Shape shape, double low = -2, double high = 2) { return {{DType::kF32, std::move(shape)}, low, high}; }
CaseInput given(DType dtype, Shape shape, std::vector<double> values) {
  return {.type = {dtype, std::move(shape)}, .values = std::move(values)};
}
CaseInput bools(Shape shape) { return {{DType::kBool, std::move(shape)}, 0, 1}; }
CaseInput apart_input(double shift = 0) { return given(DType::kF32, {4, 6}, apart(shift)); }

void add_rescale(std::vector<OpCase>& cases) {
  cases.push_back({.op = "rescale",
                   .name = "alike",
                   .inputs = {f32({4, 6})},
                   .attributes = {{"forward", -1.5}, {"backward", -1.5}}});
  // Not a derivative: the gradient has a factor of its own.
  cases.push_back({.op = "rescale",
                   .name = "apart",
                   .inputs = {given(DType::kF32, {3}, {1, -2, 0.5})},
                   .attributes = {{"forward", 3.0}, {"backward", 0.25}},
                   .expected = {{3, -6, 1.5}},
                   .gradient_tolerance = 0});
}

void add_unary(std::vector<OpCase>& cases) {
  struct Line {
    const char* op;
    double low, high;
  };
  // Smooth on the whole range.
  for (const Line& line : std::initializer_list<Line>{{"negate", -2, 2},
                                                      {"exp", -3, 3},
                                                      {"log", 0.2, 4},
                                                      {"log1p", -0.7, 4},
                                                      {"expm1", -3, 2},
                                                      {"sqrt", 0.2, 4},
                                                      {"rsqrt", 0.3, 4},
                                                      {"reciprocal", 0.3, 3},
                                                      {"square", -2, 2},
                                                      {"tanh", -3, 3},
                                                      {"sigmoid", -5, 5},
                                                      {"silu", -5, 5},
                                                      {"softplus", -5, 5},
                                                      {"erf", -3, 3},
                                                      {"gelu", -4, 4},
                                                      {"gelu_tanh", -4, 4},
                                                      {"sin", -4, 4},
                                                      {"cos", -4, 4}}) {
    cases.push_back({.op = line.op, .name = "range", .inputs = {f32({4, 6}, line.low, line.high)}});
    cases.push_back({.op = line.op, .name = "odd size", .inputs = {f32({3, 37}, line.low, line.high)}});
    cases.push_back({.op = line.op, .name = "scalar", .inputs = {f32({}, line.low, line.high)}});
    cases.push_back({.op = line.op, .name = "empty", .inputs = {f32({0, 3})}});
  }
  // With a kink at 0, or steps.
  for (const char* op : {"abs", "sign", "relu"})
    cases.push_back({.op = op, .name = "apart", .inputs = {apart_input()}});
  for (const char* op : {"floor", "ceil", "round"})
    cases.push_back({.op = op, .name = "range", .inputs = {f32({4, 6}, -4, 4)}});
  cases.push_back({.op = "round",
                   .name = "halves",
                   .inputs = {given(DType::kF32, {5}, {0.5, 1.5, 2.5, -0.5, -1.5})},
                   .expected = {{0, 2, 2, -0.0, -2}}});
  cases.push_back({.op = "gelu",
                   .name = "far",
                   .inputs = {given(DType::kF32, {4}, {-30, -6, 6, 30})},
                   .expected = {{0, -5.9192e-9, 6, 30}}});
  cases.push_back({.op = "exp",
                   .name = "edges",
                   .inputs = {given(DType::kF32, {4}, {-kInf, kInf, kNaN, 0})},
                   .expected = {{0, kInf, kNaN, 1}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "sigmoid",
                   .name = "edges",
                   .inputs = {given(DType::kF32, {4}, {-kInf, kInf, kNaN, 0})},
                   .expected = {{0, 1, kNaN, 0.5}},
                   .gradient_tolerance = 0});
  for (const char* op : {"relu", "abs"})
    cases.push_back({.op = op,
                     .name = "NaN stays",
                     .inputs = {given(DType::kF32, {3}, {kNaN, -kInf, kInf})},
                     .expected = {{kNaN, op == std::string("relu") ? 0 : kInf, kInf}},
                     .gradient_tolerance = 0});
  cases.push_back({.op = "is_finite",
                   .name = "edges",
                   .inputs = {given(DType::kF32, {4}, {1, kInf, -kInf, kNaN})},
                   .expected = {{1, 0, 0, 0}}});
  cases.push_back({.op = "stop_gradient", .name = "range", .inputs = {f32({4, 6})}});
  // Rounding has no finite differences that mean anything.
  for (const char* op : {"round_bf16", "round_f16"})
    cases.push_back({.op = op, .name = "range", .inputs = {f32({4, 6})}, .gradient_tolerance = 0, .low_types = false});
  cases.push_back({.op = "round_bf16",
                   .name = "values",
                   .inputs = {given(DType::kF32, {3}, {1.00390625, 1.01171875, 3.0})},
                   .expected = {{1.0, 1.015625, 3.0}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "round_f16",
                   .name = "values",
                   .inputs = {given(DType::kF32, {3}, {1.00048828125, 1.00146484375, 70000})},
                   .expected = {{1.0, 1.001953125, kInf}},
                   .gradient_tolerance = 0,
                   .low_types = false});
}

void add_parametrised(std::vector<OpCase>& cases) {
  for (const char* op : {"leaky_relu", "elu"})
    cases.push_back({.op = op, .name = "apart", .inputs = {apart_input()}, .attributes = {{"parameter", 0.3}}});
  for (const char* op : {"scale", "add_scalar"})
    cases.push_back({.op = op, .name = "range", .inputs = {f32({4, 6})}, .attributes = {{"parameter", -1.7}}});
  cases.push_back({.op = "clamp",
                   .name = "apart",
                   .inputs = {apart_input()},
                   .attributes = {{"parameter", -0.8}, {"second", 0.96}}});
  cases.push_back({.op = "clamp",
                   .name = "NaN stays",
                   .inputs = {given(DType::kF32, {3}, {kNaN, -kInf, kInf})},
                   .attributes = {{"parameter", -1.0}, {"second", 2.0}},
                   .expected = {{kNaN, -1, 2}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "clamp_grad",
                   .name = "apart",
                   .inputs = {apart_input(), f32({4, 6})},
                   .attributes = {{"parameter", -0.8}, {"second", 0.96}}});
  for (const char* op : {"leaky_relu_grad", "elu_grad"})
    cases.push_back(
        {.op = op, .name = "apart", .inputs = {apart_input(), f32({4, 6})}, .attributes = {{"parameter", 0.3}}});
  for (const char* op : {"tanh_grad", "sigmoid_grad", "silu_grad", "relu_grad", "gelu_grad", "gelu_tanh_grad"})
    cases.push_back({.op = op, .name = "range", .inputs = {f32({4, 6}), f32({4, 6})}});
}

void add_binary(std::vector<OpCase>& cases) {
  struct Line {
    const char* op;
    double low_a, high_a, low_b, high_b;
  };
  for (const Line& line : std::initializer_list<Line>{{"add", -2, 2, -2, 2},
                                                      {"subtract", -2, 2, -2, 2},
                                                      {"multiply", -2, 2, -2, 2},
                                                      {"divide", -2, 2, 0.5, 2},
                                                      {"power", 0.3, 2, -2, 2}}) {
    const auto a = [&](Shape shape) { return f32(std::move(shape), line.low_a, line.high_a); };
    const auto b = [&](Shape shape) { return f32(std::move(shape), line.low_b, line.high_b); };
    cases.push_back({.op = line.op, .name = "same shape", .inputs = {a({4, 6}), b({4, 6})}});
    cases.push_back({.op = line.op, .name = "row", .inputs = {a({4, 6}), b({6})}});
    cases.push_back({.op = line.op, .name = "column first", .inputs = {a({4, 1}), b({4, 6})}});
    cases.push_back({.op = line.op, .name = "outer", .inputs = {a({2, 1, 3}), b({4, 1})}});
    cases.push_back({.op = line.op, .name = "scalar", .inputs = {a({3, 7}), b({})}});
    cases.push_back({.op = line.op, .name = "empty", .inputs = {a({0, 6}), b({6})}});
  }
  cases.push_back({.op = "add", .name = "two float types", .inputs = {f32({4, 6}), {{DType::kBF16, {6}}, -1, 1}}});
  for (const char* op : {"maximum", "minimum"}) {
    cases.push_back({.op = op, .name = "apart", .inputs = {apart_input(), apart_input(0.09)}});
    cases.push_back({.op = op,
                     .name = "NaN wins",
                     .inputs = {given(DType::kF32, {3}, {kNaN, 1, kNaN}), given(DType::kF32, {3}, {1, kNaN, kNaN})},
                     .expected = {{kNaN, kNaN, kNaN}},
                     .gradient_tolerance = 0});
  }
  struct Compared {
    const char* op;
    std::vector<double> expected;
  };
  for (const Compared& line : std::initializer_list<Compared>{{"equal", {0, 1, 0, 0}},
                                                              {"not_equal", {1, 0, 1, 1}},
                                                              {"less", {1, 0, 0, 0}},
                                                              {"less_equal", {1, 1, 0, 0}},
                                                              {"greater", {0, 0, 1, 0}},
                                                              {"greater_equal", {0, 1, 1, 0}}}) {
    cases.push_back({.op = line.op,
                     .name = "floats",
                     .inputs = {given(DType::kF32, {4}, {1, 2, 3, kNaN}), given(DType::kF32, {}, {2})},
                     .expected = {line.expected}});
    cases.push_back({.op = line.op,
                     .name = "integers",
                     .inputs = {given(DType::kI32, {4}, {-1, 2, 3, -5}), given(DType::kI32, {4}, {2, 2, -3, 7})},
                     .expected = {{line.expected[0], line.expected[1], line.expected[2], line.expected[0]}}});
    cases.push_back({.op = line.op, .name = "shapes", .inputs = {f32({4, 1}), f32({6})}});
  }
  cases.push_back({.op = "logical_and",
                   .name = "truth",
                   .inputs = {given(DType::kBool, {4}, {0, 0, 1, 1}), given(DType::kBool, {4}, {0, 1, 0, 1})},
                   .expected = {{0, 0, 0, 1}}});
  cases.push_back({.op = "logical_or",
                   .name = "truth",
                   .inputs = {given(DType::kBool, {4}, {0, 0, 1, 1}), given(DType::kBool, {4}, {0, 1, 0, 1})},
                   .expected = {{0, 1, 1, 1}}});
  cases.push_back(
      {.op = "logical_not", .name = "truth", .inputs = {given(DType::kBool, {2}, {0, 1})}, .expected = {{1, 0}}});
  cases.push_back({.op = "select", .name = "same shape", .inputs = {bools({4, 6}), f32({4, 6}), f32({4, 6})}});
  cases.push_back({.op = "select", .name = "broadcast", .inputs = {bools({4, 1}), f32({6}), f32({})}});
}

void add_integers(std::vector<OpCase>& cases) {
  const double most = 2147483647;
  cases.push_back({.op = "add",
                   .name = "i32 wraps",
                   .inputs = {given(DType::kI32, {2}, {most, -5}), given(DType::kI32, {2}, {1, 3})},
                   .expected = {{-most - 1, -2}}});
  cases.push_back({.op = "multiply",
                   .name = "i32 wraps",
                   .inputs = {given(DType::kI32, {2}, {65536, -7}), given(DType::kI32, {2}, {65537, 6})},
                   .expected = {{65536, -42}}});
  cases.push_back({.op = "divide",
                   .name = "i32",
                   .inputs = {given(DType::kI32, {4}, {7, -7, 3, -most - 1}), given(DType::kI32, {4}, {2, 2, 0, -1})},
                   .expected = {{3, -3, 0, -most - 1}}});
  cases.push_back({.op = "subtract",
                   .name = "i64",
                   .inputs = {given(DType::kI64, {2}, {1e12, 3}), given(DType::kI64, {2}, {1, 5})},
                   .expected = {{1e12 - 1, -2}}});
  for (const char* op : {"negate", "abs", "sign", "square", "relu"})
    cases.push_back({.op = op, .name = "i32", .inputs = {{{DType::kI32, {4, 6}}, -9, 9}}});
  for (const char* op : {"maximum", "minimum"})
    cases.push_back({.op = op, .name = "i64", .inputs = {{{DType::kI64, {4, 6}}, -9, 9}, {{DType::kI64, {6}}, -9, 9}}});
  cases.push_back({.op = "select",
                   .name = "i32",
                   .inputs = {bools({4, 6}), {{DType::kI32, {4, 6}}, -9, 9}, {{DType::kI32, {}}, -9, 9}}});
  cases.push_back({.op = "stop_gradient", .name = "bool", .inputs = {bools({4, 6})}});
  const auto to = [](DType dtype) { return Attributes{{"dtype", dtype}}; };
  cases.push_back({.op = "cast", .name = "f32 to f32", .inputs = {f32({4, 6})}, .attributes = to(DType::kF32)});
  cases.push_back({.op = "cast",
                   .name = "f32 to bf16",
                   .inputs = {f32({4, 6})},
                   .attributes = to(DType::kBF16),
                   .gradient_tolerance = 0});
  cases.push_back({.op = "cast",
                   .name = "f32 to f8e4m3",
                   .inputs = {f32({4, 6})},
                   .attributes = to(DType::kF8E4M3),
                   .gradient_tolerance = 0});
  cases.push_back({.op = "cast",
                   .name = "f32 to i32",
                   .inputs = {given(DType::kF32, {6}, {1.9, -1.9, 1e20, -kInf, kNaN, 0})},
                   .attributes = to(DType::kI32),
                   .expected = {{1, -1, most, -most - 1, 0, 0}},
                   .gradient_tolerance = 0,
                   .low_types = false});
  cases.push_back({.op = "cast",
                   .name = "f32 to bool",
                   .inputs = {given(DType::kF32, {4}, {0, -0.0, 0.5, kNaN})},
                   .attributes = to(DType::kBool),
                   .expected = {{0, 0, 1, 1}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "cast",
                   .name = "i64 to i32 wraps",
                   .inputs = {given(DType::kI64, {2}, {4294967297, -1})},
                   .attributes = to(DType::kI32),
                   .expected = {{1, -1}}});
  cases.push_back(
      {.op = "cast", .name = "i32 to f32", .inputs = {{{DType::kI32, {4, 6}}, -9, 9}}, .attributes = to(DType::kF32)});
  cases.push_back({.op = "cast", .name = "bool to f32", .inputs = {bools({4, 6})}, .attributes = to(DType::kF32)});
}

OpCase map_case(std::string name, std::vector<CaseInput> inputs, std::string program, Shape space, std::string dtypes) {
  return {.op = "map",
          .name = std::move(name),
          .inputs = std::move(inputs),
          .attributes = {{"program", std::move(program)}, {"shape", space.dims()}, {"dtypes", std::move(dtypes)}}};
}

void add_maps(std::vector<OpCase>& cases) {
  cases.push_back(map_case("bias and gelu", {f32({4, 6}), f32({6})}, "2:%2=add(%0,%1);%3=gelu(%2)->%3", {4, 6}, "f32"));
  cases.push_back(map_case("two outputs, one used again", {f32({2, 3, 4}), f32({3, 1}), f32({})},
                           "3:%3=multiply(%0,%1);%4=tanh(%3);%5=add(%4,%2)->%3,%5", {2, 3, 4}, "f32,f32"));
  cases.push_back(
      map_case("an input given back", {f32({6}), f32({4, 6})}, "2:%2=add(%0,%1)->%0,%2", {4, 6}, "f32,f32"));
  cases.push_back(
      map_case("sums of rows", {f32({130, 6}), f32({6})}, "2:%2=multiply(%0,%1)->sum_rows(%2)", {130, 6}, "f32"));
  cases.push_back(map_case("bias gradient beside its map", {f32({4, 6}), f32({4, 6})},
                           "2:%2=gelu_grad(%0,%1)->%2,sum_rows(%2)", {4, 6}, "f32,f32"));
  cases.back().gradient_tolerance = 0;
  cases.push_back(
      map_case("sums of the last dimension", {f32({2, 4, 37})}, "1:%1=square(%0)->sum_last(%1)", {2, 4, 37}, "f32"));
  cases.push_back(map_case("sum of a vector", {f32({40})}, "1:%1=exp(%0)->sum_last(%1)", {40}, "f32"));
  cases.push_back(map_case("sums of no rows", {f32({0, 6})}, "1:%1=exp(%0)->sum_rows(%1)", {0, 6}, "f32"));
  cases.push_back(map_case("dropout and residual", {f32({4, 6}), f32({4, 6}), given(DType::kI64, {2}, {3, 2})},
                           "3:%3=dropout[0.25,7,99](%0,%2);%4=add(%3,%1)->%4", {4, 6}, "f32"));
  cases.push_back(
      map_case("compares and integers", {given(DType::kF32, {4, 6}, apart()), {{DType::kI32, {6}}, -9, 9}},
               "2:%2=greater(%0,%0);%3=cast[f32](%1);%4=less(%0,%3);%5=logical_or(%2,%4);%6=select(%5,%0,%3);"
               "%7=add(%1,%1)->%6,%5,%7",
               {4, 6}, "f32,bool,i32"));
  cases.back().gradient_tolerance = 0;  // the compared values may lie near each other
  cases.push_back(map_case("short types at the edges", {{{DType::kBF16, {4, 6}}, -2, 2}, f32({4, 1})},
                           "2:%2=multiply(%0,%1);%3=round_f16(%2);%4=clamp[-1,1](%3);%5=scale[0.5](%4)->%5,%2", {4, 6},
                           "bf16,f32"));
  cases.back().gradient_tolerance = 0;  // rounding
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& cases) {
  add_rescale(cases);
  add_unary(cases);
  add_parametrised(cases);
  add_binary(cases);
  add_integers(cases);
  add_maps(cases);
}

}  // namespace ramet::tests
