#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/ops/build.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/data_axes.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/layers.h"
#include "ramet/transform/precision.h"
#include "ramet/transform/recompute.h"
#include "ramet/transform/simplify.h"
#include "ramet/transform/sum_in_place.h"
#include "ramet/transform/unit_scale.h"
#include "random_model.h"

// What passes know of nodes (ir/graph.h, NodeInfo): every pass carries it.

namespace ramet::tests {
namespace {

/// N of the component "layerN" of a name, as our own builders call parts; -1 of others.
int layer_of(const std::string& name) {
  for (size_t at = name.find("layer"); at != std::string::npos; at = name.find("layer", at + 1)) {
    if (at != 0 && name[at - 1] != '/') continue;
    int layer = 0;
    const char* end = name.data() + name.size();
    const auto result = std::from_chars(name.data() + at + 5, end, layer);
    if (result.ec == std::errc() && (result.ptr == end || *result.ptr == '/')) return layer;
  }
  return -1;
}

bool has_word(const std::string& name, const std::string& word) {
  return ("/" + name + "/").find("/" + word + "/") != std::string::npos;
}

/// Our builders and passes name nodes by their parts and passes: the fields must say the same.
void expect_fields_as_named(const Graph& graph, const std::string& after) {
  SCOPED_TRACE(after);
  std::set<int32_t> serials;
  for (const Node& node : graph.nodes())
    if (node.pass == NodePass::kForward) serials.insert(node.serial);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    const std::string text = graph.text_of(id);
    EXPECT_EQ(node.part.index, layer_of(node.name)) << text;
    EXPECT_EQ(node.pass == NodePass::kRecompute, has_word(node.name, "recompute")) << text;
    EXPECT_EQ(node.pass == NodePass::kBackward, has_word(node.name, "backward") && !has_word(node.name, "recompute"))
        << text;
    if (node.forward_of != 0) {
      EXPECT_NE(node.pass, NodePass::kForward) << text;
    }
    if (node.pass == NodePass::kForward) {
      EXPECT_EQ(node.forward_of, 0) << text;
    }
  }
}

/// Of the gradients of nodes, how many still know a node that is there.
double share_of_known(const Graph& graph) {
  std::set<int32_t> serials;
  for (const Node& node : graph.nodes())
    if (node.serial != 0) serials.insert(node.serial);
  double known = 0, all = 0;
  for (const Node& node : graph.nodes())
    if (node.forward_of != 0) ++all, known += serials.count(node.forward_of) ? 1 : 0;
  return all > 0 ? known / all : 0;
}

std::vector<std::string> weight_names(const Model& model) {
  std::vector<std::string> names;
  for (const StateTensor& weight : model.weights) names.push_back(weight.name);
  return names;
}

TEST(Fields, DifferentiationSaysOfWhichNodeAGradientIs) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    const Graph graph = differentiate(model.forward, "loss", weight_names(model));
    std::map<int32_t, const Node*> by_serial;
    for (const Node& node : graph.nodes()) {
      if (node.pass != NodePass::kForward) continue;
      ASSERT_GT(node.serial, 0);
      EXPECT_TRUE(by_serial.emplace(node.serial, &node).second) << "two nodes of one number";
    }
    EXPECT_EQ(by_serial.size(), model.forward.nodes().size());
    size_t gradients = 0;
    for (const Node& node : graph.nodes()) {
      if (node.forward_of == 0) continue;
      ++gradients;
      ASSERT_TRUE(by_serial.count(node.forward_of));
      const Node& forward = *by_serial.at(node.forward_of);
      EXPECT_EQ(node.part, forward.part);
      EXPECT_EQ(node.origin, forward.origin);
      EXPECT_EQ(node.name, (forward.name.empty() ? forward.op->name : forward.name) + "/backward");
    }
    EXPECT_GT(gradients, graph.nodes().size() / 3);
    EXPECT_THAT(by_serial.begin()->second->origin, testing::MatchesRegex("model/[a-z0-9_]+\\.cc:[0-9]+"));
    // A second derivative numbers what is new only.
    const Graph again = differentiate(graph, "loss", {});
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      if (graph.nodes()[n].serial != 0) {
        EXPECT_EQ(again.nodes()[n].serial, graph.nodes()[n].serial);
      }
  }
}

TEST(Fields, EveryPassCarriesThem) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    expect_fields_as_named(model.forward, "building");
    expect_fields_as_named(unit_scale(model.forward, model.weights, {}).graph, "unit_scale");
    const Graph low = lower_precision(model.forward, DType::kBF16);
    expect_fields_as_named(low, "precision");
    Graph graph = differentiate(low, "loss", weight_names(model));
    expect_fields_as_named(graph, "differentiate");
    EXPECT_EQ(share_of_known(graph), 1);
    expect_fields_as_named(hold_weights(graph, weight_names(model), {DType::kBF16, true}), "hold_weights");
    graph = set_chunks(graph, 2, model.weights);
    expect_fields_as_named(graph, "part");
    graph = simplify(graph);
    expect_fields_as_named(graph, "simplify");
    EXPECT_GT(share_of_known(graph), 0.95);
    StepGraph step;
    step.micro = graph;
    step.states = model.weights;
    step = hoist(step);
    expect_fields_as_named(step.micro, "hoist");
    expect_fields_as_named(step.derive, "hoist (derive)");
    for (const StateTensor& state : step.states)
      if (state.kind == StateKind::kDerived) {
        EXPECT_TRUE(step.state(state.of).kind == StateKind::kWeight) << state.name;
      }
    expect_fields_as_named(unhoist(step).micro, "unhoist");
    step = fuse(step);
    expect_fields_as_named(step.micro, "fuse");
    EXPECT_GT(share_of_known(step.micro), 0.8);
    RecomputeOptions options;
    options.mode = RecomputeOptions::Mode::kLayers;
    const Graph again = recompute(step, options, {}).micro;
    expect_fields_as_named(again, "recompute");
    const auto repeats = [](const Node& node) { return node.pass == NodePass::kRecompute && node.forward_of != 0; };
    EXPECT_TRUE(std::any_of(again.nodes().begin(), again.nodes().end(), repeats));
    expect_fields_as_named(sum_in_place(step.micro, [](const std::string&) { return true; }), "sum in place");
    EXPECT_EQ(print(parse_graph(print(again))), print(again));
  }
}

TEST(Fields, AMapStandsForTheNodesThatItIsMadeOf) {
  Graph forward("g");
  GraphBuilder build(forward);
  const Tensor x = build.input("x", DType::kF32, {8}), w = build.state("w", DType::kF32, {8});
  Tensor y;
  {
    const PartScope part(build, "stack", 0);
    y = exp(tanh(multiply(x, w)));
  }
  build.output("loss", reduce_sum(multiply(y, y), {0}));
  const Graph graph = fuse(simplify(differentiate(forward, "loss", {"w"})));
  std::map<int32_t, const Node*> by_serial;
  for (const Node& node : graph.nodes())
    if (node.serial != 0) by_serial[node.serial] = &node;
  for (const Node& node : graph.nodes())
    if (node.forward_of != 0) {
      ASSERT_TRUE(by_serial.count(node.forward_of)) << node.name;
      EXPECT_EQ(by_serial.at(node.forward_of)->part, node.part) << node.name;
    }
}

NodeInfo of(const std::string& stack, int index, const std::string& name = "n") {
  NodeInfo info = name;
  info.part = {stack, index};
  return info;
}

TEST(Parts, StandInTheOrderOfTheGraph) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {4}), w = build.state("w", DType::kF32, {4});
  const auto step = [&](Tensor from, const NodeInfo& info) {
    const InfoScope scope(build, info);
    return exp(from);
  };
  const Tensor early = step(w, of("b", 1));  // of the weight alone: no place
  Tensor y = step(x, of("zebra", 0));
  y = step(y, of("zebra", 2));  // 1 has no nodes
  Tensor z = step(y, of("b", 0));
  z = add(step(z, of("b", 1)), early);
  step(z, of("zebra", 1 + 2));
  build.output("y", z);
  const LayerOrder parts(graph);
  std::vector<std::string> order;
  for (int i = 0; i < parts.size(); ++i) order.push_back(text_of(parts[i]));
  EXPECT_THAT(order, testing::ElementsAre("zebra 0", "zebra 1", "zebra 2", "b 0", "b 1", "zebra 3"));
  EXPECT_EQ(parts.index_of({"b", 1}), 4);
  EXPECT_EQ(parts.index_of({"b", 2}), LayerOrder::kNoLayer);
  EXPECT_EQ(parts.index_of({"c", 0}), LayerOrder::kNoLayer);
  EXPECT_EQ(parts.index_of({}), LayerOrder::kNoLayer);
  EXPECT_EQ(count_layers(graph), 6u);
}

TEST(Parts, RegionsFollowTheData) {
  using Where = ModelRegion::Where;
  Graph graph("g");
  GraphBuilder build(graph);
  Tensor x = exp(build.input("x", DType::kF32, {4}));
  for (int i = 0; i < 2; ++i) {
    const PartScope part(build, "stack", i);
    x = tanh(x);
  }
  const Tensor behind = exp(x), before_second = exp(build.input("y", DType::kF32, {4}));
  {
    const PartScope part(build, "other", 0);
    x = add(behind, before_second);
  }
  build.output("z", exp(x));
  const std::vector<ModelRegion> regions = regions_of(graph, LayerOrder(graph));
  const std::vector<ModelRegion> expected = {{Where::kBefore, 0}, {Where::kIn, 0},     {Where::kIn, 1},
                                             {Where::kAfter, 1},  {Where::kBefore, 2}, {Where::kIn, 2},
                                             {Where::kAfter, 2}};
  EXPECT_TRUE(regions == expected);
}

TEST(Parts, ImpossibleOnesAreRefused) {
  Graph graph("g");
  GraphBuilder build(graph);
  for (const auto& [stack, index] : {std::pair{"", 0}, std::pair{"a", -1}, std::pair{"a", 65536}}) {
    try {
      PartScope part(build, stack, index);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("PartScope at transform/fields_test.cc:"));
    }
  }
}

TEST(DataAxes, FollowTheDataThroughReshapes) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    ASSERT_TRUE(declares_axes(model.forward));
    std::vector<std::string> names = weight_names(model);
    const Graph graph = simplify(differentiate(model.forward, "loss", names));
    const std::vector<int> dims = dims_along(graph, "positions");
    const int64_t hidden = 8, length = graph.type(graph.find_input("input_ids")).shape[1];
    int found = 0, lost = 0;
    for (size_t v = 0; v < dims.size(); ++v) {
      const TensorType& type = graph.values()[v].type;
      if (dims[v] >= 0) {
        EXPECT_EQ(type.shape[dims[v]], length);
      }
      if (type.shape.rank() != 3 || type.shape[1] != length || !is_floating(type.dtype)) continue;
      if (type.shape[2] < hidden) continue;
      (dims[v] == 1 ? found : lost) += 1;
    }
    EXPECT_GT(found, 20);
    EXPECT_LE(lost, 3) << "gradients that come from the head alone";
  }
}

TEST(DataAxes, OfFeaturesAreNoBatch) {
  // A product over a feature dimension of an input is cut into parts; one over samples is not.
  for (const bool declares : {false, true}) {
    Graph graph("g");
    GraphBuilder build(graph);
    const Tensor x = declares ? build.input("x", DType::kF32, {4, 8}, std::vector<std::string>{"batch", ""})
                              : build.input("x", DType::kF32, {4, 8});
    build.output("y", matmul(x, build.state("w", DType::kF32, {8, 6})));
    const Graph cut = set_chunks(graph, 2, {});
    EXPECT_EQ(cut.nodes().back().attributes.has("chunks"), declares);
  }
}

}  // namespace
}  // namespace ramet::tests
