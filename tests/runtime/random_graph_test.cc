// Compiles and runs random graphs and compares every result and state with the interpreter, which keeps each value in
// memory of its own: whatever the compiler shares, moves or writes in place must not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "ramet/kernel/interpret.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/engine.h"
#include "support/toy.h"

namespace ramet::tests {
namespace {

const Shape kShapes[] = {{4, 8}, {32}, {3, 50}, {150}, {2, 2}, {1}};

class RandomStep {
 public:
  RandomStep(uint32_t seed, int64_t lanes, int64_t micro_batches) : random_(seed) {
    step_.lanes = lanes;
    step_.micro_batches_per_lane = micro_batches;
    add_states();
    fill(step_.micro, {"w0", "w1", "w2", "d0"}, /*updates=*/{}, 30);
    for (const char* name : {"g0", "g1"}) accumulate(name);
    fill(step_.update, {"w0", "w1", "w2", "m0", "m1", "g0", "g1"}, {"w0", "w1", "w2", "m0", "m1"}, 25);
    fill(step_.derive, {"w0", "w1"}, {"d0"}, 4);
    step_.programs.push_back({"evaluate", Graph("evaluate"), When::on_request()});
    fill(step_.programs[0].graph, {"w0", "d0"}, {}, 6);
    step_.programs.push_back({"evolve", Graph("evolve"), When::each_step(2)});
    fill(step_.programs[1].graph, {"w0", "w1", "w2", "m0", "m1", "d0"}, {"w0", "w2", "m1"}, 12);
    step_.programs.push_back({"look", Graph("look"), When::each_step()});
    fill(step_.programs[2].graph, {"w0", "d0", "m1"}, {}, 4);
  }

  StepGraph take() { return std::move(step_); }

 private:
  size_t draw(size_t below) { return random_() % below; }

  void add_states() {
    const auto add = [&](const char* name, StateKind kind, const Shape& shape) {
      step_.states.push_back({name, {DType::kF32, shape}, kind, {}, ""});
    };
    add("w0", StateKind::kWeight, kShapes[draw(6)]);
    add("w1", StateKind::kWeight, kShapes[draw(6)]);
    add("w2", StateKind::kWeight, kShapes[draw(6)]);
    add("m0", StateKind::kOptimizer, kShapes[draw(6)]);
    add("m1", StateKind::kOptimizer, step_.states[0].type.shape);
    add("g0", StateKind::kAccumulator, step_.states[0].type.shape);
    add("g1", StateKind::kAccumulator, step_.states[1].type.shape);
    add("d0", StateKind::kDerived, step_.states[0].type.shape);
  }

  /// Some value of the graph of this type; the newer the likelier.
  ValueId pick(const Graph& graph, const TensorType& type) {
    std::vector<ValueId> candidates;
    for (size_t i = 0; i < graph.values().size(); ++i)
      if (graph.values()[i].type == type) candidates.push_back(static_cast<ValueId>(i));
    if (candidates.empty()) return kNoValue;
    return candidates[std::max(draw(candidates.size()), draw(candidates.size()))];
  }

  void fill(Graph& graph, const std::vector<std::string>& reads, const std::vector<std::string>& updates, int nodes) {
    if (&graph == &step_.micro || graph.name() == "evaluate")
      for (size_t i = 0; i < 3; ++i)
        graph.add_input("x" + std::to_string(i), {DType::kF32, kShapes[i * 2]}, InputRole::kData);
    if (&graph == &step_.update) graph.add_input("rate", {DType::kF32, {}}, InputRole::kScalar);
    for (const std::string& name : reads) graph.add_input(name, step_.state(name).type, InputRole::kState);
    for (int i = 0; i < nodes; ++i) {
      const ValueId a = static_cast<ValueId>(std::max(draw(graph.values().size()), draw(graph.values().size())));
      const std::string name = "node" + std::to_string(i);
      const Attributes salt{{"salt", static_cast<int64_t>(draw(1000000))}};
      switch (draw(7)) {
        case 0: graph.add_node(toy::mirror(), {a}, {}, name); break;
        case 1: graph.add_node(toy::halve_and_sum(), {a}, {}, name); break;
        case 2: graph.add_node(toy::flatten(), {a}, {}, name); break;
        case 3:
          graph.add_node(toy::blend(), {a, pick(graph, graph.type(a)), pick(graph, graph.type(a))}, salt, name);
          break;
        default: graph.add_node(toy::blend(), {a, pick(graph, graph.type(a))}, salt, name); break;
      }
    }
    for (const std::string& name : updates) {
      // Often a value that is another state, an old value, a view: what a writer in place could break.
      const ValueId value = pick(graph, step_.state(name).type);
      graph.add_output(name, value, OutputRole::kState);
    }
    for (int i = 0; i < 3; ++i)
      graph.add_output(graph.name() + ".result" + std::to_string(i), static_cast<ValueId>(draw(graph.values().size())),
                       OutputRole::kResult);
  }

  void accumulate(const std::string& name) {
    Graph& micro = step_.micro;
    const TensorType& type = step_.state(name).type;
    const ValueId gradient = pick(micro, type);
    const ValueId sum = micro.add_input(name, type, InputRole::kState);
    const NodeId node = micro.add_node(toy::add(), {sum, gradient}, {}, "accumulate/" + name);
    micro.add_output(name, micro.node(node).outputs[0], OutputRole::kState);
  }

  std::mt19937 random_;
  StepGraph step_;
};

using States = std::map<std::string, HostTensor>;

/// Runs a graph in the interpreter: states in and out of `states`, results returned by name.
std::map<std::string, HostTensor> interpret_graph(const Graph& graph, const Backend& backend, States& states,
                                                  const std::map<std::string, HostTensor>& fed) {
  std::map<std::string, HostTensor> feeds;
  for (const GraphInput& input : graph.inputs()) {
    const std::string& name = graph.value(input.value).name;
    feeds[name] = input.role == InputRole::kState ? states.at(name) : fed.at(name);
  }
  const std::vector<HostTensor> outputs = interpret(graph, backend, feeds);
  std::map<std::string, HostTensor> results;
  for (size_t i = 0; i < outputs.size(); ++i)
    (graph.outputs()[i].role == OutputRole::kState ? states : results)[graph.outputs()[i].name] = outputs[i];
  return results;
}

HostTensor sum(const HostTensor& a, const HostTensor& b) {
  HostTensor total(a.type);
  for (int64_t i = 0; i < a.elements(); ++i) total.set(i, static_cast<float>(a.get(i)) + static_cast<float>(b.get(i)));
  return total;
}

/// The gradients of lanes [first, first + count), by the definition of the tree.
States lane_tree(const StepGraph& step, const Backend& backend, const States& states,
                 const std::function<std::map<std::string, HostTensor>(int64_t, int64_t)>& fed, int64_t first,
                 int64_t count) {
  if (count > 1) {
    int64_t left = 1;
    while (left * 2 < count) left *= 2;
    States a = lane_tree(step, backend, states, fed, first, left);
    const States b = lane_tree(step, backend, states, fed, first + left, count - left);
    for (auto& [name, tensor] : a) tensor = sum(tensor, b.at(name));
    return a;
  }
  States lane = states;
  for (const StateTensor& state : step.states)
    if (state.kind == StateKind::kAccumulator) lane[state.name] = HostTensor(state.type);
  for (int64_t micro = 0; micro < step.micro_batches_per_lane; ++micro)
    interpret_graph(step.micro, backend, lane, fed(first, micro));
  States sums;
  for (const StateTensor& state : step.states)
    if (state.kind == StateKind::kAccumulator) sums[state.name] = lane.at(state.name);
  return sums;
}

std::map<std::string, HostTensor> data_for(int64_t step, int64_t lane, int64_t micro) {
  std::map<std::string, HostTensor> data;
  for (size_t i = 0; i < 3; ++i)
    data["x" + std::to_string(i)] =
        toy::numbers({DType::kF32, kShapes[i * 2]},
                     static_cast<uint32_t>(1000 * step + 100 * lane + 10 * micro) + static_cast<uint32_t>(i));
  return data;
}

void expect_equal(const TensorView& view, const HostTensor& wanted, const std::string& what) {
  ASSERT_EQ(*view.type, wanted.type) << what;
  for (int64_t i = 0; i < wanted.elements(); ++i) ASSERT_EQ(view.get(i), wanted.get(i)) << what << " element " << i;
}

void compare(uint32_t seed, int64_t lanes, int64_t micro_batches, bool in_place) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " lanes " + std::to_string(lanes) + " micro-batches " +
               std::to_string(micro_batches));
  const StepGraph step = RandomStep(seed, lanes, micro_batches).take();
  const Backend plain = toy::make_backend(false), backend = toy::make_backend(in_place);
  CompileOptions options;
  options.threads = 2;
  Executable exe = compile(step, backend, options);
  verify(exe, "test");
  EXPECT_LE(exe.bound_bytes, exe.arena_bytes);
  Engine engine(std::move(exe), backend, 2);
  States states;
  for (const StateTensor& state : step.states) {
    if (state.kind == StateKind::kAccumulator) continue;
    states[state.name] = toy::numbers(state.type, seed + 77);
    if (engine.executable().find_state(state.name) >= 0)
      engine.write_state(state.name, state.type, states[state.name].data.data());
  }
  engine.run_derive();
  interpret_graph(step.derive, plain, states, {});
  const std::map<std::string, HostTensor> rate = {{"rate", HostTensor::of(DType::kF32, {}, {0.25})}};
  const ScalarValue scalars[] = {{"rate", 0.25}};
  for (int64_t s = 0; s < 2; ++s) {
    const auto fed = [&](int64_t lane, int64_t micro) { return data_for(s, lane, micro); };
    const Feed feed = [&](int64_t lane, int64_t micro, FeedSink& sink) {
      for (const auto& [name, tensor] : fed(lane, micro)) sink.set(name, tensor.type, tensor.data.data());
    };
    const bool uses_rate = std::any_of(engine.executable().segments.begin(), engine.executable().segments.end(),
                                       [](const Segment& segment) { return !segment.scalars.empty(); });
    const StepResults& results =
        engine.run_step(s, feed, uses_rate ? std::span<const ScalarValue>(scalars) : std::span<const ScalarValue>());
    ASSERT_EQ(results.not_finite, "");
    for (int64_t lane = 0; lane < lanes; ++lane) {
      States local = states;
      for (const char* name : {"g0", "g1"}) local[name] = HostTensor(step.state(name).type);
      for (int64_t micro = 0; micro < micro_batches; ++micro) {
        const auto wanted = interpret_graph(step.micro, plain, local, fed(lane, micro));
        for (const TensorView& view : results.micro(lane * micro_batches + micro))
          if (wanted.count(std::string(view.name)))  // joined, the update's are there too
            expect_equal(view, wanted.at(std::string(view.name)), "micro result " + std::string(view.name));
      }
    }
    const States sums = lane_tree(step, plain, states, fed, 0, lanes);
    for (const auto& [name, tensor] : sums) states[name] = tensor;
    const auto wanted = interpret_graph(step.update, plain, states, rate);
    for (const auto& [name, tensor] : wanted) {
      const TensorView* view = results.find(name);
      ASSERT_NE(view, nullptr) << name;
      expect_equal(*view, tensor, "result " + name);
    }
    interpret_graph(step.derive, plain, states, {});
    for (const StepProgram& program : step.programs) {
      if (program.when.kind != When::Kind::kSteps) continue;
      const auto views = results.program(program.name);
      ASSERT_EQ(views.size(), (s + 1) % program.when.every == 0 ? 3u : 0u) << program.name;
      if (views.empty()) continue;
      const auto expected = interpret_graph(program.graph, plain, states, {});
      for (const TensorView& view : views)
        expect_equal(view, expected.at(std::string(view.name)), "program result " + std::string(view.name));
      interpret_graph(step.derive, plain, states, {});
    }
    for (const StatePlace& place : engine.executable().states)
      if (place.tensor.kind != StateKind::kAccumulator &&
          states.count(place.tensor.name))  // others are the compiler's own
        expect_equal(engine.state(place.tensor.name), states.at(place.tensor.name), "state " + place.tensor.name);
    const Feed evaluation = [&](int64_t, int64_t, FeedSink& sink) {
      for (const auto& [name, tensor] : data_for(s, 7, 7)) sink.set(name, tensor.type, tensor.data.data());
    };
    States untouched = states;
    const auto predicted = interpret_graph(step.find_program("evaluate")->graph, plain, untouched, data_for(s, 7, 7));
    for (const TensorView& view : engine.run("evaluate", evaluation))
      expect_equal(view, predicted.at(std::string(view.name)), "evaluation");
  }
}

TEST(RandomGraphs, RunAsTheInterpreterDoes) {
  for (uint32_t seed = 0; seed < 40; ++seed) compare(seed, 1, 2, seed % 4 != 0);
}

TEST(RandomGraphs, LanesSumByTheTree) {
  for (uint32_t seed = 100; seed < 112; ++seed)
    compare(seed, 1 + static_cast<int64_t>(seed % 7), 1 + static_cast<int64_t>(seed % 3), true);
}

}  // namespace
}  // namespace ramet::tests
