// ONNX files: what they compute, and which are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_model.h"
#include "ramet/front/onnx_program.h"
#include "ramet/front/onnx_table.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/train/onnx_case.h"
#include "support/onnx_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using namespace onnx;
using front::OnnxFeed;
using front::OnnxFeeds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OnnxFeed feed(DType dtype, const Shape& shape, const std::vector<double>& values) {
  return {.tensors = {HostTensor::of(dtype, shape, values)}};
}

/// The values of the outputs, by the engine and node by node, which must agree.
std::vector<std::vector<double>> outputs(const std::string& file, const OnnxFeeds& feeds,
                                         const std::filesystem::path& folder = {}) {
  const front::OnnxModel model = front::parse_onnx(file, "test.onnx");
  const front::OnnxProgram program =
      front::import_onnx_program(model, feeds, {.folder = folder, .source = "test.onnx"});
  std::vector<std::vector<double>> results[2];
  for (const bool interpret : {false, true})
    for (const OnnxFeed& each : train::run_onnx(program, feeds, {.interpret = interpret}))
      results[interpret].push_back(each.tensors.at(0).values());
  EXPECT_EQ(results[0], results[1]);
  return results[0];
}

/// One node on inputs of f32 [2, 3] and what follows.
Graph one_node(const std::string& op, const std::vector<std::string>& names,
               const std::vector<ProtoMessage>& attributes = {}) {
  Graph graph{.nodes = {node(op, names, {"y"}, attributes)}};
  for (const std::string& name : names) graph.inputs.push_back(value(name, 1, {2, 3}));
  graph.outputs = {value("y", 1, {2, 3})};
  return graph;
}

TEST(Onnx, RunsANode) {
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})},
                           {"b", feed(DType::kF32, {2, 3}, {10, 20, 30, 40, 50, 60})}};
  EXPECT_THAT(outputs(model(one_node("Add", {"a", "b"})), feeds), ElementsAre(ElementsAre(11, 22, 33, 44, 55, 66)));
}

TEST(Onnx, SoftmaxGoesOverAllDimensionsBehindItsAxisBeforeOperatorSet13) {
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {0, 0, 0, 0, 0, 0})}};
  const auto at = [&](int64_t version) {
    return outputs(model(one_node("Softmax", {"a"}, {integer("axis", 0)}), version), feeds)[0][0];
  };
  EXPECT_FLOAT_EQ(static_cast<float>(at(11)), 1.0F / 6);
  EXPECT_FLOAT_EQ(static_cast<float>(at(13)), 0.5F);
}

TEST(Onnx, ShapesThatInputsGiveBecomeConstants) {
  Graph graph{.nodes = {node("Reshape", {"a", "shape"}, {"y"})}};
  graph.inputs = {value("a", 1, {2, 3}), value("shape", 7, {1})};
  graph.outputs = {value("y", 1, {6})};
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})},
                           {"shape", feed(DType::kI64, {1}, {6})}};
  const front::OnnxModel parsed = front::parse_onnx(model(graph), "test.onnx");
  const front::OnnxProgram program = front::import_onnx_program(parsed, feeds, {});
  EXPECT_THAT(program.specialized, ElementsAre("shape"));
  EXPECT_THAT(outputs(model(graph), feeds), ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6)));
}

TEST(Onnx, FunctionsOfTheModelTakeAttributes) {
  const ProtoMessage scaled =
      function("Scaled", {"x"}, {"y"},
               {node("Constant", {}, {"c"}, {reference("value_float", "factor", 1)}), node("Mul", {"x", "c"}, {"y"})},
               {"factor"});
  const ProtoMessage twice = function("Twice", {"x"}, {"z"},
                                      {node("Scaled", {"x"}, {"y"}, {number("factor", 2)}, "local"),
                                       node("Scaled", {"y"}, {"z"}, {reference("factor", "by", 1)}, "local")},
                                      {"by"});
  Graph graph = one_node("Twice", {"a"}, {number("by", 5)});
  graph.nodes = {node("Twice", {"a"}, {"y"}, {number("by", 5)}, "local")};
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}};
  EXPECT_THAT(outputs(model(graph, 20, {scaled, twice}), feeds), ElementsAre(ElementsAre(10, 20, 30, 40, 50, 60)));
}

/// x = x + a, `steps` times, and all values on the way.
Graph loop_graph(int64_t steps) {
  Graph body{.nodes = {node("Add", {"x", "a"}, {"next"}), node("Identity", {"next"}, {"scan"}),
                       node("Identity", {"go"}, {"on"})}};
  body.inputs = {value("i", 7, {}), value("go", 9, {}), value("x", 1, {2})};
  body.outputs = {value("on", 9, {}), value("next", 1, {2}), value("scan", 1, {2})};
  Graph graph{.nodes = {node("Loop", {"steps", "", "a"}, {"y", "all"}, {graph_attribute("body", body.message())})}};
  graph.initializers = {longs("steps", {}, {steps})};
  graph.inputs = {value("a", 1, {2})};
  graph.outputs = {value("y", 1, {2}), value("all", 1, {3, 2})};
  return graph;
}

TEST(Onnx, UnrollsLoops) {
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2}, {1, 2})}};
  EXPECT_THAT(outputs(model(loop_graph(3)), feeds), ElementsAre(ElementsAre(4, 8), ElementsAre(2, 4, 3, 6, 4, 8)));
}

TEST(Onnx, TakesTheBranchOfAKnownCondition) {
  const auto branch = [](float number) {
    return Graph{
        .nodes = {node("Constant", {}, {"c"}, {onnx::number("value_float", number)}), node("Mul", {"a", "c"}, {"r"})},
        .outputs = {value("r", 1, {2, 3})}}
        .message();
  };
  Graph graph = one_node("Identity", {"a"});
  graph.nodes = {node("If", {"which"}, {"y"},
                      {graph_attribute("then_branch", branch(2)), graph_attribute("else_branch", branch(3))})};
  graph.initializers = {tensor<uint8_t>("which", 9, {}, {0})};
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}};
  EXPECT_THAT(outputs(model(graph), feeds), ElementsAre(ElementsAre(3, 6, 9, 12, 15, 18)));
}

TEST(Onnx, ReadsExternalDataBeneathTheModel) {
  const TemporaryFolder folder;
  const std::filesystem::path inside = folder.path() / "model";
  std::filesystem::create_directories(inside / "data");
  const float numbers[] = {9, 1, 2, 3, 4, 5, 6};
  const std::string bytes(reinterpret_cast<const char*>(numbers), sizeof numbers);
  write_file_atomic(inside / "data" / "w.bin", bytes);
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {0, 0, 0, 0, 0, 0})}};
  const auto file = [](const std::vector<std::pair<std::string, std::string>>& location) {
    Graph graph = one_node("Add", {"a", "w"});
    graph.inputs.pop_back();
    graph.initializers = {external("w", {2, 3}, location)};
    return model(graph);
  };
  EXPECT_THAT(outputs(file({{"location", "data/w.bin"}, {"offset", "4"}, {"length", "24"}}), feeds, inside),
              ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6)));
}

TEST(Onnx, FollowsTheLinksOfACacheOfHuggingFace) {
  const TemporaryFolder folder;
  const auto snapshot = folder.path() / "repository" / "snapshots" / "abc";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(folder.path() / "repository" / "blobs");
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  write_file_atomic(folder.path() / "repository" / "blobs" / "123",
                    {reinterpret_cast<const char*>(numbers), sizeof numbers});
  std::filesystem::create_symlink("../../blobs/123", snapshot / "w.bin");
  Graph graph = one_node("Add", {"a", "w"});
  graph.inputs.pop_back();
  graph.initializers = {external("w", {2, 3}, {{"location", "w.bin"}})};
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {0, 0, 0, 0, 0, 0})}};
  EXPECT_THAT(outputs(model(graph), feeds, snapshot), ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6)));
}

TEST(Onnx, RunsTestsAsFiles) {
  const TemporaryFolder folder;
  const auto test = folder.path() / "test_add";
  std::filesystem::create_directories(test / "test_data_set_0");
  write_file_atomic(test / "model.onnx", model(one_node("Add", {"a", "b"})));
  const auto write = [&](const std::string& name, const std::vector<float>& values) {
    write_file_atomic(test / "test_data_set_0" / name, floats("", {2, 3}, values).data());
  };
  write("input_0.pb", {1, 2, 3, 4, 5, 6}), write("input_1.pb", {1, 1, 1, 1, 1, 1});
  write("output_0.pb", {2, 3, 4, 5, 6, 7});
  ASSERT_THAT(train::find_onnx_cases(folder.path()), ElementsAre(test));
  using Kind = train::OnnxVerdict::Kind;
  EXPECT_EQ(train::run_onnx_case(test, {}, {}).kind, Kind::kPassed);
  write("output_0.pb", {2, 3, 4, 5, 6, 8});
  const train::OnnxVerdict wrong = train::run_onnx_case(test, {}, {});
  EXPECT_EQ(wrong.kind, Kind::kFailed);
  EXPECT_THAT(wrong.message, HasSubstr("1 of 6 elements differ; element 5 is 7, not 8"));
  write_file_atomic(test / "model.onnx", model(one_node("Nonsense", {"a", "b"})));
  EXPECT_EQ(train::run_onnx_case(test, {}, {}).kind, Kind::kRefused);
}

TEST(Onnx, ChecksGradientsByFiniteDifferences) {
  using Kind = train::GradientCheck::Kind;
  const auto check = [](const std::function<Tensor(Tensor)>& function, const std::vector<double>& values) {
    ir::Graph graph("f");
    GraphBuilder build(graph);
    build.output("y", function(build.input("x", DType::kF32, {3})));
    return train::check_gradient(graph, {{"x", HostTensor::of(DType::kF32, {3}, values)}});
  };
  const auto kind = [&](const std::function<Tensor(Tensor)>& function, const std::vector<double>& values = {1, -2, 3}) {
    return check(function, values).kind;
  };
  EXPECT_EQ(kind([](Tensor x) { return ops::tanh(x); }), Kind::kChecked);
  EXPECT_EQ(kind([](Tensor x) { return ops::relu(x); }, {0, 0, 1}), Kind::kChecked) << "at a point near the bend";
  EXPECT_EQ(kind([](Tensor x) { return ops::map_unary("floor", x); }), Kind::kNone);
  const train::GradientCheck wrong =
      check([](Tensor x) { return ops::multiply(x, ops::map_unary("stop_gradient", x)); }, {1, -2, 3});
  EXPECT_EQ(wrong.kind, Kind::kWrong) << "half of the derivative is stopped";
  EXPECT_THAT(wrong.message, HasSubstr("along 'x' the slope is"));
}

TEST(Onnx, RowsThatAreHiddenHaveNoGradient) {
  // Where chooses 0 for a row of the softmax that is NaN, because all of its scores are -infinity.
  Graph graph{.nodes = {node("Add", {"a", "mask"}, {"s"}), node("Softmax", {"s"}, {"p"}), node("IsNaN", {"p"}, {"n"}),
                        node("Where", {"n", "zero", "p"}, {"y"})},
              .initializers = {floats("zero", {1}, {0}), floats("mask", {2, 1}, {0, -INFINITY})},
              .inputs = {value("a", 1, {2, 3})},
              .outputs = {value("y", 1, {2, 3})}};
  const OnnxFeeds feeds = {{"a", feed(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}};
  const std::string bytes = model(graph);
  EXPECT_EQ(outputs(bytes, feeds)[0][3], 0);
  const front::OnnxModel file = front::parse_onnx(bytes, "test.onnx");
  const front::OnnxProgram program = front::import_onnx_program(file, feeds, {.source = "test.onnx"});
  const train::GradientCheck check = train::check_gradient(program.graph, {{"a", feeds.at("a").tensors[0]}});
  EXPECT_EQ(check.kind, train::GradientCheck::Kind::kChecked) << check.message;
}

int64_t count_of(const ir::Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const ir::Node& node) { return node.op->name == op; });
}

/// A graph of x [2, 3] whose nodes become one fused op: the op stands there once, the values are those expected, and
/// the gradient agrees with finite differences.
void expect_fused(const std::string& op, std::vector<ProtoMessage> nodes, std::vector<ProtoMessage> initializers,
                  const std::function<double(const std::vector<double>& row, size_t i)>& expected) {
  const std::vector<double> x = {0.5, -1, 2, 1.5, 0.25, -3};
  Graph graph{.nodes = std::move(nodes),
              .initializers = std::move(initializers),
              .inputs = {value("x", 1, {2, 3})},
              .outputs = {value("y", 1, {2, 3})}};
  const OnnxFeeds feeds = {{"x", feed(DType::kF32, {2, 3}, x)}};
  const std::string bytes = model(graph, 17);
  const front::OnnxModel file = front::parse_onnx(bytes, "test.onnx");
  const front::OnnxProgram program = front::import_onnx_program(file, feeds, {.source = "test.onnx"});
  EXPECT_EQ(count_of(program.graph, op), 1) << op;
  for (const char* inner : {"erf", "tanh", "sqrt", "reduce_sum", "power"}) EXPECT_EQ(count_of(program.graph, inner), 0);
  const std::vector<double> found = outputs(bytes, feeds)[0];
  for (size_t row = 0; row < 2; ++row)
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(found[3 * row + i], expected({x[3 * row], x[3 * row + 1], x[3 * row + 2]}, i), 1e-5) << op;
  const train::GradientCheck check = train::check_gradient(program.graph, {{"x", feeds.at("x").tensors[0]}});
  EXPECT_EQ(check.kind, train::GradientCheck::Kind::kChecked) << op << ": " << check.message;
}

TEST(Onnx, GeluThatIsWrittenOutIsOneOp) {
  expect_fused("gelu",
               {node("Div", {"x", "root"}, {"d"}), node("Erf", {"d"}, {"e"}), node("Add", {"e", "one"}, {"a"}),
                node("Mul", {"x", "a"}, {"m"}), node("Mul", {"m", "half"}, {"y"})},
               {floats("root", {}, {1.41421356F}), floats("one", {}, {1}), floats("half", {}, {0.5})},
               [](const auto& row, size_t i) { return 0.5 * row[i] * (1 + std::erf(row[i] / std::sqrt(2.0))); });
  expect_fused("gelu_tanh",
               {node("Pow", {"x", "three"}, {"p"}), node("Mul", {"p", "cubic"}, {"c"}), node("Add", {"x", "c"}, {"s"}),
                node("Mul", {"s", "factor"}, {"f"}), node("Tanh", {"f"}, {"t"}), node("Add", {"t", "one"}, {"a"}),
                node("Mul", {"x", "half"}, {"h"}), node("Mul", {"h", "a"}, {"y"})},
               {floats("three", {}, {3}), floats("cubic", {}, {0.044715F}), floats("factor", {}, {0.79788456F}),
                floats("one", {}, {1}), floats("half", {}, {0.5})},
               [](const auto& row, size_t i) {
                 const double x = row[i];
                 return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
               });
}

TEST(Onnx, NormsThatAreWrittenOutAreOneOp) {
  const std::vector<ProtoMessage> vectors = {floats("two", {}, {2}), floats("epsilon", {}, {1e-5F}),
                                             floats("gain", {3}, {2, 3, 4}), floats("bias", {3}, {1, 0, -1})};
  const auto mean = [](const std::string& of, const std::string& to) {
    return node("ReduceMean", {of}, {to}, {ints("axes", {-1})});
  };
  expect_fused("layer_norm",
               {mean("x", "m"), node("Sub", {"x", "m"}, {"d"}), node("Pow", {"d", "two"}, {"q"}), mean("q", "v"),
                node("Add", {"v", "epsilon"}, {"e"}), node("Sqrt", {"e"}, {"r"}), node("Div", {"d", "r"}, {"n"}),
                node("Mul", {"n", "gain"}, {"g"}), node("Add", {"g", "bias"}, {"y"})},
               vectors, [](const auto& row, size_t i) {
                 const double m = (row[0] + row[1] + row[2]) / 3;
                 const double v = (std::pow(row[0] - m, 2) + std::pow(row[1] - m, 2) + std::pow(row[2] - m, 2)) / 3;
                 return (row[i] - m) / std::sqrt(v + 1e-5) * (2 + static_cast<double>(i)) + 1 - static_cast<double>(i);
               });
  expect_fused("rms_norm",
               {node("Pow", {"x", "two"}, {"q"}), mean("q", "v"), node("Add", {"v", "epsilon"}, {"e"}),
                node("Sqrt", {"e"}, {"r"}), node("Reciprocal", {"r"}, {"i"}), node("Mul", {"x", "i"}, {"n"}),
                node("Mul", {"gain", "n"}, {"y"})},
               vectors, [](const auto& row, size_t i) {
                 const double v = (row[0] * row[0] + row[1] * row[1] + row[2] * row[2]) / 3;
                 return row[i] / std::sqrt(v + 1e-5) * (2 + static_cast<double>(i));
               });
}

TEST(Onnx, BatchNormIsPartOfTheConvolutionInPrediction) {
  const std::vector<float> filter = {1, -1, 2, 0.5, 3, -2, 1, 1};
  Graph graph{
      .nodes = {node("Conv", {"x", "w", "b"}, {"c"}),
                node("BatchNormalization", {"c", "gain", "bias", "mean", "variance"}, {"y"})},
      .initializers = {floats("w", {2, 1, 2, 2}, filter), floats("b", {2}, {0.5, -1}), floats("gain", {2}, {2, 3}),
                       floats("bias", {2}, {1, -1}), floats("mean", {2}, {0.25, 4}), floats("variance", {2}, {4, 0.5})},
      .inputs = {value("x", 1, {1, 1, 3, 3})},
      .outputs = {value("y", 1, {1, 2, 2, 2})}};
  const std::string bytes = model(graph);
  const front::OnnxModel file = front::parse_onnx(bytes, "test.onnx");
  const model::Model made = front::import_onnx_model(file, "test", ".", {}).model;
  const ir::Graph& predict = made.programs.at(0).graph;
  EXPECT_EQ(count_of(predict, "convolution"), 1);
  EXPECT_EQ(count_of(predict, "normalize_channels"), 0);
  const std::vector<double> x = {1, 2, 3, -1, 0, 1, 2, -2, 4};
  const OnnxFeeds feeds = {{"x", feed(DType::kF32, {1, 1, 3, 3}, x)}};
  const std::vector<double> whole = outputs(bytes, feeds)[0];
  std::map<std::string, HostTensor> given = {{"x", feeds.at("x").tensors[0]}};
  for (const auto* states : {&made.weights, &made.states})
    for (const auto& state : *states) given[state.name] = state.init.data->tensor();
  const std::vector<double> folded = kernel::interpret(predict, kernel::cpu_backend(), given)[0].values();
  ASSERT_EQ(folded.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(folded[i], whole[i], 1e-4);
}

TEST(Onnx, CastsToFloatsThatProcessorsLack) {
  constexpr int64_t kE4M3 = 18, kE5M2 = 20, kPowers = 24;
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto cast = [&](int64_t to, const std::vector<double>& values, std::vector<ProtoMessage> attributes = {}) {
    attributes.push_back(integer("to", to));
    const int64_t count = std::ssize(values);
    const Graph graph{
        .nodes = {node("Cast", {"a"}, {"small"}, attributes), node("Cast", {"small"}, {"y"}, {integer("to", 1)})},
        .inputs = {value("a", 1, {count})},
        .outputs = {value("y", 1, {count})}};
    const std::string bytes = model(graph, 25);
    const front::OnnxModel file = front::parse_onnx(bytes, "test.onnx");
    const OnnxFeeds feeds = {{"a", feed(DType::kF32, {count}, values)}};
    return train::run_onnx(front::import_onnx_program(file, feeds, {}), feeds, {})[0].tensors[0].values();
  };
  using ::testing::IsNan;
  // Halves go to the even digit; below the normal numbers, steps are those of the least one.
  EXPECT_THAT(cast(kE4M3, {1.0625, 1.1875, -239, 0x1p-10, 0x1.8p-10, 0x1p-12, 1e6, -infinity}),
              ElementsAre(1, 1.25, -240, 0x1p-10, 0x1p-9, 0, 240, -240));
  EXPECT_THAT(cast(kE4M3, {244, 248, infinity, nan}, {integer("saturate", 0)}),
              ElementsAre(240, IsNan(), IsNan(), IsNan()));
  EXPECT_THAT(cast(kE5M2, {1.125, 1.375, 60000, 0x1p-17, 0x1p-19}), ElementsAre(1, 1.5, 57344, 0x1p-17, 0));
  EXPECT_THAT(cast(kPowers, {1, 1.1, 0.124, 0, nan}), ElementsAre(1, 2, 0.125, 0x1p-127, IsNan()));
  EXPECT_THAT(cast(kPowers, {1.1, 1.9}, {text("round_mode", "down")}), ElementsAre(1, 1));
  EXPECT_THAT(cast(kPowers, {1.1, 1.5}, {text("round_mode", "nearest")}), ElementsAre(1, 2));
}

TEST(Onnx, CountsNGramsOfIntegers) {
  const auto counts = [](const std::string& mode, int64_t skips, std::vector<ProtoMessage> more = {}) {
    more.insert(more.end(), {text("mode", mode), integer("min_gram_length", 1), integer("max_gram_length", 2),
                             integer("max_skip_count", skips), ints("ngram_counts", {0, 2}),
                             ints("ngram_indexes", {0, 1, 3}), ints("pool_int64s", {2, 3, 5, 4})});
    const Graph graph{.nodes = {node("TfIdfVectorizer", {"a"}, {"y"}, more)},
                      .inputs = {value("a", 7, {2, 4})},
                      .outputs = {value("y", 1, {2, 4})}};
    return outputs(model(graph), {{"a", feed(DType::kI64, {2, 4}, {2, 5, 4, 2, 5, 3, 4, 9})}})[0];
  };
  EXPECT_THAT(counts("TF", 0), ElementsAre(2, 0, 0, 1, 0, 1, 0, 0));
  EXPECT_THAT(counts("TF", 1), ElementsAre(2, 0, 0, 1, 0, 1, 0, 1)) << "5 3 4 has the n-gram with one item between";
  EXPECT_THAT(counts("IDF", 0), ElementsAre(1, 0, 0, 1, 0, 1, 0, 0));
}

TEST(Onnx, TheTableHasNoOperatorTwice) { EXPECT_GT(front::onnx_operator_names().size(), 180U); }

}  // namespace
}  // namespace ramet::tests
