// A graph whose nodes are dealt to devices part by part: tables of each part's own, and an all-to-all of rows by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/layout/layout.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/ops/build.h"
#include "ramet/ops/parts.h"
#include "ramet/program/compile.h"
#include "ramet/report/memory.h"
#include "ramet/runtime/cluster.h"
#include "ramet/sim/simulate.h"
#include "ramet/train/initialize.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "support/part_tables.h"

namespace ramet::tests {
namespace {

using namespace parts;

StepGraph make_step() {
  StepGraph step;
  step.micro_batches_per_lane = 2;
  const auto declare = [&](GraphBuilder& build, const std::string& name, TensorType type, StateKind kind,
                           StateInit init, std::vector<LogicalAxis> axes) {
    step.states.push_back({name, type, kind, std::move(init), "", std::move(axes)});
    return build.state(name, type.dtype, type.shape);
  };
  const auto constant = [&](GraphBuilder& build, const std::string& name, const HostTensor& data) {
    std::vector<LogicalAxis> axes(static_cast<size_t>(data.type.shape.rank()));
    axes[0].name = "parts";
    return declare(build, name, data.type, StateKind::kConstant, StateInit::from(TensorData(data)), axes);
  };
  const Tables of_parts = tables();
  Graph forward("forward");
  GraphBuilder build(forward);
  const Tensor factor = build.input("factor", DType::kF32, {kFeatures});
  const Tensor send = constant(build, "send", of_parts.send), sources = constant(build, "sources", of_parts.sources),
               targets = constant(build, "targets", of_parts.targets);
  Tensor x = multiply(constant(build, "features", features()), factor);
  std::vector<std::string> weights;
  for (int layer = 0; layer < 2; ++layer) {
    PartScope scope(build, "layer", layer);
    const Tensor received = reshape(exchange_rows(x, send), {kParts, -1, kFeatures});
    const Tensor sums = scatter_parts(targets, gather_parts(concat({x, received}, 1), sources), kRows);
    weights.push_back("w" + std::to_string(layer));
    x = tanh(matmul(sums, declare(build, weights.back(), {DType::kF32, Shape{kFeatures, kFeatures}}, StateKind::kWeight,
                                  {StateInit::Kind::kNormal, 0, 0.4}, {})));
  }
  build.output("loss", reduce_mean(multiply(x, x), {}));
  forward = set_chunks(forward, kParts, step.states);
  const Graph both = set_chunks(differentiate(forward, "loss", weights), kParts, step.states);
  GraphCopier copier(both, step.micro);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
  step.micro.add_output("loss", copier[both.find_output("loss")->value]);
  GraphBuilder micro(step.micro), update(step.update);
  for (const std::string& name : weights) {
    const TensorType type = step.state(name).type;
    step.states.push_back({"accumulator." + name, type, StateKind::kAccumulator, {}, ""});
    const Tensor gradient = micro.tensor(copier[both.find_output("grad." + name)->value]);
    Scope scope(micro, "accumulate");
    micro.output("accumulator." + name, add(micro.state("accumulator." + name, type.dtype, type.shape), gradient),
                 OutputRole::kState);
    const Tensor sum = update.state("accumulator." + name, type.dtype, type.shape);
    update.output(name, subtract(update.state(name, type.dtype, type.shape), scale(sum, 0.5)), OutputRole::kState);
  }
  return step;
}

std::map<std::string, std::vector<std::byte>> after_two_steps(const StepGraph& step, const std::string& layout,
                                                              std::set<std::string>* ops = nullptr) {
  std::vector<Executable> stages;
  if (layout.empty())
    stages.push_back(compile(step, cpu_backend()));
  else
    stages = compile(step, parse_layout(layout), cpu_backend());
  if (ops)
    for (const Executable& exe : stages)
      for (const Call& call : exe.calls) ops->insert(call.node.op->name);
  Cluster cluster(std::move(stages), cpu_backend(), {});
  ThreadTeam team(1);
  for (const StateTensor& state : step.states) {
    if (!is_saved(state.kind)) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
    initialize_as_held(state, 11, bytes, team);
    cluster.write_state(state, 0, bytes);
  }
  cluster.run_derive();
  for (int64_t number = 0; number < 2; ++number)
    cluster.run_step(number, [&](int64_t micro, const Executable& exe, FeedSink& sink) {
      HostTensor factor(TensorType{DType::kF32, Shape{kFeatures}});
      for (int64_t i = 0; i < kFeatures; ++i) factor.set(i, 1 + 0.25 * static_cast<double>((i + micro + number) % 3));
      if (exe.has_feed("factor")) sink.set("factor", factor.type, factor.data.data());
    });
  std::map<std::string, std::vector<std::byte>> states;
  for (const StateTensor& state : step.states)
    if (is_saved(state.kind)) {
      states[state.name].resize(static_cast<size_t>(state.type.bytes()));
      cluster.read_state(state, 0, states[state.name]);
    }
  return states;
}

TEST(Parts, ExchangedRowsAreThoseOfTheNeighbours) {
  const Tables of_parts = tables();
  EXPECT_GT(padding_of(of_parts.sources), 0.0);
  EXPECT_LT(padding_of(of_parts.sources), 1.0);
  HostTensor rows(TensorType{DType::kF32, Shape{kParts, kRows, 1}});
  for (int64_t i = 0; i < rows.elements(); ++i) rows.set(i, static_cast<double>(100 + i));
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, rows.type.shape);
  const auto given = [&](const char* name, const HostTensor& tensor) {
    return build.input(name, tensor.type.dtype, tensor.type.shape);
  };
  const Tensor received = reshape(exchange_rows(x, given("send", of_parts.send)), {kParts, -1, 1});
  build.output("sums",
               scatter_parts(given("targets", of_parts.targets),
                             gather_parts(concat({x, received}, 1), given("sources", of_parts.sources)), kRows));
  const HostTensor sums = interpret(
      graph, cpu_backend(),
      {{"x", rows}, {"send", of_parts.send}, {"targets", of_parts.targets}, {"sources", of_parts.sources}})[0];
  const auto edges = neighbours();
  for (size_t node = 0; node < edges.size(); ++node) {
    double wanted = 0;
    for (int32_t source : edges[node]) wanted += 100 + source;
    EXPECT_EQ(sums.get(static_cast<int64_t>(node)), wanted) << node;
  }
}

TEST(Parts, HaveEqualBitsOnAnyLayout) {
  const StepGraph step = make_step();
  const auto wanted = after_two_steps(step, "");
  for (const char* layout : {"t=2", "t=4", "t=4 recompute=layer", "p=2 t=2", "p=2 t=4 schedule=gpipe"}) {
    SCOPED_TRACE(layout);
    std::set<std::string> ops;
    EXPECT_EQ(after_two_steps(step, layout, &ops), wanted);
    EXPECT_TRUE(ops.count("all_to_all")) << "rows travel from part to part, not all of them to all";
  }
}

TEST(Parts, EachDeviceHoldsTheTablesOfItsParts) {
  const std::vector<Executable> stages = compile(make_step(), parse_layout("t=4"), cpu_backend());
  ASSERT_EQ(stages.size(), 1u) << "one executable for all devices";
  for (const char* name : {"send", "sources", "targets", "features"})
    EXPECT_EQ(stages[0].states[static_cast<size_t>(stages[0].find_state(name))].tensor.type.shape[0], 1) << name;
}

TEST(Parts, ThePlanNamesWhatIsPaddingInTheirTables) {
  const auto stages = compile(make_step(), parse_layout("t=2"), cpu_backend());
  const report::MemoryReport report = report::memory_report(stages[0]);
  const Tables of_parts = tables();
  std::map<std::string, double> found;
  for (const auto& table : report.tables) found[table.name] = table.padding;
  EXPECT_EQ(found, (std::map<std::string, double>{{"send", padding_of(of_parts.send)},
                                                  {"sources", padding_of(of_parts.sources)},
                                                  {"targets", padding_of(of_parts.targets)}}));
  EXPECT_GT(found["send"], 0);
  EXPECT_LT(found["send"], 1);
  EXPECT_NE(text_of(report).find("of sources i32"), std::string::npos) << text_of(report);
  EXPECT_NE(json_of(report).find("\"padding\""), std::string::npos);
}

TEST(Parts, AreSimulatedWithTheRowsThatTravel) {
  const auto seconds = [](const std::string& layout) {
    return simulate(compile(make_step(), parse_layout(layout), cpu_backend()), load_machine("dgx-h100"));
  };
  const Simulation one = seconds("t=2"), four = seconds("t=4");
  EXPECT_GT(one.seconds, 0);
  const auto moved = [](const Simulation& simulation) {
    double bytes = 0;
    for (const auto& channel : simulation.channels) bytes += channel.bytes;
    return bytes;
  };
  EXPECT_GT(moved(one), 0);
  EXPECT_GT(moved(four), moved(one)) << "the more parts are apart, the more rows travel";
}

}  // namespace
}  // namespace ramet::tests
