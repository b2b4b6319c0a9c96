#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ramet/ir/builder.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_recurrent.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

/// Multiples of 1/64 in (-1, 1), as in the table of op cases.
HostTensor grid(const Shape& shape, int64_t seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i)
    values.push_back((static_cast<double>((i * 37 + seed * 101) % 127) - 63) / 64);
  return HostTensor::of(DType::kF32, shape, values);
}

constexpr int64_t kSteps = 3, kBatch = 2, kInputs = 3, kHidden = 2;

/// Two layers in both directions over two sequences of 3 and 2 steps.
class Layers {
 public:
  explicit Layers(RecurrentCell kind) : kind_(kind), build_(graph_) {}

  std::vector<HostTensor> run() {
    const int64_t gates = kind_ == RecurrentCell::kLstm ? 4 : 3;
    std::vector<RecurrentWeights> weights;
    int64_t seed = 10;
    for (const int64_t inputs : {kInputs, 2 * kHidden})
      for (int direction = 0; direction < 2; ++direction, seed += 4)
        weights.push_back({.input = feed({gates * kHidden, inputs}, seed),
                           .hidden = feed({gates * kHidden, kHidden}, seed + 1),
                           .input_bias = feed({gates * kHidden}, seed + 2),
                           .hidden_bias = feed({gates * kHidden}, seed + 3)});
    const Tensor lengths = build_.input("lengths", DType::kI32, Shape{kBatch});
    feeds_["lengths"] = HostTensor::of(DType::kI32, Shape{kBatch}, {3, 2});
    const Tensor x = feed({kSteps, kBatch, kInputs}, 1), h = feed({4, kBatch, kHidden}, 2);
    const Tensor c = kind_ == RecurrentCell::kLstm ? feed({4, kBatch, kHidden}, 3) : Tensor{};
    const Recurrent out = recurrent_layers(kind_, x, weights, true, h, c, {.lengths = lengths});
    build_.output("output", out.output);
    build_.output("hidden", out.hidden);
    if (out.cell.valid()) build_.output("cell", out.cell);
    verify(graph_, "test");
    return interpret(graph_, cpu_backend(), feeds_, 2);
  }

 private:
  Tensor feed(const Shape& shape, int64_t seed) {
    const std::string name = "in" + std::to_string(seed);
    feeds_[name] = grid(shape, seed);
    return build_.input(name, DType::kF32, shape);
  }

  RecurrentCell kind_;
  Graph graph_{"layers"};
  GraphBuilder build_;
  std::map<std::string, HostTensor> feeds_;
};

void expect_near(const HostTensor& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size()));
  for (int64_t i = 0; i < found.elements(); ++i) EXPECT_NEAR(found.get(i), wanted[static_cast<size_t>(i)], 2e-6) << i;
}

// torch.nn.GRU and LSTM(3, 2, num_layers=2, bidirectional=True) in float64 on a packed sequence.

TEST(RecurrentLayers, OfGruAreThoseOfPyTorch) {
  const auto out = Layers(RecurrentCell::kGru).run();
  ASSERT_EQ(out.size(), 2u);
  expect_near(out[0], {-0.0352287350152,
                       -0.576766193219,
                       -0.692064278262,
                       -0.059469601652,
                       0.322740813746,
                       0.178176302334,
                       0.00765612293249,
                       0.733683827695,
                       0.166864138339,
                       -0.532375920994,
                       -0.659559527561,
                       -0.103559142806,
                       0.45042142444,
                       0.0156325579509,
                       0.162873993546,
                       0.79528302983,
                       -0.348326581171,
                       -0.374211648153,
                       -0.651732929971,
                       -0.138090973364,
                       0,
                       0,
                       0,
                       0});
  expect_near(out[1], {0.0552000709439, -0.0384876902036, 0.128890597093, -0.635615507677, 0.508942277656,
                       0.156209345403, 0.931680009824, 0.492621288944, -0.348326581171, -0.374211648153, 0.45042142444,
                       0.0156325579509, -0.692064278262, -0.059469601652, 0.00765612293249, 0.733683827695});
}

TEST(RecurrentLayers, OfLstmAreThoseOfPyTorch) {
  const auto out = Layers(RecurrentCell::kLstm).run();
  ASSERT_EQ(out.size(), 3u);
  expect_near(out[0], {-0.04534717015,
                       -0.574457107031,
                       -0.403302360801,
                       -0.231756714572,
                       0.133010790307,
                       -0.320680223372,
                       -0.323158581258,
                       0.110561557773,
                       -0.0425238364359,
                       -0.6467685997,
                       -0.276972410589,
                       -0.228508063824,
                       0.0601939033384,
                       -0.461264605274,
                       -0.147981986518,
                       0.149589116814,
                       -0.0655290091811,
                       -0.652360350872,
                       -0.0291239909723,
                       -0.275501187861,
                       0,
                       0,
                       0,
                       0});
  expect_near(out[1], {0.0215197865829, 0.0239662822019, 0.115669234781, -0.34256357942, 0.128522480048, 0.180813703794,
                       0.160151887563, 0.164702459482, -0.0655290091811, -0.652360350872, 0.0601939033384,
                       -0.461264605274, -0.403302360801, -0.231756714572, -0.323158581258, 0.110561557773});
  expect_near(out[2], {0.0603588287858, 0.0368973265152, 1.09093844653, -0.936667970673, 0.547725281009, 0.399590233154,
                       0.510549575375, 0.319008228208, -0.161851277207, -1.25664547004, 0.131052464271, -0.737587130738,
                       -0.669496939297, -0.494837059976, -0.586982773071, 0.22161267292});
}

/// With the weight blocked by the op `block`, as the compiler has it blocked once an update.
void expect_same_bits_with_blocked_weight(const std::string& op, std::vector<HostTensor> inputs, int weight,
                                          Attributes attributes) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(op);
  node.attributes = attributes;
  for (const HostTensor& input : inputs) node.inputs.push_back(input.type);
  node.outputs = node.op->infer(node);
  const auto layout = cpu_backend().blocking(node, weight);
  ASSERT_TRUE(layout.has_value()) << op;
  const auto expected = interpret_node(node, cpu_backend(), inputs, 2);

  const auto at = static_cast<size_t>(weight);
  NodeSignature block;
  block.op = &OpRegistry::instance().get("block");
  block.inputs = {inputs[at].type};
  block.attributes = {{"format", layout->format}, {"bytes", layout->bytes}, {"dtype", inputs[at].type.dtype}};
  block.outputs = block.op->infer(block);
  const std::string letter(1, static_cast<char>('a' + weight));
  node.attributes.set(letter + "_blocked", layout->format)
      .set(letter + "_shape", inputs[at].type.shape.dims())
      .set(letter + "_dtype", inputs[at].type.dtype);
  inputs[at] = interpret_node(block, cpu_backend(), {inputs[at]})[0];
  node.inputs[at] = inputs[at].type;
  EXPECT_EQ(node.op->infer(node), node.outputs);
  EXPECT_FALSE(cpu_backend().blocking(node, weight).has_value());
  for (const int threads : {1, 2}) EXPECT_EQ(interpret_node(node, cpu_backend(), inputs, threads), expected) << op;
  EXPECT_NE(cpu_backend().entries(op).back().refuse(node), "") << "the reference cannot read a blocked weight";
}

/// A step whose input holds the products of two gates is that of all three gates' weights.
TEST(RecurrentOps, AStepMayHaveTheProductsOfTwoGatesInItsInput) {
  const int64_t h = 5;
  Graph graph("step");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {1, 4, 3 * h}),
               weight = build.input("weight", DType::kF32, {3 * h, h}),
               state = build.input("state", DType::kF32, {4, h}), bias = build.input("bias", DType::kF32, {h});
  build.output("whole", gru_steps(x, weight, state, bias).output);
  const Tensor product = pad(matmul(state, slice(weight, {0, 0}, {2 * h, h}), false, true), {0, 0}, {0, h});
  build.output("only_n", gru_steps(add(x, reshape(product, {1, 4, 3 * h})), slice(weight, {2 * h, 0}, {3 * h, h}),
                                   state, bias, {.only_n = true})
                             .output);
  const auto found = interpret(graph, cpu_backend(),
                               {{"x", grid({1, 4, 3 * h}, 1)},
                                {"weight", grid({3 * h, h}, 2)},
                                {"state", grid({4, h}, 3)},
                                {"bias", grid({h}, 4)}},
                               2);
  for (int64_t i = 0; i < found[0].elements(); ++i) EXPECT_NEAR(found[0].get(i), found[1].get(i), 1e-6);
}

TEST(RecurrentOps, ReadABlockedWeightWithTheSameBits) {
  const int64_t h = 40;
  const HostTensor state = grid({5, h}, 3), sequence = grid({3, 5, h}, 4);
  expect_same_bits_with_blocked_weight("lstm", {grid({3, 5, 4 * h}, 1), grid({4 * h, h}, 2), state, state}, 1, {});
  expect_same_bits_with_blocked_weight("gru", {grid({3, 5, 3 * h}, 1), grid({3 * h, h}, 2), state}, 1, {});
  expect_same_bits_with_blocked_weight("gru", {grid({1, 5, 3 * h}, 1), grid({h, h}, 2), state}, 1, {{"only_n", true}});
  expect_same_bits_with_blocked_weight("rnn", {grid({3, 5, h}, 1), grid({h, h}, 2), state}, 1, {{"reverse", true}});
  expect_same_bits_with_blocked_weight(
      "lstm_grad",
      {grid({4 * h, h}, 2), state, state, sequence, grid({3, 5, 4 * h}, 5), sequence, sequence, state, state}, 0, {});
  expect_same_bits_with_blocked_weight("rnn_grad", {grid({h, h}, 2), state, sequence, sequence, state}, 0, {});
}

/// What the type rule or a builder says of a node that cannot be.
std::string refusal(const std::function<void(GraphBuilder&)>& build_node) {
  Graph graph("refused");
  GraphBuilder build(graph);
  return error_of([&] { build_node(build); });
}

TEST(RecurrentOps, RefuseWhatDoesNotFit) {
  const auto input = [](GraphBuilder& build, const std::string& name, Shape shape, DType dtype = DType::kF32) {
    return build.input(name, dtype, std::move(shape));
  };
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                lstm_steps(input(b, "x", {3, 2, 8}), input(b, "w", {8, 3}), input(b, "h", {2, 3}),
                           input(b, "c", {2, 2}));
              }),
              HasSubstr("the weight does not fit the state"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                lstm_steps(input(b, "x", {3, 2, 9}), input(b, "w", {9, 2}), input(b, "h", {2, 2}),
                           input(b, "c", {2, 2}));
              }),
              HasSubstr("the rows of the weight are not whole gates"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                lstm_steps(input(b, "x", {3, 2, 8}, DType::kBF16), input(b, "w", {8, 2}, DType::kBF16),
                           input(b, "h", {2, 2}, DType::kBF16), input(b, "c", {2, 2}, DType::kBF16));
              }),
              HasSubstr("c0"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                gru_steps(input(b, "x", {3, 2, 6}), input(b, "w", {6, 2}), input(b, "h", {2, 2}), input(b, "b", {2}),
                          {.reset_after = false});
              }),
              HasSubstr("a bias of the product is for the reset after it"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                gru_steps(input(b, "x", {3, 2, 6}), input(b, "w", {2, 2}), input(b, "h", {2, 2}), {}, {.only_n = true});
              }),
              HasSubstr("the weight of n alone is for one step"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                rnn(input(b, "x", {2, 3, 4}), {.input = input(b, "w", {2, 5}), .hidden = input(b, "u", {2, 2})});
              }),
              HasSubstr("Time is the first dimension"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                rnn_steps(input(b, "x", {3, 2, 2}), input(b, "w", {2, 2}), input(b, "h", {2, 2}),
                          {.lengths = input(b, "n", {3}, DType::kI32)});
              }),
              HasSubstr("lengths"));
}

}  // namespace
}  // namespace ramet::tests
