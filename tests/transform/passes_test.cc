#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/layer_inputs.h"
#include "ramet/transform/precision.h"
#include "ramet/transform/recompute.h"
#include "ramet/transform/simplify.h"
#include "ramet/transform/sum_in_place.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

Graph training_graph(const Model& model, DType compute = DType::kF32) {
  std::vector<std::string> names;
  for (const auto& weight : model.weights) names.push_back(weight.name);
  return differentiate(lower_precision(model.forward, compute), "loss", names);
}

std::map<std::string, HostTensor> run(const Graph& graph) {
  const auto values = interpret(graph, reference_backend(), feeds_for(graph));
  std::map<std::string, HostTensor> named;
  for (size_t i = 0; i < values.size(); ++i) named[graph.outputs()[i].name] = values[i];
  return named;
}

void expect_near(const std::map<std::string, HostTensor>& a, const std::map<std::string, HostTensor>& b,
                 double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_EQ(tensor.type, b.at(name).type) << name;
    double scale = 1e-6, worst = 0;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      scale = std::max(scale, std::fabs(tensor.get(i)));
      worst = std::max(worst, std::fabs(tensor.get(i) - b.at(name).get(i)));
    }
    EXPECT_LE(worst, tolerance * scale) << name;
  }
}

StepGraph step_of(const Graph& micro, const Model& model) {
  StepGraph step;
  step.micro = micro;
  step.states = model.weights;
  return step;
}

/// A weight beside other numbers: only the weight is held in 16 bits, and it is widened where they meet.
TEST(HoldWeights, MoveBesideOtherNumbersAsF32) {
  for (const HeldForm form : {HeldForm{DType::kF16, false}, HeldForm{DType::kBF16, true}}) {
    Graph graph("beside");
    GraphBuilder build(graph);
    const Tensor weight = build.input("weight", DType::kF32, {2, 3}, InputRole::kState);
    const Tensor both = concat({weight, weight}, 0), data = build.input("data", DType::kF32, {2, 3});
    build.output("rows", concat({slice(both, {1, 0}, {2, 3}), data}, 0));
    const Graph held = hold_weights(graph, {"weight"}, form);
    EXPECT_EQ(held.type(held.find_output("rows")->value), graph.type(graph.find_output("rows")->value));
    EXPECT_EQ(held.type(held.find_input("weight")).dtype, form.dtype);
    int wide = 0;  // weights are moved first, as they are held
    for (const Node& node : held.nodes())
      wide += node.op->name == "concat" && held.type(node.outputs[0]).dtype == DType::kF32;
    EXPECT_EQ(wide, 1);
  }
}

TEST(Simplify, KeepsEveryBitAndRemovesNodes) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    Graph graph = training_graph(model);
    GraphBuilder build(graph);
    const Tensor loss = build.tensor(graph.find_output("loss")->value);
    build.output("twice", add(exp(loss), exp(loss)));
    const Graph simpler = simplify(graph);
    verify(simpler, "simplify");
    EXPECT_LT(simpler.nodes().size(), graph.nodes().size());
    EXPECT_EQ(run(graph), run(simpler));
    EXPECT_EQ(print(simplify(simpler)), print(simpler)) << "a second time changes nothing";
  }
}

TEST(Simplify, DropsStatesThatNobodyReads) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {2}, InputRole::kState);
  build.output("y", exp(x));
  log(build.input("unused", DType::kF32, {2}, InputRole::kState));
  const Graph simpler = simplify(graph);
  EXPECT_EQ(simpler.find_input("unused"), kNoValue);
  EXPECT_EQ(simpler.nodes().size(), 1u);
}

TEST(Fuse, MeansTheSame) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    const Graph graph = simplify(training_graph(model));
    const Graph fused = fuse(graph);
    verify(fused, "fuse");
    EXPECT_LT(fused.nodes().size(), graph.nodes().size());
    expect_near(run(graph), run(fused), 1e-5);
  }
}

TEST(Fuse, JoinsAChainAndKeepsWhatOthersRead) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {4, 3}, InputRole::kState);
  const Tensor bias = build.input("bias", DType::kF32, {3}, InputRole::kState);
  const Tensor shifted = add(x, bias);
  build.output("y", gelu(shifted));
  build.output("shifted", shifted);
  const Graph fused = fuse(graph);
  ASSERT_EQ(fused.nodes().size(), 1u) << print(fused);
  EXPECT_EQ(fused.node(0).op->name, "map");
  EXPECT_EQ(fused.node(0).outputs.size(), 2u);
  expect_near(run(graph), run(fused), 1e-6);
}

/// Random graphs of element-wise nodes and matrix products: no fusion may make a cycle or lose a value.
TEST(Fuse, IsRightOnRandomGraphs) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
    Graph graph("random");
    GraphBuilder build(graph);
    std::vector<Tensor> values = {build.input("a", DType::kF32, {3, 3}, InputRole::kState),
                                  build.input("b", DType::kF32, {3, 3}, InputRole::kState)};
    uint64_t draw = 0;
    const auto pick = [&] { return values[random.below(draw++, static_cast<uint32_t>(values.size()))]; };
    for (int i = 0; i < 25; ++i) {
      const uint32_t kind = random.below(draw++, 6);
      if (kind == 0)
        values.push_back(matmul(pick(), pick()));
      else if (kind == 1)
        values.push_back(tanh(pick()));
      else if (kind == 2)
        values.push_back(scale(pick(), 0.5));
      else if (kind == 3)
        values.push_back(sigmoid(pick()));
      else
        values.push_back(add(pick(), pick()));
    }
    for (int i = 0; i < 3; ++i) build.output("out" + std::to_string(i), pick());
    const Graph fused = fuse(graph);
    verify(fused, "fuse");
    expect_near(run(graph), run(fused), 1e-5);
  }
}

bool is_sum(const std::string& state) { return state.starts_with("sum."); }

/// state + term becomes the state.
void add_into(GraphBuilder& build, const std::string& state, Tensor term) {
  build.output(state, add(build.state(state, DType::kF32, term.shape()), term), OutputRole::kState);
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.op->name);
  return names;
}

TEST(SumInPlace, TermsAddThemselvesWhereTheirOpsCan) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kBF16, {40, 24}), dy = build.input("dy", DType::kBF16, {40, 16});
  const Tensor ids = build.input("attention_mask", DType::kI32, {40});
  add_into(build, "sum.weight", matmul(x, dy, true, false, DType::kF32));
  add_into(build, "sum.table", build.op("scatter_add", {ids, x}, {{"rows", 300}, {"dtype", DType::kF32}}));
  const Graph fused = sum_in_place(graph, is_sum);
  verify(fused, "sum_in_place");
  EXPECT_THAT(ops_of(fused), testing::ElementsAre("matmul", "scatter_add"));
  EXPECT_EQ(fused.nodes()[0].inputs.size(), 3u);
  EXPECT_EQ(fused.nodes()[1].inputs.size(), 3u);
  EXPECT_EQ(run(graph), run(fused));
  for (int threads : {1, 3})
    EXPECT_EQ(interpret(graph, cpu_backend(), feeds_for(graph), threads),
              interpret(fused, cpu_backend(), feeds_for(fused), threads));
}

TEST(SumInPlace, LeavesTermsThatAreReadElsewhere) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {6, 6});
  const Tensor twice = matmul(x, x), result = matmul(twice, x), narrow = matmul(x, twice, true);
  add_into(build, "sum.twice", twice);
  add_into(build, "sum.result", result);
  build.output("result", result);
  add_into(build, "weight", narrow);                    // no sum that starts at zero
  add_into(build, "sum.map", exp(matmul(x, x, true)));  // no op that adds
  const Graph same = sum_in_place(graph, is_sum);
  EXPECT_EQ(ops_of(same), ops_of(graph));
  for (const Node& node : same.nodes()) EXPECT_LE(node.inputs.size(), 2u);
}

TEST(SumInPlace, AddsTheGradientsOfAllMatricesOfAModel) {
  const Model model = tiny_bert();
  Graph graph = training_graph(model, DType::kBF16);
  Graph micro("micro");
  GraphCopier copier(graph, micro);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) copier.copy_node(id);
  GraphBuilder build(micro);
  for (const GraphOutput& output : graph.outputs())
    if (output.name.starts_with("grad.")) add_into(build, "sum." + output.name, build.tensor(copier[output.value]));
  const Graph before = fuse(simplify(micro)), after = sum_in_place(before, is_sum);
  EXPECT_EQ(run(before), run(after));
  int apart = 0;
  for (const Node& node : after.nodes())
    if (node.op->map_op == "add" && after.type(node.outputs[0]).shape.rank() == 2 &&
        after.type(node.outputs[0]).dtype == DType::kF32 && after.value(node.inputs[0]).producer == kNoNode)
      ++apart;
  EXPECT_EQ(apart, 1) << "that of the positions is no product\n" << print(after);
}

TEST(Recompute, ChangesNoBit) {
  const Model model = tiny_bert();
  const StepGraph step = step_of(fuse(simplify(training_graph(model, DType::kBF16))), model);
  const auto expected = run(step.micro);
  std::set<size_t> sizes = {step.micro.nodes().size()};
  for (const char* text : {"cheap", "layer", "layer:1", "all"}) {
    const StepGraph result = recompute(step, parse_recompute(text));
    verify(result, "recompute");
    EXPECT_EQ(run(result.micro), expected) << text;
    EXPECT_GT(result.micro.nodes().size(), step.micro.nodes().size()) << text;
    sizes.insert(result.micro.nodes().size());
  }
  EXPECT_GE(sizes.size(), 4u) << "the levels differ";
}

TEST(Recompute, CheapIsALittleWorkThatMakesMuchOfLittle) {
  Graph forward("wide");
  GraphBuilder build(forward);
  Tensor x = build.input("x", DType::kF32, {64, 2});
  const int64_t widths[] = {2, 256, 256};
  for (int64_t i = 0; i < 2; ++i) {
    PartScope scope(build, "layer", i);
    x = gelu(matmul(x, build.state("w" + std::to_string(i), DType::kF32, {widths[i], widths[i + 1]})));
  }
  build.output("loss", reduce_mean(multiply(x, x)));
  StepGraph step;
  step.micro = differentiate(forward, "loss", {"w0", "w1"});
  const StepGraph result = recompute(step, parse_recompute("cheap"));
  EXPECT_EQ(run(result.micro), run(step.micro));
  std::vector<std::string> products;
  for (const Node& node : result.micro.nodes())
    if (node.pass == NodePass::kRecompute && node.op->name == "matmul") products.push_back(node.name);
  EXPECT_EQ(products, std::vector<std::string>{"layer0/recompute"}) << "that of two columns into many";
}

/// Names of the repeated nodes of an op.
std::vector<std::string> repeated(const StepGraph& step, const std::string& op) {
  std::vector<std::string> names;
  for (const Node& node : step.micro.nodes())
    if (node.pass == NodePass::kRecompute && node.op->name == op) names.push_back(node.name);
  return names;
}

/// Three layers of a product and what `behind` makes of it and of the layer's input.
StepGraph three_products(const std::function<Tensor(GraphBuilder&, Tensor product, Tensor input)>& behind) {
  Graph forward("three");
  GraphBuilder build(forward);
  Tensor x = build.input("x", DType::kF32, {64, 16});
  for (int64_t i = 0; i < 3; ++i) {
    PartScope scope(build, "layer", i);
    x = behind(build, matmul(x, build.state("w" + std::to_string(i), DType::kF32, {16, 16})), x);
  }
  build.output("loss", reduce_mean(multiply(x, x)));
  StepGraph step;
  step.micro = differentiate(forward, "loss", {"w0", "w1", "w2"});
  return step;
}

TEST(Recompute, CheapNodesAtTheEndOfALayerAreRepeatedByTheNext) {
  StepGraph step = three_products([](GraphBuilder&, Tensor product, Tensor) { return gelu(product); });
  const auto expected = run(step.micro);
  EXPECT_EQ(repeated(recompute(step, parse_recompute("layer")), "matmul").size(), 3u);
  step.micro = with_late_inputs(step.micro);
  const StepGraph late = recompute(step, parse_recompute("layer"));
  EXPECT_EQ(run(late.micro), expected);
  EXPECT_EQ(repeated(late, "matmul"), std::vector<std::string>{"layer2/recompute"}) << "no layer reads that one";
  EXPECT_EQ(repeated(late, "gelu").size(), 3u - 1);
}

TEST(Recompute, NodesOfTwoLargeInputsStayInTheirLayer) {
  const StepGraph step = three_products([](GraphBuilder&, Tensor product, Tensor x) { return multiply(product, x); });
  EXPECT_EQ(print(with_late_inputs(step.micro)), print(step.micro));
}

TEST(Recompute, ASumIsKeptInPlaceOfItsTerm) {
  const StepGraph step =
      three_products([](GraphBuilder&, Tensor product, Tensor x) { return gelu(gelu(add(product, x))); });
  const StepGraph cheap = recompute(step, parse_recompute("cheap"));
  EXPECT_EQ(run(cheap.micro), run(step.micro));
  EXPECT_EQ(repeated(cheap, "add"), std::vector<std::string>{});
  EXPECT_EQ(repeated(cheap, "gelu").size(), 3u) << "the inner one";
}

TEST(Recompute, FitTakesTheFirstPlanThatFits) {
  const Model model = tiny_bert();
  const StepGraph step = step_of(simplify(training_graph(model)), model);
  const auto nodes = [](const StepGraph& candidate) { return -static_cast<int64_t>(candidate.micro.nodes().size()); };
  RecomputeOptions options = parse_recompute("fit:1GiB");
  options.byte_limit = 0;  // "fits" at once: any graph has more than zero nodes
  EXPECT_EQ(recompute(step, options, nodes).micro.nodes().size(), step.micro.nodes().size());
  options.byte_limit = -static_cast<int64_t>(step.micro.nodes().size()) - 20;
  const size_t found = recompute(step, options, nodes).micro.nodes().size();
  EXPECT_GE(found, step.micro.nodes().size() + 20);
}

TEST(Recompute, RefusesUnknownLevels) {
  EXPECT_THROW(parse_recompute("some"), Error);
  EXPECT_THROW(parse_recompute("layer:1,x"), Error);
  try {
    const Model model = tiny_bert();
    recompute(step_of(training_graph(model), model), parse_recompute("layer:7"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "train.recompute: no such layer to recompute; found 7; expected 0 to 2");
  }
}

TEST(Precision, ComputesProductsInTheLowTypeAndKeepsGradientsOfWeightsFull) {
  const Model model = tiny_bert();
  const Graph graph = training_graph(model, DType::kBF16);
  verify(graph, "precision");
  int low = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    if (graph.node(id).op->precision == OpDef::Precision::kLow && graph.signature(id).inputs[0].dtype == DType::kBF16)
      ++low;
  EXPECT_GT(low, 20);
  for (const auto& output : graph.outputs()) EXPECT_EQ(graph.type(output.value).dtype, DType::kF32) << output.name;
  expect_near({{"loss", run(training_graph(model))["loss"]}}, {{"loss", run(graph)["loss"]}}, 2e-2);
}

TEST(Hoist, MovesCastsOfWeightsIntoDerive) {
  const Model model = tiny_bert();
  StepGraph step = step_of(simplify(training_graph(model, DType::kBF16)), model);
  step.programs.push_back({"evaluate", simplify(lower_precision(model.evaluate, DType::kBF16)), When::on_request()});
  const StepGraph hoisted = hoist(step);
  verify(hoisted, "hoist");
  EXPECT_GT(hoisted.derive.nodes().size(), 10u);
  for (const Node& node : hoisted.micro.nodes()) {
    bool weights_only = !node.inputs.empty();
    for (ValueId input : node.inputs) {
      const Value& value = hoisted.micro.value(input);
      weights_only = weights_only && value.producer == kNoNode && hoisted.micro.find_input(value.name) == input &&
                     value.name.rfind("derived.", 0) != 0 && is_floating(value.type.dtype);
    }
    EXPECT_FALSE(weights_only) << node.op->name << " " << node.name;
  }
  // Run derive, then micro on its results: the same bits as before.
  auto feeds = feeds_for(step.micro);
  const auto derived = interpret(hoisted.derive, reference_backend(), feeds_for(hoisted.derive));
  for (size_t i = 0; i < derived.size(); ++i) feeds[hoisted.derive.outputs()[i].name] = derived[i];
  const auto values = interpret(hoisted.micro, reference_backend(), feeds);
  const auto expected = run(step.micro);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], expected.at(hoisted.micro.outputs()[i].name)) << hoisted.micro.outputs()[i].name;
}

TEST(Unhoist, MakesWhatWasDerivedWhereItIsRead) {
  const Model model = tiny_bert();
  StepGraph step = step_of(simplify(training_graph(model, DType::kBF16)), model);
  step.programs.push_back({"evaluate", simplify(lower_precision(model.evaluate, DType::kBF16)), When::on_request()});
  const StepGraph again = unhoist(hoist(step));
  verify(again, "unhoist");
  EXPECT_TRUE(again.derive.nodes().empty());
  for (const auto& state : again.states) EXPECT_NE(state.kind, StateKind::kDerived) << state.name;
  EXPECT_EQ(run(again.micro), run(step.micro));
  EXPECT_EQ(run(again.programs[0].graph), run(step.programs[0].graph));
  // What is made is read once, by the node that follows, and belongs to its layer.
  const auto uses = again.micro.uses();
  int made = 0;
  for (const Node& node : again.micro.nodes()) {
    if (!node.name.ends_with("/derive")) continue;
    ++made;
    ASSERT_EQ(uses[static_cast<size_t>(node.outputs[0])].size(), 1u) << node.name;
    const Node& reader = again.micro.node(uses[static_cast<size_t>(node.outputs[0])][0]);
    EXPECT_EQ(node.name, reader.name.ends_with("/derive") ? reader.name : reader.name + "/derive");
  }
  EXPECT_GT(made, 20);
}

TEST(Parts, AreSetOnSumsOverFeaturesAndOverRowsOfVectors) {
  const Model model = tiny_bert();
  const Graph graph = set_chunks(simplify(training_graph(model)), 2);
  verify(graph, "chunks");
  int forward = 0, weight_gradients = 0, norms = 0, row_sums = 0;
  for (const Node& node : graph.nodes()) {
    const bool sequences = !node.inputs.empty() && graph.type(node.inputs[0]).shape.rank() == 3;
    norms += sequences && node.op->name == "layer_norm_grad" && node.attributes.get_int_or("chunks", 1) == 2;
    row_sums += sequences && node.op->name == "reduce_sum" && node.attributes.get_int_or("chunks", 1) == 2;
    if (!node.attributes.has("chunks") || node.attributes.get_int("chunks") != 2) continue;
    const bool contracts_rows = node.attributes.get_bool_or("transpose_a", false);
    (contracts_rows ? weight_gradients : forward) += 1;
  }
  EXPECT_GE(forward, 12);
  EXPECT_EQ(norms, 7) << "the embeddings' and two of each layer";
  EXPECT_GE(row_sums, 12) << "four products with a bias a layer";
  EXPECT_EQ(weight_gradients, 0) << "rows come from the batch: lanes order those sums";
  expect_near(run(simplify(training_graph(model))), run(graph), 1e-5);
}

}  // namespace
}  // namespace ramet::tests
