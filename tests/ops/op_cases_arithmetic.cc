#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"
#include "ramet/ops/map_program.h"

// Arithmetic on every element type, random numbers of micro-batches, and cases drawn from a fixed seed.

namespace ramet::tests {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kIntegers[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                               DType::kU8, DType::kU16, DType::kU32, DType::kU64};

CaseInput f32(Shape shape, double low = -2, double high = 2) { return {{DType::kF32, std::move(shape)}, low, high}; }
CaseInput given(DType dtype, Shape shape, std::vector<double> values) {
  return {.type = {dtype, std::move(shape)}, .values = std::move(values)};
}

/// Whole numbers drawn from a fixed seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed, RandomPurpose::kTest, 0, 0) {}
  int64_t below(int64_t bound) { return stream_.below(next_++, static_cast<uint32_t>(bound)); }
  template <typename T, size_t N>
  const T& one_of(const T (&list)[N]) {
    return list[below(N)];
  }
  /// A shape of rank 0 to 4 whose extents are mostly small and odd; now and then one is 0.
  Shape shape() {
    constexpr int64_t kExtents[] = {1, 2, 3, 5, 7, 4, 17};
    std::vector<int64_t> dims(static_cast<size_t>(below(5)));
    for (int64_t& dim : dims) dim = below(12) == 0 ? 0 : one_of(kExtents);
    return Shape(dims);
  }
  /// One that broadcasts to `shape`.
  Shape broadcast(const Shape& shape) {
    std::vector<int64_t> dims = shape.dims();
    for (int64_t& dim : dims)
      if (below(3) == 0) dim = 1;
    dims.erase(dims.begin(), dims.begin() + below(static_cast<int64_t>(dims.size()) + 1));
    return Shape(dims);
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

/// A float op and where it is smooth.
struct FloatOp {
  const char* name;
  double low, high;
  bool gradient = true;
};
constexpr FloatOp kUnary[] = {{"exp2", -3, 3},
                              {"log2", 0.3, 4},
                              {"log10", 0.3, 4},
                              {"tan", -1.2, 1.2},
                              {"sinh", -3, 3},
                              {"cosh", -3, 3},
                              {"asinh", -4, 4},
                              {"acosh", 1.3, 4},
                              {"atanh", -0.8, 0.8},
                              {"asin", -0.8, 0.8},
                              {"acos", -0.8, 0.8},
                              {"atan", -4, 4},
                              {"erfc", -2, 2},
                              {"lgamma", 0.4, 5},
                              {"lgamma", -1.8, -1.2},
                              {"digamma", 0.4, 5, true},
                              {"digamma", -2.8, -2.2, true},
                              {"trigamma", 0.4, 5, true},
                              {"trigamma", -2.8, -2.2, true},
                              {"trunc", -5, 5, false}};
/// Ops of two operands: where the first is, where the second.
struct FloatPair {
  const char* name;
  double low, high, second_low, second_high;
  bool gradient = true;
};
constexpr FloatPair kBinary[] = {{"atan2", 0.5, 2, -2, 2},
                                 {"hypot", 0.5, 2, -2, 2},
                                 {"logaddexp", -3, 3, -3, 3},
                                 {"copysign", 0.5, 2, 0.5, 2},
                                 {"remainder", 1.1, 1.9, 4, 5},
                                 {"fmod", 1.1, 1.9, 4, 5},
                                 {"remainder", -9, 9, 0.5, 3, false},
                                 {"fmod", -9, 9, -3, -0.5, false},
                                 {"floor_divide", -9, 9, 0.5, 3, false}};

void add_float_ops(std::vector<OpCase>& cases, Dice& dice) {
  int number = 0;
  for (const FloatOp& op : kUnary)
    for (int i = 0; i < 2; ++i) {
      OpCase made{.op = op.name, .name = "drawn " + std::to_string(number++), .inputs = {}};
      made.inputs = {f32(i == 0 ? Shape{4, 6} : dice.shape(), op.low, op.high)};
      // Finite differences of a sharp slope are as sharp as their step.
      made.gradient_tolerance = op.gradient ? 2e-3 : 0;
      made.low_types = std::string(op.name) != "trunc";
      cases.push_back(std::move(made));
    }
  for (const FloatPair& op : kBinary)
    for (int i = 0; i < 3; ++i) {
      const Shape space = i == 0 ? Shape{4, 6} : dice.shape();
      OpCase made{.op = op.name, .name = "drawn " + std::to_string(number++), .inputs = {}};
      made.inputs = {f32(space, op.low, op.high),
                     f32(i == 0 ? space : dice.broadcast(space), op.second_low, op.second_high)};
      if (i == 2) std::swap(made.inputs[0].type.shape, made.inputs[1].type.shape);
      made.gradient_tolerance = op.gradient ? 2e-3 : 0;
      made.low_types = op.gradient;  // steps: a rounded operand may be on the other side
      cases.push_back(std::move(made));
    }
}

/// Ops on integers, with all of a type's range in their operands.
void add_integer_ops(std::vector<OpCase>& cases, Dice& dice) {
  for (const MapOpInfo& info : map_op_table()) {
    if (!info.integer || info.types == MapOpTypes::kLogical || info.types == MapOpTypes::kAny) continue;
    for (const DType dtype : kIntegers) {
      const bool shift = info.name.starts_with("shift"), select = info.types == MapOpTypes::kSelect;
      const Shape space = dice.shape();
      OpCase made{.op = std::string(info.name), .name = "drawn " + std::string(name_of(dtype))};
      if (select) made.inputs.push_back({{DType::kBool, dice.broadcast(space)}, 0, 1});
      for (int i = 0; i < info.arity - (select ? 1 : 0); ++i) {
        const bool small = dice.below(2) == 0 || (shift && i == 1);
        const double low = lowest_of(dtype), high = greatest_of(dtype);
        const Shape shape = i == 0 ? space : dice.broadcast(space);
        made.inputs.push_back({{dtype, shape}, small ? std::max(low, -5.0) : low, small ? 12.0 : high});
      }
      cases.push_back(std::move(made));
    }
  }
}

void add_casts(std::vector<OpCase>& cases, Dice& dice) {
  const auto drawn_type = [&] { return static_cast<DType>(dice.below(kDTypeCount)); };
  for (int i = 0; i < 60; ++i) {
    const DType from = drawn_type(), to = drawn_type();
    OpCase made{
        .op = "cast",
        .name = "drawn " + std::to_string(i) + " " + std::string(name_of(from)) + " to " + std::string(name_of(to)),
        .inputs = {{{from, dice.shape()}, 0, 0}},
        .attributes = {{"dtype", to}},
        .gradient_tolerance = 0,
        .low_types = false};
    const double reach = dice.below(2) == 0 ? 3 : 300;
    made.inputs[0].low = is_floating(from) ? -reach : std::max(lowest_of(from), -reach);
    made.inputs[0].high = is_floating(from) ? reach : std::min(greatest_of(from), reach);
    cases.push_back(std::move(made));
  }
  cases.push_back({.op = "cast",
                   .name = "f32 to u8 stays in range",
                   .inputs = {given(DType::kF32, {5}, {-1, 255.9, 256, 3.99, kNaN})},
                   .attributes = {{"dtype", DType::kU8}},
                   .expected = {{0, 255, 255, 3, 0}},
                   .gradient_tolerance = 0,
                   .low_types = false});
  cases.push_back({.op = "cast",
                   .name = "i32 to i8 wraps",
                   .inputs = {given(DType::kI32, {4}, {127, 128, 300, -129})},
                   .attributes = {{"dtype", DType::kI8}},
                   .expected = {{127, -128, 44, 127}}});
  cases.push_back({.op = "cast",
                   .name = "i32 to u64 wraps",
                   .inputs = {given(DType::kI32, {2}, {5, -1})},
                   .attributes = {{"dtype", DType::kU64}},
                   .expected = {{5, 0x1p64}}});
}

void add_edges(std::vector<OpCase>& cases) {
  const auto pair = [&](const char* op, DType dtype, std::vector<double> a, std::vector<double> b,
                        std::vector<double> expected) {
    const Shape shape{static_cast<int64_t>(a.size())};
    cases.push_back({.op = op,
                     .name = "edges " + std::string(name_of(dtype)),
                     .inputs = {given(dtype, shape, std::move(a)), given(dtype, shape, std::move(b))},
                     .expected = {std::move(expected)},
                     .gradient_tolerance = 0,
                     .low_types = false});
  };
  pair("remainder", DType::kF32, {5, -5, 5, -5, 1e30, kInf, 1, 1, 0}, {3, 3, -3, -3, 7, 2, 0, kInf, 5},
       {2, 1, -1, -2, 1, kNaN, kNaN, 1, 0});  // 1e30 is the f32 1000000015047466219876688855040
  pair("fmod", DType::kF32, {5, -5, 5, -5, kInf, 1, 1, -1}, {3, 3, -3, -3, 2, 0, kInf, kInf},
       {2, -2, 2, -2, kNaN, kNaN, 1, -1});
  pair("floor_divide", DType::kF32, {5, -5, 1, 1, 0, 7}, {3, 3, 0, 0.1, 0, -2}, {1, -2, kInf, 9, kNaN, -4});
  pair("floor_divide", DType::kI32, {7, -7, 7, -7, 5, -2147483648.0}, {2, 2, -2, -2, 0, -1},
       {3, -4, -4, 3, 0, -2147483648.0});
  pair("remainder", DType::kI8, {7, -7, 7, -7, 5, -128}, {3, 3, -3, -3, 0, -1}, {1, 2, -2, -1, 0, 0});
  pair("add", DType::kI8, {127, -128}, {1, -1}, {-128, 127});
  pair("subtract", DType::kU8, {0, 255}, {1, 255}, {255, 0});
  pair("multiply", DType::kU16, {256, 65535}, {256, 65535}, {0, 1});
  pair("maximum", DType::kU64, {0x1p63, 1}, {1, 0x1p63}, {0x1p63, 0x1p63});
  pair("divide", DType::kU64, {0x1p63, 7}, {2, 0}, {0x1p62, 0});
  pair("less", DType::kU32, {1, 4294967295}, {4294967295, 1}, {1, 0});
  pair("shift_left", DType::kI8, {1, 1, 1, -1}, {7, 8, -1, 3}, {-128, 0, 0, -8});
  pair("shift_right", DType::kI8, {-128, -128, 64, 64}, {7, 8, 6, -1}, {-1, -1, 1, 0});
  pair("shift_right", DType::kU64, {0x1p63, 0x1p63}, {63, 64}, {1, 0});
  pair("atan2", DType::kF32, {0, 0, -0.0, 1, kInf, kInf, kNaN}, {1, -1, -1, 0, kInf, -kInf, 1},
       {0, M_PI, -M_PI, M_PI / 2, M_PI / 4, 3 * M_PI / 4, kNaN});
  pair("hypot", DType::kF32, {3e38, 3, kInf, 0}, {0, 4, kNaN, 0}, {3e38, 5, kInf, 0});
  pair("copysign", DType::kF32, {1, -1, kInf}, {-0.0, 0, -1}, {-1, 1, -kInf});
  pair("logaddexp", DType::kF32, {-kInf, kInf, 1000, 0}, {-kInf, kInf, 1000, -kInf},
       {-kInf, kInf, 1000.6931471805599, 0});
  const auto one = [&](const char* op, std::vector<double> a, std::vector<double> expected) {
    const Shape shape{static_cast<int64_t>(a.size())};
    cases.push_back({.op = op,
                     .name = "edges",
                     .inputs = {given(DType::kF32, shape, std::move(a))},
                     .expected = {std::move(expected)},
                     .gradient_tolerance = 0});
  };
  one("is_nan", {1, kInf, -kInf, kNaN}, {0, 0, 0, 1});
  one("is_inf", {1, kInf, -kInf, kNaN}, {0, 1, 1, 0});
  one("trunc", {1.5, -1.5, kInf, kNaN}, {1, -1, kInf, kNaN});
  cases.push_back({.op = "bitwise_not",
                   .name = "edges",
                   .inputs = {given(DType::kU8, {3}, {0, 255, 1})},
                   .expected = {{255, 0, 254}}});
}

/// Ops that take every integer type, or f64: values, and that no kernel mistakes the type.
void add_types(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kU32, DType::kU64}) {
    const std::string name(name_of(dtype));
    const double low = std::max(lowest_of(dtype), -9.0);
    const CaseInput some{{dtype, {4, 6}}, low, 20};
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})
      cases.push_back({.op = op, .name = name, .inputs = {some}, .attributes = {{"axes", std::vector<int64_t>{1}}}});
    cases.push_back({.op = "cumsum", .name = name, .inputs = {some}, .attributes = {{"axis", int64_t{1}}}});
    cases.push_back({.op = "argmax", .name = name, .inputs = {some}, .attributes = {{"axis", int64_t{1}}}});
    cases.push_back({.op = "top_k", .name = name, .inputs = {some}, .attributes = {{"k", int64_t{2}}}});
    cases.push_back({.op = "transpose",
                     .name = name,
                     .inputs = {some},
                     .attributes = {{"permutation", std::vector<int64_t>{1, 0}}}});
    cases.push_back({.op = "gather", .name = name, .inputs = {some, {{DType::kI32, {5}}, 0, 3}}});
    cases.push_back({.op = "full",
                     .name = name,
                     .inputs = {},
                     .attributes = {{"dtype", dtype}, {"shape", std::vector<int64_t>{3}}, {"value", 100.0}},
                     .expected = {{100, 100, 100}}});
    cases.push_back({.op = "iota",
                     .name = name,
                     .inputs = {},
                     .attributes = {{"dtype", dtype}, {"shape", std::vector<int64_t>{4}}, {"axis", int64_t{0}}},
                     .expected = {{0, 1, 2, 3}}});
    cases.push_back(
        {.op = "pad",
         .name = name,
         .inputs = {some},
         .attributes = {{"low", std::vector<int64_t>{1, 0}}, {"high", std::vector<int64_t>{0, 2}}, {"value", 7.0}}});
  }
  const CaseInput wide{{DType::kF64, {4, 6}}, -2, 2};
  for (const char* op : {"exp", "negate", "tanh", "square", "gelu"})
    cases.push_back({.op = op, .name = "f64", .inputs = {wide}, .low_types = false});
  for (const char* op : {"add", "multiply", "divide", "less"})
    cases.push_back({.op = op, .name = "f64", .inputs = {wide, {{DType::kF64, {6}}, 1, 2}}, .low_types = false});
  for (const char* op : {"reduce_sum", "reduce_max"})
    cases.push_back({.op = op,
                     .name = "f64",
                     .inputs = {wide},
                     .attributes = {{"axes", std::vector<int64_t>{0}}},
                     .low_types = false});
  cases.push_back(
      {.op = "matmul", .name = "f64", .inputs = {wide, {{DType::kF64, {6, 3}}, -2, 2}}, .low_types = false});
  cases.push_back({.op = "transpose",
                   .name = "f64",
                   .inputs = {wide},
                   .attributes = {{"permutation", std::vector<int64_t>{1, 0}}},
                   .low_types = false});
}

void add_draws(std::vector<OpCase>& cases, Dice& dice) {
  const auto draw = [&](std::string name, const char* kind, DType dtype, Shape shape, double a, double b,
                        int64_t micro) {
    cases.push_back({.op = "draw",
                     .name = std::move(name),
                     .inputs = {given(DType::kI64, {2}, {3, static_cast<double>(micro)})},
                     .attributes = {{"kind", std::string(kind)},
                                    {"dtype", dtype},
                                    {"shape", shape.dims()},
                                    {"a", a},
                                    {"b", b},
                                    {"seed", int64_t{11}},
                                    {"tensor", int64_t{77}}}});
  };
  draw("uniform", "uniform", DType::kF32, {4, 6}, 0, 1, 2);
  draw("normal", "normal", DType::kF32, {4, 6}, 1, 0.5, 0);
  draw("integers", "integer", DType::kI64, {4, 6}, -3, 9, 1);
  draw("bf16", "uniform", DType::kBF16, {6, 4}, -1, 1, 1);
  draw("f64", "normal", DType::kF64, {3, 2}, 0, 1, 1);
  for (int i = 0; i < 12; ++i) {
    constexpr const char* kKinds[] = {"uniform", "normal", "integer"};
    const char* kind = dice.one_of(kKinds);
    draw("drawn " + std::to_string(i), kind, std::string(kind) == "integer" ? DType::kI32 : DType::kF32, dice.shape(),
         0, 5, dice.below(4));
  }
}

}  // namespace

void add_arithmetic_cases(std::vector<OpCase>& cases) {
  Dice dice(2026);
  add_float_ops(cases, dice);
  add_integer_ops(cases, dice);
  add_casts(cases, dice);
  add_edges(cases);
  add_types(cases);
  add_draws(cases, dice);
}

}  // namespace ramet::tests
