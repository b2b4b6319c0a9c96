#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "front/call_support.h"
#include "ramet/transform/differentiate.h"

// Translators of networks' operators. Numbers of PyTorch are recorded here where no other op gives them.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using traced::flag;
using traced::integer;
using traced::integers;
using traced::number;
using traced::tensor;
using traced::text;

HostTensor ramp(const Shape& shape, double first = 1, double step = 1) {
  HostTensor made({DType::kF32, shape});
  for (int64_t i = 0; i < made.elements(); ++i) made.set(i, first + step * static_cast<double>(i));
  return made;
}

TensorType f32_type(const Shape& shape) { return {DType::kF32, shape}; }

void expect_values(const HostTensor& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size()));
  for (int64_t i = 0; i < found.elements(); ++i)
    EXPECT_NEAR(found.get(i), wanted[static_cast<size_t>(i)], 1e-5 * (1 + std::fabs(wanted[static_cast<size_t>(i)])))
        << i;
}

std::string refusal(const RecordedCall& call) {
  try {
    call.run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(NetworkOperators, TheOddZeroOfSamePaddingStandsBehind) {
  const RecordedCall call{.op = "aten.conv1d",
                          .arguments = {{"input", tensor("x")}, {"weight", tensor("w")}, {"padding", text("same")}},
                          .results = {f32_type({1, 1, 4})},
                          .operands = {{"x", ramp({1, 1, 4})}, {"w", ramp({1, 1, 2})}},
                          .overload = "padding"};
  expect_values(call.run()[0], {5, 8, 11, 4});
}

TEST(NetworkOperators, APoolTakesATensorWithoutSamples) {
  const RecordedCall call{.op = "aten.max_pool2d",
                          .arguments = {{"self", tensor("x")}, {"kernel_size", integers({2})}},
                          .results = {f32_type({2, 1, 2})},
                          .operands = {{"x", ramp({2, 2, 4})}}};
  expect_values(call.run()[0], {6, 8, 14, 16});
}

TEST(NetworkOperators, BatchNormRunsOnWithTheUnbiasedVariance) {
  const RecordedCall call{.op = "aten._native_batch_norm_legit_functional",
                          .arguments = {{"input", tensor("x")},
                                        {"running_mean", tensor("mean")},
                                        {"running_var", tensor("var")},
                                        {"training", flag(true)},
                                        {"momentum", number(0.1)},
                                        {"eps", number(1e-5)}},
                          .results = {f32_type({4, 1}), f32_type({1}), f32_type({1}), f32_type({1}), f32_type({1})},
                          .operands = {{"x", ramp({4, 1})}, {"mean", f32({1}, {1})}, {"var", f32({1}, {2})}}};
  const auto made = call.run();
  expect_values(made[1], {2.5});
  expect_values(made[2], {1 / std::sqrt(1.25 + 1e-5)});
  expect_values(made[3], {0.9 * 1 + 0.1 * 2.5});
  expect_values(made[4], {0.9 * 2 + 0.1 * 5.0 / 3});
}

TEST(NetworkOperators, LayerNormOverTwoDimensionsWithoutWeights) {
  const RecordedCall call{.op = "aten.layer_norm",
                          .arguments = {{"input", tensor("x")}, {"normalized_shape", integers({2, 2})}},
                          .results = {f32_type({2, 2, 2})},
                          .operands = {{"x", ramp({2, 2, 2})}}};
  expect_values(call.run()[0], {-1.341636, -0.447212, 0.447212, 1.341636, -1.341636, -0.447212, 0.447212, 1.341636});
}

TEST(NetworkOperators, SoftmaxOfAWholeNumberComputesInItsResultsType) {
  const RecordedCall call{.op = "aten.softmax",
                          .arguments = {{"self", tensor("x")}, {"dim", integer(0)}, {"dtype", text("f32")}},
                          .results = {f32_type({2})},
                          .operands = {{"x", i64({2}, {3, 3})}}};
  expect_values(call.run()[0], {0.5, 0.5});
}

TEST(NetworkOperators, EmbeddingBagsOfOffsets) {
  const RecordedCall call{
      .op = "aten._embedding_bag",
      .arguments = {{"weight", tensor("table")},
                    {"indices", tensor("i")},
                    {"offsets", tensor("o")},
                    {"mode", integer(1)}},
      .results = {f32_type({3, 2})},
      .operands = {{"table", ramp({4, 2})}, {"i", i64({4}, {0, 1, 3, 3})}, {"o", i64({3}, {0, 3, 3})}}};
  expect_values(call.run()[0], {(1 + 3 + 7) / 3.0, (2 + 4 + 8) / 3.0, 0, 0, 7, 8});
}

/// A row that stands twice counts once, the row of padding not at all, and a bag without rows is 0.
TEST(NetworkOperators, MaximaOfBags) {
  const RecordedCall call{.op = "aten.embedding_bag",
                          .arguments = {{"weight", tensor("table")},
                                        {"indices", tensor("i")},
                                        {"offsets", tensor("o")},
                                        {"mode", integer(2)},
                                        {"padding_idx", integer(3)}},
                          .results = {f32_type({3, 2})},
                          .operands = {{"table", f32({4, 2}, {-1, 5, -2, 6, -9, -9, 8, 8})},
                                       {"i", i64({5}, {0, 1, 3, 2, 2})},
                                       {"o", i64({3}, {0, 3, 3})}}};
  expect_values(call.run()[0], {-1, 6, 0, 0, -9, -9});
}

TEST(NetworkOperators, DerivativesOfDigamma) {
  RecordedCall call{.op = "aten.polygamma",
                    .arguments = {{"n", integer(1)}, {"self", tensor("a")}},
                    .results = {f32_type({2})},
                    .operands = {{"a", f32({2}, {1, 0.5})}}};
  const double square = M_PI * M_PI;
  expect_values(call.run()[0], {square / 6, square / 2});
  call.arguments[0].second = integer(2);
  const double zeta = 1.2020569031595942;  // of 3
  expect_values(call.run()[0], {-2 * zeta, -14 * zeta});
  call.arguments[0].second = integer(21);
  EXPECT_THAT(refusal(call), HasSubstr("Use torch.polygamma(n, x) with n up to 20"));
}

/// The gradients of a program's only result, by one of its inputs.
std::vector<double> gradient_of(const std::string& op,
                                std::vector<std::pair<std::string, front::TracedArgument>> arguments,
                                const std::map<std::string, HostTensor>& operands, const TensorType& result,
                                const std::string& by) {
  front::TracedProgram program;
  front::Importer::Options options{.trains = true};
  for (const auto& [name, value] : operands) {
    program.types[name] = value.type;
    options.inputs[name] = {.from = front::InputValue::From::kData, .name = name, .type = value.type};
  }
  program.types["result"] = result;
  program.calls.push_back({.op = op, .overload = "default", .arguments = std::move(arguments), .outputs = {"result"}});
  program.outputs.push_back({.value = "result", .target = "result"});
  Graph graph;
  front::Importer importer(program, graph, options);
  importer.run();
  if (!importer.refusals().empty()) front::throw_refusals("module", importer.refusals());
  importer.build().output("loss", ops::reduce_sum(importer.value("result")));
  return kernel::interpret(transform::differentiate(graph, "loss", {by}), kernel::reference_backend(), operands)
      .back()
      .values();
}

TEST(NetworkOperators, TheRowOfPaddingHasNoGradient) {
  const auto gradient =
      gradient_of("aten.embedding", {{"weight", tensor("w")}, {"indices", tensor("i")}, {"padding_idx", integer(1)}},
                  {{"w", ramp({3, 2})}, {"i", i64({2, 2}, {0, 1, 2, 0})}}, f32_type({2, 2, 2}), "w");
  EXPECT_THAT(gradient, ::testing::ElementsAre(2, 2, 0, 0, 1, 1));
}

TEST(NetworkOperators, AnOperatorThatCannotDoAsToldSaysSo) {
  const RecordedCall call{
      .op = "aten.embedding",
      .arguments = {{"weight", tensor("w")}, {"indices", tensor("i")}, {"scale_grad_by_freq", flag(true)}},
      .results = {f32_type({2, 2})},
      .operands = {{"w", ramp({3, 2})}, {"i", i64({2}, {0, 1})}}};
  EXPECT_THAT(refusal(call), HasSubstr("gradients scaled by how often an index occurs"));
}

TEST(NetworkOperators, AnIntegerMayBeWrittenAsAFloatWithinItsRange) {
  const auto pool = [](double size) {
    return RecordedCall{.op = "aten.max_pool2d",
                        .arguments = {{"self", tensor("x")}, {"kernel_size", traced::list({number(size)})}},
                        .results = {f32_type({2, 1, 2})},
                        .operands = {{"x", ramp({2, 2, 4})}}};
  };
  expect_values(pool(2.0).run()[0], {6, 8, 14, 16});
  for (const double size : {2.5, 0x1p63, -0x1p64, 1e300, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_THAT(refusal(pool(size)), HasSubstr("an integer")) << size;
}

TEST(LossOperators, CtcTargetsInOneDimensionAreCutByTheirLengths) {
  HostTensor log_probs = ramp({3, 2, 3}, -1.2, 0.01);
  const auto loss = [&](const HostTensor& targets) {
    const RecordedCall call{.op = "aten.ctc_loss",
                            .arguments = {{"log_probs", tensor("p")},
                                          {"targets", tensor("t")},
                                          {"input_lengths", integers({3, 3})},
                                          {"target_lengths", integers({2, 1})},
                                          {"reduction", integer(0)}},
                            .results = {f32_type({2})},
                            .operands = {{"p", log_probs}, {"t", targets}},
                            .overload = "IntList"};
    return call.run()[0].values();
  };
  EXPECT_EQ(loss(i64({3}, {1, 2, 2})), loss(i64({2, 2}, {1, 2, 2, 0})));
}

// --- attention ---

RecordedCall attention(std::map<std::string, HostTensor> operands,
                       std::vector<std::pair<std::string, front::TracedArgument>> more, const Shape& result) {
  RecordedCall call{.op = "aten.scaled_dot_product_attention",
                    .arguments = {{"query", tensor("q")}, {"key", tensor("k")}, {"value", tensor("v")}},
                    .results = {f32_type(result)},
                    .operands = std::move(operands)};
  call.arguments.insert(call.arguments.end(), more.begin(), more.end());
  return call;
}

const std::map<std::string, HostTensor>& two_heads() {
  static const std::map<std::string, HostTensor> operands = {
      {"q", ramp({1, 2, 3, 2}, -1, 0.2)}, {"k", ramp({1, 2, 3, 2}, 0.5, -0.1)}, {"v", ramp({1, 2, 3, 2}, 0, 1)}};
  return operands;
}

TEST(AttentionOperators, AKnownTriangleIsCausal) {
  RecordedCall known = attention(two_heads(), {{"attn_mask", tensor("m")}}, {1, 2, 3, 2});
  known.known = {{"m", HostTensor::of(DType::kBool, {3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1})}};
  RecordedCall additive = known;
  additive.known = {{"m", f32({1, 1, 3, 3}, {0, -INFINITY, -INFINITY, 0, 0, -INFINITY, 0, 0, 0})}};
  const RecordedCall causal = attention(two_heads(), {{"is_causal", flag(true)}}, {1, 2, 3, 2});
  EXPECT_EQ(known.run(), causal.run());
  EXPECT_EQ(additive.run(), causal.run());
}

TEST(AttentionOperators, AQueryWithoutKeysGivesZero) {
  RecordedCall call = attention(two_heads(), {{"attn_mask", tensor("m")}}, {1, 2, 3, 2});
  call.operands["m"] = HostTensor::of(DType::kBool, {1, 1, 3, 3}, {1, 0, 0, 0, 0, 0, 0, 0, 1});
  expect_values(call.run()[0], {0, 1, 0, 0, 4, 5, 6, 7, 0, 0, 10, 11});
}

TEST(AttentionOperators, AMaskOfKeysIsOneOfSamples) {
  RecordedCall keys = attention(two_heads(), {{"attn_mask", tensor("m")}}, {1, 2, 3, 2});
  RecordedCall whole = keys;
  keys.operands["m"] = HostTensor::of(DType::kBool, {1, 1, 1, 3}, {1, 0, 1});
  whole.operands["m"] = HostTensor::of(DType::kBool, {3, 3}, {1, 0, 1, 1, 0, 1, 1, 0, 1});
  const HostTensor a = keys.run()[0], b = whole.run()[0];
  expect_values(a, b.values());
}

/// A causal mask joined with one of keys, as models of transformers write it, needs no mask of all pairs.
TEST(AttentionOperators, AMaskIsTakenApart) {
  front::TracedProgram program;
  front::Importer::Options options;
  const auto add = [&](const std::string& name, const HostTensor& value, bool known) {
    using From = front::InputValue::From;
    program.types[name] = value.type;
    options.inputs[name] = {.from = known ? From::kConstant : From::kData,
                            .name = name,
                            .type = value.type,
                            .data = known ? TensorData(value) : TensorData()};
  };
  const auto call = [&](const std::string& op, std::vector<std::pair<std::string, front::TracedArgument>> arguments,
                        const std::string& result, const TensorType& type) {
    program.types[result] = type;
    program.calls.push_back({.op = op, .overload = "default", .arguments = std::move(arguments), .outputs = {result}});
  };
  for (const auto& [name, value] : two_heads()) add(name, value, false);
  add("triangle", HostTensor::of(DType::kBool, {1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}), true);
  add("shown", HostTensor::of(DType::kBool, {1, 1, 1, 3}, {1, 1, 0}), false);
  const TensorType flags{DType::kBool, {1, 1, 3, 3}};
  call("aten.__and__", {{"self", tensor("triangle")}, {"other", tensor("shown")}}, "both", flags);
  call("aten.expand", {{"self", tensor("both")}, {"size", integers({1, -1, 3, 3})}}, "mask", flags);
  call("aten.scaled_dot_product_attention",
       {{"query", tensor("q")}, {"key", tensor("k")}, {"value", tensor("v")}, {"attn_mask", tensor("mask")}}, "out",
       f32_type({1, 2, 3, 2}));
  program.outputs.push_back({.value = "out", .target = "out"});
  Graph graph;
  front::Importer importer(program, graph, options);
  importer.run();
  ASSERT_TRUE(importer.refusals().empty());
  const auto attention = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                      [](const Node& node) { return node.op->name == "attention"; });
  ASSERT_NE(attention, graph.nodes().end());
  EXPECT_TRUE(attention->attributes.get_bool_or("causal", false));
  EXPECT_EQ(graph.type(attention->inputs.back()).text(), "bool[1,3]");
}

TEST(AttentionOperators, LeadingDimensionsBecomeSamples) {
  std::map<std::string, HostTensor> five;
  for (const auto& [name, value] : two_heads()) {
    five[name] = value;
    five[name].type.shape = {1, 1, 2, 3, 2};
  }
  EXPECT_EQ(attention(five, {}, {1, 1, 2, 3, 2}).run()[0].values(),
            attention(two_heads(), {}, {1, 2, 3, 2}).run()[0].values());
}

TEST(NetworkOperators, TheMaximumOfABagGivesItsGradientToOneRow) {
  const auto gradient =
      gradient_of("aten.embedding_bag",
                  {{"weight", tensor("w")}, {"indices", tensor("i")}, {"offsets", tensor("o")}, {"mode", integer(2)}},
                  {{"w", f32({3, 2}, {1, 9, 4, 2, 3, 3})}, {"i", i64({4}, {0, 1, 2, 2})}, {"o", i64({2}, {0, 2})}},
                  f32_type({2, 2}), "w");
  EXPECT_THAT(gradient, ::testing::ElementsAre(0, 1, 1, 0, 1, 1));
}

/// torch.export does not record that an instance norm changes its running statistics.
TEST(NetworkOperators, StatisticsOfInstanceNormsAreRecorded) {
  front::TracedProgram program;
  program.types = {{"x", f32_type({2, 3, 5})}, {"m", f32_type({3})}, {"v", f32_type({3})}, {"y", f32_type({2, 3, 5})}};
  using Kind = front::TracedInput::Kind;
  program.inputs = {
      {Kind::kUser, "x", "x"}, {Kind::kBuffer, "m", "norm.running_mean"}, {Kind::kBuffer, "v", "norm.running_var"}};
  program.calls.push_back({.op = "aten.instance_norm",
                           .overload = "default",
                           .arguments = {{"input", tensor("x")},
                                         {"running_mean", tensor("m")},
                                         {"running_var", tensor("v")},
                                         {"use_input_stats", traced::flag(true)},
                                         {"momentum", number(0.1)},
                                         {"eps", number(1e-5)}},
                           .outputs = {"y"}});
  program.outputs.push_back({.value = "y", .target = "y"});
  front::record_statistics(program);
  const auto folds = front::recognise_folds(program);
  ASSERT_EQ(folds.size(), 2U);
  for (const char* name : {"norm.running_mean", "norm.running_var"}) {
    EXPECT_EQ(folds.at(name).by, "average");
    EXPECT_EQ(folds.at(name).momentum, 0.1);
  }
  EXPECT_EQ(program.calls.back().find("running_mean"), nullptr);
}

}  // namespace
}  // namespace ramet::tests
