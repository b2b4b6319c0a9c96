// A workload written by hand, whose layers exchange rows between parts, on devices of one process. The same over MPI
// ranks: tests/transport/training_mpi_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ramet/train/facts.h"
#include "ramet/train/feeder.h"
#include "ramet/train/training.h"
#include "support/fault.h"
#include "support/parts_workload.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLooks = 3;

/// The workload with a program more: it reads data, and gives states that it does not use.
Workload workload() {
  Workload made = parts::parts_workload();
  NamedGraph peek{"peek", Graph("peek"), When::on_request()};
  GraphBuilder build(peek.graph);
  build.output("scale", reduce_mean(build.input("scales", DType::kF32, {parts::kBatch, parts::kFeatures}), {}));
  build.output("mean", build.state("mean", DType::kF32, {parts::kFeatures}));
  build.output("places", build.state("places", DType::kI32, {parts::kFeatures}));
  made.model.programs.push_back(std::move(peek));
  return made;
}

/// Tensors of a program by micro-batch and name.
std::map<std::string, std::vector<std::byte>> tensors_of(Training& training, const std::string& program) {
  Feeder feeder(std::make_shared<parts::PartsSource>(), training.cluster(),
                {.micro_batch = parts::kBatch, .program = program, .count = kLooks});
  feeder.begin(0);
  std::map<std::string, std::vector<std::byte>> found;
  const auto results = training.cluster().run(program, kLooks, feeder.feed());
  for (size_t micro = 0; micro < results.size(); ++micro)
    for (const ResultTensor& tensor : results[micro]) found[std::to_string(micro) + " " + tensor.name] = tensor.bytes;
  return found;
}

struct Outcome {
  std::string hash;
  Numbers evaluation;
  std::map<std::string, std::vector<std::byte>> look, peek;
  std::set<std::string> ops;
};

Outcome outcome_of(const std::string& layout) {
  Training training(workload(), parts::parts_options(), parse_layout(layout), {.threads = 1});
  training.initialize();
  for (int64_t step = 0; step < training.options().steps; ++step) training.step();
  Outcome outcome;
  outcome.evaluation = training.evaluate();
  outcome.look = tensors_of(training, "look");
  outcome.peek = tensors_of(training, "peek");
  outcome.hash = training.weights_hash();
  for (const Executable& exe : training.cluster().stages())
    for (const Call& call : exe.calls) outcome.ops.insert(call.node.op->name);
  return outcome;
}

TEST(PartsWorkload, HasTheSameBitsAndTensorsOnAnyLayout) {
  const Outcome one = outcome_of("");
  EXPECT_EQ(one.look.size(), static_cast<size_t>(kLooks) * 14);
  EXPECT_EQ(one.peek.size(), static_cast<size_t>(kLooks) * 3);
  for (const char* layout : {"t=2", "t=4", "p=2", "p=2 head=first", "p=2 t=2", "r=2 rts=optimizer",
                             "phases=2 offload=optimizer", "p=2 t=2 r=2 rts=weights,grads,optimizer"}) {
    SCOPED_TRACE(layout);
    const Outcome many = outcome_of(layout);
    EXPECT_EQ(many.hash, one.hash);
    EXPECT_EQ(many.evaluation, one.evaluation);
    EXPECT_EQ(many.look, one.look);
    EXPECT_EQ(many.peek, one.peek);
    const bool crosses = std::string(layout).find("t=") != std::string::npos && std::string(layout)[0] != 'r';
    EXPECT_EQ(many.ops.contains("all_to_all"), crosses);
  }
}

TEST(PartsWorkload, ConstantsOfSeveralLayersTieNoHeadToTheFirstStage) {
  Model model = parts::parts_model();
  EXPECT_FALSE(has_tied_weights(model)) << "both layers read the tables of rows";
  for (StateTensor& state : model.states)
    if (state.name == "send") state.kind = StateKind::kPattern;
  EXPECT_TRUE(has_tied_weights(model)) << "a pattern is on one stage";
}

TEST(PartsWorkload, ARequestThatIsNotFedEndsNothing) {
  for (const char* layout : {"", "t=2", "r=2"}) {
    SCOPED_TRACE(layout);
    Training training(workload(), parts::parts_options(), parse_layout(layout), {.threads = 1});
    training.initialize();
    const auto expected = tensors_of(training, "look");
    const parts::PartsSource source;
    const auto fault_with = [&](const std::string& name) {
      return fault_of([&] {
        training.cluster().run("look", kLooks, [&](int64_t micro, const Executable&, FeedSink& sink) {
          for (const NamedTensor& tensor : source.make(micro * parts::kBatch, parts::kBatch).tensors)
            if (micro != 1 || tensor.name != "scales")
              sink.set(tensor.name, tensor.type, tensor.bytes.data());
            else if (!name.empty())
              sink.set(name, tensor.type, tensor.bytes.data());
        });
      });
    };
    EXPECT_THAT(fault_with(""), HasSubstr("a data input was not fed; expected 'scales' f32[2,8]"));
    EXPECT_THAT(fault_with("scale"), HasSubstr("found 'scale'"));
    EXPECT_FALSE(training.cluster().stopped());
    EXPECT_EQ(tensors_of(training, "look"), expected);
    EXPECT_GT(number_of(training.step(), "loss"), 0);
  }
}

}  // namespace
}  // namespace ramet::tests
