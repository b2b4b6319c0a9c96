#include "ramet/program/compile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ramet/ir/text.h"
#include "ramet/program/join.h"
#include "ramet/program/order.h"
#include "support/toy.h"

namespace ramet::tests {
namespace {

const TensorType kVector{DType::kF32, {1024}};

ValueId node(Graph& graph, const OpDef& op, std::vector<ValueId> inputs, NodeInfo info, int64_t salt = 0) {
  Attributes attributes;
  if (&op == &toy::blend()) attributes.set("salt", salt);
  return graph.node(graph.add_node(op, std::move(inputs), attributes, std::move(info))).outputs[0];
}

/// A chain of `layers`, each with a weight; the backward pass needs every layer's input again.
StepGraph chain(int layers, int64_t micro_batches = 1) {
  StepGraph step;
  step.micro_batches_per_lane = micro_batches;
  Graph &micro = step.micro, &update = step.update;
  std::vector<ValueId> inputs, weights;
  ValueId x = micro.add_input("x", kVector, InputRole::kData);
  for (int i = 0; i < layers; ++i) {
    const std::string w = "w" + std::to_string(i);
    step.states.push_back({w, kVector, StateKind::kWeight, {}, ""});
    weights.push_back(micro.add_input(w, kVector, InputRole::kState));
    inputs.push_back(x);
    x = node(micro, toy::mirror(), {node(micro, toy::blend(), {x, weights.back()}, toy::in_layer(i))},
             toy::in_layer(i, "/mirror"));
  }
  const NodeId loss = micro.add_node(toy::halve_and_sum(), {x}, {}, "loss");
  micro.add_output("loss", micro.node(loss).outputs[1]);
  ValueId gradient = micro.node(loss).outputs[0];
  for (int i = layers; i-- > 0;) {
    const std::string index = std::to_string(i);
    const auto backward = [&](const std::string& rest) {
      return toy::in_layer(i, "/backward" + rest, NodePass::kBackward);
    };
    const ValueId weight_gradient =
        node(micro, toy::blend(), {gradient, inputs[static_cast<size_t>(i)]}, backward("/weight"), 1);
    gradient = node(micro, toy::mirror(),
                    {node(micro, toy::blend(), {gradient, weights[static_cast<size_t>(i)]}, backward(""), 2)},
                    backward("/mirror"));
    step.states.push_back({"grad." + index, kVector, StateKind::kAccumulator, {}, ""});
    const ValueId sum = micro.add_input("grad." + index, kVector, InputRole::kState);
    micro.add_output("grad." + index, node(micro, toy::add(), {sum, weight_gradient}, "accumulate"),
                     OutputRole::kState);
  }
  for (int i = 0; i < layers; ++i) {
    const std::string index = std::to_string(i);
    step.states.push_back({"m" + index, kVector, StateKind::kOptimizer, {}, ""});
    const ValueId w = update.add_input("w" + index, kVector, InputRole::kState),
                  m = update.add_input("m" + index, kVector, InputRole::kState);
    const ValueId g = update.add_input("grad." + index, kVector, InputRole::kState);
    const ValueId moment = node(update, toy::blend(), {m, g}, "moment" + index, 3);
    update.add_output("m" + index, moment, OutputRole::kState);
    update.add_output("w" + index, node(update, toy::blend(), {w, moment}, "update" + index, 4), OutputRole::kState);
  }
  return step;
}

int copies(const Executable& exe) {
  int count = 0;
  for (const Segment& segment : exe.segments)
    count += static_cast<int>(std::count_if(segment.instructions.begin(), segment.instructions.end(),
                                            [](const Instruction& i) { return i.call < 0; }));
  return count;
}

TEST(Join, GradientsGoStraightToTheirUpdates) {
  const StepGraph joined = join(chain(3));
  verify(joined, "join");
  EXPECT_TRUE(joined.update.nodes().empty());
  EXPECT_EQ(print(joined).find("accumul"), std::string::npos) << "an accumulator is left";
  EXPECT_EQ(joined.micro.outputs().size(), 7u);
  const StepGraph apart = join(chain(3, 2));
  EXPECT_FALSE(apart.update.nodes().empty());
}

TEST(Compile, JoinedStepKeepsFewGradientsAndCopiesNothing) {
  const Backend backend = toy::make_backend();
  const int layers = 20;
  const Executable joined = compile(chain(layers), backend), apart = compile(chain(layers, 2), backend);
  EXPECT_TRUE(joined.joined);
  EXPECT_EQ(copies(joined), 0) << print(joined);
  EXPECT_EQ(copies(apart), 0);
  const int64_t vector = kVector.bytes();
  // Weights, moments, one input a layer for the backward pass, and a handful that pass by.
  EXPECT_LE(joined.arena_bytes, (3 * layers + 6) * vector);
  EXPECT_GE(apart.arena_bytes, 4 * layers * vector);
  EXPECT_EQ(joined.gap(), 0);
}

TEST(Compile, SameStepSameExecutable) {
  const Backend backend = toy::make_backend();
  EXPECT_EQ(executable_bytes(compile(chain(8, 3), backend)), executable_bytes(compile(chain(8, 3), backend)));
}

TEST(Compile, KeyDependsOnAllThatTheResultDependsOn) {
  const Backend backend = toy::make_backend();
  const Hash key = compile_key(chain(3), backend, {});
  EXPECT_EQ(compile_key(chain(3), backend, {}), key);
  EXPECT_NE(compile_key(chain(4), backend, {}), key);
  EXPECT_NE(compile_key(chain(3), backend, {.threads = 2}), key);
  EXPECT_NE(compile_key(chain(3), backend, {.recompute = {RecomputeOptions::Mode::kAll, {}, 0}}), key);
  EXPECT_NE(compile_key(chain(3), Backend("other"), {}), key);
}

TEST(Compile, LanesTakeOneSetOfAccumulatorsASlot) {
  const Backend backend = toy::make_backend();
  StepGraph step = chain(4);
  step.lanes = 4;
  const Executable exe = compile(std::move(step), backend);
  for (const StatePlace& state : exe.states)
    EXPECT_EQ(state.slots.size(), state.tensor.kind == StateKind::kAccumulator ? 3u : 1u) << state.tensor.name;
}

TEST(Compile, RefusesAStepThatDoesNotFitAndSaysWhatWould) {
  const Backend backend = toy::make_backend();
  const Executable fits = compile(chain(20), backend);
  EXPECT_NO_THROW(compile(chain(20), backend, {.device_memory = fits.planned_bytes()}));
  try {
    compile(chain(20), backend, {.device_memory = fits.planned_bytes() - 1});
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part :
         {"device memory: the training step does not fit into device memory", "weights 80.00 KiB",
          "optimizer 80.00 KiB", "activations", "most bytes are live at step:", "What would help: recompute", "fits",
          "optimizer states in half the bytes", "--device-memory of "})
      EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
    EXPECT_NE(text.find(std::to_string(fits.planned_bytes()) + " bytes"), std::string::npos) << text;
  }
}

TEST(NodeOrder, UpdatesGoAsEarlyAsTheyCan) {
  Graph graph;
  const ValueId x = graph.add_input("x", kVector, InputRole::kData);
  std::vector<ValueId> gradients;
  for (int i = 0; i < 30; ++i) gradients.push_back(node(graph, toy::mirror(), {x}, "gradient"));
  for (int i = 0; i < 30; ++i) {
    const std::string name = "w" + std::to_string(i);
    const ValueId w = graph.add_input(name, kVector, InputRole::kState);
    graph.add_output(name, node(graph, toy::blend(), {w, gradients[static_cast<size_t>(i)]}, "update"),
                     OutputRole::kState);
  }
  std::vector<NodeId> plain(graph.nodes().size());
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<NodeId>(i);
  EXPECT_EQ(peak_of(graph, plain), 31 * kVector.bytes());
  const NodeOrder found = find_order(graph);
  EXPECT_EQ(found.peak_bytes, 2 * kVector.bytes());
  EXPECT_EQ(found.peak_bytes, peak_of(graph, found.order));
  EXPECT_EQ(found.method, "early");
}

TEST(NodeOrder, WritersOfAStateWaitForItsReaders) {
  // The update could go at once, but the old weight is read later: it must wait, or be copied.
  Graph graph;
  const ValueId x = graph.add_input("x", kVector, InputRole::kData),
                w = graph.add_input("w", kVector, InputRole::kState);
  const ValueId gradient = node(graph, toy::mirror(), {x}, "gradient");
  ValueId y = x;
  for (int64_t i = 0; i < 5; ++i) y = node(graph, toy::blend(), {y, w}, "reader", i);
  graph.add_output("y", y);
  graph.add_output("w", node(graph, toy::blend(), {w, gradient}, "update", 9), OutputRole::kState);
  const NodeOrder found = find_order(graph);
  const NodeId update = graph.value(graph.find_output("w")->value).producer;
  EXPECT_EQ(found.order.back(), update);
}

TEST(NodeOrder, EveryNodeOnceAndAfterItsOperands) {
  const StepGraph step = join(chain(10));
  const NodeOrder found = find_order(step.micro);
  std::vector<bool> done(step.micro.nodes().size(), false);
  for (NodeId id : found.order) {
    EXPECT_FALSE(done[static_cast<size_t>(id)]);
    done[static_cast<size_t>(id)] = true;
    for (ValueId input : step.micro.node(id).inputs)
      if (const NodeId producer = step.micro.value(input).producer; producer != kNoNode) {
        EXPECT_TRUE(done[static_cast<size_t>(producer)]);
      }
  }
  EXPECT_EQ(std::count(done.begin(), done.end(), true), static_cast<std::ptrdiff_t>(done.size()));
}

/// A library that keeps operand 1 of every toy_blend packed.
class BlockingLibrary final : public KernelLibrary {
 public:
  KernelChoice choose(const NodeSignature&, int) const override { return {"plain", 0, {}, {}}; }
  std::optional<BlockedLayout> blocking(const NodeSignature& node, int index) const override {
    if (node.op->name != "matmul" || index != 1) return std::nullopt;
    return BlockedLayout{"blocks", node.inputs[1].bytes() + 64};
  }
  std::string kernel_class() const override { return "blocking"; }
};

TEST(Block, WeightsAreKeptBlockedAndUnusedDerivedStatesGo) {
  StepGraph step;
  const TensorType matrix{DType::kF32, {16, 16}}, low{DType::kBF16, {16, 16}};
  const OpRegistry& ops = OpRegistry::instance();
  step.states = {{"w", matrix, StateKind::kWeight, {}, ""},
                 {"low.w", low, StateKind::kDerived, {}, ""},
                 {"other", matrix, StateKind::kDerived, {}, ""}};
  Graph& derive = step.derive;
  const ValueId w = derive.add_input("w", matrix, InputRole::kState);
  // Stands for a cast: any op that gives bf16.
  const NodeId cast = derive.add_node(ops.get("matmul"), {w, w}, {{"dtype", DType::kBF16}}, "cast");
  derive.add_output("low.w", derive.node(cast).outputs[0], OutputRole::kState);
  derive.add_output("other", w, OutputRole::kState);
  Graph& micro = step.micro;
  const ValueId x = micro.add_input("x", low, InputRole::kData),
                weight = micro.add_input("low.w", low, InputRole::kState);
  const NodeId a = micro.add_node(ops.get("matmul"), {x, weight}, {}, "a"),
               b = micro.add_node(ops.get("matmul"), {micro.node(a).outputs[0], weight}, {}, "b");
  micro.add_output("y", micro.node(b).outputs[0]);
  step.micro_batches_per_lane = 2;

  const Executable exe = compile(step, BlockingLibrary());
  std::vector<std::string> names;
  for (const StatePlace& state : exe.states) names.push_back(state.tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"w", "blocked.low.w"})) << print(exe);
  EXPECT_EQ(exe.states[1].tensor.type.text(), "u8[576]");
  const Call& product =
      exe.calls.at(static_cast<size_t>(exe.find_segment(PieceKind::kForward)->instructions.at(0).call));
  EXPECT_EQ(product.node.attributes.get_string("b_blocked"), "blocks");
  EXPECT_EQ(product.node.attributes.get_ints("b_shape"), (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(product.node.attributes.get_dtype("b_dtype"), DType::kBF16);
  EXPECT_EQ(exe.find_segment(PieceKind::kPrepare)->instructions.size(), 2u);
  EXPECT_EQ(exe.find_segment(PieceKind::kForward)->instructions.size(), 2u);

  const Executable plain = compile(step, BlockingLibrary(), {.copies = {.unblocked = kAllWeights}});
  EXPECT_EQ(plain.states.size(), 2u);  // the weight, and its cast
}

/// A step with two products that read a cast of the weight; with `other`, a sum reads it, too.
StepGraph step_of_casts(bool other) {
  StepGraph step;
  const TensorType matrix{DType::kF32, {16, 16}}, low{DType::kBF16, {16, 16}};
  const OpRegistry& ops = OpRegistry::instance();
  step.states = {{"w", matrix, StateKind::kWeight, {}, ""}};
  Graph& micro = step.micro;
  const ValueId x = micro.add_input("x", low, InputRole::kData), w = micro.add_input("w", matrix, InputRole::kState);
  const ValueId cast = micro.node(micro.add_node(ops.get("cast"), {w}, {{"dtype", DType::kBF16}}, "cast")).outputs[0];
  const NodeId a = micro.add_node(ops.get("matmul"), {x, cast}, {}, "a"),
               b = micro.add_node(ops.get("matmul"), {micro.node(a).outputs[0], cast}, {}, "b");
  ValueId y = micro.node(b).outputs[0];
  if (other) y = micro.node(micro.add_node(ops.get("add"), {y, cast}, {}, "c")).outputs[0];
  micro.add_output("y", y);
  step.micro_batches_per_lane = 2;
  return step;
}

std::vector<std::string> ops_of(const Executable& exe) {
  std::vector<std::string> names;
  for (const Instruction& each : exe.find_segment(PieceKind::kForward)->instructions)
    names.push_back(exe.calls.at(static_cast<size_t>(each.call)).node.op->name);
  return names;
}

TEST(Block, WeightsWithoutCopiesAreRoundedAsTheyAreBlocked) {
  const CompileOptions none{.copies = {.unblocked = kAllWeights, .remade = kAllWeights}};
  const Executable exe = compile(step_of_casts(false), BlockingLibrary(), none);
  EXPECT_EQ(ops_of(exe), (std::vector<std::string>{"block", "matmul", "block", "matmul"})) << print(exe);
  const Segment& forward = *exe.find_segment(PieceKind::kForward);
  const Call& block = exe.calls.at(static_cast<size_t>(forward.instructions.at(0).call));
  EXPECT_EQ(block.node.inputs.at(0).text(), "f32[16,16]");
  EXPECT_EQ(block.node.attributes.get_dtype("dtype"), DType::kBF16);
  EXPECT_EQ(exe.states.size(), 1u);
  // A reader without blocks has a cast of its own.
  const std::vector<std::string> kept = ops_of(compile(step_of_casts(true), BlockingLibrary(), none));
  EXPECT_EQ(std::ranges::count(kept, "block"), 2);
  EXPECT_EQ(std::ranges::count(kept, "cast"), 1);
}

}  // namespace
}  // namespace ramet::tests
