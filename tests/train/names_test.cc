#include <gtest/gtest.h>

#include <map>

#include "ramet/base/rng.h"
#include "ramet/program/executable.h"
#include "ramet/recipe/prepare.h"
#include "ramet/runtime/numerics.h"
#include "ramet/train/step.h"

// Names of nodes, of values and of stacks are for people: another spelling changes no plan, no cut and no bit.

namespace ramet::tests {
namespace {

Recipe recipe(const std::string& kind, const std::string& layout, const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"model.kind=" + kind,
                                       "model.preset=mini",
                                       "model.layers=4",
                                       "model.hidden=32",
                                       "model.heads=4",
                                       "model.vocabulary_size=96",
                                       "model.max_positions=16",
                                       "data.sequence_length=16",
                                       "train.micro_batch=2",
                                       "train.accumulation=4",
                                       "train.lanes=2",
                                       "train.chunks=2",
                                       "train.clip_norm=0.5",
                                       "train.schedule.learning_rate=0.01",
                                       "train.schedule.warmup_steps=1",
                                       "train.seed=5"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe made = parse_recipe("", "names.toml", ".", settings);
  set_layout(made, layout);
  return made;
}

/// Gives every scope, node, value and stack of a model another name: random ones, and ones that say what is not so.
class Renamer {
 public:
  void rename(Graph& graph) {
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
      NodeInfo info = graph.node(id);
      info.name = path(info.name);
      info.origin = "";
      if (info.part.known()) info.part.stack = stack(info.part.stack);
      for (const ValueId output : graph.node(id).outputs) graph.set_value_name(output, word());
      graph.set_info(id, std::move(info));
    }
  }

 private:
  std::string word() {
    static const char* const kMisleading[] = {"layer7",          "backward",  "recompute", "x.low",         "update",
                                              "layer0/backward", "grad.w",    "@",         "gradient_norm", "",
                                              "layer1",          "accumulate"};
    const uint64_t drawn = random_.below(next_++, 24);
    return drawn < std::size(kMisleading) ? kMisleading[drawn] : "z" + std::to_string(drawn * 7919 + next_);
  }
  /// A name of as many parts, or fewer, drawn anew for each node.
  std::string path(const std::string& old) {
    std::string name = word();
    for (const char c : old)
      if (c == '/') name += "/" + word();
    return name;
  }
  std::string stack(const std::string& old) {
    const auto [known, fresh] = stacks_.emplace(old, "");
    if (fresh) known->second = "a stack / " + std::to_string(stacks_.size());
    return known->second;
  }

  const RandomStream random_{11, RandomPurpose::kTest, 0, 0};
  uint64_t next_ = 0;
  std::map<std::string, std::string> stacks_;
};

Preparation renamed(Preparation preparation) {
  Renamer renamer;
  Model& model = preparation.workload.model;
  renamer.rename(model.forward);
  renamer.rename(model.evaluate);
  for (NamedGraph& program : model.programs) renamer.rename(program.graph);
  return preparation;
}

Graph without_stacks(Graph graph) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    NodeInfo info = graph.node(id);
    if (info.part.known()) info.part.stack = "stack";
    graph.set_info(id, std::move(info));
  }
  return graph;
}

/// An executable without what is for people.
std::string without_names(Executable exe) {
  exe.key = {};
  for (Call& call : exe.calls) call.node.name.clear();
  for (auto* buffers : {&exe.buffers, &exe.streaming})
    for (Buffer& buffer : *buffers) buffer.name.clear();
  for (Transfer& transfer : exe.transfers) transfer.name.clear();
  for (StatePlace& state : exe.states) state.tensor.part.clear();  // "after encoder 3"
  for (Segment& segment : exe.segments)
    for (Instruction& instruction : segment.instructions)
      instruction.name.clear(), instruction.origin.clear(), instruction.part.stack.clear();
  return executable_bytes(exe);
}

size_t instructions(const Executable& exe) {
  size_t count = 0;
  for (const Segment& segment : exe.segments) count += segment.instructions.size();
  return count;
}

struct Case {
  std::string kind, layout;
  std::vector<std::string> more;
  friend void PrintTo(const Case& one, std::ostream* out) {
    *out << one.kind << " \"" << one.layout << "\"";
    for (const std::string& setting : one.more) *out << " " << setting;
  }
};

class Renaming : public testing::TestWithParam<Case> {};

TEST_P(Renaming, ChangesNoPlanAndNoBit) {
  const auto& [kind, layout, more] = GetParam();
  Preparation named = prepare(recipe(kind, layout, more)), other = renamed(prepare(recipe(kind, layout, more)));
  ASSERT_NE(print(named.workload.model.forward), print(other.workload.model.forward));
  EXPECT_EQ(without_stacks(make_training_step(named.workload.model, named.options).micro).hash(),
            without_stacks(make_training_step(other.workload.model, other.options).micro).hash());
  Training first = make_training(std::move(named), {}), second = make_training(std::move(other), {});
  const auto &plans = first.cluster().stages(), &others = second.cluster().stages();
  ASSERT_EQ(plans.size(), others.size());
  for (size_t stage = 0; stage < plans.size(); ++stage) {
    EXPECT_EQ(plans[stage].arena_bytes, others[stage].arena_bytes);
    EXPECT_EQ(plans[stage].streaming_bytes, others[stage].streaming_bytes);
    EXPECT_EQ(instructions(plans[stage]), instructions(others[stage]));
    EXPECT_TRUE(without_names(plans[stage]) == without_names(others[stage])) << "stage " << stage;
  }
  for (Training* training : {&first, &second}) {
    training->initialize();
    for (int step = 0; step < 2; ++step) training->step();
  }
  EXPECT_EQ(first.weights_hash(), second.weights_hash());
  EXPECT_EQ(number_of(first.evaluate(), "loss"), number_of(second.evaluate(), "loss"));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* kind : {"bert", "gpt2"})
    for (const char* layout :
         {"", "p=2", "t=2 sequence=true", "p=2 phases=2 offload=optimizer,activations recompute=layer",
          "p=2 t=2 r=2 rts=optimizer recompute=layer:0,3"})
      all.push_back({kind, layout, {"train.precision=bf16"}});
  all.push_back({"gpt2", "p=2 schedule=zero-bubble", {"train.precision=f32"}});
  all.push_back({"bert", "r=2", {"train.precision=bf16", "train.weights=split", "train.accumulators=bf16"}});
  all.push_back({"gpt2", "phases=2 offload=weights,grads", {"train.precision=bf16", "train.weights=split"}});
  all.push_back({"bert", "", {"train.accumulation=1", "train.lanes=1", "train.recompute=fit:400KiB"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Renaming, testing::ValuesIn(cases()));

// What a check of numerics looks at is known by fields too.
TEST(Renaming, ChangesNoSurveyOfNumerics) {
  for (const char* layout : {"", "p=2"}) {
    const auto prepared = [&] { return prepare(recipe("bert", layout, {"train.accumulation=1", "train.lanes=1"})); };
    const auto kinds = [](Preparation preparation) {
      const Training training = make_training(std::move(preparation), {});
      std::map<std::pair<int, std::string>, int> count;
      for (const Executable& exe : training.cluster().stages())
        for (const NumericsRow& row : numerics_table(exe).rows) {
          const bool own = row.kind != NumericsRow::Kind::kActivation;  // of a state: its name is no node's
          ++count[{static_cast<int>(row.kind), own ? row.name : ""}];
        }
      return count;
    };
    const auto found = kinds(prepared());
    EXPECT_EQ(found, kinds(renamed(prepared())));
    size_t gradients = 0;
    for (const auto& [row, count] : found)
      gradients += row.first == static_cast<int>(NumericsRow::Kind::kGradient) ? static_cast<size_t>(count) : 0;
    EXPECT_EQ(gradients, prepared().workload.model.weights.size());
  }
}

}  // namespace
}  // namespace ramet::tests
