#include "ramet/front/patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "front/call_support.h"

namespace ramet::tests {
namespace {

using front::TracedArgument;
using front::TracedProgram;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Named = std::vector<std::pair<std::string, TracedArgument>>;
using traced::flag;
using traced::integer;
using traced::integers;
using traced::number;
using traced::tensor;

/// A traced program that is written call by call, and run with its patterns and without.
class WrittenProgram {
 public:
  std::string input(const std::string& name, const Shape& shape, double first = -0.9) {
    HostTensor values({DType::kF32, shape});
    for (int64_t i = 0; i < values.elements(); ++i)
      values.set(i, first + 0.37 * static_cast<double>(i % 6) - 0.11 * static_cast<double>(i % 7));
    return input(name, std::move(values));
  }
  std::string input(const std::string& name, HostTensor values) {
    program_.types[name] = values.type;
    program_.inputs.push_back({.value = name, .target = name});
    operands_[name] = std::move(values);
    return name;
  }
  std::string call(const std::string& op, Named arguments, const Shape& shape, DType dtype = DType::kF32,
                   const std::string& overload = "default") {
    const std::string name = "v" + std::to_string(program_.calls.size());
    program_.calls.push_back(
        {.op = "aten." + op, .overload = overload, .arguments = std::move(arguments), .outputs = {name}});
    program_.types[name] = {dtype, shape};
    return name;
  }
  std::string unary(const std::string& op, const std::string& a) {
    return call(op, {{"self", tensor(a)}}, program_.types[a].shape);
  }
  std::string binary(const std::string& op, const std::string& a, TracedArgument b) {
    const bool wider =
        b.kind == TracedArgument::Kind::kTensor && program_.types[b.text].elements() > program_.types[a].elements();
    return call(op, {{"self", tensor(a)}, {"other", b}}, program_.types[wider ? b.text : a].shape);
  }
  std::string mean(const std::string& a) {
    std::vector<int64_t> dims = program_.types[a].shape.dims();
    dims.back() = 1;
    return call("mean", {{"self", tensor(a)}, {"dim", integers({-1})}, {"keepdim", flag(true)}}, Shape(dims),
                DType::kF32, "dim");
  }
  void parameter(const std::string& input) {
    for (front::TracedInput& each : program_.inputs)
      if (each.value == input) each.kind = front::TracedInput::Kind::kParameter;
  }
  void output(const std::string& value) { program_.outputs.push_back({.value = value, .target = value}); }

  std::vector<std::string> fused_ops() const {
    std::vector<std::string> ops;
    for (const front::TracedCall& call : front::fuse_patterns(program_).calls) ops.push_back(call.op.substr(5));
    return ops;
  }
  /// The program with patterns gives what it gives without.
  void expect_same_values() const {
    const auto plain = run(program_), fused = run(front::fuse_patterns(program_));
    ASSERT_EQ(plain.size(), fused.size());
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(plain[i].type, fused[i].type);
      for (int64_t at = 0; at < plain[i].elements(); ++at)
        EXPECT_NEAR(plain[i].get(at), fused[i].get(at), 2e-6 * (1 + std::fabs(plain[i].get(at)))) << at;
    }
  }
  const TracedProgram& program() const { return program_; }

 private:
  std::vector<HostTensor> run(const TracedProgram& program) const {
    Graph graph;
    front::Importer::Options options;
    for (const auto& [name, value] : operands_)
      options.inputs[name] = {.from = front::InputValue::From::kData, .name = name, .type = value.type};
    front::Importer importer(program, graph, options);
    importer.run();
    if (!importer.refusals().empty()) front::throw_refusals("module", importer.refusals());
    for (const auto& output : program.outputs) importer.build().output(output.value, importer.value(output.value));
    return kernel::interpret(graph, kernel::reference_backend(), operands_);
  }

  TracedProgram program_;
  std::map<std::string, HostTensor> operands_;
};

// --- GELU ---

TEST(Patterns, GeluWrittenWithErf) {
  WrittenProgram p;
  const std::string x = p.input("x", {2, 6});
  const std::string erf = p.unary("erf", p.binary("div", x, number(std::sqrt(2.0))));
  p.output(p.binary("mul", p.binary("mul", x, number(0.5)), tensor(p.binary("add", erf, number(1)))));
  EXPECT_THAT(p.fused_ops(), ElementsAre("gelu"));
  p.expect_same_values();
}

std::string tanh_gelu(WrittenProgram& p, const std::string& x, bool factored) {
  const Shape shape = p.program().types.at(x).shape;
  std::string argument;
  if (factored) {  // x c (1 + 0.044715 x x)
    const std::string square = p.binary("mul", p.binary("mul", x, number(0.044715)), tensor(x));
    argument = p.binary("mul", p.binary("mul", x, number(0.79788456)), tensor(p.binary("add", square, number(1))));
  } else {
    const std::string cube = p.call("pow", {{"self", tensor(x)}, {"exponent", number(3)}}, shape);
    const std::string inner = p.binary("add", x, tensor(p.binary("mul", cube, number(0.044715))));
    argument = p.binary("mul", inner, number(std::sqrt(2 / M_PI)));
  }
  const std::string sum = p.binary("add", p.unary("tanh", argument), number(1.0));
  return p.binary("mul", p.binary("mul", x, number(0.5)), tensor(sum));
}

TEST(Patterns, GeluWrittenWithTanhInTwoForms) {
  for (const bool factored : {false, true}) {
    WrittenProgram p;
    p.output(tanh_gelu(p, p.input("x", {3, 4}), factored));
    EXPECT_THAT(p.fused_ops(), ElementsAre("gelu")) << factored;
    p.expect_same_values();
  }
}

TEST(Patterns, AnotherConstantIsNoGelu) {
  WrittenProgram p;
  const std::string x = p.input("x", {2, 6});
  const std::string erf = p.unary("erf", p.binary("mul", x, number(0.7)));
  p.output(p.binary("mul", p.binary("mul", x, number(0.5)), tensor(p.binary("add", erf, number(1)))));
  EXPECT_THAT(p.fused_ops(), Not(Contains("gelu")));
}

// --- norms ---

TEST(Patterns, RmsNormWithItsWeight) {
  WrittenProgram p;
  const std::string x = p.input("x", {2, 3, 6}), weight = p.input("w", {6}, 0.4);
  const std::string square = p.call("pow", {{"self", tensor(x)}, {"exponent", integer(2)}}, {2, 3, 6});
  const std::string root = p.unary("rsqrt", p.binary("add", p.mean(square), number(1e-5)));
  p.output(p.binary("mul", weight, tensor(p.binary("mul", x, tensor(root)))));
  EXPECT_THAT(p.fused_ops(), ElementsAre("rms_norm"));
  p.expect_same_values();
}

std::string written_layer_norm(WrittenProgram& p, const std::string& x, std::string* difference = nullptr) {
  const std::string d = p.binary("sub", x, tensor(p.mean(x)));
  const std::string variance = p.mean(p.binary("mul", d, tensor(d)));
  if (difference) *difference = d;
  return p.binary("div", d, tensor(p.unary("sqrt", p.binary("add", variance, number(1e-5)))));
}

TEST(Patterns, LayerNormWithWeightAndBias) {
  WrittenProgram p;
  const std::string x = p.input("x", {2, 3, 6}), weight = p.input("w", {6}, 0.4), bias = p.input("b", {6});
  const std::string product = p.binary("mul", written_layer_norm(p, x), tensor(weight));
  p.output(p.binary("add", product, tensor(bias)));
  EXPECT_THAT(p.fused_ops(), ElementsAre("layer_norm"));
  p.expect_same_values();
}

TEST(Patterns, AFactorOfAnotherShapeStaysOutsideTheNorm) {
  WrittenProgram p;
  const std::string x = p.input("x", {2, 3, 6}), factor = p.input("w", {2, 1, 6});
  p.output(p.binary("mul", written_layer_norm(p, x), tensor(factor)));
  EXPECT_THAT(p.fused_ops(), ElementsAre("layer_norm", "mul"));
  p.expect_same_values();
}

// --- cross-entropy ---

TEST(Patterns, CrossEntropyOfLogSoftmax) {
  WrittenProgram p;
  const std::string x = p.input("x", {3, 4}), labels = p.input("labels", i64({3}, {1, -100, 3}));
  const std::string logarithm = p.call("log_softmax", {{"self", tensor(x)}, {"dim", integer(-1)}}, {3, 4});
  p.output(p.call("nll_loss_nd", {{"self", tensor(logarithm)}, {"target", tensor(labels)}}, {}));
  EXPECT_THAT(p.fused_ops(), ElementsAre("cross_entropy_loss"));
  p.expect_same_values();
}

// --- attention ---

struct Heads {
  std::string query, key, value;
};

/// Scores of [2, 2, 3, 4] x [2, 2, 4, 5], and what follows them.
class WrittenAttention : public WrittenProgram {
 public:
  explicit WrittenAttention(bool flat = false) : flat_(flat) {
    const Shape lead = flat ? Shape{4} : Shape{2, 2};
    query_ = input("q", of(lead, 3, 4));
    key_ = input("k", of(lead, 5, 4), -0.3);
    value_ = input("v", of(lead, 5, 6), -0.7);
  }
  Shape of(const Shape& lead, int64_t rows, int64_t columns) const {
    std::vector<int64_t> dims = lead.dims();
    dims.insert(dims.end(), {rows, columns});
    return Shape(dims);
  }
  std::string product() {
    const Shape lead = flat_ ? Shape{4} : Shape{2, 2};
    const std::string key = call("transpose", {{"self", tensor(key_)}, {"dim0", integer(-1)}, {"dim1", integer(-2)}},
                                 of(lead, 4, 5), DType::kF32, "int");
    return call(flat_ ? "bmm" : "matmul", {{"self", tensor(query_)}, {flat_ ? "mat2" : "other", tensor(key)}},
                of(lead, 3, 5));
  }
  std::string softmax(const std::string& scores) {
    return call("softmax", {{"self", tensor(scores)}, {"dim", integer(-1)}}, program().types.at(scores).shape,
                DType::kF32, "int");
  }
  void finish(const std::string& probabilities) {
    const Shape lead = flat_ ? Shape{4} : Shape{2, 2};
    output(call(flat_ ? "bmm" : "matmul", {{"self", tensor(probabilities)}, {flat_ ? "mat2" : "other", tensor(value_)}},
                of(lead, 3, 6)));
  }

 private:
  bool flat_;
  std::string query_, key_, value_;
};

TEST(Patterns, AttentionWithAScaleAndABias) {
  WrittenAttention p;
  const std::string bias = p.input("bias", {1, 2, 3, 5}, 0.2);
  const std::string scores = p.binary("add", p.binary("div", p.product(), number(2)), tensor(bias));
  p.finish(p.softmax(scores));
  EXPECT_THAT(p.fused_ops(), ElementsAre("scaled_dot_product_attention"));
  p.expect_same_values();
}

TEST(Patterns, AttentionWithAMaskThatIsFilled) {
  WrittenAttention p;
  HostTensor hidden({DType::kBool, {2, 1, 1, 5}});
  for (const int64_t at : {1, 7, 9}) hidden.set(at, 1);
  const std::string mask = p.input("mask", std::move(hidden));
  const std::string scores = p.call("masked_fill",
                                    {{"self", tensor(p.product())},
                                     {"mask", tensor(mask)},
                                     {"value", number(-std::numeric_limits<double>::infinity())}},
                                    {2, 2, 3, 5}, DType::kF32, "Scalar");
  p.finish(p.softmax(scores));
  EXPECT_THAT(p.fused_ops(), ElementsAre("logical_not", "scaled_dot_product_attention"));
  p.expect_same_values();
}

/// A row that such a mask hides as a whole keeps the mean of the values.
TEST(Patterns, AMaskThatFillsWithANumberStays) {
  WrittenAttention p;
  const std::string mask = p.input("mask", HostTensor({DType::kBool, {2, 1, 1, 5}}));
  const std::string scores =
      p.call("masked_fill", {{"self", tensor(p.product())}, {"mask", tensor(mask)}, {"value", number(-1e9)}},
             {2, 2, 3, 5}, DType::kF32, "Scalar");
  p.finish(p.softmax(scores));
  EXPECT_THAT(p.fused_ops(), Not(Contains("scaled_dot_product_attention")));
}

TEST(Patterns, AttentionOfJoinedSamplesAndHeads) {
  WrittenAttention p(true);
  const std::string bias = p.input("bias", {2, 1, 3, 5}, 0.2);
  const std::string four =
      p.call("view", {{"self", tensor(p.product())}, {"size", integers({2, 2, 3, 5})}}, {2, 2, 3, 5});
  const std::string probabilities = p.softmax(p.binary("add", four, tensor(bias)));
  p.finish(p.call("view", {{"self", tensor(probabilities)}, {"size", integers({4, 3, 5})}}, {4, 3, 5}));
  EXPECT_THAT(p.fused_ops(), Contains("scaled_dot_product_attention"));
  EXPECT_THAT(p.fused_ops(), Not(Contains("softmax")));
  p.expect_same_values();
}

/// The window's mask is added where samples and windows are apart.
TEST(Patterns, AttentionOfWindows) {
  WrittenAttention p;
  const std::string mask = p.input("mask", {1, 2, 1, 3, 5}, 0.1);
  const std::string windows =
      p.call("view", {{"self", tensor(p.product())}, {"size", integers({1, 2, 2, 3, 5})}}, {1, 2, 2, 3, 5});
  const std::string sum = p.binary("add", windows, tensor(mask));
  p.finish(p.softmax(p.call("view", {{"self", tensor(sum)}, {"size", integers({2, 2, 3, 5})}}, {2, 2, 3, 5})));
  EXPECT_THAT(p.fused_ops(), Contains("scaled_dot_product_attention"));
  p.expect_same_values();
}

/// A file may hold any number as an axis.
TEST(Patterns, AnAxisThatATensorLacksIsRefused) {
  for (const double axis : {4.0, -5.0, 1e30, std::nan("")}) {
    WrittenProgram p;
    const std::string query = p.input("q", {2, 2, 3, 4}), key = p.input("k", {2, 2, 5, 4}),
                      value = p.input("v", {2, 2, 5, 6});
    const std::string turned =
        p.call("transpose", {{"self", tensor(key)}, {"dim0", number(axis)}, {"dim1", integer(-1)}}, {2, 2, 4, 5},
               DType::kF32, "int");
    const std::string scores = p.call("matmul", {{"self", tensor(query)}, {"other", tensor(turned)}}, {2, 2, 3, 5});
    const std::string probabilities =
        p.call("softmax", {{"self", tensor(scores)}, {"dim", integer(-1)}}, {2, 2, 3, 5}, DType::kF32, "int");
    p.output(p.call("matmul", {{"self", tensor(probabilities)}, {"other", tensor(value)}}, {2, 2, 3, 6}));
    try {
      p.expect_same_values();
      FAIL() << "no error for " << axis;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("module 'module': the module uses what is not supported; found \n  aten.transpose (1x): "));
    }
  }
}

TEST(Patterns, ProbabilitiesThatAreAResultStay) {
  WrittenAttention p;
  const std::string probabilities = p.softmax(p.product());
  p.finish(probabilities);
  p.output(probabilities);
  EXPECT_THAT(p.fused_ops(), Not(Contains("scaled_dot_product_attention")));
}

/// A scale behind the bias scales the bias too.
TEST(Patterns, AScaleOfTheBiasStays) {
  WrittenAttention p;
  const std::string bias = p.input("bias", {1, 2, 3, 5}, 0.2);
  p.finish(p.softmax(p.binary("mul", p.binary("add", p.product(), tensor(bias)), number(0.5))));
  EXPECT_THAT(p.fused_ops(), Not(Contains("scaled_dot_product_attention")));
}

/// Attention of 4 heads of queries, with 2 heads of keys and values that are repeated.
struct RepeatedHeads : WrittenProgram {
  std::string query = input("q", {2, 4, 3, 4}), key = input("k", {2, 2, 5, 4}, -0.3),
              value = input("v", {2, 2, 5, 6}, -0.7);

  std::string repeated(const std::string& heads, int64_t size, int64_t axis = 2) {
    std::vector<int64_t> one{2, 2, 5, size}, wide{2, 2, 5, size};
    one.insert(one.begin() + axis, 1), wide.insert(wide.begin() + axis, 2);
    const std::string apart =
        call("unsqueeze", {{"self", tensor(heads)}, {"dim", integer(axis)}}, Shape(one), DType::kF32, "default");
    const std::string expanded = call("expand", {{"self", tensor(apart)}, {"size", integers(wide)}}, Shape(wide));
    const std::string copy = call("clone", {{"self", tensor(expanded)}}, Shape(wide));
    return call("_unsafe_view", {{"self", tensor(copy)}, {"size", integers({2, 4, 5, size})}}, {2, 4, 5, size});
  }
  void attend(const std::string& keys, const std::string& values) {
    output(call("scaled_dot_product_attention",
                {{"query", tensor(query)}, {"key", tensor(keys)}, {"value", tensor(values)}}, {2, 4, 3, 6}));
  }
};

TEST(Patterns, RepeatedHeadsOfKeysAreGroupedHeads) {
  RepeatedHeads p;
  p.attend(p.repeated(p.key, 4), p.repeated(p.value, 6));
  EXPECT_THAT(p.fused_ops(), ElementsAre("scaled_dot_product_attention"));
  p.expect_same_values();
}

TEST(Patterns, HeadsOfKeysThatRepeatInterleaves) {
  RepeatedHeads p;
  const auto repeated = [&](const std::string& heads, int64_t size) {
    return p.call("repeat_interleave", {{"self", tensor(heads)}, {"repeats", integer(2)}, {"dim", integer(1)}},
                  {2, 4, 5, size}, DType::kF32, "self_int");
  };
  p.attend(repeated(p.key, 4), repeated(p.value, 6));
  EXPECT_THAT(p.fused_ops(), ElementsAre("scaled_dot_product_attention"));
  p.expect_same_values();
}

/// The two heads of keys stand in turn (0, 1, 0, 1), not each twice in a row.
TEST(Patterns, HeadsThatAreRepeatedInTurnStay) {
  RepeatedHeads p;
  p.attend(p.repeated(p.key, 4, 1), p.repeated(p.value, 6, 1));
  EXPECT_THAT(p.fused_ops(), Contains("expand"));
  p.expect_same_values();
}

TEST(Patterns, RepeatedHeadsOfAttentionThatIsWrittenOut) {
  RepeatedHeads p;
  const std::string key =
      p.call("transpose", {{"self", tensor(p.repeated(p.key, 4))}, {"dim0", integer(2)}, {"dim1", integer(3)}},
             {2, 4, 4, 5}, DType::kF32, "int");
  const std::string scores =
      p.binary("mul", p.call("matmul", {{"self", tensor(p.query)}, {"other", tensor(key)}}, {2, 4, 3, 5}), number(0.5));
  const std::string probabilities =
      p.call("softmax", {{"self", tensor(scores)}, {"dim", integer(-1)}}, {2, 4, 3, 5}, DType::kF32, "int");
  p.output(
      p.call("matmul", {{"self", tensor(probabilities)}, {"other", tensor(p.repeated(p.value, 6))}}, {2, 4, 3, 6}));
  EXPECT_THAT(p.fused_ops(), ElementsAre("scaled_dot_product_attention"));
  p.expect_same_values();
}

// --- rotary positions ---

/// x [2, 3, 4, 6] (samples, heads, positions, size), of whose heads the first `rotated` elements turn.
class WrittenRotary : public WrittenProgram {
 public:
  explicit WrittenRotary(int64_t rotated = 6, bool neighbours = false) : rotated_(rotated), neighbours_(neighbours) {
    x = input("x", {2, 3, 4, 6});
  }
  std::string x;
  bool angles_once = false;          ///< tables that do not hold each angle twice
  bool angles_by_parameter = false;  ///< a gradient flows to the tables

  std::string slice(const std::string& a, int64_t start, int64_t end, int64_t step = 1) {
    std::vector<int64_t> dims = program().types.at(a).shape.dims();
    dims.back() = (std::min(end, dims.back()) - start + step - 1) / step;
    return call("slice",
                {{"self", tensor(a)},
                 {"dim", integer(3)},
                 {"start", integer(start)},
                 {"end", integer(end)},
                 {"step", integer(step)}},
                Shape(dims), DType::kF32, "Tensor");
  }
  std::string table(const std::string& function, int64_t samples) {
    const std::string angles = input(function + "_angles", {samples, 4, angles_once ? rotated_ : rotated_ / 2}, 0.2);
    if (angles_by_parameter) parameter(angles);
    const Shape whole{samples, 4, rotated_};
    std::string twice = angles;
    if (!angles_once)
      twice =
          neighbours_
              ? call("repeat_interleave", {{"self", tensor(angles)}, {"repeats", integer(2)}, {"dim", integer(-1)}},
                     whole, DType::kF32, "self_int")
              : call("cat", {{"tensors", traced::list({tensor(angles), tensor(angles)})}, {"dim", integer(-1)}}, whole);
    const std::string scaled = binary("mul", unary(function, twice), number(1.25));
    return call("unsqueeze", {{"self", tensor(scaled)}, {"dim", integer(1)}}, {samples, 1, 4, rotated_});
  }
  std::string turned(const std::string& a) {
    const Shape shape = program().types.at(a).shape;
    const int64_t half = rotated_ / 2, end = std::numeric_limits<int64_t>::max();
    const std::string first = neighbours_ ? slice(a, 0, end, 2) : slice(a, 0, half),
                      second = unary("neg", neighbours_ ? slice(a, 1, end, 2) : slice(a, half, end));
    const auto both = traced::list({tensor(second), tensor(first)});
    if (!neighbours_) return call("cat", {{"tensors", both}, {"dim", integer(-1)}}, shape);
    const std::string pairs = call("stack", {{"tensors", both}, {"dim", integer(-1)}}, {2, 3, 4, half, 2});
    return call("view", {{"self", tensor(pairs)}, {"size", integers(shape.dims())}}, shape);
  }
  /// x cos + turned(x) sin.
  std::string rotated(const std::string& a, int64_t samples = 1) {
    const std::string straight = binary("mul", a, tensor(table("cos", samples)));
    return binary("add", straight, tensor(binary("mul", turned(a), tensor(table("sin", samples)))));
  }
  std::vector<std::string> rotary_ops() const {
    std::vector<std::string> ops;
    for (const front::TracedCall& call : front::fuse_patterns(program()).calls)
      if (call.op == "ramet.rotary" || call.op == "aten.add" || call.op == "aten.neg") ops.push_back(call.op);
    return ops;
  }

 private:
  int64_t rotated_;
  bool neighbours_;
};

TEST(Patterns, RotaryPositionsOfHalvesAndOfNeighbours) {
  for (const bool neighbours : {false, true})
    for (const int64_t samples : {1, 2}) {
      WrittenRotary p(6, neighbours);
      p.output(p.rotated(p.x, samples));
      EXPECT_THAT(p.rotary_ops(), ElementsAre("ramet.rotary")) << neighbours << samples;
      p.expect_same_values();
    }
}

TEST(Patterns, RotaryPositionsOfTheFirstElements) {
  for (const bool neighbours : {false, true}) {
    WrittenRotary p(4, neighbours);
    const std::string turned = p.rotated(p.slice(p.x, 0, 4));
    const auto parts = traced::list({tensor(turned), tensor(p.slice(p.x, 4, 6))});
    p.output(p.call("cat", {{"tensors", parts}, {"dim", integer(-1)}}, {2, 3, 4, 6}));
    EXPECT_THAT(p.rotary_ops(), ElementsAre("ramet.rotary")) << neighbours;
    const front::TracedCall last = front::fuse_patterns(p.program()).calls.back();
    EXPECT_EQ(last.op, "ramet.rotary");
    EXPECT_EQ(front::tensor_of(last, "self"), p.x);
    p.expect_same_values();
  }
}

/// A rotation turns both elements of a pair by one angle, and gives the angles no gradient.
TEST(Patterns, TablesThatAreNoAnglesOfRotationsStay) {
  WrittenRotary once;
  once.angles_once = true;
  once.output(once.rotated(once.x));
  EXPECT_THAT(once.rotary_ops(), ElementsAre("aten.neg", "aten.add"));
  WrittenRotary learnt;
  learnt.angles_by_parameter = true;
  learnt.output(learnt.rotated(learnt.x));
  EXPECT_THAT(learnt.rotary_ops(), ElementsAre("aten.neg", "aten.add"));
}

TEST(Patterns, OtherSignsAreNoRotation) {
  WrittenRotary p;
  const std::string straight = p.binary("mul", p.x, tensor(p.table("cos", 1)));
  p.output(p.binary("sub", straight, tensor(p.binary("mul", p.turned(p.x), tensor(p.table("sin", 1))))));
  EXPECT_THAT(p.rotary_ops(), ElementsAre("aten.neg"));
}

}  // namespace
}  // namespace ramet::tests
