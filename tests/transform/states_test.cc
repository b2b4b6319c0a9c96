// Roles of states: who may read and write what, and how constants and deferred states are lowered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/ops/build.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/lower_states.h"
#include "ramet/transform/step_graph.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const TensorType kType{DType::kF32, Shape{4}};

StateTensor state_of(StateKind kind) {
  StateTensor state{"s", kType, kind, {}, ""};
  if (kind == StateKind::kConstant) state.init = StateInit::from(TensorData(HostTensor(kType)));
  if (kind == StateKind::kPattern) state.type.dtype = DType::kI32;
  return state;
}

/// Programs are named for when they run.
const std::map<std::string, When> kTimes = {
    {"beside", When::each_micro_batch()}, {"behind", When::each_step()}, {"request", When::on_request()}};

Graph& graph_of(StepGraph& step, const std::string& name) {
  if (const auto when = kTimes.find(name); when != kTimes.end()) {
    step.programs.push_back({name, Graph(name), when->second});
    return step.programs.back().graph;
  }
  return name == "micro" ? step.micro : name == "update" ? step.update : step.derive;
}

std::string error_of(const StepGraph& step) {
  try {
    verify(step, "test");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// A step whose graph `name` reads or writes a state of this kind.
StepGraph step_that(StateKind kind, const std::string& name, bool reads, bool writes) {
  StepGraph step;
  step.states.push_back(state_of(kind));
  const TensorType& type = step.states[0].type;
  GraphBuilder build(graph_of(step, name));
  const Tensor old = reads ? build.state("s", type.dtype, type.shape) : full(build, type.dtype, type.shape, 1);
  if (writes)
    build.output("s", add(old, old), OutputRole::kState);
  else
    build.output("result", add(old, old));
  return step;
}

TEST(Roles, EachGraphWritesWhatItMay) {
  const std::map<StateKind, std::set<std::string>> may = {
      {StateKind::kWeight, {"update", "behind", "request"}},
      {StateKind::kOptimizer, {"update", "behind", "request"}},
      {StateKind::kAccumulator, {"micro", "update"}},
      {StateKind::kDerived, {"derive"}},
      {StateKind::kConstant, {}},
      {StateKind::kPattern, {"update", "behind", "request"}},
      {StateKind::kDeferred, {"micro", "update", "behind", "request"}},
      {StateKind::kChained, {"micro", "update", "behind", "request"}},
      {StateKind::kKept, {"request"}},
  };
  ASSERT_EQ(may.size(), static_cast<size_t>(kStateKindCount));
  for (const auto& [kind, graphs] : may)
    for (const char* graph : {"micro", "update", "derive", "beside", "behind", "request"}) {
      SCOPED_TRACE(std::string(name_of(kind)) + " " + graph);
      const std::string error = error_of(step_that(kind, graph, false, true));
      if (graphs.count(graph)) {
        EXPECT_EQ(error, "no error");
      } else {
        EXPECT_THAT(error, AllOf(HasSubstr("a graph writes a state that it may not"),
                                 HasSubstr(std::string(name_of(kind)) + " state 's'"),
                                 HasSubstr(std::string(kTimes.count(graph) ? "program '" : "graph '") + graph +
                                           "' writes it")));
      }
    }
}

TEST(Roles, AMicroGraphThatWritesAWeightIsToldWhatToDo) {
  EXPECT_EQ(error_of(step_that(StateKind::kWeight, "micro", true, true)),
            "weight state 's': a graph writes a state that it may not; found graph 'micro' writes it; expected written "
            "by update, programs behind a step, programs on request. Let micro add to an accumulator and the update "
            "change the state, or make the state deferred or "
            "chained");
}

TEST(Roles, DerivedStatesComeFromWhatMicroBatchesDoNotChange) {
  for (const StateKind kind : {StateKind::kAccumulator, StateKind::kChained, StateKind::kKept})
    EXPECT_THAT(error_of(step_that(kind, "derive", true, false)), HasSubstr("a graph reads a state that it may not"));
  for (const StateKind kind :
       {StateKind::kWeight, StateKind::kConstant, StateKind::kPattern, StateKind::kDeferred, StateKind::kOptimizer})
    EXPECT_EQ(error_of(step_that(kind, "derive", true, false)), "no error");
  EXPECT_THAT(error_of(step_that(StateKind::kAccumulator, "micro", true, false)),
              HasSubstr("a micro-batch reads a sum that it does not add to"));
}

TEST(Roles, ProgramsReadWhatIsWholeBetweenSteps) {
  for (const auto& [name, when] : kTimes) {
    SCOPED_TRACE(name);
    for (const StateKind kind : {StateKind::kWeight, StateKind::kOptimizer, StateKind::kConstant, StateKind::kPattern,
                                 StateKind::kDeferred, StateKind::kChained})
      EXPECT_EQ(error_of(step_that(kind, name, true, false)), "no error");
    EXPECT_THAT(error_of(step_that(StateKind::kAccumulator, name, true, false)),
                HasSubstr("a graph reads a state that it may not; found program '" + name +
                          "' reads it; expected read "
                          "by micro, update"));
    if (name == "request") continue;
    EXPECT_THAT(error_of(step_that(StateKind::kKept, name, true, false)),
                HasSubstr("expected read by programs on request"));
  }
}

TEST(Roles, WhatMayChangeDerivedStatesIsFollowedByPrepare) {
  for (const StateKind kind : {StateKind::kWeight, StateKind::kPattern, StateKind::kDeferred}) {
    const StepGraph step = step_that(kind, "request", true, true);
    EXPECT_TRUE(step.writes_sources(step.programs[0])) << name_of(kind);
  }
  for (const StateKind kind : {StateKind::kChained, StateKind::kKept}) {
    const StepGraph step = step_that(kind, "request", true, true);
    EXPECT_FALSE(step.writes_sources(step.programs[0])) << name_of(kind);
    EXPECT_TRUE(step.programs[0].writes_states());
  }
}

TEST(Roles, AskForTypesDataAndLanes) {
  const auto with = [](StateTensor state, int64_t lanes = 1) {
    StepGraph step;
    step.states.push_back(std::move(state));
    step.lanes = lanes;
    return error_of(step);
  };
  StateTensor pattern = state_of(StateKind::kPattern);
  EXPECT_EQ(with(pattern), "no error");
  pattern.type.dtype = DType::kF32;
  EXPECT_THAT(with(pattern), HasSubstr("a pattern holds integers"));
  StateTensor deferred = state_of(StateKind::kDeferred);
  deferred.type.dtype = DType::kBF16;
  EXPECT_THAT(with(deferred), HasSubstr("a deferred state is f32"));
  EXPECT_THAT(with(state_of(StateKind::kChained), 2),
              AllOf(HasSubstr("chained state 's'"), HasSubstr("lanes would break the chain"), HasSubstr("2 lanes")));
  StateTensor constant = state_of(StateKind::kConstant);
  constant.init = {};
  EXPECT_THAT(with(constant), HasSubstr("a constant has no data"));
  constant.init = StateInit::from(TensorData(HostTensor(TensorType{DType::kF32, Shape{5}})));
  EXPECT_THAT(with(constant), HasSubstr("the data that a state starts with are of another type"));
  StateTensor weight = state_of(StateKind::kWeight);
  weight.init.kind = StateInit::Kind::kFunction;
  EXPECT_THAT(with(weight), HasSubstr("the function that gives a state's first values is missing"));
}

TEST(Constants, BecomeStatesThatAreSharedAndDerivedFrom) {
  const TensorData data(HostTensor::of(DType::kF32, {4}, {1, 2, 3, 4})),
      same(HostTensor::of(DType::kF32, {4}, {1, 2, 3, 4})), flat(HostTensor::of(DType::kF32, {4}, {5, 5, 5, 5}));
  StepGraph step;
  step.programs.push_back({"evaluate", Graph("evaluate"), When::on_request()});
  for (Graph* graph : {&step.micro, &step.programs[0].graph}) {
    GraphBuilder build(*graph);
    const Tensor x = build.input("x", DType::kF32, {4});
    const Tensor c = constant(build, graph == &step.micro ? data : same);
    build.output("y", add(multiply(x, tanh(c)), constant(build, flat)));
  }
  step = lower_states(std::move(step));
  verify(step, "lower_states");
  ASSERT_EQ(step.states.size(), 1u) << print(step);
  EXPECT_EQ(step.states[0].kind, StateKind::kConstant);
  EXPECT_EQ(step.states[0].init.data->bytes(), data.bytes());
  EXPECT_NE(step.micro.find_input(step.states[0].name), kNoValue);
  EXPECT_NE(step.programs[0].graph.find_input(step.states[0].name), kNoValue);
  for (const Node& node : step.micro.nodes()) EXPECT_NE(node.op->name, "constant");
  EXPECT_THAT(print(step.micro), HasSubstr("full()")) << "a constant of one value needs no bytes";
  // What follows from constants alone is computed once.
  step = hoist(std::move(step));
  EXPECT_THAT(print(step.derive), HasSubstr("tanh"));
  EXPECT_THAT(print(step.micro), ::testing::Not(HasSubstr("tanh")));
  const std::string text = print(step);
  EXPECT_THAT(text, HasSubstr("constant data(\"" + data.hash().hex() + "\")"));
}

TEST(Deferred, AreRowsOfASumThatTheUpdateFolds) {
  StepGraph step;
  step.lanes = 2;
  step.micro_batches_per_lane = 3;
  StateTensor mean = state_of(StateKind::kDeferred);
  mean.axes = {{"mlp"}};
  mean.fold = {.by = "max"};
  step.states.push_back(mean);
  GraphBuilder build(step.micro);
  const Tensor x = build.input("x", DType::kF32, {4});
  build.output("s", x, OutputRole::kState);
  build.output("before", reduce_sum(build.state("s", DType::kF32, {4})));
  verify(step, "test");
  const StepGraph lowered = lower_states(step);
  verify(lowered, "lower_states");
  const StateTensor& sum = lowered.state("accumulator.s");
  EXPECT_EQ(sum.type, (TensorType{DType::kF32, Shape{6, 4}}));
  EXPECT_EQ(sum.kind, StateKind::kAccumulator);
  EXPECT_EQ(sum.axes, (std::vector<LogicalAxis>{{""}, {"mlp"}}));
  EXPECT_EQ(lowered.micro.find_output("s"), nullptr);
  EXPECT_NE(lowered.micro.find_input("s"), kNoValue);
  EXPECT_NE(lowered.update.find_output("s"), nullptr);
  EXPECT_THAT(print(lowered.update), HasSubstr("fold("));
  EXPECT_EQ(print(lower_states(lowered)), print(lowered)) << "once is enough";

  GraphBuilder update(step.update);
  update.output("s", full(update, DType::kF32, {4}, 0), OutputRole::kState);
  EXPECT_THROW(lower_states(step), Error);
}

}  // namespace
}  // namespace ramet::tests
