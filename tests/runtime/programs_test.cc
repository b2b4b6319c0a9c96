// Named programs of a step on many layouts, against one device: what they give and what they leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "ramet/kernel/kernel.h"
#include "ramet/layout/layout.h"
#include "ramet/ops/build.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/cluster.h"
#include "support/fault.h"
#include "support/small_training.h"

namespace ramet::tests {
namespace {

constexpr int64_t kSteps = 4, kRequested = 7;

/// What a run gave, to be equal on all layouts.
struct Given {
  std::map<std::string, std::vector<std::byte>> weights, tensors;
  std::vector<NamedNumbers> numbers;
};

class Subject : public SmallTraining {
 public:
  explicit Subject(const std::string& kind, const std::string& precision = "f32")
      : SmallTraining(kind, {"train.precision=" + precision}) {}

  /// A training with programs of every kind.
  void add_programs() {
    Graph answers = with_tensors(step.find_program("evaluate")->graph, "answers");
    step.programs.push_back({"answers", answers, When::on_request()});
    Graph seen = answers;
    seen.set_name("seen");
    step.programs.push_back({"seen", std::move(seen), When::each_step(2, 3)});
    step.programs.push_back({"shrink", shrink(), When::each_step(2)});
    step.programs.push_back({"after", measure("after", true), When::each_step()});
    step.programs.push_back({"grow", grow(), When::on_request()});
    step.programs.push_back({"watch", measure("watch", false), When::each_micro_batch()});
  }

  std::vector<Executable> compiled(const std::string& layout) const {
    const Layout parsed = parse_layout(layout);
    if (parsed.is_single()) return {compile(step, cpu_backend())};
    return compile(step, parsed, cpu_backend());
  }

  ClusterFeed feed(int64_t number) const {
    return [this, number](int64_t micro, const Executable&, FeedSink& sink) {
      const int64_t size = preparation.recipe.train.micro_batch, index = number * step.micro_batches() + micro;
      for (const NamedTensor& tensor : preparation.workload.train->make(index * size, size).tensors)
        if (sink.takes(tensor.name)) sink.set(tensor.name, tensor.type, tensor.bytes.data());
    };
  }

  static std::vector<ScalarValue> scalars(int64_t number) {
    std::vector<ScalarValue> all;
    for (const auto& [name, value] : SmallTraining::scalars(number)) all.push_back({name, value});
    return all;
  }

  void load(Cluster& cluster) const {
    for (const StateTensor& state : step.states)
      if (state.kind == StateKind::kWeight) cluster.write_state(state, 0, weights.at(state.name).data);
    cluster.run_derive();
  }

  /// The weights of the layers, which are on all stages of a pipeline.
  std::vector<const StateTensor*> layer_weights() const {
    std::vector<const StateTensor*> found;
    for (const StateTensor& state : preparation.workload.model.weights)
      if (state.name.find("layer") != std::string::npos || state.name.find("h.") != std::string::npos)
        found.push_back(&state);
    return found;
  }

 private:
  /// With further outputs: tensors from all over the model, some of which layouts cut.
  static Graph with_tensors(Graph graph, const std::string& name) {
    graph.set_name(name);
    int found = 0;
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); id += 5) {
      const ValueId value = graph.node(id).outputs[0];
      if (graph.type(value).shape.rank() > 1 && !graph.node(id).inputs.empty())
        graph.add_output("tensor" + std::to_string(found++), value);
    }
    EXPECT_GT(found, 8);
    return graph;
  }

  Graph shrink() const {
    Graph graph("shrink");
    GraphBuilder build(graph);
    for (const StateTensor* weight : layer_weights()) {
      const Tensor old = build.state(weight->name, weight->type.dtype, weight->type.shape);
      build.output(weight->name, scale(old, 0.75), OutputRole::kState);
      if (weight == layer_weights().front()) build.output("old", old);
    }
    return graph;
  }

  /// Each micro-batch moves the weights of the layers by what they are.
  Graph grow() const {
    Graph graph("grow");
    GraphBuilder build(graph);
    const Tensor by = build.input("by", DType::kF32, {}, InputRole::kScalar);
    for (const StateTensor* weight : layer_weights()) {
      const Tensor old = build.state(weight->name, weight->type.dtype, weight->type.shape);
      build.output(weight->name, add(old, multiply(old, broadcast_to(by, weight->type.shape))), OutputRole::kState);
    }
    return graph;
  }

  /// 0/0, which ends no step, and as a program of every step what a weight is then.
  Graph measure(const std::string& name, bool weight_too) const {
    Graph graph(name);
    GraphBuilder build(graph);
    const StateTensor& weight = *layer_weights().front();
    const Tensor value = build.state(weight.name, weight.type.dtype, weight.type.shape);
    const Tensor zero = scale(reduce_max(value), 0);
    build.output(name + ".ratio", divide(zero, zero));
    if (weight_too) build.output(name + ".weight", value);
    return graph;
  }
};

Given run(const Subject& subject, const std::string& layout) {
  Cluster cluster(subject.compiled(layout), cpu_backend());
  subject.load(cluster);
  Given given;
  const auto keep = [&](const std::string& prefix, const ResultTensors& tensors) {
    for (const ResultTensor& tensor : tensors)
      given.tensors[prefix + tensor.name + " " + tensor.type.text()] = tensor.bytes;
  };
  for (int64_t number = 0; number < kSteps; ++number) {
    const ClusterResults& results =
        cluster.run_step(number, subject.feed(number), Subject::scalars(number),
                         {.names = {"old", "after.weight", "tensor1", "tensor4"}});
    EXPECT_EQ(results.not_finite, "") << layout;
    given.numbers.insert(given.numbers.end(), results.micro.begin(), results.micro.end());
    given.numbers.push_back(results.update);
    EXPECT_EQ(results.program("shrink") != nullptr, number % 2 == 1);
    EXPECT_EQ(results.program("seen") != nullptr, number % 2 == 1);
    EXPECT_NE(results.program("after"), nullptr);
    for (const auto& [name, tensors] : results.programs) keep(std::to_string(number) + " " + name + " ", tensors);
  }
  const ScalarValue by[] = {{"by", 0.125}};
  EXPECT_EQ(cluster.run("grow", 2, subject.feed(0), by).size(), 2u);
  const auto answers = cluster.run("answers", kRequested, subject.feed(kSteps));
  for (size_t i = 0; i < answers.size(); ++i) keep("answer " + std::to_string(i) + " ", answers[i]);
  const auto losses = cluster.run("answers", kRequested, subject.feed(kSteps), {}, {.names = {"loss"}});
  for (const ResultTensors& tensors : losses) {
    EXPECT_EQ(tensors.size(), 1u);
    given.numbers.push_back(numbers_of(tensors));
  }
  for (const StateTensor& state : subject.step.states)
    if (state.kind == StateKind::kWeight) {
      auto& bytes = given.weights[state.name];
      bytes.resize(static_cast<size_t>(state.type.bytes()));
      cluster.read_state(state, 0, bytes);
    }
  return given;
}

void expect_same(const Given& a, const Given& b, const std::string& layout) {
  SCOPED_TRACE(layout);
  int differ = 0;
  const auto compare = [&](const auto& mine, const auto& theirs) {
    EXPECT_EQ(mine.size(), theirs.size());
    for (const auto& [name, bytes] : mine) {
      const auto other = theirs.find(name);
      if (other == theirs.end() || other->second != bytes)
        if (++differ <= 3) ADD_FAILURE() << name << (other == theirs.end() ? " is missing" : " differs");
    }
  };
  compare(a.weights, b.weights);
  compare(a.tensors, b.tensors);
  ASSERT_EQ(a.numbers.size(), b.numbers.size());
  for (size_t i = 0; i < a.numbers.size(); ++i)
    for (const auto& [name, value] : a.numbers[i]) {
      const auto found = std::find_if(b.numbers[i].begin(), b.numbers[i].end(),
                                      [&, key = name](const auto& each) { return each.first == key; });
      ASSERT_NE(found, b.numbers[i].end()) << name;
      EXPECT_EQ(std::memcmp(&found->second, &value, sizeof value), 0) << name;
    }
}

TEST(Programs, GiveTheSameOnEveryLayout) {
  Subject subject("bert");
  subject.add_programs();
  const Given expected = run(subject, "p=1");
  EXPECT_GT(expected.tensors.size(), 100u);
  for (const char* layout : {"t=2", "t=2x2", "t=2 sequence=true", "r=4 rts=weights,grads,optimizer", "p=2 head=first",
                             "p=4 head=first", "phases=2 offload=optimizer,weights", "p=2 schedule=interleaved:2 head=first",
                             "p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 offload=optimizer,weights head=first"})
    expect_same(run(subject, layout), expected, layout);
}

TEST(Programs, GiveTheSameInSixteenBits) {
  Subject subject("gpt2", "bf16");
  subject.add_programs();
  const Given expected = run(subject, "p=1");
  for (const char* layout : {"t=2", "r=2 rts=optimizer", "p=2 head=first", "phases=4 offload=weights"})
    expect_same(run(subject, layout), expected, layout);
}

TEST(Programs, ThatChangeNothingLeaveTrainingAsItWas) {
  Subject subject("bert", "bf16");
  const auto weights_after = [&](const StepGraph& step) {
    Cluster cluster({compile(step, cpu_backend())}, cpu_backend());
    subject.load(cluster);
    for (int64_t number = 0; number < 2; ++number)
      EXPECT_EQ(cluster.run_step(number, subject.feed(number), Subject::scalars(number)).not_finite, "");
    std::vector<std::vector<std::byte>> all;
    for (const StateTensor& state : subject.preparation.workload.model.weights) {
      all.emplace_back(static_cast<size_t>(state.type.bytes()));
      cluster.read_state(state, 0, all.back());
    }
    return all;
  };
  const auto before = weights_after(subject.step);
  subject.add_programs();
  std::erase_if(subject.step.programs, [](const StepProgram& program) { return program.name == "shrink"; });
  EXPECT_EQ(weights_after(subject.step), before);
}

// With the loss head back on the first stage, two micro-batches are under way at a time.
TEST(Programs, KeepStagesBusy) {
  Subject subject("bert");
  Cluster cluster(subject.compiled("p=2 head=first"), cpu_backend());
  subject.load(cluster);
  std::mutex mutex;
  std::condition_variable changed;
  int64_t begun = -1, overtaken = 0;
  const ClusterFeed plain = subject.feed(0);
  const ClusterFeed watched = [&](int64_t micro, const Executable& exe, FeedSink& sink) {
    {
      std::unique_lock lock(mutex);
      if (exe.stage == 0 && micro > begun) begun = micro, changed.notify_all();
      if (exe.stage == 1 && micro % 2 == 0)
        overtaken += changed.wait_for(lock, std::chrono::seconds(20), [&] { return begun > micro; });
    }
    plain(micro, exe, sink);
  };
  EXPECT_EQ(cluster.run("evaluate", 8, watched).size(), 8u);
  EXPECT_EQ(begun, 7);
  EXPECT_EQ(overtaken, 4);
}

void expect_error(const std::function<void()>& body, const std::string& text) {
  EXPECT_THAT(fault_of(body), ::testing::HasSubstr(text));
}

TEST(Programs, RefuseWhatTheyCannotDo) {
  Subject subject("bert");
  subject.add_programs();
  Cluster cluster(subject.compiled("p=1"), cpu_backend());
  subject.load(cluster);
  expect_error([&] { (void)cluster.run("answer", 1, subject.feed(0)); },
          "the step has no program of this name; found 'answer'. Did you mean 'answers'?");
  expect_error([&] { (void)cluster.run("shrink", 1, subject.feed(0)); },
          "a program does not run on request; found 'shrink', every 2 steps");
  expect_error([&] { (void)cluster.run("answers", 0, subject.feed(0)); }, "a program is asked for no micro-batch; found 0");
  expect_error([&] { (void)cluster.run("answers", 1, subject.feed(0), {}, {.names = {"los"}}); },
          "there is no result of this name; found 'los'");
  expect_error([&] { (void)cluster.run_step(0, subject.feed(0), Subject::scalars(0), {.names = {"none"}}); },
          "there is no result of this name; found 'none'");
  expect_error([&] { (void)cluster.run("grow", 1, subject.feed(0)); }, "a scalar input is missing; expected 'by'");
}

TEST(Programs, AreVerified) {
  const auto broken = [](const std::function<void(StepGraph&)>& body, const std::string& text) {
    Subject subject("bert");
    subject.add_programs();
    body(subject.step);
    expect_error([&] { verify(subject.step, "test"); }, text);
  };
  const auto program = [](StepGraph& step, const std::string& name) -> StepProgram& {
    for (StepProgram& each : step.programs)
      if (each.name == name) return each;
    throw Error({.what = "no program"});
  };
  broken([&](StepGraph& step) { program(step, "shrink").when = When::each_micro_batch(); },
         "program 'shrink' writes it; expected written by update, programs behind a step, programs on request. A program "
         "of every micro-batch writes no state");
  broken([&](StepGraph& step) { program(step, "seen").when.micro = -1; }, "reads data, but of no micro-batch");
  broken([&](StepGraph& step) { program(step, "seen").when.micro = 8; }, "runs at an impossible time");
  broken([&](StepGraph& step) { program(step, "after").name = "seen"; }, "a program needs a name of its own");
  broken([&](StepGraph& step) { step.guards.push_back("grad"); }, "neither micro nor update gives a result");
  broken(
      [&](StepGraph& step) {
        GraphBuilder build(program(step, "after").graph);
        for (const StateTensor& state : step.states)
          if (state.kind == StateKind::kAccumulator)
            return build.output("sum", build.state(state.name, state.type.dtype, state.type.shape));
      },
      "a graph reads a state that it may not; found program 'after' reads it; expected read by micro, update");
}

}  // namespace
}  // namespace ramet::tests
