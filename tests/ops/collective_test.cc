#include "ramet/ops/collective.h"

#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/ir/builder.h"
#include "ramet/ir/text.h"

namespace ramet::tests {
namespace {

NodeSignature node_of(const std::string& op, TensorType input, Attributes attributes) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(op);
  node.inputs = {std::move(input)};
  node.attributes = std::move(attributes);
  node.outputs = node.op->infer(node);
  return node;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Collective, TypesAndBytesOfEach) {
  const TensorType a{DType::kF32, Shape{4, 6}};
  const auto reduced = collective_form(node_of("all_reduce", a, {{"axis", int64_t{2}}, {"parts", int64_t{2}}}));
  EXPECT_EQ(reduced.output, a);
  EXPECT_EQ(reduced.run, 24);
  const auto gathered = collective_form(node_of(
      "all_gather", a, {{"axis", int64_t{1}}, {"parts", int64_t{3}}, {"dim", int64_t{1}}, {"blocks", int64_t{2}}}));
  EXPECT_EQ(gathered.output.shape, (Shape{4, 18}));
  EXPECT_EQ(gathered.outer, 8);  // 4 rows x 2 blocks
  EXPECT_EQ(gathered.run, 3);
  const auto scattered =
      collective_form(node_of("reduce_scatter", a, {{"axis", int64_t{1}}, {"parts", int64_t{2}}, {"dim", int64_t{0}}}));
  EXPECT_EQ(scattered.output.shape, (Shape{2, 6}));
  EXPECT_EQ(scattered.outer, 1);
  EXPECT_EQ(scattered.run, 12);
  const auto dealt = collective_form(node_of(
      "all_to_all", a, {{"axis", int64_t{2}}, {"parts", int64_t{2}}, {"split", int64_t{1}}, {"concat", int64_t{0}}}));
  EXPECT_EQ(dealt.output.shape, (Shape{8, 3}));
}

TEST(Collective, EmptyTensorsHaveNoRuns) {
  const auto form = collective_form(node_of("all_gather", {DType::kF32, Shape{0, 6}},
                                            {{"axis", int64_t{1}}, {"parts", int64_t{3}}, {"dim", int64_t{1}}}));
  EXPECT_EQ(form.output.elements(), 0);
  EXPECT_EQ(form.run, 0);
}

TEST(Collective, RefusesUnequalParts) {
  const std::string text = message_of([] {
    node_of("reduce_scatter", {DType::kF32, Shape{4, 6}},
            {{"axis", int64_t{1}}, {"parts", int64_t{4}}, {"dim", int64_t{1}}});
  });
  EXPECT_NE(text.find("does not fall into equal parts"), std::string::npos) << text;
  EXPECT_NE(text.find("a multiple of 4"), std::string::npos) << text;
  EXPECT_NE(message_of([] {
              node_of("all_reduce", {DType::kF32, Shape{4}},
                      {{"axis", int64_t{1}}, {"parts", int64_t{2}}, {"kind", "mean"}});
            }).find("sum, max or min"),
            std::string::npos);
}

TEST(Collective, BoundariesPrintAndParse) {
  Graph graph("piece");
  const ValueId x = graph.add_input("x", {DType::kF32, Shape{2, 2}}, InputRole::kBoundary);
  const NodeId sum = graph.add_node(OpRegistry::instance().get("all_reduce"), {x},
                                    {{"axis", int64_t{2}}, {"parts", int64_t{2}}}, "sum");
  graph.add_output("y", graph.node(sum).outputs[0], OutputRole::kBoundary);
  EXPECT_EQ(print(parse_graph(print(graph))), print(graph));
}

}  // namespace
}  // namespace ramet::tests
