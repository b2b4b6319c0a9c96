#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/matmul.h"
#include "ramet/ops/random_bits.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;
constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kI32 = DType::kI32;

NodeSignature node_of(const std::string& op, std::vector<TensorType> inputs, Attributes attributes = {}) {
  NodeSignature node{&OpRegistry::instance().get(op), std::move(inputs), {}, std::move(attributes), "test"};
  node.outputs = node.op->infer(node);
  return node;
}

std::string refusal(const std::string& op, std::vector<TensorType> inputs, Attributes attributes = {}) {
  try {
    node_of(op, std::move(inputs), std::move(attributes));
  } catch (const Error& error) {
    EXPECT_THAT(error.parts().where, HasSubstr(op + " 'test' (")) << "the message names the node";
    return error.what();
  }
  return "";
}

std::string sharding(const std::string& op, std::vector<TensorType> inputs, Attributes attributes = {}) {
  const NodeSignature node = node_of(op, std::move(inputs), std::move(attributes));
  return node.op->sharding(node).text();
}

HostTensor random_tensor(const std::string& name, TensorType type) {
  return inputs_of({.op = "random", .name = name, .inputs = {{std::move(type)}}})[0];
}

// --- products ---

TEST(Matmul, SaysWhatDoesNotFit) {
  EXPECT_EQ(refusal("matmul", {{kF32, {2, 3}}, {kF32, {4, 5}}}),
            "matmul 'test' (f32[2,3], f32[4,5]): the contracted dimensions differ; found 3 of f32[2,3] and 4 of "
            "f32[4,5]; expected "
            "equal extents. Check transpose_a, transpose_b, or the shapes");
  EXPECT_THAT(refusal("matmul", {{kF32, {2, 3}}, {kBF16, {3, 5}}}),
              HasSubstr("of different types; found f32[2,3] and bf16[3,5]"));
  EXPECT_THAT(refusal("matmul", {{kI32, {2, 3}}, {kI32, {3, 5}}}), HasSubstr("a must be floating; found i32[2,3]"));
  EXPECT_THAT(refusal("matmul", {{kF32, {3}}, {kF32, {3, 5}}}), HasSubstr("Reshape a vector to [1,3]"));
  EXPECT_THAT(refusal("matmul", {{kF32, {2, 2, 3}}, {kF32, {5, 3, 5}}}), HasSubstr("broadcast"));
  EXPECT_THAT(refusal("matmul", {{kF32, {2, 6}}, {kF32, {6, 5}}}, {{"chunks", int64_t{4}}}),
              HasSubstr("chunks must divide the contracted dimension; found chunks=4; expected a divisor of 6"));
  EXPECT_THAT(refusal("matmul", {{kF32, {2, 6}}, {kF32, {6, 5}}}, {{"accumulate", true}}),
              HasSubstr("wrong number of inputs; found 2; expected 3"));
  EXPECT_THAT(refusal("matmul", {{kF32, {2, 6}}, {kF32, {6, 5}}, {kBF16, {2, 5}}}, {{"accumulate", true}}),
              HasSubstr("input 2 (c) has the wrong type; found bf16[2,5]; expected f32[2,5]"));
  EXPECT_THAT(refusal("linear", {{kF32, {2, 6}}, {kF32, {6, 5}}, {kF32, {6}}}),
              HasSubstr("input 2 (bias) has the wrong shape; found [6]; expected [5]"));
  EXPECT_THAT(refusal("linear", {{kF32, {2, 6}}, {kF32, {2, 6, 5}}, {kF32, {5}}}),
              HasSubstr("the weight of linear must be a matrix"));
}

TEST(Matmul, HonoursThePackedTypeOfItsWeight) {
  const Attributes packed{
      {"b_blocked", "tiles"}, {"b_shape", std::vector<int64_t>{8, 6}}, {"b_dtype", kBF16}, {"transpose_b", true}};
  EXPECT_EQ(node_of("matmul", {{kBF16, {4, 6}}, {DType::kU8, {999}}}, packed).outputs[0].text(), "bf16[4,8]");
  EXPECT_THAT(refusal("matmul", {{kF32, {4, 6}}, {DType::kU8, {999}}}, packed),
              HasSubstr("of different types; found f32[4,6] and bf16[8,6]"));
  EXPECT_THAT(refusal("matmul", {{kBF16, {4, 6}}, {kBF16, {8, 6}}}, packed),
              HasSubstr("a blocked operand must be bytes"));
  const NodeSignature node = node_of("matmul", {{kBF16, {4, 6}}, {DType::kU8, {999}}}, packed);
  EXPECT_THROW(reference_backend().choose(node, 1), Error);
}

TEST(Matmul, SeesAllRowsOfAWeightProductAsOneMatrix) {
  MatmulForm form = matmul_form(node_of("matmul", {{kF32, {2, 3, 4}}, {kF32, {4, 5}}}));
  EXPECT_EQ(form.batch, 1);
  EXPECT_EQ(form.m, 6);
  form = matmul_form(node_of("matmul", {{kF32, {2, 1, 3, 4}}, {kF32, {7, 4, 5}}}));
  EXPECT_EQ(form.batch, 14);
  EXPECT_EQ(form.a_index[13], 1);
  EXPECT_EQ(form.b_index[13], 6);
}

TEST(Matmul, SplitsAContractionOnlyBetweenItsChunks) {
  EXPECT_EQ(sharding("matmul", {{kF32, {4, 6}}, {kF32, {6, 8}}}), "([m,!k],[!k,n])->[m,n]");
  EXPECT_EQ(sharding("matmul", {{kF32, {4, 6}}, {kF32, {6, 8}}}, {{"chunks", int64_t{2}}}),
            "([m,c*!k],[c*!k,n])->[m,n]");
  EXPECT_EQ(sharding("matmul", {{kF32, {3, 6, 4}}, {kF32, {8, 6}}}, {{"transpose_a", true}, {"transpose_b", true}}),
            "([s0,!k,m],[n,!k])->[s0,m,n]");
  EXPECT_EQ(sharding("matmul", {{kF32, {3, 1, 4, 6}}, {kF32, {5, 6, 8}}}), "([s0,1,m,!k],[s1,!k,n])->[s0,s1,m,n]");
  // A bias is added once: no shard may hold a part of the sum.
  EXPECT_EQ(sharding("linear", {{kF32, {4, 6}}, {kF32, {6, 8}}, {kF32, {8}}}, {{"chunks", int64_t{2}}}),
            "([m,!c*!k],[!c*!k,n],[n])->[m,n]");
}

TEST(Matmul, CombinesChunksInF32AlongTheTree) {
  const HostTensor a = random_tensor("a", {kF32, {3, 20}}), b = random_tensor("b", {kF32, {20, 4}});
  const auto product = [&](int64_t from, int64_t to, int64_t row, int64_t column) {
    double sum = 0;
    for (int64_t k = from; k < to; ++k) sum += a.get(row * 20 + k) * b.get(k * 4 + column);
    return sum;
  };
  const NodeSignature node = node_of("matmul", {a.type, b.type}, {{"chunks", int64_t{5}}});
  const HostTensor out = interpret_node(node, reference_backend(), {a, b})[0];
  int differ = 0;
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < 4; ++column) {
      float part[5];
      for (int64_t c = 0; c < 5; ++c) part[c] = static_cast<float>(product(c * 4, c * 4 + 4, row, column));
      const float tree = ((part[0] + part[1]) + (part[2] + part[3])) + part[4];
      EXPECT_EQ(out.get(row * 4 + column), tree);
      differ += tree != static_cast<float>(product(0, 20, row, column));
    }
  EXPECT_GT(differ, 0) << "the order of sums must show, or this test shows nothing";
}

/// Types of the gradients of sum(f(inputs)) by each input.
TEST(Matmul, GivesWeightsF32GradientsAndActivationsTheirOwnType) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", kBF16, {2, 3, 4}), w = build.input("w", kBF16, {5, 4}),
               bias = build.input("bias", kF32, {5});
  const Tensor y = linear(x, w, bias);
  const NodeSignature node = graph.signature(0);
  const std::vector<Tensor> inputs{x, w, bias}, outputs{y}, dy{build.input("dy", kBF16, {2, 3, 5})};
  GradientContext context{build, node, inputs, outputs, dy, {true, true, true}};
  const std::vector<Tensor> gradients = node.op->gradient(context);
  EXPECT_EQ(gradients[0].type().text(), "bf16[2,3,4]");
  EXPECT_EQ(gradients[1].type().text(), "f32[5,4]");
  EXPECT_EQ(gradients[2].type().text(), "f32[5]");
}

TEST(Matmul, GradientKeepsChunksWhereTheyFit) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", kF32, {3, 8}), w = build.input("w", kF32, {8, 12});
  build.op("matmul", {x, w}, {{"chunks", int64_t{4}}});
  const NodeSignature node = graph.signature(0);
  const std::vector<Tensor> inputs{x, w}, outputs{build.tensor(2)}, dy{build.input("dy", kF32, {3, 12})};
  GradientContext context{build, node, inputs, outputs, dy, {true, true}};
  node.op->gradient(context);
  std::map<std::string, int64_t> chunks;
  for (const Node& made : graph.nodes())
    if (made.op->name == "matmul") chunks[graph.type(made.outputs[0]).text()] = made.attributes.get_int_or("chunks", 1);
  EXPECT_EQ(chunks["f32[3,8]"], 4);
  EXPECT_EQ(chunks["f32[8,12]"], 1) << "rows are samples";
}

// --- norms, attention, losses ---

TEST(Norms, SayWhatDoesNotFit) {
  EXPECT_THAT(refusal("layer_norm", {{kF32, {2, 6}}, {kF32, {5}}, {kF32, {6}}}, {{"epsilon", 1e-5}}),
              HasSubstr("input 1 (gain) has the wrong shape; found [5]; expected [6]"));
  EXPECT_THAT(refusal("layer_norm", {{kF32, {2, 6}}, {kF32, {6}}, {kF32, {6}}}, {{"epsilon", std::nan("")}}),
              HasSubstr("epsilon is not finite"));
  EXPECT_THAT(refusal("rms_norm", {{kI32, {2, 6}}, {kF32, {6}}}, {{"epsilon", 1e-5}}),
              HasSubstr("input 0 (a) is not floating-point"));
  EXPECT_THAT(refusal("softmax", {{kF32, {2, 6}}}, {{"axis", int64_t{2}}}), HasSubstr("axis"));
}

TEST(Norms, ShardByRows) {
  const Attributes epsilon{{"epsilon", 1e-5}};
  EXPECT_EQ(sharding("layer_norm", {{kF32, {2, 4, 6}}, {kF32, {6}}, {kF32, {6}}}, epsilon),
            "([r0,r1,!w],[!w],[!w])->([r0,r1,!w],[r0,r1],[r0,r1])");
  EXPECT_EQ(sharding("rms_norm", {{kF32, {6}}, {kF32, {6}}}, epsilon), "([!w],[!w])->([!w],[])");
  EXPECT_EQ(sharding("softmax", {{kF32, {2, 4, 6}}}, {{"axis", int64_t{-2}}}), "([d0,!d1,d2])->[d0,!d1,d2]");
}

TEST(Norms, RefuseAGradientOfTheirStatistics) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", kF32, {3, 8}), gain = build.input("gain", kF32, {8});
  const auto outputs = build.ops("rms_norm", {x, gain}, {{"epsilon", 1e-5}});
  build.output("loss", reduce_sum(outputs[1]));
  try {
    differentiate(graph, "loss", {"x"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("output 1 has no gradient"));
  }
}

TEST(Attention, SaysWhatDoesNotFit) {
  const TensorType qkv{kF32, {2, 4, 3, 2, 8}}, part{kF32, {2, 4, 2, 8}};
  const Attributes packed{{"packed", true}, {"scale", 1.0}}, loose{{"packed", false}, {"scale", 1.0}};
  EXPECT_THAT(refusal("attention", {part, part, part}, packed),
              HasSubstr("wrong number of inputs; found 3; expected 1: qkv"));
  EXPECT_THAT(refusal("attention", {part}, packed), HasSubstr("a packed qkv has the wrong shape"));
  EXPECT_THAT(refusal("attention", {part, {kF32, {2, 5, 2, 8}}, part}, loose),
              HasSubstr("key and value differ in positions or heads; found f32[2,4,2,8]"));
  EXPECT_THAT(refusal("attention", {part, {DType::kBF16, {2, 4, 2, 8}}, part}, loose),
              HasSubstr("key has the wrong type; found bf16[2,4,2,8]; expected f32[2,positions,heads,head size]"));
  EXPECT_THAT(refusal("attention", {part, {kF32, {2, 4, 2, 4}}, part}, loose),
              HasSubstr("query and key have different head sizes"));
  EXPECT_THAT(refusal("attention", {{kF32, {2, 4, 3, 8}}, part, part}, loose),
              HasSubstr("the heads of keys must divide those of queries; found 2 heads; expected a divisor of 3"));
  const auto with = [&](const std::string& name, Attribute value) {
    Attributes changed = loose;
    return changed.set(name, std::move(value));
  };
  EXPECT_THAT(
      refusal("attention", {part, part, part, {kF32, {2, 2, 3, 4}}}, with("biased", true)),
      HasSubstr("the bias has the wrong type; found f32[2,2,3,4]; expected a floating-point type that broadcasts "
                "to [2,2,4,4]"));
  EXPECT_THAT(refusal("attention", {part, part, part, {kF32, {3}}}, with("alibi", true)),
              HasSubstr("input 3 (slopes) has the wrong type"));
  EXPECT_THAT(refusal("attention", {part, part, part}, with("window_left", int64_t{-3})),
              HasSubstr("a window cannot be negative; found window_left=-3"));
  EXPECT_THAT(refusal("attention", {part, part, part}, with("soft_cap", -1.0)),
              HasSubstr("the soft cap must be positive"));
  EXPECT_THAT(refusal("attention", {qkv}, Attributes(packed).set("biased", true)),
              HasSubstr("a packed qkv has neither a bias nor slopes"));
  Attributes masked = packed;
  masked.set("masked", true);
  EXPECT_THAT(refusal("attention", {qkv, {kF32, {2, 4}}}, masked),
              HasSubstr("the mask has the wrong type; found f32[2,4]; expected i32 or bool [2,4]"));
  Attributes dropping = packed;
  dropping.set("dropout", 1.0);
  EXPECT_THAT(refusal("attention", {qkv, {DType::kI64, {2}}}, dropping), HasSubstr("the dropout rate is out of range"));
  EXPECT_EQ(sharding("attention", {qkv, {kI32, {2, 4}}}, masked), "([b,!s,!p,h,!d],[b,!s])->([b,!s,h,!d],[b,h,!s])");
  EXPECT_EQ(
      sharding("attention", {{kF32, {2, 4, 6, 8}}, {kF32, {2, 5, 2, 8}}, {kF32, {2, 5, 2, 3}}, {kF32, {1, 6, 1, 5}}},
               with("biased", true)),
      "([b,!s,g*!r,!d],[b,!t,g,!d],[b,!t,g,!e],[1,g*!r,1,!t])->([b,!s,g*!r,!e],[b,g*!r,!s])");
}

/// The gradient of a bias is asked for where it is needed, and sums over heads in the recipe's chunks.
TEST(Attention, GivesTheGradientOfABiasThatNeedsOne) {
  for (bool learned : {false, true}) {
    Graph graph("g");
    GraphBuilder build(graph);
    const Tensor x = build.input("x", kF32, {2, 4, 8, 8});
    const Tensor bias = learned ? build.input("bias", kF32, {4, 4}) : full(build, kF32, {4, 4}, 0.5);
    build.output("loss", reduce_sum(attention_with(x, x, x, {.bias = bias})));
    const Graph all = set_chunks(
        differentiate(graph, "loss", learned ? std::vector<std::string>{"x", "bias"} : std::vector<std::string>{"x"}),
        4);
    for (const Node& node : all.nodes())
      if (node.op->name == "attention_grad") {
        EXPECT_EQ(node.outputs.size(), learned ? 4u : 3u);
        EXPECT_EQ(node.attributes.get_int_or("chunks", 1), learned ? 4 : 1);
        EXPECT_EQ(all.type(node.outputs.back()).text(), learned ? "f32[1,1,4,4]" : "f32[2,4,8,8]");
      }
  }
}

TEST(Attention, FunctionTakesBiasesOfFewerDimensionsAndAPackedQkv) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor qkv = build.input("qkv", kF32, {2, 4, 3, 2, 8}), bias = build.input("bias", kF32, {2, 4, 4});
  EXPECT_EQ(attention_with(qkv, {}, {}, {.bias = bias, .window_left = 2}).type().text(), "f32[2,4,2,8]");
  EXPECT_EQ(graph.nodes().back().inputs.size(), 4u);
  const Tensor mask = build.input("mask", DType::kBool, {4, 4}), keys = build.input("keys", kI32, {2, 4});
  EXPECT_EQ(attention_with(qkv, {}, {}, {.mask = mask}).type().text(), "f32[2,4,2,8]");
  EXPECT_EQ(attention_with(qkv, {}, {}, {.key_mask = keys}).type().text(), "f32[2,4,2,8]");
  EXPECT_THROW(attention_with(qkv, {}, {}, {.key_mask = keys, .mask = mask}), Error);
}

/// Buckets of transformers' T5Attention._relative_position_bucket, and slopes of its build_alibi_tensor.
TEST(RelativePositions, AreThoseOfPublishedModels) {
  const auto row = [](const HostTensor& tensor) { return tensor.values(); };
  EXPECT_EQ(row(t5_buckets(1, 12, true, 32, 128, 11)), (std::vector<double>{8, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(row(t5_buckets(1, 14, true, 32, 128)),
            (std::vector<double>{0, 17, 18, 19, 20, 21, 22, 23, 24, 24, 24, 24, 25, 25}));
  const std::vector<double> causal = row(t5_buckets(1, 202, false, 32, 128, 200));
  EXPECT_EQ(causal[0], 31);
  EXPECT_EQ(causal[200 - 113], 31);
  EXPECT_EQ(causal[200 - 112], 30);
  EXPECT_EQ(causal[200 - 19], 17);
  EXPECT_EQ(causal[200 - 18], 16);
  EXPECT_EQ(causal[200 - 15], 15);
  EXPECT_EQ(causal[201], 0);
  EXPECT_EQ(alibi_slopes(4), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}));
  EXPECT_EQ(alibi_slopes(6), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  EXPECT_FLOAT_EQ(static_cast<float>(alibi_slopes(12)[8]), 0.7071067690849304f);
  // A window of 2 x 3 places: equal places are the middle row, 2 * 5 / 2 + ... = 7.
  const HostTensor places = swin_places(2, 3);
  EXPECT_EQ(places.get(0), 7);
  EXPECT_EQ(places.get(1), 6);
  EXPECT_EQ(places.get(3), 2);
  EXPECT_EQ(places.get(5 * 6), 14);
  EXPECT_THROW(t5_buckets(2, 2, true, 2), Error);
  EXPECT_THROW(alibi_slopes(0), Error);
}

TEST(Rotary, SaysWhatDoesNotFit) {
  const TensorType a{kF32, {2, 4, 3, 8}}, angles{kF32, {4, 4}};
  EXPECT_THAT(refusal("rotary", {a, {kF32, {5, 4}}, angles}, {}),
              HasSubstr("the cosines have the wrong type; found f32[5,4]; expected f32[4,pairs]"));
  EXPECT_THAT(refusal("rotary", {a, angles, {kF32, {4, 3}}}, {}), HasSubstr("the sines are of another type"));
  EXPECT_THAT(refusal("rotary", {a, {kF32, {4, 5}}, {kF32, {4, 5}}}, {}),
              HasSubstr("more pairs than a head has; found 5; expected at most half of the head size, 4"));
  EXPECT_THROW(rotary_frequencies(3), Error);
  EXPECT_EQ(rotary_frequencies(4), (std::vector<double>{1, 0.009999999776482582}));
}

TEST(Attention, FunctionRefusesDropoutWithoutItsNumbers) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor qkv = build.input("qkv", kF32, {2, 4, 3, 2, 8});
  EXPECT_THROW(attention(qkv, {}, {}, {}, {}, {.dropout = 0.1}), Error);
  EXPECT_THROW(attention(qkv, {}, {}, {}, {}, {.dropout = 0.1, .random_name = "a"}), Error);
  EXPECT_THROW(attention(qkv, qkv, {}, {}, {}, {}), Error);
  EXPECT_EQ(attention(qkv, {}, {}, {}, {}, {}).type().text(), "f32[2,4,2,8]");
  EXPECT_DOUBLE_EQ(graph.nodes().back().attributes.get_float("scale"), 1 / std::sqrt(8.0));
}

/// Attention written with products and softmax gives what the fused op gives.
TEST(Attention, IsSoftmaxOfScoresTimesValues) {
  const TensorType part{kF32, {2, 5, 3, 4}};
  std::map<std::string, HostTensor> feeds;
  Graph graph("g");
  GraphBuilder build(graph);
  std::vector<Tensor> parts;
  for (const char* name : {"q", "k", "v"}) {
    feeds[name] = random_tensor(name, part);
    parts.push_back(build.input(name, kF32, part.shape));
  }
  build.output("fused", attention(parts[0], parts[1], parts[2], {}, {}, {.scale = 0.7}));
  const Tensor scores = softmax(scale(einsum("bqhd,bkhd->bhqk", {parts[0], parts[1]}), 0.7));
  build.output("plain", einsum("bhqk,bkhd->bqhd", {scores, parts[2]}));
  const auto results = interpret(graph, reference_backend(), feeds);
  for (int64_t i = 0; i < results[0].elements(); ++i) EXPECT_NEAR(results[0].get(i), results[1].get(i), 1e-6);
}

/// Element ((b heads + h) S + q) S + k of the probabilities, counted on from micro-batch to micro-batch.
TEST(Attention, DropsProbabilitiesByTheirLogicalElements) {
  constexpr int64_t kBatch = 2, kLength = 5, kHeads = 3, kSize = 4, kElements = kBatch * kHeads * kLength * kLength;
  const TensorType qkv{kF32, {kBatch, kLength, 3, kHeads, kSize}};
  const HostTensor x = random_tensor("x", qkv);
  const auto run = [&](Attributes attributes, std::vector<HostTensor> inputs) {
    attributes.set("packed", true).set("scale", 0.7);
    std::vector<TensorType> types;
    for (const HostTensor& input : inputs) types.push_back(input.type);
    return interpret_node(node_of("attention", types, attributes), reference_backend(), inputs);
  };
  const HostTensor lse = run({}, {x})[1];
  const auto outputs = run({{"dropout", 0.25}, {"seed", int64_t{9}}, {"tensor", int64_t{77}}},
                           {x, HostTensor::of(DType::kI64, {2}, {6, 3})});
  EXPECT_EQ(outputs[1], lse) << "lse knows nothing of dropout";
  const RandomStream stream(9, RandomPurpose::kDropout, 6, 77);
  const auto at = [&](int part, int64_t b, int64_t s, int64_t h, int64_t d) {
    return x.get((((b * kLength + s) * 3 + part) * kHeads + h) * kSize + d);
  };
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t q = 0; q < kLength; ++q) {
        double wanted[kSize] = {};
        for (int64_t k = 0; k < kLength; ++k) {
          const int64_t element = ((b * kHeads + h) * kLength + q) * kLength + k;
          if (stream.bits16(static_cast<uint64_t>(3 * kElements + element)) < 16384) continue;
          double score = 0;
          for (int64_t d = 0; d < kSize; ++d) score += at(0, b, q, h, d) * at(1, b, k, h, d);
          const double p = std::exp(0.7 * score - lse.get((b * kHeads + h) * kLength + q)) / 0.75;
          for (int64_t d = 0; d < kSize; ++d) wanted[d] += p * at(2, b, k, h, d);
        }
        for (int64_t d = 0; d < kSize; ++d)
          EXPECT_NEAR(outputs[0].get(((b * kLength + q) * kHeads + h) * kSize + d), wanted[d], 1e-6);
      }
}

TEST(Attention, HiddenQueriesGiveZerosNotNaN) {
  const TensorType qkv{kF32, {1, 3, 3, 2, 4}};
  const NodeSignature node =
      node_of("attention", {qkv, {kI32, {1, 3}}}, {{"packed", true}, {"scale", 1.0}, {"masked", true}});
  const auto outputs =
      interpret_node(node, reference_backend(), {random_tensor("x", qkv), HostTensor::of(kI32, {1, 3}, {0, 0, 0})});
  for (double value : outputs[0].values()) EXPECT_EQ(value, 0);
  for (double value : outputs[1].values()) EXPECT_EQ(value, -INFINITY);
}

TEST(Dropout, DrawsTheBitsOfItsLogicalElements) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor counter = build.input("counter", DType::kI64, {2}, InputRole::kScalar);
  build.output("y", dropout(build.input("x", kF32, {50, 20}), counter, 0.3, 17, "layer0/dropout"));
  std::vector<double> ones(1000, 1.0);
  const HostTensor y = interpret(
      graph, reference_backend(),
      {{"x", HostTensor::of(kF32, {50, 20}, ones)}, {"counter", HostTensor::of(DType::kI64, {2}, {4, 2})}})[0];
  const RandomStream stream(17, RandomPurpose::kDropout, 4, hash64("layer0/dropout"));
  int dropped = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const bool kept = stream.bits16(static_cast<uint64_t>(2 * 1000 + i)) >= 19661;  // 0.3 * 2^16
    EXPECT_EQ(y.get(i), kept ? static_cast<float>(1 / 0.7) : 0.0f);
    dropped += !kept;
  }
  EXPECT_NEAR(dropped, 300, 60);
}

TEST(Dropout, RefusesBadRates) {
  const Attributes bad{{"rate", 1.0}, {"seed", int64_t{1}}, {"tensor", int64_t{1}}};
  EXPECT_THAT(refusal("dropout", {{kF32, {4}}, {DType::kI64, {2}}}, bad),
              HasSubstr("the dropout rate is out of range"));
  EXPECT_THAT(
      refusal("dropout", {{kF32, {4}}, {kI32, {2}}}, {{"rate", 0.5}, {"seed", int64_t{1}}, {"tensor", int64_t{1}}}),
      HasSubstr("input 1 (counter) has the wrong type; found i32[2]; expected i64[2]"));
}

TEST(CrossEntropyOp, NamesTheRowOfAnImpossibleLabel) {
  const NodeSignature node = node_of("softmax_statistics", {{kF32, {2, 3}}, {kI32, {2}}});
  try {
    interpret_node(node, reference_backend(), {random_tensor("x", {kF32, {2, 3}}), HostTensor::of(kI32, {2}, {1, 3})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
    EXPECT_THAT(error.what(),
                HasSubstr("row 1: a label is no class; found 3; expected less than 3, or -1 to ignore the row"));
  }
  EXPECT_THAT(refusal("softmax_statistics", {{kF32, {2, 3}}, {kI32, {3}}}),
              HasSubstr("input 1 (labels) has the wrong type; found i32[3]; expected i32[2]"));
  EXPECT_THAT(refusal("softmax_statistics", {{kF32, {2, 0}}, {kI32, {2}}}), HasSubstr("no classes"));
  EXPECT_THAT(refusal("softmax_statistics", {{kF32, {2, 3}}, {kI32, {2}}}, {{"chunks", int64_t{2}}}),
              HasSubstr("chunks must divide the classes; found chunks=2; expected a divisor of 3"));
  EXPECT_THAT(refusal("softmax_statistics", {{kF32, {2, 3}}, {kI32, {2}}}, {{"classes", int64_t{4}}}),
              HasSubstr("more classes than logits, or none; found classes=4; expected 1 to 3"));
  EXPECT_THAT(refusal("softmax_statistics", {{kF32, {2, 3}}, {kI32, {2}}}, {{"classes", int64_t{0}}}),
              HasSubstr("found classes=0"));
  EXPECT_THAT(refusal("cross_entropy", {{kF32, {2, 3}}}), HasSubstr("expected f32[rows,chunks,4]"));
}

/// The loss of one case of chunks, and its gradient by the rules.
class LossGraph {
 public:
  LossGraph(Shape shape, int64_t chunks, int64_t classes = 0) : graph_("loss"), build_(graph_) {
    const Tensor logits = build_.input("logits", kF32, shape), labels = build_.input("labels", kI32, {shape[0]});
    Attributes attributes{{"chunks", chunks}};
    if (classes > 0) attributes.set("classes", classes);
    const Tensor statistics = build_.op("softmax_statistics", {logits, labels}, attributes);
    build_.output("loss", build_.ops("cross_entropy", {statistics})[0]);
  }
  double run(const Backend& backend, const HostTensor& logits, const HostTensor& labels) const {
    return interpret(graph_, backend, {{"logits", logits}, {"labels", labels}})[0].get(0);
  }
  double loss(const HostTensor& logits, const HostTensor& labels) const {
    return run(reference_backend(), logits, labels);
  }
  HostTensor gradient(const Backend& backend, const HostTensor& logits, const HostTensor& labels) const {
    const Graph both = differentiate(graph_, "loss", {"logits"});
    return interpret(both, backend, {{"logits", logits}, {"labels", labels}})[1];
  }

 private:
  Graph graph_;
  GraphBuilder build_;
};

TEST(CrossEntropyOp, ALabelInThePaddingIsImpossible) {
  const NodeSignature node = node_of("softmax_statistics", {{kF32, {2, 3}}, {kI32, {2}}}, {{"classes", int64_t{2}}});
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) try {
      interpret_node(node, *backend, {random_tensor("x", {kF32, {2, 3}}), HostTensor::of(kI32, {2}, {1, 2})});
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("row 1: a label is no class; found 2; expected less than 2"));
    }
}

/// As if the padding were not there, in value and gradient.
TEST(CrossEntropyOp, PaddingChangesNoBit) {
  const HostTensor wide = random_tensor("logits", {kF32, {5, 12}}),
                   labels = HostTensor::of(kI32, {5}, {3, -1, 0, 7, 2});
  HostTensor narrow(TensorType{kF32, {5, 9}});
  for (int64_t i = 0; i < 45; ++i) narrow.set(i, wide.get(i / 9 * 12 + i % 9));
  const LossGraph padded({5, 12}, 4, 9), plain({5, 9}, 3);
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
    EXPECT_EQ(padded.run(*backend, wide, labels), plain.run(*backend, narrow, labels));
    const HostTensor gradient = padded.gradient(*backend, wide, labels),
                     expected = plain.gradient(*backend, narrow, labels);
    for (int64_t i = 0; i < 60; ++i)
      EXPECT_EQ(gradient.get(i), i % 12 < 9 ? expected.get(i / 12 * 9 + i % 12) : 0) << i;
  }
}

TEST(CrossEntropyOp, GradientIsThatOfFiniteDifferencesInAnyChunks) {
  const HostTensor logits = random_tensor("logits", {kF32, {5, 12}});
  const HostTensor labels = HostTensor::of(kI32, {5}, {3, -1, 0, 11, 7});
  for (int64_t chunks : {1, 2, 3, 4, 12}) {
    const LossGraph graph({5, 12}, chunks);
    const HostTensor by_reference = graph.gradient(reference_backend(), logits, labels);
    const HostTensor by_cpu = graph.gradient(cpu_backend(), logits, labels);
    for (int64_t i = 0; i < logits.elements(); ++i) {
      HostTensor more = logits, less = logits;
      const double h = 0.05;
      more.set(i, logits.get(i) + h);
      less.set(i, logits.get(i) - h);
      const double wanted = (graph.loss(more, labels) - graph.loss(less, labels)) / (2 * h);
      EXPECT_NEAR(by_reference.get(i), wanted, 1e-4) << chunks << ", " << i;
      EXPECT_NEAR(by_cpu.get(i), by_reference.get(i), 1e-7) << chunks << ", " << i;
    }
  }
}

}  // namespace
}  // namespace ramet::tests
