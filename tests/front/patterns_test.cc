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

}  // namespace
}  // namespace ramet::tests
