#include "ramet/front/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/front/step_outputs.h"
#include "ramet/front/torch_json.h"
#include "ramet/kernel/interpret.h"
#include "ramet/model/step_outputs.h"
#include "ramet/transform/filled_state.h"

namespace ramet::tests {
namespace {

using front::ImportedModel;
using front::ModuleTensor;
using front::TracedModule;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string sample(const std::string& name) {
  return read_file(std::string(RAMET_SOURCE_DIR) + "/tests/samples/front/" + name);
}

front::TracedProgram program(const std::string& name) {
  return front::read_torch_program(sample(name + ".json"), name);
}

/// Numbers of a tensor that differ from each other: i/10 + first.
HostTensor numbers(const Shape& shape, double first) {
  HostTensor made({DType::kF32, shape});
  for (int64_t i = 0; i < made.elements(); ++i) made.set(i, first + 0.1 * static_cast<double>(i % 7));
  return made;
}

void add(TracedModule& module, const std::string& name, HostTensor data, bool trained = true,
         const std::string& storage = "") {
  module.tensors.push_back({name, TensorData(std::move(data)), storage, trained});
}

/// The module of tests/samples/front/make_samples.py with other numbers.
TracedModule mlp() {
  TracedModule module;
  module.name = "mlp";
  module.training = program("mlp_training");
  module.evaluation = program("mlp_evaluation");
  module.outputs = {"loss", "logits"};
  add(module, "frozen", numbers({4}, 1), false);
  add(module, "unused", numbers({4}, 1));
  add(module, "first.weight", numbers({4, 3}, -0.2));
  add(module, "first.bias", numbers({4}, 0.1));
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    add(module, name + ".weight", numbers({4, 4}, layer == 1 ? 0.2 : -0.3), true, layer == 1 ? "" : "shared");
    add(module, name + ".bias", numbers({4}, 0.05));
  }
  HostTensor steps({DType::kI64, {}});
  steps.set(0, 5);
  add(module, "steps", std::move(steps));
  for (const char* name : {"running", "latest", "memory"}) add(module, name, numbers({4}, 0.5));
  add(module, "offsets", numbers({4}, 0));
  return module;
}

const StateTensor* find(const std::vector<StateTensor>& states, const std::string& name) {
  for (const StateTensor& state : states)
    if (state.name == name) return &state;
  return nullptr;
}

std::vector<std::string> names(const std::vector<StateTensor>& states) {
  std::vector<std::string> all;
  for (const StateTensor& state : states) all.push_back(state.name);
  return all;
}

std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Module, WeightsHaveTheNamesOfTheStateDictAndTiedOnesAreOne) {
  const ImportedModel imported = front::import_module(mlp());
  EXPECT_THAT(names(imported.model.weights),
              ElementsAre("first.weight", "first.bias", "layers.0.weight", "layers.0.bias", "layers.1.weight",
                          "layers.1.bias", "layers.2.bias"));
  EXPECT_EQ(imported.micro_batch, 2);
  EXPECT_EQ(find(imported.model.weights, "first.weight")->group, "decay");
  EXPECT_EQ(find(imported.model.weights, "first.bias")->group, "no_decay");
}

TEST(Module, ParametersWithoutGradientAreConstants) {
  const ImportedModel imported = front::import_module(mlp());
  ASSERT_TRUE(find(imported.model.states, "frozen"));
  EXPECT_EQ(find(imported.model.states, "frozen")->kind, StateKind::kConstant);
  EXPECT_EQ(find(imported.model.states, "unused")->kind, StateKind::kConstant);
}

TEST(Module, NumbersThatAreReadLaterAreReadAtOnceForConstants) {
  TracedModule module = mlp();
  std::vector<std::string> read;
  for (ModuleTensor& tensor : module.tensors) {
    if (tensor.type().dtype != DType::kF32 || !tensor.trained) continue;
    tensor.later = tensor.type();
    tensor.fill = [&read, name = tensor.name, data = tensor.data](int64_t first, std::span<float> to) {
      read.push_back(name);
      for (size_t i = 0; i < to.size(); ++i)
        to[i] = static_cast<float>(data.tensor().get(first + static_cast<int64_t>(i)));
    };
    tensor.data = TensorData();
  }
  const ImportedModel imported = front::import_module(std::move(module)), whole = front::import_module(mlp());
  EXPECT_THAT(read, Not(Contains("first.weight")));
  EXPECT_THAT(read, Contains("unused"));
  const StateTensor& constant = *find(imported.model.states, "unused");
  EXPECT_EQ(constant.kind, StateKind::kConstant);
  EXPECT_EQ(constant.init.data->hash(), find(whole.model.states, "unused")->init.data->hash());
  const StateTensor& weight = *find(imported.model.weights, "first.weight");
  ASSERT_TRUE(fill_of(weight.init));
  const TensorData& numbers = *find(whole.model.weights, "first.weight")->init.data;
  EXPECT_EQ(weight.init.of_element(5), numbers.tensor().get(5));
  std::vector<float> piece(3);
  fill_of(weight.init)->fill(4, piece);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(piece[static_cast<size_t>(i)], numbers.tensor().get(4 + i));
}

TEST(Module, BuffersChangeAsTheProgramSays) {
  const ImportedModel imported = front::import_module(mlp());
  const auto state = [&](const char* name) { return *find(imported.model.states, name); };
  EXPECT_EQ(state("steps").kind, StateKind::kDeferred);
  EXPECT_EQ(state("steps").fold.by, "sum");
  EXPECT_EQ(state("steps").type.text(), "f32[]");
  EXPECT_EQ(state("running").fold.by, "average");
  EXPECT_DOUBLE_EQ(state("running").fold.momentum, 0.1);
  EXPECT_EQ(state("latest").fold.by, "last");
  EXPECT_EQ(state("memory").kind, StateKind::kChained);
  for (const char* name : {"steps", "running", "latest", "memory"})
    EXPECT_TRUE(imported.model.forward.find_output(name)) << name;
  EXPECT_EQ(find(imported.model.states, "offsets"), nullptr) << "small constants stand in the graph";
}

TEST(Module, OutputsOfStepsAreNoPartOfTheModel) {
  const std::string step_logits = std::string(model::kStepOutput) + "logits";
  const ImportedModel imported = front::import_module(mlp(), {"logits", "logits"}), plain = front::import_module(mlp());
  EXPECT_THAT(model::step_outputs(imported.model.forward), ElementsAre(step_logits));
  EXPECT_THAT(model::step_outputs(plain.model.forward), ElementsAre());
  const auto& forward = imported.model.forward;
  const auto& predict = imported.model.programs.at(0).graph;
  EXPECT_EQ(forward.type(forward.find_output(step_logits)->value), predict.type(predict.find_output("logits")->value));
  EXPECT_EQ(imported.model.evaluate.find_output(step_logits), nullptr);
  EXPECT_EQ(imported.model.identity(), plain.model.identity());
  EXPECT_THAT(message([&] { front::import_module(mlp(), {"loss"}); }),
              HasSubstr("an output of steps that is one number"));
  EXPECT_THAT(message([&] { front::import_module(mlp(), {"states"}); }),
              HasSubstr("no output of this name; found 'states'; expected logits"));
}

TEST(Module, PartsAreTheMembersOfTheListThatHoldsMostWeights) {
  const ImportedModel imported = front::import_module(mlp());
  std::map<std::string, int> parts;
  for (const ir::Node& node : imported.model.forward.nodes()) ++parts[text_of(node.part)];
  EXPECT_GT(parts["layers 0"], 0);
  EXPECT_GT(parts["layers 2"], 0);
  EXPECT_GT(parts[""], 0);
}

/// Calls in modules of these paths, in this order; names of modules in order, with their classes and sizes of weights.
struct CalledModules {
  front::TracedProgram program{};
  std::map<std::string, int64_t> sizes{};

  CalledModules& of_class(const std::string& path, const std::string& name, int64_t weights = 0) {
    program.modules[path] = "torch.nn.modules." + name;
    if (weights > 0) sizes[path + ".weight"] = weights;
    return *this;
  }
  CalledModules& calls(const std::vector<std::string>& paths) {
    for (const std::string& path : paths)
      program.calls.push_back({.op = "aten.relu", .overload = "default", .module = path});
    return *this;
  }
  /// A call that reads a weight of 4 columns.
  CalledModules& reads(const std::string& module, const std::string& op, const std::string& weight, int64_t rows) {
    const std::string value = "p_" + weight;
    if (program.types.emplace(value, TensorType{DType::kF32, Shape({rows, 4})}).second)
      program.inputs.push_back({front::TracedInput::Kind::kParameter, value, weight});
    sizes[weight] = rows * 4;
    front::TracedArgument argument{.kind = front::TracedArgument::Kind::kTensor, .text = value};
    program.calls.push_back({.op = op, .overload = "default", .arguments = {{"weight", argument}}, .module = module});
    return *this;
  }
  /// The part of each call, as text.
  std::vector<std::string> parts(const std::vector<std::string>& patterns = {}) const {
    const auto found = front::parts_of_calls(program, front::find_parts(program, patterns, sizes));
    std::vector<std::string> texts;
    for (const front::TracedCall& call : program.calls) {
      const auto part = found.find(&call);
      texts.push_back(part == found.end() ? "" : text_of(part->second));
    }
    return texts;
  }
};

TEST(Module, ListsOfSequentialsAreParts) {
  CalledModules blocks;
  for (const char* block : {"blocks.0", "blocks.1"})
    blocks.of_class(block, "container.Sequential")
        .of_class(block + std::string(".0"), "linear.Linear", 8)
        .of_class(block + std::string(".1"), "activation.ReLU")
        .calls({block + std::string(".0"), block + std::string(".1")});
  blocks.calls({"head"});
  EXPECT_THAT(blocks.parts(), ElementsAre("blocks 0", "blocks 0", "blocks 1", "blocks 1", ""));
}

/// The layer that reads the data is often of a class of its own.
TEST(Module, TheFirstOfAListMayBeOfAnotherClass) {
  const auto parts_of = [](const std::vector<std::string>& classes) {
    CalledModules layers;
    for (size_t i = 0; i < classes.size(); ++i) {
      const std::string path = "layers." + std::to_string(i);
      layers.of_class(path, classes[i]).of_class(path + ".conv", "conv.Conv1d", 8).calls({path + ".conv"});
    }
    return layers.parts();
  };
  EXPECT_THAT(parts_of({"speech.First", "speech.Layer", "speech.Layer"}),
              ElementsAre("layers 0", "layers 1", "layers 2"));
  EXPECT_THAT(parts_of({"speech.Layer", "speech.Layer", "speech.First"}), ElementsAre("", "", ""));
  EXPECT_THAT(parts_of({"speech.First", "speech.Layer"}), ElementsAre("", ""));
}

/// A Sequential that holds layers of one class is no part itself.
TEST(Module, LayersInSequentialsAreParts) {
  CalledModules stages;
  for (const char* stage : {"stages.0", "stages.1"}) {
    stages.of_class(stage, "container.Sequential");
    for (const char* block : {".0", ".1"})
      stages.of_class(stage + std::string(block), "block.Block")
          .of_class(stage + std::string(block) + ".norm", "norm.Norm", 8)
          .calls({stage + std::string(block) + ".norm"});
  }
  EXPECT_THAT(stages.parts(), ElementsAre("stages.0 0", "stages.0 1", "stages.1 0", "stages.1 1"));
}

/// A vocabulary says nothing of layers: with or without a product of its own at the end, or with one of the table.
TEST(Module, TablesOfEmbeddingsLeaveLayersParts) {
  for (const std::string head : {"head.weight", "embed.weight"}) {
    CalledModules small;
    small.reads("embed", "aten.embedding", "embed.weight", 1000);
    for (const std::string layer : {"layers.0", "layers.1"})
      small.of_class(layer, "block.Block").reads(layer, "aten.linear", layer + ".linear.weight", 4);
    small.reads("head", "aten.linear", head, 1000);
    EXPECT_THAT(small.parts(), ElementsAre("", "layers 0", "layers 1", "")) << head;
    small.reads("other", "aten.linear", "other.weight", 1001);
    EXPECT_THAT(small.parts(), ElementsAre("", "", "", "", "")) << "a product that is larger than all layers";
  }
}

TEST(Module, TheRunsOfOneLayerAreParts) {
  CalledModules albert;
  albert.of_class("embed", "sparse.Embedding", 4)
      .of_class("encoder", "albert.Encoder")
      .of_class("encoder.layer", "albert.Layer")
      .of_class("encoder.layer.query", "linear.Linear", 16)
      .of_class("encoder.layer.out", "linear.Linear", 16)
      .calls({"embed"});
  for (int run = 0; run < 3; ++run)
    albert.calls({"encoder.layer.query", "encoder.layer.query", "encoder.layer", "encoder.layer.out"});
  albert.calls({"head"});
  const std::vector<std::string> runs{"",          "encoder 0", "encoder 0", "encoder 0", "encoder 0",
                                      "encoder 1", "encoder 1", "encoder 1", "encoder 1", "encoder 2",
                                      "encoder 2", "encoder 2", "encoder 2", ""};
  EXPECT_EQ(albert.parts(), runs);
  std::vector<std::string> named = runs;
  for (std::string& part : named)
    if (!part.empty()) part = "encoder.layer" + part.substr(7);
  EXPECT_EQ(albert.parts({"encoder.layer"}), named);
}

TEST(Module, NodesKnowTheLineOfTheUser) {
  const ImportedModel imported = front::import_module(mlp());
  const ir::Node& node = imported.model.forward.nodes()[0];
  EXPECT_EQ(node.origin, "make_samples.py:47 in forward");
}

TEST(Module, AnOperatorThatIsNotSupportedIsNamedWithItsLines) {
  TracedModule module = mlp();
  for (front::TracedCall& call : module.training->calls)
    if (call.op == "aten.clamp") call.op = "aten.unheard_of";
  EXPECT_EQ(message([&] { front::import_module(module); }),
            "module 'mlp': the module uses what is not supported; found \n"
            "  aten.unheard_of (3x; make_samples.py:49 in forward): the operator is not supported. "
            "Compute the same from operators that Ramet has (ramet.torch_operators() lists them), or compute it "
            "outside of the module and pass the result as an input");
}

/// What follows a refused call is looked at too, and a call of no known line is named by its module. Where the remedies
/// differ, each stands with its operator.
TEST(Module, AllThatIsNotSupportedIsInOneMessage) {
  TracedModule module = mlp();
  for (front::TracedCall& call : module.training->calls) {
    if (call.op == "aten.linear") call.op = "aten.first", call.origin = "";
    if (call.op == "aten.clamp") call.op = "aten.second_";
  }
  EXPECT_EQ(
      message([&] { front::import_module(module); }),
      "module 'mlp': the module uses what is not supported; found \n"
      "  aten.first (4x; module 'first' (Linear), module 'layers.0' (Linear), module 'layers.1' (Linear), ...): the "
      "operator is not supported. Compute the same from operators that Ramet has (ramet.torch_operators() lists "
      "them), or compute it outside of the module and pass the result as an input\n"
      "  aten.second_ (3x; make_samples.py:49 in forward): the operator is not supported. "
      "Call run_decompositions({}) on the exported program");
}

TEST(Module, TheLossIsNamedOrTheOnlyScalar) {
  TracedModule module = mlp();
  module.loss = "logits";
  EXPECT_THAT(message([&] { front::import_module(module); }), HasSubstr("found 'logits'; expected loss, logits"));
  module.loss = "";
  module.outputs = {"a", "b"};
  EXPECT_EQ(front::import_module(module).model.metrics[0].name, "loss");
}

/// The value of an output of the forward graph, for inputs and states of the model's first values.
HostTensor run_output(const model::Model& model, const std::map<std::string, HostTensor>& data,
                      const std::string& name) {
  std::map<std::string, HostTensor> feeds = data;
  for (const std::vector<StateTensor>* list : {&model.weights, &model.states})
    for (const StateTensor& state : *list) feeds[state.name] = state.init.data->tensor();
  const std::vector<HostTensor> results = kernel::interpret(model.forward, reference_backend(), feeds);
  const auto& outputs = model.forward.outputs();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].name == name) return results[i];
  return {};
}

TEST(Module, LossesAreThoseOfPyTorch) {
  // PyTorch 2.15 on the same numbers.
  const model::Model model = front::import_module(mlp()).model;
  const std::map<std::string, HostTensor> data = {{"x", numbers({2, 3}, 0.2)}, {"target", numbers({2, 4}, 0.3)}};
  EXPECT_NEAR(run_output(model, data, "loss").get(0), 0.4997255504131317, 1e-6);
  TracedModule module;
  module.training = program("operators");
  add(module, "weight", numbers({4, 4}, -0.3));
  const model::Model operators = front::import_module(std::move(module)).model;
  EXPECT_NEAR(run_output(operators, {{"x", numbers({2, 4}, 0.2)}}, "loss").get(0), 2.13510799407959, 1e-5);
}

TEST(Module, TensorsThatAreMissingOrOfAnotherTypeAreRefused) {
  TracedModule module = mlp();
  module.tensors.pop_back();
  EXPECT_THAT(message([&] { front::import_module(module); }), HasSubstr("'offsets'"));
  add(module, "offsets", numbers({5}, 0));
  EXPECT_THAT(message([&] { front::import_module(module); }), HasSubstr("found 'offsets' f32[5]; expected f32[4]"));
}

}  // namespace
}  // namespace ramet::tests
