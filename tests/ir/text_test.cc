#include "ramet/ir/text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../transform/random_model.h"
#include "ramet/base/error.h"
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

TEST(GraphText, FloatsReadBackToTheSameBits) {
  for (double value : {0.1, 1e-300, 3.0, -0.0, 1e22, std::nextafter(1.0, 2.0)}) {
    const std::string text = text_of(Attribute(value));
    EXPECT_EQ(std::stod(text), value) << text;
    EXPECT_NE(text.find_first_of(".en"), std::string::npos) << text;
  }
}

TEST(GraphText, ErrorsNameThePlace) {
  EXPECT_EQ(error_of("grap \"g\" {}"), "t:1:1: unexpected text; found 'grap \"g\" {}'; expected 'graph'");
  EXPECT_EQ(error_of("graph \"g\" {\n  input %1 \"x\" : f32[2] data\n}"),
            "t:2:9: values must be numbered in order; found '%1 \"x\" : f32[2] data'; expected %0");
  EXPECT_EQ(error_of("graph \"g\" {\n  input %0 \"x\" : f31[2] data\n}"),
            "t:2:18: unknown element type; found 'f31[2] data'; expected one of f32, f16, bf16, f8e4m3, f8e5m2, i32, "
            "i64, bool, u8, u16");
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
