// Patterns that the update changes, deferred statistics, chained memories, kept caches and constants: equal bits on any
// layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/layout/layout.h"
#include "ramet/ops/build.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/initialize.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/lower_states.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kHidden = 8, kInner = 16;
constexpr int kLayers = 4;

struct Options {
  int64_t lanes = 1, micro_batches = 4;  ///< of each lane
  bool chained = true;
};

/// Writes the forward graph of a small model of four layers. Layer 1 takes off a running mean, layer 2 sends its
/// columns by a pattern, layer 3 multiplies with a memory of the micro-batch before; layer 0 has constants.
class ModelWriter {
 public:
  ModelWriter(StepGraph& step, Graph& graph, bool trains, const Options& options)
      : step_(step), build_(graph), trains_(trains), options_(options) {}

  void write() {
    Tensor x = build_.input("x", DType::kF32, {kBatch, kHidden});
    for (int i = 0; i < kLayers; ++i) {
      PartScope scope(build_, "layer", i);
      x = layer(x, i);
    }
    Scope scope(build_, "head");
    build_.output("loss", reduce_mean(multiply(x, x), {}));
    if (trains_) return;
    const Tensor cache = state("cache", {DType::kF32, Shape{kHidden}}, StateKind::kKept, {}, {});
    build_.output("cache", add(scale(cache, 0.5), reduce_mean(x, {0})), OutputRole::kState);
    build_.output("cached", reduce_sum(cache));
  }

 private:
  Tensor state(const std::string& name, TensorType type, StateKind kind, StateInit init,
               std::vector<LogicalAxis> axes) {
    if (std::none_of(step_.states.begin(), step_.states.end(), [&](const auto& s) { return s.name == name; }))
      step_.states.push_back({name, type, kind, std::move(init), "", std::move(axes)});
    return build_.state(name, type.dtype, type.shape);
  }
  Tensor weight(const std::string& name, Shape shape, std::vector<LogicalAxis> axes) {
    return state(name, {DType::kF32, std::move(shape)}, StateKind::kWeight, {StateInit::Kind::kNormal, 0, 0.4},
                 std::move(axes));
  }

  Tensor layer(Tensor x, int i) {
    const std::string name = "w" + std::to_string(i);
    Tensor inner = matmul(x, weight(name + ".up", {kHidden, kInner}, {{"embed"}, {"mlp"}}));
    if (i == 1) {
      const Tensor mean = state("mean", {DType::kF32, Shape{kInner}}, StateKind::kDeferred, {}, {{"mlp"}});
      if (trains_) build_.output("mean", reduce_mean(inner, {0}), OutputRole::kState);
      inner = subtract(inner, mean);
    }
    Tensor y = matmul(tanh(inner), weight(name + ".down", {kInner, kHidden}, {{"mlp"}, {"embed"}}));
    if (i == 0) {
      const TensorData factors(HostTensor::of(DType::kF32, {kHidden}, {1, 2, 0.5, -1, 1.5, 1, -0.25, 3}));
      const TensorData turn(HostTensor::of(DType::kI32, {kHidden}, {7, 6, 5, 4, 3, 2, 1, 0}));
      y = multiply(y, tanh(constant(build_, factors)));
      y = transpose(gather(transpose(y, {1, 0}), constant(build_, turn)), {1, 0});
    }
    if (i == 2) {
      const Tensor route = state("route", {DType::kI32, Shape{kHidden}}, StateKind::kPattern, StateInit::iota(), {});
      y = transpose(gather(transpose(y, {1, 0}), route), {1, 0});
    }
    if (i == 3 && options_.chained) {
      const Tensor memory =
          state("memory", {DType::kF32, Shape{kBatch, kHidden}}, StateKind::kChained,
                StateInit::by("steps", [](int64_t element) { return 0.125 * static_cast<double>(element % 5); }),
                {{""}, {"mlp"}});
      if (trains_) build_.output("memory", add(scale(memory, 0.5), tanh(y)), OutputRole::kState);
      y = multiply(y, add_scalar(memory, 1));  // the backward pass reads the memory too
    }
    return add(x, y);
  }

  StepGraph& step_;
  GraphBuilder build_;
  const bool trains_;
  const Options options_;
};

void add_update(StepGraph& step) {
  GraphBuilder build(step.update);
  const std::vector<StateTensor> weights = step.states;
  for (const StateTensor& weight : weights) {
    if (weight.kind != StateKind::kWeight) continue;
    Scope scope(build, weight.name);
    step.states.push_back({"accumulator." + weight.name, weight.type, StateKind::kAccumulator, {}, "", weight.axes});
    step.states.push_back({"optimizer.m." + weight.name, weight.type, StateKind::kOptimizer, {}, "", weight.axes});
    const auto input = [&](const std::string& name) { return build.state(name, DType::kF32, weight.type.shape); };
    const Tensor moment = add(scale(input("optimizer.m." + weight.name), 0.75), input("accumulator." + weight.name));
    build.output("optimizer.m." + weight.name, moment, OutputRole::kState);
    build.output(weight.name, subtract(input(weight.name), scale(moment, 0.05)), OutputRole::kState);
  }
  // The columns of layer 2 by the greatest element of their weights, which changes with them.
  Scope scope(build, "route");
  const Tensor down = build.state("w2.down", DType::kF32, {kInner, kHidden});
  const Tensor before = build.state("route", DType::kI32, {kHidden});
  const Tensor order = top_k(reduce_max(multiply(down, down), {0}), kHidden).second;
  build.output("route", gather(order, before), OutputRole::kState);
}

StepGraph make_step(const Options& options = {}) {
  StepGraph step;
  step.lanes = options.lanes;
  step.micro_batches_per_lane = options.micro_batches;
  Graph forward("forward");
  ModelWriter(step, forward, true, options).write();
  Graph evaluate("evaluate");
  ModelWriter(step, evaluate, false, options).write();
  std::vector<std::string> weights;
  for (const StateTensor& state : step.states)
    if (state.kind == StateKind::kWeight) weights.push_back(state.name);
  forward = set_chunks(forward, 2, step.states);
  const Graph both = set_chunks(differentiate(forward, "loss", weights), 2, step.states);
  evaluate = set_chunks(evaluate, 2, step.states);
  evaluate.set_name("evaluate");
  step.programs.push_back({"evaluate", std::move(evaluate), When::on_request()});
  GraphCopier copier(both, step.micro);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
  GraphBuilder build(step.micro);
  for (const GraphOutput& output : both.outputs())
    if (!output.name.starts_with("grad.")) step.micro.add_output(output.name, copier[output.value], output.role);
  Scope scope(build, "accumulate");
  for (const std::string& weight : weights) {
    const Tensor gradient = build.tensor(copier[both.find_output("grad." + weight)->value]);
    const Tensor sum = build.state("accumulator." + weight, DType::kF32, gradient.shape());
    build.output("accumulator." + weight, add(sum, gradient), OutputRole::kState);
  }
  add_update(step);
  return step;
}

HostTensor data_of(int64_t step, int64_t micro) {
  HostTensor x(TensorType{DType::kF32, Shape{kBatch, kHidden}});
  const RandomStream stream(3, RandomPurpose::kTest, static_cast<uint64_t>(step), static_cast<uint64_t>(micro));
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, stream.normal(static_cast<uint64_t>(i)));
  return x;
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

std::vector<Executable> compiled(const StepGraph& step, const std::string& layout, const std::string& recompute) {
  CompileOptions options;
  options.recompute = parse_recompute(recompute);
  if (layout.empty()) return {compile(step, cpu_backend(), options)};
  return compile(step, parse_layout(layout), cpu_backend(), options);
}

/// The saved states after three steps, and what the evaluations gave.
struct Outcome {
  Bytes states;
  Hash hash;
  std::vector<double> numbers;
  bool operator==(const Outcome&) const = default;
};

class TrainingRun {
 public:
  TrainingRun(const StepGraph& step, const std::string& layout, const std::string& recompute = "none")
      : step_(step), cluster_(compiled(step, layout, recompute), cpu_backend(), {}) {
    ThreadTeam team(1);
    for (const StateTensor& state : step_.states) {
      if (!is_saved(state.kind) && state.kind != StateKind::kKept) continue;
      std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
      initialize_as_held(state, 11, bytes, team);
      cluster_.write_state(state, 0, bytes);
    }
    cluster_.run_derive();
  }

  void train(int64_t first, int64_t steps) {
    for (int64_t number = first; number < first + steps; ++number)
      cluster_.run_step(number, [&](int64_t micro, const Executable& exe, FeedSink& sink) {
        const HostTensor x = data_of(number, micro);
        if (exe.has_feed("x")) sink.set("x", x.type, x.data.data());
      });
  }

  std::vector<double> evaluate() {
    std::vector<double> numbers;
    for (int64_t call = 0; call < 2; ++call)
      for (const ResultTensors& results :
           cluster_.run("evaluate", 3, [&](int64_t micro, const Executable& exe, FeedSink& sink) {
             const HostTensor x = data_of(100 + call, micro);
             if (exe.has_feed("x", exe.find_program("evaluate"))) sink.set("x", x.type, x.data.data());
           }))
        for (const auto& [name, value] : numbers_of(results)) numbers.push_back(value);
    return numbers;
  }

  ReadState reader() {
    return [this](const StateTensor& state, uint64_t offset, std::span<std::byte> to) {
      cluster_.read_state(state, offset, to);
    };
  }

  Outcome outcome() {
    Outcome result;
    for (const StateTensor& state : step_.states)
      if (is_saved(state.kind)) {
        result.states[state.name].resize(static_cast<size_t>(state.type.bytes()));
        cluster_.read_state(state, 0, result.states[state.name]);
      }
    result.hash = weights_hash(step_.states, reader());
    result.numbers = evaluate();
    return result;
  }

  Cluster& cluster() { return cluster_; }

 private:
  const StepGraph& step_;
  Cluster cluster_;
};

Outcome after_three_steps(const StepGraph& step, const std::string& layout, const std::string& recompute = "none") {
  TrainingRun run(step, layout, recompute);
  run.train(0, 3);
  return run.outcome();
}

void expect_equal(const Outcome& found, const Outcome& wanted) {
  for (const auto& [name, bytes] : wanted.states) EXPECT_EQ(found.states.at(name), bytes) << name;
  EXPECT_EQ(found.hash, wanted.hash);
  EXPECT_EQ(found.numbers, wanted.numbers);
}

/// The states after a step by the definitions of the roles, each graph run by the interpreter.
Bytes by_definition(const StepGraph& step, int64_t steps) {
  std::map<std::string, HostTensor> states;
  ThreadTeam team(1);
  for (const StateTensor& state : step.states) {
    states[state.name] = HostTensor(state.type);
    initialize_as_held(state, 11, states[state.name].data, team);
  }
  const auto run = [&](const Graph& graph, std::map<std::string, HostTensor>& from, const HostTensor* x) {
    std::map<std::string, HostTensor> feeds, written;
    for (const GraphInput& input : graph.inputs()) {
      const std::string& name = graph.value(input.value).name;
      feeds[name] = input.role == InputRole::kState ? from.at(name) : *x;
    }
    const std::vector<HostTensor> outputs = interpret(graph, cpu_backend(), feeds);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (graph.outputs()[i].role == OutputRole::kState) written[graph.outputs()[i].name] = outputs[i];
    return written;
  };
  for (int64_t number = 0; number < steps; ++number) {
    for (const StateTensor& state : step.states)
      if (state.kind == StateKind::kAccumulator) states[state.name] = HostTensor(state.type);
    std::vector<HostTensor> values;
    for (int64_t micro = 0; micro < step.micro_batches(); ++micro) {
      const HostTensor x = data_of(number, micro);
      for (auto& [name, tensor] : run(step.micro, states, &x))
        if (name == "mean")
          values.push_back(std::move(tensor));
        else
          states[name] = std::move(tensor);
    }
    for (auto& [name, tensor] : run(step.update, states, nullptr)) states[name] = std::move(tensor);
    for (const HostTensor& value : values)
      for (int64_t i = 0; i < value.elements(); ++i) {
        const float momentum = 0.1f, keep = 1 - momentum;
        states["mean"].set(
            i, keep * static_cast<float>(states["mean"].get(i)) + momentum * static_cast<float>(value.get(i)));
      }
  }
  Bytes bytes;
  for (const StateTensor& state : step.states)
    if (is_saved(state.kind)) bytes[state.name] = states.at(state.name).data;
  return bytes;
}

TEST(States, MeanWhatTheirRolesSay) {
  for (int64_t micro_batches : {1, 3}) {
    const StepGraph step = make_step({.micro_batches = micro_batches});
    const Bytes wanted = by_definition(step, 3);
    const Outcome found = after_three_steps(step, "");
    ASSERT_EQ(found.states.size(), wanted.size());
    for (const auto& [name, bytes] : wanted) EXPECT_EQ(found.states.at(name), bytes) << name;
    // Everything has changed, so that the comparisons mean something.
    const Bytes first = by_definition(step, 0);
    for (const char* name : {"mean", "route", "memory", "w2.up"}) EXPECT_NE(wanted.at(name), first.at(name)) << name;
  }
}

TEST(States, OfLanesHaveEqualBitsOnAnyLayout) {
  const StepGraph step = make_step({.lanes = 4, .micro_batches = 2, .chained = false});
  const Outcome wanted = after_three_steps(step, "");
  for (const char* layout :
       {"r=2", "r=4 rts=optimizer", "r=4 rts=weights,grads,optimizer", "r=2 t=2 rts=weights,optimizer", "t=1x2", "p=2",
        "p=4 schedule=gpipe", "p=2 schedule=zero-bubble", "p=2 schedule=interleaved:2", "phases=2",
        "p=2 phases=2 offload=weights,grads,optimizer,activations", "r=2 phases=4 offload=optimizer",
        "p=2 t=2 r=2 rts=optimizer recompute=layer"}) {
    SCOPED_TRACE(layout);
    expect_equal(after_three_steps(step, layout), wanted);
  }
  for (const char* recompute : {"cheap", "layer", "all"}) {
    SCOPED_TRACE(recompute);
    expect_equal(after_three_steps(step, "", recompute), wanted);
    expect_equal(after_three_steps(step, "p=2 r=2", recompute), wanted);
  }
}

TEST(States, ChainedHaveEqualBitsOnAnyLayout) {
  for (int64_t micro_batches : {1, 6}) {
    const StepGraph step = make_step({.micro_batches = micro_batches});
    const Outcome wanted = after_three_steps(step, "");
    for (const char* layout : {"t=2", "t=1x2", "p=2", "p=4", "p=4 schedule=gpipe", "p=2 schedule=zero-bubble",
                               "p=2 schedule=interleaved:2", "phases=2", "phases=4 offload=activations",
                               "p=2 phases=2 offload=weights,grads,optimizer,activations", "p=2 t=2"})
      for (const char* recompute : {"none", "layer"}) {
        SCOPED_TRACE(std::string(layout) + " recompute=" + recompute + " " + std::to_string(micro_batches));
        expect_equal(after_three_steps(step, layout, recompute), wanted);
      }
    for (const char* recompute : {"cheap", "layer", "all"})
      expect_equal(after_three_steps(step, "", recompute), wanted);
  }
}

TEST(States, CheckpointsGoFromLayoutToLayout) {
  for (const bool chained : {false, true}) {
    const StepGraph step = make_step({.lanes = chained ? 1 : 2, .micro_batches = 3, .chained = chained});
    const Outcome wanted = after_three_steps(step, "");
    const std::vector<std::string> layouts = chained ? std::vector<std::string>{"p=2", "t=2", "phases=2"}
                                                     : std::vector<std::string>{"r=2 rts=optimizer", "p=2 t=2", ""};
    for (const std::string& from : layouts)
      for (const std::string& to : layouts) {
        SCOPED_TRACE(from + " -> " + to);
        const TemporaryFolder folder;
        TrainingRun before(step, from);
        before.train(0, 2);
        const auto path = save_checkpoint(folder.path(), {.step = 2}, step.states, before.reader());
        TrainingRun after(step, to);
        const Checkpoint checkpoint(path);
        checkpoint.load(step.states, [&](const StateTensor& state, std::span<const std::byte> bytes) {
          after.cluster().write_state(state, 0, bytes);
        });
        after.cluster().run_derive();
        after.train(2, 1);
        expect_equal(after.outcome(), wanted);
      }
  }
}

std::string refusal(const StepGraph& step, const std::string& layout) {
  try {
    compiled(step, layout, "none");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(States, LayoutsThatWouldBreakAChainAreRefused) {
  EXPECT_THAT(refusal(make_step(), "r=2"), HasSubstr("chained state 'memory': replicas would break the chain"));
  EXPECT_THAT(refusal(make_step({.lanes = 2}), ""), HasSubstr("chained state 'memory': lanes would break the chain"));
  // Read in the first layer, written in the last.
  StepGraph step = make_step({.chained = false});
  step.states.push_back({"far", {DType::kF32, {kBatch, kHidden}}, StateKind::kChained, {}, ""});
  Graph micro("micro");
  GraphCopier copier(step.micro, micro);
  copier.copy_inputs();
  GraphBuilder build(micro);
  const Tensor far = build.state("far", DType::kF32, {kBatch, kHidden});
  const Tensor x = build.tensor(micro.find_input("x"));
  {
    PartScope scope(build, "layer", 0);
    copier.map(step.micro.find_input("x"), add(x, far).id);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(step.micro.nodes().size()); ++id) {
    copier.copy_node(id);
    const Node& node = step.micro.node(id);
    if (step.micro.type(node.outputs[0]) != far.type() || !node.name.starts_with("layer3") || micro.find_output("far"))
      continue;
    build.output("far", build.tensor(copier[node.outputs[0]]), OutputRole::kState);
  }
  copier.copy_outputs();
  step.micro = std::move(micro);
  EXPECT_EQ(refusal(step, ""), "no error");
  EXPECT_EQ(refusal(step, "t=2"), "no error");
  EXPECT_THAT(refusal(step, "p=2"), HasSubstr("state 'far': a layout would break the chain from one run of a graph to "
                                              "the next: its parts run micro-batches at different times; found read in "
                                              "part 0, written in part 1"));
  EXPECT_THAT(refusal(step, "phases=4"), HasSubstr("read in part 0, written in part 3"));
}

TEST(States, AMicroGraphThatWritesAWeightIsRefused) {
  StepGraph step = make_step({.chained = false});
  step.micro.add_output("w0.up", step.micro.find_input("w0.up"), OutputRole::kState);
  for (const char* layout : {"", "r=1", "p=2"})
    EXPECT_THAT(refusal(step, layout), HasSubstr("weight state 'w0.up': a graph writes a state that it may not"));
}

TEST(States, StartAsTheirInitialValuesSay) {
  ThreadTeam team(2);
  const auto values = [&](DType dtype, StateInit init, int64_t elements = 6) {
    StateTensor state{"s", {dtype, Shape{elements}}, StateKind::kPattern, std::move(init), ""};
    HostTensor tensor(state.type);
    initialize_as_held(state, 5, tensor.data, team);
    // In pieces the same.
    HostTensor pieces(state.type);
    const size_t half = 4 * size_of(dtype);
    initialize_as_held(state, 5, std::span(pieces.data).first(half), team);
    initialize_as_held(state, 5, std::span(pieces.data).subspan(half), team, 4);
    EXPECT_EQ(tensor, pieces);
    return tensor.values();
  };
  const auto squares = StateInit::by("squares", [](int64_t i) { return static_cast<double>(i * i); });
  const TensorData data(HostTensor::of(DType::kI64, {6}, {9, -8, 7, 6, 5, 4}));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64}) {
    EXPECT_EQ(values(dtype, {}), std::vector<double>(6, 0));
    EXPECT_EQ(values(dtype, {StateInit::Kind::kConstant, 3}), std::vector<double>(6, 3));
    EXPECT_EQ(values(dtype, StateInit::iota(2, -1)), (std::vector<double>{2, 1, 0, -1, -2, -3}));
    EXPECT_EQ(values(dtype, squares), (std::vector<double>{0, 1, 4, 9, 16, 25}));
  }
  EXPECT_EQ(values(DType::kI64, StateInit::from(data)), data.tensor().values());
  const std::vector<double> drawn = values(DType::kI32, {StateInit::Kind::kUniform, -2, 3}, 1000);
  for (int64_t number = -2; number < 3; ++number)
    EXPECT_NEAR(std::count(drawn.begin(), drawn.end(), number), 200, 50) << number;
  EXPECT_EQ(std::count_if(drawn.begin(), drawn.end(), [](double value) { return value < -2 || value > 2; }), 0);
}

TEST(States, ConstantsAreInTheExecutablesOfTheStagesThatReadThem) {
  const StepGraph step = make_step();
  const std::vector<Executable> stages = compiled(step, "p=2", "none");
  // Each stage has those that it reads.
  const auto constants_of = [](const Executable& exe) {
    return std::count_if(exe.states.begin(), exe.states.end(),
                         [](const StatePlace& state) { return state.tensor.kind == StateKind::kConstant; });
  };
  EXPECT_EQ(constants_of(stages[0]), 2);
  EXPECT_EQ(constants_of(stages[1]), 0);
  const std::string bytes = executable_bytes(stages[0]);
  EXPECT_EQ(executable_bytes(executable_from_bytes(bytes, "test")), bytes);
}

}  // namespace
}  // namespace ramet::tests
