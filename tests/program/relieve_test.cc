#include "ramet/program/relieve.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/toy.h"

namespace ramet::tests {
namespace {

const TensorType kVector{DType::kF32, {1024}};

ValueId node(Graph& graph, const OpDef& op, std::vector<ValueId> inputs, NodeInfo info, int64_t salt = 0) {
  Attributes attributes;
  if (&op == &toy::blend()) attributes.set("salt", salt);
  return graph.node(graph.add_node(op, std::move(inputs), attributes, std::move(info))).outputs[0];
}

/// An op from n elements to `to` / `from` times as many.
OpDef resizing(const std::string& name, int64_t to, int64_t from) {
  OpDef def;
  def.name = name;
  def.min_inputs = def.max_inputs = 1;
  def.infer = [to, from](const NodeSignature& node) {
    return std::vector<TensorType>{{node.inputs[0].dtype, Shape{node.inputs[0].elements() * to / from}}};
  };
  return def;
}
const OpDef& widen() {
  static const OpDef op = resizing("toy_widen", 2, 1);
  return op;
}
const OpDef& narrow() {
  static const OpDef op = resizing("toy_narrow", 1, 2);
  return op;
}

/// Layers whose activations wait for the backward pass, and a weight whose gradient is half there before that pass and
/// half after it. The first half is twice as large as what it is made from, if `wide`.
struct TiedWeight {
  Graph graph;
  NodeId early_half = kNoNode;
  std::vector<NodeId> order;

  explicit TiedWeight(int layers, bool wide) {
    const ValueId first = graph.add_input("x", kVector, InputRole::kData);
    std::vector<ValueId> kept{first};
    for (int i = 0; i < layers; ++i) kept.push_back(node(graph, toy::mirror(), {kept.back()}, toy::in_layer(i)));
    const ValueId head = node(graph, toy::mirror(), {kept.back()}, "head");
    const ValueId half = node(graph, wide ? widen() : toy::mirror(), {head}, "half of the gradient");
    early_half = graph.value(half).producer;
    ValueId gradient = node(graph, toy::mirror(), {head}, "backward");
    for (int i = layers; i-- > 0;)
      gradient = node(graph, toy::blend(), {gradient, kept[static_cast<size_t>(i)]}, toy::in_layer(i, "/backward"));
    const ValueId rest = node(graph, wide ? narrow() : toy::mirror(), {half}, "rest");
    graph.add_output("gradient", node(graph, toy::blend(), {rest, gradient}, "the other half", 1));
    for (size_t i = 0; i < graph.nodes().size(); ++i) order.push_back(static_cast<NodeId>(i));
  }

  std::vector<NodeId> relieved(const KernelChoice& kernel) const {
    return relieve_peak(graph, {order, 0, "graph"}, [&](NodeId) -> const KernelChoice& { return kernel; }).order;
  }
};

bool respects_operands(const Graph& graph, const std::vector<NodeId>& order) {
  std::vector<bool> done(graph.nodes().size(), false);
  for (NodeId id : order) {
    for (ValueId input : graph.node(id).inputs)
      if (const NodeId producer = graph.value(input).producer;
          producer != kNoNode && !done[static_cast<size_t>(producer)])
        return false;
    done[static_cast<size_t>(id)] = true;
  }
  return std::count(done.begin(), done.end(), true) == std::ssize(done);
}

TEST(RelievePeak, AGradientThatWaitsForAnotherIsComputedBehindThePeak) {
  const TiedWeight tied(6, true);
  for (const bool in_place : {true, false}) {
    KernelChoice kernel{.name = "plain", .may_alias = {}, .skipped = {}};
    if (in_place) kernel.may_alias = {{0, 0}};
    const std::vector<NodeId> order = tied.relieved(kernel);
    ASSERT_TRUE(respects_operands(tied.graph, order));
    // In place: x, five activations, the head and the half were 9 vectors; now 8, as two activations are gone first.
    const auto from = std::find(tied.order.begin(), tied.order.end(), tied.early_half) - tied.order.begin(),
               to = std::find(order.begin(), order.end(), tied.early_half) - order.begin();
    EXPECT_EQ(to - from, in_place ? 3 : 2);
    if (!in_place) {
      EXPECT_EQ(peak_of(tied.graph, tied.order), 10 * kVector.bytes());
      EXPECT_EQ(peak_of(tied.graph, order), 9 * kVector.bytes());
    }
  }
}

TEST(RelievePeak, NothingMovesWhereThePeakWouldStay) {
  // The head would wait for the half instead, which is no smaller.
  const TiedWeight tied(6, false);
  const KernelChoice in_place{.name = "plain", .may_alias = {{0, 0}}, .skipped = {}};
  EXPECT_EQ(tied.relieved(in_place), tied.order);
  const Graph empty;
  EXPECT_TRUE(
      relieve_peak(empty, {{}, 0, "graph"}, [&](NodeId) -> const KernelChoice& { return in_place; }).order.empty());
}

TEST(RelievePeak, AStateIsReadBeforeItIsWritten) {
  // The reader of the old weight could wait, but its writer cannot.
  Graph graph;
  const ValueId x = graph.add_input("x", kVector, InputRole::kData),
                w = graph.add_input("w", kVector, InputRole::kState);
  const ValueId reader = node(graph, toy::blend(), {x, w}, "reader");
  ValueId y = x;
  for (int i = 0; i < 4; ++i) y = node(graph, toy::mirror(), {y}, "chain");
  graph.add_output("w", node(graph, toy::blend(), {w, y}, "update", 1), OutputRole::kState);
  for (int i = 0; i < 4; ++i) y = node(graph, toy::blend(), {y, x}, "behind", 2 + i);
  graph.add_output("y", node(graph, toy::blend(), {y, reader}, "end", 9));
  std::vector<NodeId> plain;
  for (size_t i = 0; i < graph.nodes().size(); ++i) plain.push_back(static_cast<NodeId>(i));
  const KernelChoice kernel{.name = "plain", .may_alias = {{0, 0}}, .skipped = {}};
  const std::vector<NodeId> order =
      relieve_peak(graph, {plain, 0, "graph"}, [&](NodeId) -> const KernelChoice& { return kernel; }).order;
  ASSERT_TRUE(respects_operands(graph, order));
  const auto place = [&](ValueId value) {
    return std::find(order.begin(), order.end(), graph.value(value).producer) - order.begin();
  };
  EXPECT_LT(place(reader), place(graph.find_output("w")->value));
}

}  // namespace
}  // namespace ramet::tests
