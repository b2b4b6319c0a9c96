#include "ramet/ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "../transform/random_model.h"
#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ops/build.h"
#include "ramet/transform/differentiate.h"

namespace ramet::tests {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_graph(text, "t");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GraphText, ParsesBackToTheSameGraph) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    std::vector<std::string> names;
    for (const auto& weight : model.weights) names.push_back(weight.name);
    const Graph graph = differentiate(model.forward, "loss", names);
    const std::string text = print(graph);
    const Graph back = parse_graph(text);
    EXPECT_EQ(print(back), text);
    EXPECT_EQ(back.hash(), graph.hash());
  }
}

TEST(GraphText, KeepsNamesRolesAndOddStrings) {
  Graph graph("a \"quoted\" \\ name");
  GraphBuilder build(graph);
  const Tensor x = build.input("x\ny", DType::kBF16, {2, 0, 3}, InputRole::kData);
  const Tensor y = scale(x, 0.1);
  graph.set_value_name(y.id, "middle");
  build.output("s", y, OutputRole::kState);
  const std::string text = print(graph);
  EXPECT_EQ(print(parse_graph(text)), text);
}

TEST(GraphText, KeepsWhatIsKnownOfNodesAndInputs) {
  const std::string text =
      "graph \"g\" {\n"
      "  input %0 \"x\" : f32[2,3] data [\"batch\",\"\"]\n"
      "  %1 \"y\" = exp(%0) : f32[2,3] @ \"a/exp\" part \"encoder\" 3 serial 7 from \"model/a.cc:46\"\n"
      "  %2 = tanh(%1) : f32[2,3] part \"a \\\"stack\\\"\" 0 pass backward of 7 gradient \"w\"\n"
      "  %3 = exp(%2) : f32[2,3] pass recompute\n"
      "  %4 = exp(%3) : f32[2,3] pass accumulate\n"
      "  %5 = exp(%4) : f32[2,3] pass update\n"
      "  output \"y\" = %5 result\n"
      "}\n";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(print(graph), text);
  EXPECT_EQ(graph.inputs()[0].axes, (std::vector<std::string>{"batch", ""}));
  const Node &first = graph.node(0), &second = graph.node(1);
  EXPECT_EQ(first.part, (Part{"encoder", 3}));
  EXPECT_EQ(first.serial, 7);
  EXPECT_EQ(first.origin, "model/a.cc:46");
  EXPECT_EQ(second.part, (Part{"a \"stack\"", 0}));
  EXPECT_EQ(second.pass, NodePass::kBackward);
  EXPECT_EQ(second.forward_of, 7);
  EXPECT_EQ(second.gradient, "w");
  EXPECT_EQ(graph.node(4).pass, NodePass::kUpdate);
  EXPECT_EQ(graph.text_of(0), "exp 'a/exp' (f32[2,3]) of model/a.cc:46");

  // What is for people is in no hash; what decides something is.
  const auto hash_with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return parse_graph(other).hash();
  };
  using Change = std::pair<const char*, const char*>;
  for (const auto& [from, to] : {Change{"a/exp", "layer7"}, Change{"a.cc:46", "b.cc:1"}, Change{"%1 \"y\"", "%1"}})
    EXPECT_EQ(hash_with(from, to), graph.hash()) << from;
  for (const auto& [from, to] : {Change{"\" 3", "\" 4"}, Change{"encoder", "decoder"}, Change{"recompute", "update"},
                                 Change{"of 7", "of 6"}, Change{"batch", "rows"}, Change{"\"x\"", "\"z\""}})
    EXPECT_NE(hash_with(from, to), graph.hash()) << from;
}

TEST(GraphText, RefusesImpossibleFields) {
  const auto error_with = [](const std::string& fields, const std::string& axes = "") {
    return error_of("graph \"g\" {\n  input %0 \"x\" : f32[2] data" + axes + "\n  %1 = exp(%0) : f32[2] " + fields +
                    "\n}");
  };
  EXPECT_EQ(error_with(""), "no error");
  EXPECT_EQ(error_with("part \"a\" -1"), "t:3:34: number out of range; found '-1'; expected 0 to 65535");
  EXPECT_EQ(error_with("part \"a\" 65536"), "t:3:34: number out of range; found '65536'; expected 0 to 65535");
  EXPECT_EQ(error_with("of 4294967296"), "t:3:28: number out of range; found '4294967296'; expected 0 to 2147483647");
  EXPECT_EQ(error_with("pass sideways"),
            "t:3:30: unknown pass; found 'sideways'; expected forward, backward, recompute, accumulate or update");
  EXPECT_EQ(error_with("colour 3"),
            "t:3:25: unexpected text; found 'colour 3'; expected 'input', 'output', a node or '}'");
  EXPECT_NE(error_with("", " [\"a\",\"b\"]").find("not one axis a dimension"), std::string::npos);
  EXPECT_NE(error_with("", " [\"a\"").find("expected ']'"), std::string::npos);
}

TEST(GraphText, FloatsReadBackToTheSameBits) {
  for (double value : {0.1, 1e-300, 3.0, -0.0, 1e22, std::nextafter(1.0, 2.0)}) {
    const std::string text = text_of(Attribute(value));
    EXPECT_EQ(std::stod(text), value) << text;
    EXPECT_NE(text.find_first_of(".en"), std::string::npos) << text;
  }
}

TEST(GraphText, TensorsReadBackToTheSameBytes) {
  const auto random_bytes = [](DType dtype, int64_t elements) {
    HostTensor tensor(TensorType{dtype, Shape{elements}});
    for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = static_cast<std::byte>(37 * i * i + 11 * i + 5);
    return tensor;
  };
  for (int dtype = 0; dtype < kDTypeCount; ++dtype)
    for (int64_t elements : {0, 1, 3, 16, 17, 100}) {
      Graph graph("g");
      GraphBuilder build(graph);
      const TensorData data(random_bytes(static_cast<DType>(dtype), elements));
      build.output("c", constant(build, data));
      const Graph back = parse_graph(print(graph));
      EXPECT_EQ(back.node(0).attributes.get_tensor("data").bytes(), data.bytes()) << print(graph);
      EXPECT_EQ(back.hash(), graph.hash());
    }
}

TEST(GraphText, SmallTensorsAreWrittenOut) {
  const auto text = [](HostTensor tensor) { return text_of(Attribute(TensorData(std::move(tensor)))); };
  EXPECT_EQ(text(HostTensor::of(DType::kI32, {2, 2}, {1, -2, 3, 4})), "tensor(i32[2,2], [1,-2,3,4])");
  EXPECT_EQ(text(HostTensor::of(DType::kBF16, {3}, {0.5, -0.0, 1e30})).substr(0, 29), "tensor(bf16[3], [0.5,-0.0,1.0");
  HostTensor great(TensorType{DType::kI64, Shape{1}});
  const int64_t value = (int64_t{1} << 62) + 1;
  std::memcpy(great.data.data(), &value, sizeof value);
  EXPECT_EQ(text(great), "tensor(i64[1], [4611686018427387905])");
  const TensorData large(HostTensor(TensorType{DType::kU8, Shape{30}}));
  EXPECT_EQ(short_text_of(Attribute(large)), "tensor(u8[30], \"" + large.hash().hex() + "\")");
  EXPECT_THAT(text_of(Attribute(large)), ::testing::HasSubstr("\", \"AAAA"));
}

TEST(GraphText, TensorsThatContradictThemselvesAreRefused) {
  const auto error = [](const std::string& tensor, const std::string& type) {
    return error_of("graph \"g\" {\n  %0 = constant() {data=" + tensor + "} : " + type + "\n}");
  };
  EXPECT_EQ(error("tensor(i32[2], [1,2])", "i32[2]"), "no error");
  EXPECT_EQ(error("tensor(i32[3], [1,2])", "i32[3]"),
            "t:2:40: not as many elements as the tensor's type has; found '[1,2])} : i32[3]'; expected 3");
  EXPECT_EQ(error("tensor(i32[1], [0.5])", "i32[1]"),
            "t:2:41: the number is none of the tensor's type; found '0.5])} : i32[1]'; expected i32");
  EXPECT_THAT(error("tensor(u8[2], [1,256])", "u8[2]"),
              ::testing::HasSubstr("the number is none of the tensor's type"));
  EXPECT_THAT(error("tensor(f32[1099511627776,1024], [1])", "f32[1]"), ::testing::HasSubstr("not as many elements"));
  EXPECT_THAT(error("tensor(u8[3], \"0\", \"AAAA\")", "u8[3]"),
              ::testing::HasSubstr("the tensor's bytes are not those of its hash"));
  EXPECT_THAT(error("tensor(u8[4], \"0\", \"AAAA\")", "u8[4]"), ::testing::HasSubstr("expected 4 bytes in base64"));
  EXPECT_THAT(error("tensor(u8[1], \"0\", \"AB==\")", "u8[1]"), ::testing::HasSubstr("expected 1 bytes in base64"));
}

TEST(GraphText, ErrorsNameThePlace) {
  EXPECT_EQ(error_of("grap \"g\" {}"), "t:1:1: unexpected text; found 'grap \"g\" {}'; expected 'graph'");
  EXPECT_EQ(error_of("graph \"g\" {\n  input %1 \"x\" : f32[2] data\n}"),
            "t:2:9: values must be numbered in order; found '%1 \"x\" : f32[2] data'; expected %0");
  EXPECT_EQ(error_of("graph \"g\" {\n  input %0 \"x\" : f31[2] data\n}"),
            "t:2:18: unknown element type; found 'f31[2] data'; expected one of f32, f16, bf16, f8e4m3, f8e5m2, i32, "
            "i64, bool, u8, u16, f64, i8, i16, u32, u64");
  EXPECT_EQ(error_of("graph \"g\" {\n  input %0 \"x\" : f32[-2] data\n}"),
            "t:2:21: shape out of bounds; found '[-2] data'; expected at most 16 dimensions, none negative, at most "
            "2^50 elements");
  EXPECT_NE(
      error_of("graph \"g\" {\n  input %0 \"x\" : f32[2] data\n  %1 = expp(%0) : f32[2]\n}").find("t:3:8: unknown op"),
      std::string::npos);
  EXPECT_NE(
      error_of("graph \"g\" {\n  input %0 \"x\" : f32[2] data\n  %1 = exp(%0) : f32[3]\n}").find("expected f32[2]"),
      std::string::npos);
  EXPECT_NE(error_of("graph \"g\" {\n  %0 = exp(%7) : f32[3]\n}").find("does not exist"), std::string::npos);
  EXPECT_NE(error_of("graph \"g\" {").find("the end of the text"), std::string::npos);
}

}  // namespace
}  // namespace ramet::tests
