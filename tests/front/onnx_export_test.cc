// Models as ONNX files: what is read back computes the same bits. tests/peers/onnx_write_test.py compares onnxruntime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_export.h"
#include "ramet/front/onnx_model.h"
#include "ramet/kernel/interpret.h"
#include "ramet/model/decoding.h"
#include "ramet/model/lstm.h"
#include "ramet/model/presets.h"
#include "ramet/model/sparsify.h"
#include "ramet/model/vision.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_random.h"
#include "ramet/ops/build_recurrent.h"
#include "support/onnx_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Values = std::map<std::string, HostTensor>;

/// Numbers that depend on the name and the place alone; indices are below `high`.
HostTensor numbers(const std::string& name, const TensorType& type, int64_t high) {
  HostTensor made(type);
  uint64_t state = std::hash<std::string>{}(name) | 1;
  for (int64_t i = 0; i < made.elements(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = static_cast<int64_t>(state >> 40);
    if (is_floating(type.dtype))
      made.set(i, static_cast<double>(draw % 2001) / 4000 - 0.2);
    else
      store_integer(made.data.data(), type.dtype, i, draw % high);
  }
  return made;
}

/// The results of a graph by name.
Values results(const Graph& graph, const Values& feeds) {
  std::vector<HostTensor> made = interpret(graph, cpu_backend(), feeds);
  Values named;
  for (size_t i = 0; i < made.size(); ++i) {
    const GraphOutput& output = graph.outputs()[i];
    named[output.name + (output.role == OutputRole::kState ? front::kOnnxNextState : "")] = std::move(made[i]);
  }
  return named;
}

/// Writes a graph, reads it back, and expects the same bits of both.
void expect_same_bits(const Graph& graph, int64_t high, const front::OnnxWriteOptions& options = {}) {
  Values feeds;
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    feeds[value.name] = numbers(value.name, value.type, high);
    // Variances are not negative.
    if (value.name.ends_with("running_var"))
      for (int64_t i = 0; i < feeds[value.name].elements(); ++i)
        feeds[value.name].set(i, std::abs(feeds[value.name].get(i)) + 0.1);
  }
  const TemporaryFolder folder;
  front::write_onnx(
      folder / "model.onnx", graph, "model", [&](const std::string& name) { return feeds.at(name); }, options);
  const model::Model read = front::import_onnx_model(folder / "model.onnx", {}).model;
  for (const std::vector<StateTensor>* list : {&read.weights, &read.states})
    for (const StateTensor& state : *list) feeds[state.name] = state.init.data->tensor();
  const Graph& again = read.programs.empty() ? read.evaluate : read.programs.at(0).graph;
  Values expected = results(graph, feeds), found = results(again, feeds);
  if (!read.programs.empty() && !read.metrics.empty())
    for (auto& [name, tensor] : results(read.evaluate, feeds)) found[name] = std::move(tensor);
  for (const auto& [name, tensor] : expected) {
    if (!found.count(name)) {  // a loss is the only number of such a model
      EXPECT_EQ(tensor.type.shape.rank(), 0) << name;
      continue;
    }
    EXPECT_EQ(found.at(name).type, tensor.type) << name;
    EXPECT_TRUE(found.at(name).data == tensor.data) << name << " of " << graph.name();
  }
}

model::BertConfig small_bert() {
  model::BertConfig config;
  config.layers = 2, config.hidden = 16, config.heads = 2, config.intermediate = 24, config.vocabulary = 30;
  config.positions = 8;
  return config;
}
constexpr model::BatchShape kBatch{.micro_batch = 2, .sequence = 6, .predictions = 2};

TEST(OnnxExport, Bert) {
  const Model model = model::build_bert(small_bert(), kBatch);
  const Graph logits = front::predictions_of(model, "");
  EXPECT_EQ(logits.outputs().size(), 2U) << "logits of words and of the next sentence";
  expect_same_bits(logits, 2);
  expect_same_bits(model.evaluate, 2);
}

TEST(OnnxExport, PackedBert) {
  model::BatchShape batch = kBatch;
  batch.depth = 2;
  expect_same_bits(front::predictions_of(model::build_bert(small_bert(), batch), ""), 2);
}

TEST(OnnxExport, Gpt2) {
  model::Gpt2Config config;
  config.layers = 2, config.hidden = 16, config.heads = 2, config.vocabulary = 30, config.positions = 8;
  expect_same_bits(front::predictions_of(model::build_gpt2(config, kBatch), ""), 30);
}

TEST(OnnxExport, Images) {
  const model::ImageTask task{.micro_batch = 2, .height = 16, .width = 16, .classes = 3};
  using Family = model::VisionFamily;
  for (const auto& [family, blocks] :
       std::vector<std::pair<Family, std::vector<int64_t>>>{{Family::kResNet, {1, 1, 1, 1}},
                                                            {Family::kVit, {2}},
                                                            {Family::kConvNext, {1, 1, 1, 1}},
                                                            {Family::kUNet, {2}}}) {
    model::VisionConfig config;
    config.family = family, config.blocks = blocks, config.width = 8, config.head_size = 4, config.patch = 4;
    config.small_stem = true;
    const Model model = model::build_vision(config, task);
    expect_same_bits(front::predictions_of(model, ""), 255);
  }
}

/// A graph with these inputs.
template <typename Build>
Graph graph_of(Build build) {
  Graph graph("graph");
  GraphBuilder builder(graph);
  builder.output("y", build(builder));
  return graph;
}

TEST(OnnxExport, EdgesOfGraphs) {
  // Two rows with the edges 0, 1 and 2; the last place holds none.
  const auto lists = [](GraphBuilder& build) {
    const auto list = [&](std::vector<double> values) {
      return ops::constant(build, TensorData(HostTensor::of(DType::kI32, {1, std::ssize(values)}, values)));
    };
    return ops::NeighborLists{.source = list({1, 0, 1, 0}),
                              .ptr = list({0, 2, 3}),
                              .target = list({0, 0, 1, 0}),
                              .by_source = list({1, 0, 2, 0}),
                              .source_ptr = list({0, 1, 3})};
  };
  const auto input = [](GraphBuilder& build, const std::string& name, const Shape& shape) {
    return build.input(name, DType::kF32, shape);
  };
  for (const bool transposed : {false, true})
    expect_same_bits(graph_of([&](GraphBuilder& build) {
                       return ops::neighbor_sum(input(build, "x", {1, 2, 4}), lists(build),
                                                input(build, "w", {1, 4, 2}), transposed);
                     }),
                     2);
  expect_same_bits(graph_of([&](GraphBuilder& build) {
                     return ops::neighbor_dot(input(build, "a", {1, 2, 4}), input(build, "b", {1, 2, 4}), lists(build),
                                              2);
                   }),
                   2);
  const Shape rows{1, 3, 2, 4}, places{1, 4, 4}, weights{1, 4, 3};
  for (const auto& [op, first, second] : {std::tuple(&ops::segment_dot, rows, places),
                                          {&ops::segment_combine, places, weights},
                                          {&ops::segment_blend, rows, weights}})
    expect_same_bits(graph_of([&](GraphBuilder& build) {
                       return op(input(build, "a", first), input(build, "b", second), lists(build).ptr);
                     }),
                     2);
  for (const auto& op : {ops::segment_sum, ops::segment_mean, ops::segment_max, ops::segment_min, ops::segment_softmax})
    expect_same_bits(graph_of([&](GraphBuilder& build) { return op(input(build, "x", {1, 4, 3}), lists(build).ptr); }),
                     2);
}

TEST(OnnxExport, AGruStepWithTheWeightOfOneGate) {
  constexpr int64_t kHidden = 5;
  for (const bool biased : {false, true})
    expect_same_bits(graph_of([&](GraphBuilder& build) {
                       const auto input = [&](const std::string& name, const Shape& shape) {
                         return build.input(name, DType::kF32, shape);
                       };
                       return ops::gru_steps(input("x", {1, 4, 3 * kHidden}), input("weight", {kHidden, kHidden}),
                                             input("state", {4, kHidden}), biased ? input("bias", {kHidden}) : Tensor(),
                                             {.only_n = true})
                           .output;
                     }),
                     2);
}

TEST(OnnxExport, CachesAreInputsAndOutputs) {
  model::Gpt2Config config;
  config.layers = 2, config.hidden = 16, config.heads = 2, config.vocabulary = 30, config.positions = 8;
  Model model = model::build_gpt2(config, kBatch);
  model::add_gpt2_decoding(config, {.samples = 2, .room = 8, .vocabulary = 30, .widths = {3}}, model);
  const Graph& decode = model.programs.back().graph;
  expect_same_bits(decode, 3);
  const TemporaryFolder folder;
  front::write_onnx(folder / "model.onnx", decode, "model",
                    [&](const std::string& name) { return numbers(name, decode.type(decode.find_input(name)), 2); });
  const model::Model read = front::import_onnx_model(folder / "model.onnx", {}).model;
  std::set<std::string> inputs, results;
  for (const InputSpec& input : read.inputs) inputs.insert(input.name);
  for (const GraphOutput& output : read.programs.at(0).graph.outputs()) results.insert(output.name);
  for (const std::string cache : {"transformer.h.0.attn.keys", "transformer.h.1.attn.values"}) {
    EXPECT_TRUE(inputs.count(cache)) << testing::PrintToString(inputs);
    EXPECT_TRUE(results.count(cache + ".next")) << testing::PrintToString(results);
  }
}

TEST(OnnxExport, TablesOfNodesAreReadBack) {
  // Two clusters of two rows; the far row of each is a row of the other one.
  const auto table = [](std::vector<double> values) {
    return TensorData(HostTensor::of(DType::kI32, {2, std::ssize(values) / 2}, values));
  };
  expect_same_bits(graph_of([&](GraphBuilder& build) {
                     const auto list = [&](std::vector<double> values) { return ops::constant(build, table(values)); };
                     const ops::HaloGraph halo{.index = list({1, 2, 0, 2, 0, 1}),
                                               .ptr = list({0, 2, 3, 0, 1, 3}),
                                               .back_index = list({1, 2, 0, 2, 0, 1}),
                                               .back_ptr = list({0, 2, 3, 0, 1, 3}),
                                               .rows = table({2, 1}),
                                               .back_rows = table({3, 0}),
                                               .edges = table({0, 1, 2, 3, 4, 5}),
                                               .back_edges = table({0, 1, 2, 3, 4, 5})};
                     return ops::halo_sum(build.input("x", DType::kF32, {2, 2, 4}), halo,
                                          build.input("w", DType::kF32, {2, 3}));
                   }),
                   2);
}

TEST(OnnxExport, SparseWeightsKeepTheirBlocks) {
  const Model model = model::sparsify(
      model::build_bert(small_bert(), kBatch),
      {.weights = {"bert.encoder.*.dense.weight"}, .density = 0.5, .block_rows = 4, .block_columns = 4});
  const Graph logits = front::predictions_of(model, "");
  const TemporaryFolder folder;
  Values feeds;
  for (const GraphInput& input : logits.inputs()) {
    const Value& value = logits.value(input.value);
    feeds[value.name] = numbers(value.name, value.type, 2);
  }
  for (const StateTensor& state : model.states)
    if (state.init.data) feeds[state.name] = state.init.data->tensor();
  front::write_onnx(folder / "model.onnx", logits, "model", [&](const std::string& name) { return feeds.at(name); });
  const model::Model read = front::import_onnx_model(folder / "model.onnx", {}).model;
  const Graph& again = read.programs.at(0).graph;
  EXPECT_TRUE(std::any_of(again.nodes().begin(), again.nodes().end(),
                          [](const Node& node) { return node.op->name == "sparse_matmul"; }));
  for (const std::vector<StateTensor>* list : {&read.weights, &read.states})
    for (const StateTensor& state : *list) feeds[state.name] = state.init.data->tensor();
  const Values expected = results(logits, feeds), found = results(again, feeds);
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(found.at(name).data == tensor.data) << name;
}

TEST(OnnxExport, NumbersStandInAnotherFileOnRequest) {
  const Model model = model::build_bert(small_bert(), kBatch);
  expect_same_bits(front::predictions_of(model, ""), 2, {.external = true});
}

TEST(OnnxExport, PartsAreReadBack) {
  const Model model = model::build_bert(small_bert(), kBatch);
  const TemporaryFolder folder;
  front::write_onnx(folder / "model.onnx", front::predictions_of(model, ""), "model", [&](const std::string& name) {
    for (const StateTensor& state : model.weights)
      if (state.name == name) return numbers(name, state.type, 2);
    return HostTensor();
  });
  std::set<std::string> parts;
  const model::Model read = front::import_onnx_model(folder / "model.onnx", {}).model;
  for (const Node& node : read.programs.at(0).graph.nodes()) parts.insert(text_of(node.part));
  EXPECT_TRUE(parts.count("layer 0") && parts.count("layer 1")) << testing::PrintToString(parts);
}

TEST(OnnxExport, OpsOfAFileAreChecked) {
  const auto message = [](const std::string& op) {
    onnx::Graph graph{.nodes = {onnx::node("f", {"x"}, {"y"}, {onnx::text("ramet", op)}, "ai.ramet")},
                      .inputs = {onnx::value("x", 1, {2, 3})},
                      .outputs = {onnx::value("y", 1, {2, 3})}};
    const std::string file = onnx::model(graph);
    try {
      const front::OnnxModel parsed = front::parse_onnx(file, "net.onnx");
      front::import_onnx_model(parsed, "net", {}, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("silu {}"), "no error");
  EXPECT_THAT(message("dropout {rate=0.5}"), HasSubstr("the op is not one that files have; found 'dropout'"));
  EXPECT_THAT(message("neighbor_sum {}"), HasSubstr("wrong number of inputs; found 1; expected 6 to 7"));
  for (const char* text : {"", "silu {", "reshape {shape=[-1]}", "reshape {shape=[9223372036854775807, 4]}",
                           "top_k {k=5}", "take {axes=[7]}", "lstm {}", "resample {sizes=[1]}", "max_pool {taps=[0]}",
                           "cross_entropy {}", "iota {axis=9, dtype=f32, shape=[2]}", "full {shape=[2]}"})
    EXPECT_NE(message(text), "no error") << text;
}

TEST(OnnxExport, RefusesByName) {
  const Graph graph = graph_of([](GraphBuilder& build) {
    const Tensor counter = build.input("counter", DType::kI64, {2}, InputRole::kScalar);
    const Tensor x = build.input("x", DType::kF32, {2, 3});
    return build.op("dropout", {ops::relu(x), counter}, {{"rate", 0.5}, {"seed", int64_t{1}}, {"tensor", int64_t{2}}});
  });
  const TemporaryFolder folder;
  const auto message = [&](const Graph& of, const front::OnnxWriteOptions& options) {
    try {
      front::write_onnx(folder / "model.onnx", of, "net", [](const std::string&) { return HostTensor(); }, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(graph, {}),
              HasSubstr("model 'net': the model has ops that are not written as ONNX; found dropout"));
  EXPECT_THAT(message(graph, {.opset = 19}), HasSubstr("found 19; expected 20 to 28"));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.onnx"));
  const Model model = model::build_bert(small_bert(), kBatch);
  EXPECT_THROW(front::predictions_of(model, "nonsense"), Error);
}

}  // namespace
}  // namespace ramet::tests
