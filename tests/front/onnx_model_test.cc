// ONNX files as models: dimensions, weights, losses, and weights back into the file.
#include "ramet/front/onnx_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/frozen_norms.h"
#include "ramet/front/onnx_export.h"
#include "ramet/front/onnx_update.h"
#include "ramet/front/open_model.h"
#include "ramet/kernel/interpret.h"
#include "ramet/model/model_file.h"
#include "support/onnx_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using namespace onnx;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// relu(x w1 + b1) w2: x [batch, 3] -> logits [batch, 2].
Graph network() {
  return {.nodes = {node("Gemm", {"x", "layers.0.weight", "layers.0.bias"}, {"h"}, {integer("transB", 1)}, "",
                         "/layers.0/Gemm"),
                    node("Relu", {"h"}, {"r"}), node("Mul", {"r", "two"}, {"s"}),
                    node("MatMul", {"s", "layers.1.weight"}, {"logits"}, {}, "", "/layers.1/MatMul")},
          .initializers = {floats("layers.0.weight", {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                           floats("layers.0.bias", {4}, {0.5F, -0.5F, 1, 2}), floats("two", {}, {2}),
                           floats("layers.1.weight", {4, 2}, {1, 0, 0, 1, 1, 1, 0, 0})},
          .inputs = {value("x", 1, {-1, 3})},
          .outputs = {value("logits", 1, {-1, 2})}};
}

front::ImportedModel import(const Graph& graph, const front::OnnxModelOptions& options) {
  const std::string file = model(graph);
  const front::OnnxModel parsed = front::parse_onnx(file, "net.onnx");
  return front::import_onnx_model(parsed, "net", {}, options);
}

std::vector<std::string> names(const std::vector<StateTensor>& states) {
  std::vector<std::string> made;
  for (const StateTensor& state : states) made.push_back(state.name);
  return made;
}

std::string refusal(const Graph& graph, const front::OnnxModelOptions& options) {
  try {
    import(graph, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OnnxModel, PredictsWithoutALoss) {
  const front::ImportedModel made = import(network(), {.bind = {{"batch", 5}}});
  EXPECT_EQ(made.micro_batch, 5);
  EXPECT_TRUE(made.model.metrics.empty());
  ASSERT_EQ(made.model.programs.size(), 1U);
  EXPECT_EQ(made.model.programs[0].name, "predict");
  EXPECT_THAT(names(made.model.weights), ElementsAre("layers.0.weight", "layers.0.bias", "layers.1.weight"));
  EXPECT_EQ(made.model.inputs.at(0).axes.at(0), "batch");
}

TEST(OnnxModel, ListsDimensionsWithoutAnExtent) {
  EXPECT_THAT(refusal(network(), {}), HasSubstr("'batch', dimension 0 of 'x'"));
  EXPECT_EQ(front::parse_onnx_bind("batch=16,sequence=128").at("sequence"), 128);
  EXPECT_THROW(front::parse_onnx_bind("batch"), Error);
  EXPECT_THROW(front::parse_onnx_bind("batch=x"), Error);
}

TEST(OnnxModel, TakesALossByName) {
  const front::ImportedModel made = import(network(), {.bind = {{"batch", 2}}, .loss = "cross_entropy:logits:labels"});
  ASSERT_EQ(made.model.inputs.size(), 2U);
  EXPECT_EQ(made.model.inputs[1].name, "labels");
  EXPECT_EQ(made.model.inputs[1].type.text(), "i64[2]");
  EXPECT_EQ(made.model.metrics.at(0).name, "loss");
  std::map<std::string, HostTensor> feeds = {{"x", HostTensor::of(DType::kF32, {2, 3}, {1, 0, 0, -1, 0, 0})},
                                             {"labels", HostTensor::of(DType::kI64, {2}, {0, 1})}};
  for (const StateTensor& weight : made.model.weights) feeds[weight.name] = weight.init.data->tensor();
  const std::vector<HostTensor> results = interpret(made.model.forward, reference_backend(), feeds);
  // Row 0: h = 1.5, 3.5, 8, 12; logits 2 (1.5 + 8), 2 (3.5 + 8). Row 1: all rows of w1 are negative: 0.
  const double first = std::log(std::exp(19.0 - 23) + 1) + 4, second = std::log(2.0);
  EXPECT_NEAR(results.at(0).get(0), (first + second) / 2, 1e-5);
}

TEST(OnnxModel, NamesOfLogitsMayHaveColons) {
  Graph graph = network();
  graph.nodes.push_back(node("Identity", {"logits"}, {"Identity:0"}));
  graph.outputs = {value("Identity:0", 1, {-1, 2})};
  const auto made = import(graph, {.bind = {{"batch", 2}}, .loss = "cross_entropy:Identity:0:labels"});
  EXPECT_EQ(made.model.inputs.at(1).name, "labels");
  EXPECT_THAT(refusal(graph, {.bind = {{"batch", 2}}, .loss = "cross_entropy:labels"}), HasSubstr("no known form"));
}

/// Three steps of h = h w + b, with the weights handed from step to step, as TensorFlow's loops have them.
TEST(OnnxModel, WeightsOfLoopsAreTrained) {
  const Graph body{.nodes = {node("MatMul", {"h", "w.in"}, {"p"}), node("Add", {"p", "b"}, {"h.out"}),
                             node("Identity", {"w.in"}, {"w.out"}), node("Identity", {"go"}, {"go.out"})},
                   .inputs = {value("i", 7, {}), value("go", 9, {}), value("h", 1, {2, 2}), value("w.in", 1, {2, 2})},
                   .outputs = {value("go.out", 9, {}), value("h.out", 1, {2, 2}), value("w.out", 1, {2, 2})}};
  const Graph graph{.nodes = {node("Add", {"x", "x"}, {"y"}),
                              node("Loop", {"steps", "", "first", "w"}, {"last", "w.last"},
                                   {graph_attribute("body", body.message())}),
                              node("MatMul", {"y", "last"}, {"logits"})},
                    .initializers = {longs("steps", {}, {3}), floats("first", {2, 2}, {1, 0, 0, 1}),
                                     floats("w", {2, 2}, {1, 2, 3, 4}), floats("b", {2}, {1, 2})},
                    .inputs = {value("x", 1, {2, 2})},
                    .outputs = {value("logits", 1, {2, 2})}};
  // What the steps change is where they begin, not a weight.
  EXPECT_THAT(names(import(graph, {.loss = "cross_entropy:logits:labels"}).model.weights), ElementsAre("w", "b"));
}

/// Weights of a network whose logits go through a batch norm of these nodes, from "logits" to "normed".
std::vector<std::string> weights_beside_norm(const std::vector<ProtoMessage>& nodes) {
  Graph graph = network();
  graph.nodes.push_back(node("Add", {"variance", "epsilon"}, {"sum"}));
  graph.nodes.push_back(node("Sqrt", {"sum"}, {"deviation"}));
  graph.nodes.insert(graph.nodes.end(), nodes.begin(), nodes.end());
  for (const std::string name : {"mean", "variance", "gain", "bias"})
    graph.initializers.push_back(floats(name, {2}, {1, 2}));
  graph.initializers.push_back(floats("epsilon", {}, {1}));
  graph.outputs = {value("normed", 1, {-1, 2})};
  return names(import(graph, {.bind = {{"batch", 2}}, .loss = "cross_entropy:normed:labels"}).model.weights);
}

TEST(OnnxModel, StatisticsOfNormsThatAreWrittenOutAreNoWeights) {
  const auto expected = UnorderedElementsAre("layers.0.weight", "layers.0.bias", "layers.1.weight", "gain", "bias");
  EXPECT_THAT(weights_beside_norm(
                  {node("Sub", {"logits", "mean"}, {"from.mean"}), node("Div", {"from.mean", "deviation"}, {"ratio"}),
                   node("Mul", {"ratio", "gain"}, {"scaled"}), node("Add", {"scaled", "bias"}, {"normed"})}),
              expected);
  // The deviation and the gain as one factor.
  EXPECT_THAT(weights_beside_norm(
                  {node("Sub", {"logits", "mean"}, {"from.mean"}), node("Reciprocal", {"deviation"}, {"inverse"}),
                   node("Mul", {"inverse", "gain"}, {"factor"}), node("Mul", {"factor", "from.mean"}, {"scaled"}),
                   node("Add", {"scaled", "bias"}, {"normed"})}),
              expected);
  // The mean goes into the bias.
  EXPECT_THAT(weights_beside_norm(
                  {node("Reciprocal", {"deviation"}, {"inverse"}), node("Mul", {"inverse", "gain"}, {"factor"}),
                   node("Mul", {"mean", "factor"}, {"shift"}), node("Sub", {"bias", "shift"}, {"offset"}),
                   node("Mul", {"logits", "factor"}, {"scaled"}), node("Add", {"scaled", "offset"}, {"normed"})}),
              expected);
  // What is taken away and not divided is a weight.
  EXPECT_THAT(weights_beside_norm(
                  {node("Div", {"logits", "deviation"}, {"ratio"}), node("Mul", {"ratio", "gain"}, {"scaled"}),
                   node("Sub", {"scaled", "mean"}, {"from.mean"}), node("Add", {"from.mean", "bias"}, {"normed"})}),
              UnorderedElementsAre("layers.0.weight", "layers.0.bias", "layers.1.weight", "gain", "bias", "mean"));
}

/// Sums of windows of 2 x 2 in the middle two of four dimensions, as JAX's exporter writes them.
TEST(OnnxModel, ConvolutionsOfManyDimensionsWithOneTapAreTaken) {
  const Graph graph{.nodes = {node("Conv", {"x", "w"}, {"y"}, {ints("strides", {1, 2, 2, 1})})},
                    .initializers = {floats("w", {1, 1, 1, 2, 2, 1}, {1, 1, 1, 1})},
                    .inputs = {value("x", 1, {1, 1, 2, 4, 2, 3})},
                    .outputs = {value("y", 1, {1, 1, 2, 2, 1, 3})}};
  HostTensor x(TensorType{DType::kF32, {1, 1, 2, 4, 2, 3}});
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i * i % 17));
  const front::ImportedModel made = import(graph, {});
  std::map<std::string, HostTensor> feeds{{"x", x}};
  for (const StateTensor& weight : made.model.weights) feeds[weight.name] = weight.init.data->tensor();
  const std::vector<HostTensor> results = interpret(made.model.programs.at(0).graph, reference_backend(), feeds);
  ASSERT_EQ(results.at(0).type.shape, (Shape{1, 1, 2, 2, 1, 3}));
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 2; ++j) sum += x.get(((a * 4 + 2 * b + i) * 2 + j) * 3 + c);
        EXPECT_EQ(results[0].get((a * 2 + b) * 3 + c), sum) << a << ", " << b << ", " << c;
      }
}

TEST(OnnxModel, PatternsChooseWeights) {
  const std::string loss = "cross_entropy:logits:labels";
  const auto weights = [&](std::vector<std::string> train, std::vector<std::string> freeze) {
    return names(
        import(network(), {.bind = {{"batch", 2}}, .loss = loss, .train = train, .freeze = freeze}).model.weights);
  };
  EXPECT_THAT(weights({}, {"layers.0.*"}), ElementsAre("layers.1.weight"));
  EXPECT_THAT(weights({"*.bias"}, {}), ElementsAre("layers.0.bias"));
  EXPECT_THAT(refusal(network(), {.bind = {{"batch", 2}}, .loss = loss, .freeze = {"*"}}),
              HasSubstr("depends on no initializer"));
  EXPECT_THAT(refusal(network(), {.bind = {{"batch", 2}}, .loss = "logits"}), HasSubstr("one number"));
}

TEST(OnnxModel, NumberedScopesAreParts) {
  const front::ImportedModel made = import(network(), {.bind = {{"batch", 2}}});
  std::set<std::string> parts;
  for (const Node& node : made.model.forward.nodes()) parts.insert(text_of(node.part));
  EXPECT_TRUE(parts.count("layers 0") && parts.count("layers 1")) << testing::PrintToString(parts);
}

TEST(OnnxModel, OptionsStandBehindTheName) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "net.onnx", model(network()));
  const std::string name = (folder / "net.onnx").string() + "?batch=3&loss=cross_entropy:logits:labels&freeze=*.bias";
  EXPECT_TRUE(front::is_model_file_name(name));
  EXPECT_EQ(names(front::open_model(name).first.weights).size(), 2U);
  front::keep_model(name, folder / "kept.ramet");
  EXPECT_EQ(front::open_model(folder / "kept.ramet").first.identity(), front::open_model(name).first.identity());
}

TEST(OnnxModel, WeightsGoBackInPlace) {
  const TemporaryFolder folder;
  const std::string before = model(network());
  write_file_atomic(folder / "net.onnx", before);
  const HostTensor fresh = HostTensor::of(DType::kF32, {4, 2}, {9, 8, 7, 6, 5, 4, 3, 2});
  EXPECT_EQ(front::update_onnx_weights(folder / "net.onnx", folder / "new.onnx", {{"layers.1.weight", fresh}}), 1);
  const std::string after = read_file(folder / "new.onnx");
  ASSERT_EQ(after.size(), before.size());
  const std::string bytes(reinterpret_cast<const char*>(fresh.data.data()), fresh.data.size());
  const size_t at = after.find(bytes);
  ASSERT_NE(at, std::string::npos);
  std::string undone = after;
  undone.replace(at, bytes.size(), before.substr(at, bytes.size()));
  EXPECT_EQ(undone, before) << "no other byte changes";
  EXPECT_THROW(front::update_onnx_weights(folder / "net.onnx", folder / "new.onnx",
                                          {{"layers.1.weight", HostTensor::of(DType::kF32, {1}, {1})}}),
               Error);
}

TEST(OnnxModel, WeightsGoBackIntoExternalData) {
  const TemporaryFolder folder;
  const std::filesystem::path from = folder / "old", to = folder / "new";
  std::filesystem::create_directories(from / "data");
  // A file of data with other bytes before, between and behind the numbers.
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::string weight(reinterpret_cast<const char*>(numbers.data()), 48);
  const std::string data = "before__" + weight + "between_" + weight.substr(0, 32) + "behind";
  write_file_atomic(from / "data" / "w.bin", data);
  Graph graph = network();
  graph.initializers[0] =
      external("layers.0.weight", {4, 3}, {{"location", "data/w.bin"}, {"offset", "8"}, {"length", "48"}});
  graph.initializers[3] =
      external("layers.1.weight", {4, 2}, {{"location", "data/w.bin"}, {"offset", "64"}, {"length", "32"}});
  const std::string before = model(graph);
  write_file_atomic(from / "net.onnx", before);
  const HostTensor fresh = HostTensor::of(DType::kF32, {4, 2}, {9, 8, 7, 6, 5, 4, 3, 2});
  EXPECT_THROW(front::update_onnx_weights(from / "net.onnx", from / "new.onnx", {{"layers.1.weight", fresh}}), Error);
  EXPECT_EQ(front::update_onnx_weights(from / "net.onnx", to / "net.onnx", {{"layers.1.weight", fresh}}), 1);
  EXPECT_EQ(read_file(to / "net.onnx"), before);
  EXPECT_EQ(read_file(from / "data" / "w.bin"), data) << "the old file stays";
  std::string expected = data;
  expected.replace(64, 32, std::string(reinterpret_cast<const char*>(fresh.data.data()), 32));
  EXPECT_EQ(read_file(to / "data" / "w.bin"), expected);
  const model::Model again = front::import_onnx_model(to / "net.onnx", {.bind = {{"batch", 2}}}).model;
  for (const StateTensor& state : again.weights)
    if (state.name == "layers.1.weight") {
      EXPECT_EQ(state.init.data->tensor().values(), fresh.values());
    }
}

TEST(OnnxModel, PredictionsAreWrittenAndReadBack) {
  const model::Model first = import(network(), {.bind = {{"batch", 2}}}).model;
  std::map<std::string, HostTensor> states;
  for (const StateTensor& weight : first.weights) states[weight.name] = weight.init.data->tensor();
  const TemporaryFolder folder;
  front::write_onnx(folder / "net.onnx", first.programs.at(0).graph, "net",
                    [&](const std::string& name) { return states.at(name); });
  const std::string file = read_file(folder / "net.onnx");
  const front::OnnxModel parsed = front::parse_onnx(file, "written.onnx");
  const model::Model second = front::import_onnx_model(parsed, "written", {}, {}).model;
  std::map<std::string, HostTensor> feeds = states;
  feeds["x"] = HostTensor::of(DType::kF32, {2, 3}, {1, -2, 3, 0.5, 0, -1});
  const auto results = [&](const model::Model& model) {
    return interpret(model.programs.at(0).graph, reference_backend(), feeds).at(0).values();
  };
  EXPECT_EQ(results(first), results(second));
}

/// A convolution, a batch norm in training or not, and the mean of its result as the loss.
Graph with_batch_norm(bool trains) {
  std::vector<std::string> outputs = {"n"};
  if (trains) outputs.insert(outputs.end(), {"new_mean", "new_variance"});
  return {.nodes = {node("Conv", {"x", "filter"}, {"c"}),
                    node("BatchNormalization", {"c", "gain", "bias", "mean", "variance"}, outputs,
                         {integer("training_mode", trains ? 1 : 0)}),
                    node("ReduceMean", {"n"}, {"loss"}, {integer("keepdims", 0)})},
          .initializers = {floats("filter", {2, 1, 1, 1}, {1, 2}), floats("gain", {2}, {1, 1}),
                           floats("bias", {2}, {0, 1}), floats("mean", {2}, {0.5, 0}), floats("variance", {2}, {1, 2})},
          .inputs = {value("x", 1, {2, 1, 2, 2})},
          .outputs = {value("loss", 1, {})}};
}

TEST(OnnxModel, FrozenBatchNormsAreSaid) {
  EXPECT_EQ(front::frozen_norms_remark(import(with_batch_norm(false), {}).model),
            "1 batch norm keeps the mean and variance of the file while the model trains: the file has no training "
            "statistics (in ONNX, training_mode = 1)");
  EXPECT_EQ(front::frozen_norms_remark(import(with_batch_norm(true), {}).model), "");
  EXPECT_EQ(front::frozen_norms_remark(import(network(), {.bind = {{"batch", 2}}}).model), "") << "no loss";
}

}  // namespace
}  // namespace ramet::tests
