#include "ramet/transform/unit_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/precision.h"
#include "ramet/transform/residual.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const StateTensor& weight : model.weights) names.push_back(weight.name);
  return names;
}

/// The graph with gradients as true as its forward pass: each backward factor is the forward factor.
Graph with_true_gradients(const Graph& graph) {
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(copier[input]);
    Attributes attributes = node.attributes;
    if (node.op->name == "rescale") attributes.set("backward", attributes.get_float("forward"));
    const NodeId copy = result.add_node(*node.op, inputs, attributes, node.name);
    for (size_t i = 0; i < node.outputs.size(); ++i) copier.map(node.outputs[i], result.node(copy).outputs[i]);
  }
  copier.copy_outputs();
  return result;
}

std::vector<double> factors(const Graph& graph, const std::string& which) {
  std::vector<double> all;
  for (const Node& node : graph.nodes())
    if (node.op->name == "rescale" && node.attributes.get_float("forward") != 1)
      all.push_back(node.attributes.get_float(which));
  return all;
}

/// The constraint of scaled graphs, on whole models: a factor for each weight, and nothing else, is between the
/// gradient and that of the same forward pass.
TEST(UnitScale, GradientsAreTrueButForOneFactorAWeight) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()})
    for (bool u_mup : {false, true}) {
      const UnitScaled scaled = unit_scale(model.forward, unit_weights(model.weights), {.u_mup = u_mup});
      verify(scaled.graph, "unit_scale");
      const auto names = names_of(model);
      const Graph backward = differentiate(scaled.graph, "loss", names);
      const Graph truth = differentiate(with_true_gradients(scaled.graph), "loss", names);
      const auto feeds = feeds_for(backward, 1.0);
      const auto found = interpret(backward, reference_backend(), feeds),
                 expected = interpret(truth, reference_backend(), feeds);
      int checked = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        const std::string& name = backward.outputs()[i].name;
        if (!name.starts_with("grad.")) {
          EXPECT_EQ(found[i], expected[i]) << name;
          continue;
        }
        const double factor = scaled.weights.at(name.substr(5)).gradient;
        double most = 0;
        for (double value : found[i].values()) most = std::max(most, std::fabs(value));
        EXPECT_GT(most, 0) << name;
        for (int64_t e = 0; e < found[i].elements(); ++e)
          ASSERT_NEAR(found[i].get(e), factor * expected[i].get(e), 2e-4 * most) << name << " of " << model.name;
        ++checked;
      }
      EXPECT_EQ(checked, static_cast<int>(names.size()));
    }
}

TEST(UnitScale, EvaluationHasTheForwardFactorsOfTraining) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    const auto weights = unit_weights(model.weights);
    const Graph training = unit_scale(model.forward, weights, {}).graph,
                evaluating = unit_scale(model.evaluate, weights, {}).graph;
    EXPECT_EQ(factors(training, "forward"), factors(evaluating, "forward"));
    EXPECT_GT(factors(training, "forward").size(), 10u);
  }
}

struct Builder {
  Graph graph;
  GraphBuilder build{graph};
  std::vector<StateTensor> weights;
  Tensor x = build.input("x", DType::kF32, {4, 8, 16});

  Tensor matrix(const std::string& name, Shape shape) {
    weights.push_back({name, {DType::kF32, shape}, StateKind::kWeight, {StateInit::Kind::kNormal, 0, 1}, "decay"});
    return build.state(name, DType::kF32, shape);
  }
};

TEST(UnitScale, ResidualsAreWeighedAsRunningMeansOrByTau) {
  Builder model;
  Tensor x = model.x;
  for (int i = 0; i < 3; ++i) x = add(x, matmul(relu(x), model.matrix("w" + std::to_string(i), {16, 16})));
  // x is an input of the graph, so that the first sum has no maker of its own to start from.
  Tensor y = scale(x, 1);
  y = add(y, matmul(y, model.matrix("v0", {16, 16})));
  y = add(matmul(y, model.matrix("v1", {16, 16})), y);
  model.build.output("y", relu(y));
  const auto residuals = find_residuals(model.graph);
  EXPECT_EQ(residuals.size(), 4u);
  const auto weights_of = [&](const UnitScaling& how) {
    std::vector<std::pair<double, double>> pairs;  // skip, branch
    const Graph scaled = unit_scale(model.graph, model.weights, how).graph;
    for (const Node& node : scaled.nodes()) {
      if (node.op->name != "add") continue;
      std::vector<double> both;
      for (ValueId input : node.inputs) {
        const NodeId maker = scaled.value(input).producer;
        both.push_back(maker == kNoNode || scaled.node(maker).op->name != "rescale"
                           ? 1
                           : scaled.node(maker).attributes.get_float("forward"));
      }
      pairs.emplace_back(both[0], both[1]);
    }
    return pairs;
  };
  const auto running = weights_of({});
  ASSERT_EQ(running.size(), 5u);
  EXPECT_NEAR(running[3].first, std::sqrt(1.0 / 2), 1e-3);
  EXPECT_NEAR(running[3].second, std::sqrt(1.0 / 2), 1e-3);
  EXPECT_NEAR(running[4].second, std::sqrt(2.0 / 3), 1e-3);  // here the branch stands first
  EXPECT_NEAR(running[4].first, std::sqrt(1.0 / 3), 1e-3);
  const auto fixed = weights_of({.residual_tau = 0.2});
  EXPECT_NEAR(fixed[4].second, std::sqrt(0.8), 1e-3);
  EXPECT_NEAR(fixed[4].first, std::sqrt(0.2), 1e-3);
  // Two branches: what they are added to counts as one.
  const auto u_mup = weights_of({.u_mup = true});
  EXPECT_NEAR(u_mup[3].first, std::sqrt(1.0 / 2), 1e-3);
  const auto strong = weights_of({.u_mup = true, .residual = 2});
  EXPECT_NEAR(strong[3].first, std::sqrt(1.0 / 5), 1e-3);
  EXPECT_NEAR(strong[3].second, std::sqrt(4.0 / 5), 1e-3);
}

TEST(UnitScale, KnowsWhatEachWeightIsFor) {
  const Model model = tiny_gpt2();
  const auto weights = unit_scale(model.forward, unit_weights(model.weights), {.u_mup = true}).weights;
  const auto of = [&](const std::string& name) { return weights.at("transformer." + name); };
  EXPECT_EQ(of("wpe.weight").kind, ScaledWeight::Kind::kInput);
  EXPECT_EQ(of("wte.weight").kind, ScaledWeight::Kind::kOutput);  // tied: also the last product's
  EXPECT_EQ(of("h.0.mlp.c_fc.weight").kind, ScaledWeight::Kind::kHidden);
  EXPECT_EQ(of("h.0.mlp.c_proj.weight").fan_in, 4 * of("h.0.mlp.c_fc.weight").fan_in);
  EXPECT_EQ(of("h.0.mlp.c_proj.weight").depth, 4);
  EXPECT_EQ(of("h.1.attn.c_attn.weight").depth, 4);
  EXPECT_EQ(of("h.0.ln_1.weight").kind, ScaledWeight::Kind::kVector);
  EXPECT_EQ(of("wte.weight").depth, 1);
  EXPECT_EQ(of("ln_f.weight").depth, 1);
  // 1/fan-in, where unit scaling has the root.
  const auto unit = unit_scale(model.forward, unit_weights(model.weights), {}).weights;
  const double root = std::sqrt(static_cast<double>(of("wte.weight").width));
  EXPECT_NEAR(of("wte.weight").forward * root, unit.at("transformer.wte.weight").forward, 1e-3);
}

TEST(UnitScale, NamesAnOpWithoutARule) {
  Builder model;
  const Tensor h = matmul(model.x, model.matrix("w", {16, 16}));
  Scope scope(model.build, "layer0");
  model.build.output("y", relu(log(h)));
  try {
    unit_scale(model.graph, model.weights, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("unit scaling has no rule for op 'log'"));
    EXPECT_THAT(error.what(), HasSubstr("layer0"));
    EXPECT_THAT(error.what(), HasSubstr("train.scaling = \"none\""));
  }
}

TEST(UnitScale, WeightsStartWithUnitVariance) {
  using Kind = StateInit::Kind;
  std::vector<StateTensor> weights;
  for (const StateInit& init : {StateInit{Kind::kNormal, 0, 0.02}, StateInit{Kind::kTruncatedNormal, 0, 0.02},
                                StateInit{Kind::kUniform, -0.1, 0.1}, StateInit{Kind::kConstant, 1, 0}, StateInit{}})
    weights.push_back({"w", {DType::kF32, {2, 2}}, StateKind::kWeight, init, ""});
  const auto unit = unit_weights(weights);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(deviation_of(unit[static_cast<size_t>(i)].init), 1, 1e-12) << i;
  EXPECT_EQ(unit[3].init.a, 1);
  EXPECT_EQ(unit[4].init.kind, Kind::kZeros);
}

// --- narrow products ---

TEST(NarrowProducts, TakeE4M3ForwardAndE5M2ForGradients) {
  const Model model = tiny_gpt2();
  const Graph scaled = unit_scale(model.forward, unit_weights(model.weights), {}).graph;
  const Graph graph = differentiate(lower_precision(scaled, precision_from_name("f8")), "loss", names_of(model));
  verify(graph, "differentiate");
  int forward = 0, backward = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "matmul" && node.op->name != "linear") continue;
    const DType a = graph.type(node.inputs[0]).dtype, b = graph.type(node.inputs[1]).dtype;
    const bool back = node.name.find("/backward") != std::string::npos;
    EXPECT_EQ(size_of(a) + size_of(b), 2u) << node.name;
    const int gradients = (a == DType::kF8E5M2) + (b == DType::kF8E5M2);
    EXPECT_EQ(gradients, back ? 1 : 0) << node.name;
    EXPECT_TRUE(graph.type(node.outputs[0]).dtype == DType::kF16 ||
                (back && graph.type(node.outputs[0]).dtype == DType::kF32));
    (back ? backward : forward) += 1;
  }
  EXPECT_EQ(forward, 9);
  EXPECT_EQ(backward, 18);
  for (const GraphOutput& output : graph.outputs())
    EXPECT_EQ(graph.type(output.value).dtype, DType::kF32) << output.name;
}

/// Gradients through 8-bit products point where those of f32 do.
TEST(NarrowProducts, HaveTheGradientsOfWideOnesNearly) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    const Graph scaled = unit_scale(model.forward, unit_weights(model.weights), {}).graph;
    const Graph wide = differentiate(scaled, "loss", names_of(model)),
                narrow = differentiate(lower_precision(scaled, precision_from_name("f8")), "loss", names_of(model));
    const auto feeds = feeds_for(wide, 1.0);
    const auto expected = interpret(wide, reference_backend(), feeds),
               found = interpret(narrow, reference_backend(), feeds);
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string& name = narrow.outputs()[i].name;
      if (!name.starts_with("grad.") || !name.ends_with("weight") || expected[i].type.shape.rank() < 2) continue;
      double dot = 0, a = 0, b = 0;
      for (int64_t e = 0; e < found[i].elements(); ++e) {
        const double x = expected[i].get(e), y = found[i].get(e);
        dot += x * y, a += x * x, b += y * y;
      }
      const double cosine = dot / std::sqrt(a * b);
      EXPECT_GT(cosine, 0.85) << name << " of " << model.name;
      sum += cosine, ++count;
    }
    ASSERT_GT(count, 8);
    EXPECT_GT(sum / count, 0.95) << model.name;
  }
}

}  // namespace
}  // namespace ramet::tests
