#include "ramet/layout/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "layout/lockstep.h"
#include "ramet/base/error.h"
#include "ramet/layout/pipeline_parts.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/recompute.h"
#include "ramet/transform/simplify.h"
#include "support/small_training.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

/// A small training as layouts get it, with the batches of two steps.
struct Subject : SmallTraining {
  std::vector<Tensors> batches;

  Subject(const std::string& kind, const std::vector<std::string>& more, const std::string& recompute_mode = "none")
      : SmallTraining(kind, more) {
    step = simplify(fuse(hoist(simplify(std::move(step)))));
    step = recompute(std::move(step), parse_recompute(recompute_mode));
    for (int64_t i = 0; i < 2 * step.micro_batches(); ++i) {
      const int64_t size = preparation.recipe.train.micro_batch;
      Tensors tensors;
      for (const NamedTensor& tensor : preparation.workload.train->make(i * size, size).tensors) {
        HostTensor copy(tensor.type);
        copy.data = tensor.bytes;
        tensors.emplace(tensor.name, std::move(copy));
      }
      batches.push_back(std::move(tensors));
    }
  }

  FeedOf feed(int64_t number) const {
    return [this, number](int64_t micro) -> const Tensors& {
      return batches[static_cast<size_t>(number * step.micro_batches() + micro)];
    };
  }
  static Tensors scalars(int64_t number) {
    Tensors tensors;
    for (const auto& [name, value] : SmallTraining::scalars(number))
      tensors.emplace(name, HostTensor::of(DType::kF32, {}, {value}));
    return tensors;
  }
};

/// States of two steps, computed without any layout.
Tensors plain_states(const Subject& subject, Tensors* results = nullptr) {
  PlainMachine machine(subject.step, subject.weights);
  machine.derive();
  for (int64_t number = 0; number < 2; ++number)
    machine.run_step(number, subject.feed(number), Subject::scalars(number));
  if (results) *results = machine.results();
  return machine.states();
}

void expect_same_bits(const Subject& subject, const Tensors& expected, const Tensors& expected_results,
                      const std::string& layout_text) {
  SCOPED_TRACE(layout_text);
  const DeviceGraphs graphs = partition(subject.step, parse_layout(layout_text));
  verify(graphs, "partition");
  LockstepMachine machine(graphs, subject.weights);
  machine.prepare();
  for (int64_t number = 0; number < 2; ++number)
    machine.run_step(number, subject.feed(number), Subject::scalars(number));
  const Tensors states = machine.states();
  int compared = 0;
  for (const StateTensor& state : subject.step.states) {
    if (state.kind != StateKind::kWeight && state.kind != StateKind::kOptimizer) continue;
    ASSERT_TRUE(states.count(state.name)) << state.name;
    const HostTensor &a = states.at(state.name), &b = expected.at(state.name);
    ASSERT_EQ(a.type, b.type) << state.name;
    int64_t differ = 0, first = -1;
    for (int64_t i = 0; i < a.elements(); ++i)
      if (std::memcmp(a.data.data() + i * 4, b.data.data() + i * 4, 4) != 0) first = differ++ ? first : i;
    ASSERT_EQ(differ, 0) << state.name << " differs in " << differ << " of " << a.elements() << " elements, first at "
                         << first << ": " << a.get(first) << " and " << b.get(first);
    ++compared;
  }
  EXPECT_GT(compared, 30);
  for (const auto& [name, tensor] : machine.results()) {
    const auto found = expected_results.find(name);
    ASSERT_NE(found, expected_results.end()) << name;
    EXPECT_EQ(tensor, found->second) << name;
  }
}

int count(const DeviceGraphs& graphs, const std::string& op) {
  int found = 0;
  for (const StageGraphs& stage : graphs.stages)
    for (const Piece& piece : stage.pieces)
      for (const Node& node : piece.graph.nodes()) found += node.op->name == op;
  return found;
}

const LocalState& state_of(const DeviceGraphs& graphs, const std::string& name) {
  for (const StageGraphs& stage : graphs.stages)
    for (const LocalState& state : stage.states)
      if (state.tensor.name == name) return state;
  throw Error({.what = "no such state", .found = name});
}

TEST(Partition, CutsWeightsByTheirLogicalAxes) {
  const Subject subject("bert", {"train.precision=f32"});
  const DeviceGraphs graphs = partition(subject.step, parse_layout("t=2"));
  const std::string layer = "bert.encoder.layer.0.";
  EXPECT_EQ(state_of(graphs, layer + "attention.self.qkv.weight").sharding.text(), "f32[144,48] 0/t1:2x3");
  EXPECT_EQ(state_of(graphs, layer + "attention.output.dense.weight").tensor.type.shape, (Shape{48, 24}));
  EXPECT_EQ(state_of(graphs, layer + "intermediate.dense.weight").tensor.type.shape, (Shape{48, 48}));
  EXPECT_EQ(state_of(graphs, "optimizer.m." + layer + "output.dense.weight").tensor.type.shape, (Shape{48, 48}));
  EXPECT_EQ(state_of(graphs, "bert.embeddings.word_embeddings.weight").tensor.type.shape, (Shape{48, 48}));
  EXPECT_GE(count(graphs, "all_reduce"), 4 * 4) << "two sums forward and two backward in each layer";
}

TEST(Partition, OneDeviceExchangesNothing) {
  const Subject subject("bert", {"train.precision=f32"});
  const DeviceGraphs graphs = partition(subject.step, Layout{});
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "shard"}) EXPECT_EQ(count(graphs, op), 0) << op;
  EXPECT_EQ(graphs.stages.size(), 1u);
}

TEST(Partition, StatesAreShardedAmongReplicasInFlatParts) {
  const Subject subject("gpt2", {"train.precision=f32"});
  const DeviceGraphs graphs = partition(subject.step, parse_layout("r=4 rts=weights:2,optimizer"));
  EXPECT_EQ(state_of(graphs, "transformer.wpe.weight").tensor.type.shape, (Shape{12 * 48 / 2}));
  EXPECT_EQ(state_of(graphs, "optimizer.v.transformer.wpe.weight").tensor.type.shape, (Shape{12 * 48 / 4}));
  EXPECT_GT(count(graphs, "reduce_scatter"), 20);
}

TEST(Partition, StreamedStatesAreAtHomeInStreamingMemory) {
  const Subject subject("gpt2", {"train.precision=f32"});
  const DeviceGraphs graphs = partition(subject.step, parse_layout("phases=2 offload=optimizer,activations"));
  EXPECT_EQ(state_of(graphs, "optimizer.v.transformer.wpe.weight").home, HomeMemory::kStreaming);
  EXPECT_EQ(state_of(graphs, "transformer.wpe.weight").home, HomeMemory::kDevice);
  int streamed = 0, updates = 0;
  for (const Boundary& boundary : graphs.boundaries) streamed += boundary.home == HomeMemory::kStreaming;
  for (const Piece& piece : graphs.stages[0].pieces) updates += piece.kind == PieceKind::kUpdate;
  EXPECT_GT(streamed, 4);
  EXPECT_GT(updates, 3) << "norms and optimizers of each phase, and what stands between";
}

/// Gradients are summed where the weight lies: no device makes the part of another, to drop it.
TEST(Partition, WhatAWeightsGradientIsMadeOfIsCutAsTheWeight) {
  const Subject subject("gpt2", {"train.precision=f32", "model.heads=3"});
  const DeviceGraphs graphs = partition(subject.step, parse_layout("t=4"));
  int tables = 0, products = 0;
  for (const StageGraphs& stage : graphs.stages)
    for (const Piece& piece : stage.pieces)
      for (NodeId id = 0; id < static_cast<NodeId>(piece.graph.nodes().size()); ++id) {
        const NodeSignature node = piece.graph.signature(id);
        if (node.op->name == "scatter_add") {
          EXPECT_EQ(node.outputs[0].shape, (Shape{96 / 4, 48}));
          ++tables;
        }
        if (node.op->name != "matmul") continue;
        // Of query, key and value, whose gradient is whole on every device: three heads are not cut in four.
        EXPECT_NE(node.outputs[0].shape, (Shape{48, 144})) << node.text();
        products += node.outputs[0].shape == Shape{48, 36};
      }
  EXPECT_EQ(tables, 1);
  EXPECT_GE(products, 4);
}

TEST(Partition, MoreStagesThanLayersAreRefused) {
  const Subject subject("gpt2", {"train.precision=f32"});
  try {
    partition(subject.step, parse_layout("p=8 head=first"));
    FAIL() << "should have been refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("4 layers"));
  }
}

struct Case {
  std::string name, kind;
  std::vector<std::string> settings;
  std::string recompute;
  std::vector<std::string> layouts;
};

void PrintTo(const Case& given, std::ostream* stream) { *stream << given.name; }

class PartitionBits : public testing::TestWithParam<Case> {};

TEST_P(PartitionBits, AreThoseOfOneDevice) {
  const Case& given = GetParam();
  const Subject subject(given.kind, given.settings, given.recompute.empty() ? "none" : given.recompute);
  Tensors results;
  const Tensors states = plain_states(subject, &results);
  for (const std::string& layout : given.layouts) expect_same_bits(subject, states, results, layout);
}

const std::vector<Case> kCases = {
    {"alone", "bert", {"train.precision=f32"}, "", {"p=1"}},
    {"replicas",
     "bert",
     {"train.precision=bf16"},
     "",
     {"r=2", "r=4", "r=4 rts=optimizer", "r=4 rts=weights,grads,optimizer", "r=4 rts=weights:2,optimizer:4",
      "r=4 rts=optimizer:2"}},
    {"stages",
     "bert",
     {"train.precision=f32"},
     "",
     {"p=2 head=first", "p=4 head=first", "p=2 schedule=interleaved:2 head=first",
      "p=2 schedule=zero-bubble head=first", "p=3 layers=0+2+2 head=first"}},
    {"tied_on_two_stages",
     "bert",
     {"train.precision=f32"},
     "",
     {"p=2 head=last", "p=4 head=last", "p=2 t=2 head=last", "p=2 r=2 rts=optimizer head=last",
      "p=2 schedule=zero-bubble head=last"}},
    {"tied_on_two_stages_bf16", "gpt2", {"train.precision=bf16"}, "layer", {"p=2 head=last", "p=4 head=last"}},
    {"shards", "bert", {"train.precision=f32"}, "", {"t=2", "t=4", "t=1x2", "t=2x2"}},
    {"shards_bf16", "gpt2", {"train.precision=bf16"}, "", {"t=2", "t=2x2", "t=2 sequence=true"}},
    {"sequence", "bert", {"train.precision=f32"}, "", {"t=2 sequence=true"}},
    {"sequence_bf16",
     "bert",
     {"train.precision=bf16", "model.hidden=64", "model.heads=8", "model.intermediate=128", "model.vocabulary_size=512",
      "model.max_positions=32", "data.sequence_length=32"},
     "",
     {"t=2 sequence=true"}},
    {"padded_vocabulary",
     "gpt2",
     {"train.precision=bf16", "model.vocabulary_size=70", "model.pad_vocabulary=48"},
     "",
     {"t=2", "t=4", "t=2x2", "r=2 t=2 rts=weights,optimizer", "p=2 t=4 head=first",
      "t=4 phases=2 offload=optimizer,weights,grads,activations"}},
    {"padded_vocabulary_bert",
     "bert",
     {"train.precision=f32", "model.vocabulary_size=94", "model.pad_vocabulary=8"},
     "",
     {"t=2", "t=4", "t=4 sequence=true", "r=2 rts=weights"}},
    {"odd_heads",
     "gpt2",
     {"train.precision=bf16", "model.heads=3"},
     "layer",
     {"t=2", "t=4", "t=2x2", "t=4 phases=4 offload=optimizer,weights,grads,activations"}},
    {"odd_heads_bert", "bert", {"train.precision=f32", "model.heads=3"}, "", {"t=2", "t=4 sequence=true"}},
    {"long_tables",
     "gpt2",
     {"train.precision=bf16", "data.sequence_length=8"},
     "",
     {"r=2 rts=weights", "r=4 rts=weights,optimizer phases=2"}},
    {"threes",
     "gpt2",
     {"train.precision=f32", "train.lanes=6", "train.accumulation=6", "train.chunks=6"},
     "",
     {"r=3", "t=3", "r=3 t=3 rts=optimizer", "r=6 rts=optimizer:3", "r=6 rts=weights:3,optimizer:2"}},
    {"phases",
     "gpt2",
     {"train.precision=bf16"},
     "layer",
     {"phases=4", "phases=2 offload=optimizer,weights,grads,activations", "r=2 rts=weights,optimizer phases=4"}},
    {"everything",
     "bert",
     {"train.precision=bf16", "train.optimizer.kind=lamb"},
     "layer",
     {"p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 offload=optimizer head=first"}},
};

INSTANTIATE_TEST_SUITE_P(Layouts, PartitionBits, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(LayerCosts, SumsOfGradientsCountForNoLayerWhateverTheirType) {
  const auto before = [](const std::string& accumulators) {
    const Subject subject("gpt2", {"train.precision=bf16", "train.accumulators=" + accumulators});
    const LayerCosts costs = layer_costs(subject.step.micro, LayerOrder(subject.step.micro));
    EXPECT_GT(costs.layers.front(), 0);
    return costs.before;
  };
  EXPECT_EQ(before("bf16"), before("f32"));
}

}  // namespace
}  // namespace ramet::tests
