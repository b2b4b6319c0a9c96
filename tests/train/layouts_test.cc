#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <sstream>

#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/temporary.h"
#include "support/trained.h"

// Every layout gives the bits of one device: losses, weights, checkpoints, messages. scripts/layouts.py has the whole
// matrix.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

Recipe recipe(const std::string& layout, Settings more = {}, const std::string& kind = "bert") {
  Settings settings = {"model.kind=" + kind,
                       "model.preset=mini",
                       "model.layers=4",
                       "model.hidden=32",
                       "model.heads=4",
                       "model.vocabulary_size=96",
                       "model.max_positions=16",
                       "data.sequence_length=16",
                       "train.micro_batch=2",
                       "train.accumulation=8",
                       "train.lanes=4",
                       "train.chunks=4",
                       "train.clip_norm=0.5",
                       "train.schedule.learning_rate=0.01",
                       "train.schedule.warmup_steps=1",
                       "train.evaluation.batches=3",
                       "train.seed=5"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe made = parse_recipe("", "small.toml", ".", settings);
  set_layout(made, layout);
  return made;
}

Trained train_layout(const std::string& layout, int steps, const Settings& more = {}, const std::string& kind = "bert",
                     const std::string& device = "") {
  Training trainer = make_training(prepare(recipe(layout, more, kind)), {.device = device});
  trainer.initialize();
  return train_steps(trainer, steps);
}

/// Devices whose memory the host cannot address, with queues that run beside it: every way of bytes to and from them.
TEST(Layouts, OnLoopbackDevicesHaveTheBitsOfTheCpu) {
  const TemporaryFolder folder;
  const Settings more = {"train.precision=bf16", "train.optimizer.kind=lamb"};
  const Trained expected = train_layout("", 2, more, "bert", "cpu");
  for (const std::string layout :
       {std::string(), std::string("p=2 head=first"), std::string("t=2"), std::string("t=2x2"),
        std::string("r=2 rts=optimizer"), std::string("r=4 rts=weights:2,grads,optimizer"),
        std::string("p=2 phases=2 offload=optimizer"),
        std::string("phases=2 offload=weights,grads,optimizer,activations"),
        "phases=2 offload=weights,optimizer streaming=" + folder.path().string(),
        std::string("p=2 t=2 r=2 rts=optimizer recompute=layer"), std::string("recompute=all")}) {
    SCOPED_TRACE("'" + layout + "'");
    expect_same(train_layout(layout, 2, more, "bert", "loopback"), expected);
  }
}

/// The class of bits of a GPU, computed on the CPU. scripts/layouts.py has all layouts for it, too.
TEST(Layouts, OfTheClassHopperHaveOneResult) {
  const Settings more = {"train.precision=bf16", "train.optimizer.kind=lamb"};
  for (const std::string kind : {"bert", "gpt2"}) {
    const Trained expected = train_layout("", 2, more, kind, "hopper-host");
    EXPECT_NE(expected.hash, train_layout("", 2, more, kind, "cpu").hash) << "products are those of the CPU";
    for (const std::string layout : {"threads=2", "p=2 head=first", "t=2", "t=2x2", "t=4", "r=2 rts=optimizer",
                                     "r=4 rts=weights:2,grads,optimizer", "p=2 phases=2 offload=optimizer",
                                     "recompute=all", "p=2 t=2 r=2 rts=optimizer recompute=layer"}) {
      SCOPED_TRACE(kind + " '" + layout + "'");
      expect_same(train_layout(layout, 2, more, kind, "hopper-host"), expected);
    }
  }
}

TEST(Layouts, AnUnknownKindOfDeviceIsNamed) {
  try {
    train_layout("", 1, {}, "bert", "abacus");
    FAIL() << "a device that there is not";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "device: there is no kind of device of this name; found 'abacus'; expected one of cpu, cuda, hopper-host, "
                 "loopback");
  }
}

TEST(Layouts, OfBertHaveTheBitsOfOneDevice) {
  const Settings more = {"train.precision=f32", "train.optimizer.kind=adamw"};
  const Trained expected = train_layout("", 2, more);
  for (const char* layout : {"p=2 head=first", "r=2", "t=2", "t=2x2", "r=4 rts=weights:2,grads,optimizer",
                             "phases=2 offload=weights,optimizer,activations",
                             "p=2 t=2 r=2 rts=optimizer recompute=layer", "t=2 sequence=true"}) {
    SCOPED_TRACE(layout);
    expect_same(train_layout(layout, 2, more), expected);
  }
}

TEST(Layouts, OfGpt2HaveTheBitsOfOneDevice) {
  const Settings more = {"train.precision=bf16", "train.optimizer.kind=lamb"};
  const Trained expected = train_layout("", 2, more, "gpt2");
  for (const char* layout : {"p=4", "r=4 rts=grads", "t=4", "phases=4 offload=grads",
                             "p=2 t=2 head=first phases=2 offload=optimizer recompute=all"}) {
    SCOPED_TRACE(layout);
    expect_same(train_layout(layout, 2, more, "gpt2"), expected);
  }
}

// Weights, moments and sums of gradients in 16 bits: what rounds them is drawn by logical element.
TEST(Layouts, OfStatesIn16BitsHaveTheBitsOfOneDevice) {
  const std::vector<std::pair<std::string, Settings>> recipes = {
      {"bert",
       {"train.precision=f16", "train.weights=f16", "train.accumulators=f16", "train.optimizer.state=f16",
        "train.optimizer.kind=adamw"}},
      {"gpt2",
       {"train.precision=bf16", "train.weights=split", "train.accumulators=bf16", "train.optimizer.state=bf16",
        "train.optimizer.kind=lamb"}},
      {"bert",
       {"train.precision=bf16", "train.weights=split", "train.optimizer.state=f16", "train.optimizer.kind=lars"}},
      {"bert",
       {"train.precision=f16", "train.weights=f16", "train.optimizer.state=f16", "train.optimizer.kind=adafactor",
        "train.optimizer.first_moment=true"}},
      {"gpt2",
       {"train.precision=bf16", "train.weights=bf16", "train.optimizer.state=bf16", "train.optimizer.kind=lion"}}};
  for (const auto& [kind, more] : recipes) {
    const Trained expected = train_layout("", 2, more, kind);
    for (const char* layout : {"p=2 head=first", "r=2", "t=2", "t=2x2", "r=4 rts=weights:2,grads,optimizer",
                               "phases=2 offload=weights,grads,optimizer,activations",
                               "p=2 t=2 r=2 rts=optimizer recompute=layer", "r=4 rts=weights,grads,optimizer"}) {
      SCOPED_TRACE(kind + " " + layout);
      expect_same(train_layout(layout, 2, more, kind), expected);
    }
  }
}

/// Each with what it alone has: norms of tensors, means of rows and columns, moments, weights that take plain steps.
TEST(Layouts, EveryOptimizerHasTheBitsOfOneDevice) {
  const std::vector<Settings> optimizers = {
      {"kind=sgd", "nesterov=true"},
      {"kind=lamb", "trust=decayed", "weight_norm_cap=0.5", "bias_correction=false"},
      {"kind=lars", "weight_norm_cap=0.5"},
      {"kind=adafactor"},
      {"kind=adafactor", "first_moment=true", "relative_step=true", "scale_parameter=false", "clip_threshold=0.5"},
      {"kind=adafactor", "factored=false"},
      {"kind=lion"},
      {"kind=rmsprop"},
      {"kind=centered_rmsprop"},
      {"kind=adagrad", "rate_decay=0.1", "first_sum=0.1"}};
  for (const Settings& optimizer : optimizers) {
    Settings more = {"train.precision=f32", "model.vocabulary_size=70", "model.pad_vocabulary=48"};
    std::string all;
    for (const std::string& setting : optimizer) more.push_back("train.optimizer." + setting), all += setting + " ";
    const Trained expected = train_layout("", 2, more);
    for (const char* layout : {"r=4 rts=weights:2,grads,optimizer", "t=2x2", "phases=2 offload=weights,grads,optimizer",
                               "p=2 t=2 r=2 rts=optimizer recompute=layer"}) {
      SCOPED_TRACE(all + layout);
      expect_same(train_layout(layout, 2, more), expected);
    }
  }
}

TEST(Layouts, ThreesAndFives) {
  const Settings more = {"model.layers=5", "model.heads=3",  "model.hidden=48",
                         "train.lanes=6",  "train.chunks=6", "train.accumulation=6"};
  const Trained expected = train_layout("", 2, more);
  for (const char* layout : {"r=3", "t=3", "p=5 head=first", "r=3 t=3 rts=weights,optimizer"}) {
    SCOPED_TRACE(layout);
    expect_same(train_layout(layout, 2, more), expected);
  }
}

/// 70 words in 96 rows: of four shards the third is partly padding and the last nothing else. Five heads are cut by
/// nothing.
TEST(Layouts, PaddedVocabulariesAndOddHeads) {
  const TemporaryFolder folder;
  const Settings more = {"model.vocabulary_size=70", "model.pad_vocabulary=48", "model.hidden=40", "model.heads=5",
                         "train.chunks=8"};
  for (const char* kind : {"bert", "gpt2"}) {
    const Trained expected = train_layout("", 2, more, kind);
    for (const std::string& layout :
         {std::string("t=2"), std::string("t=8"), std::string("t=2x2"),
          "t=4 phases=4 recompute=layer offload=weights,grads,optimizer,activations streaming=" +
              folder.path().string()}) {
      SCOPED_TRACE(layout);
      expect_same(train_layout(layout, 2, more, kind), expected);
    }
  }
}

// train.bits = "fast": layouts are not bound to lanes and chunks, and differ by roundings alone.
TEST(Layouts, WithFastBitsSumInTheirOwnOrder) {
  const Settings more = {"model.layers=2",      "model.heads=3", "model.hidden=48",      "model.dropout=0.1",
                         "train.precision=f32", "train.lanes=6", "train.accumulation=6", "train.optimizer.kind=adamw"};
  Settings fast = more;
  fast.insert(fast.end(), {"train.bits=fast", "train.lanes=1", "train.chunks=5"});
  const Trained expected = train_layout("", 3, more);
  for (const char* layout :
       {"", "r=2", "r=6", "t=3", "t=3x2", "r=2 t=3 rts=weights,grads,optimizer", "p=2 head=first t=1x2"}) {
    SCOPED_TRACE(layout);
    const Trained found = train_layout(layout, 3, fast);
    for (size_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-4 * expected.losses[step]);
      EXPECT_NEAR(found.norms[step], expected.norms[step], 1e-3 * expected.norms[step]);
    }
    EXPECT_EQ(train_layout(layout, 3, fast).hash, found.hash);  // free of the recipe, not of the layout
  }
  EXPECT_NE(train_layout("r=6", 3, fast).hash, train_layout("", 3, fast).hash);
  try {
    prepare(recipe("r=4", fast));
    ADD_FAILURE() << "six micro-batches on four replicas";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("every replica must take equally many micro-batches; found r=4 with "
                                        "train.accumulation=6. With accumulation=6, r may be 1, 2, 3 or 6"));
  }
}

TEST(Layouts, StreamToFiles) {
  const TemporaryFolder folder;
  const Trained expected = train_layout("", 2);
  expect_same(
      train_layout("p=2 phases=2 offload=weights,grads,optimizer,activations streaming=" + folder.path().string(), 2),
      expected);
}

TEST(Layouts, CheckpointsOfAnyGoOnOnAnyOther) {
  const Trained straight = train_layout("", 3);
  const char* const layouts[] = {"", "r=4 rts=weights,grads,optimizer", "p=2 t=2x2 head=first",
                                 "phases=2 offload=weights,optimizer"};
  for (const char* first : layouts) {
    const TemporaryFolder folder;
    Training trainer = make_training(prepare(recipe(first)), {});
    trainer.initialize();
    train_steps(trainer, 2);
    const auto saved = trainer.save(folder.path());
    for (const char* second : layouts) {
      SCOPED_TRACE(std::string(first) + " -> " + second);
      Training other = make_training(prepare(recipe(second)), {});
      EXPECT_EQ(other.restore(Checkpoint(saved)), "");
      EXPECT_EQ(other.steps_done(), 2);
      EXPECT_EQ(train_steps(other, 1).hash, straight.hash);
    }
  }
}

TEST(Layouts, CheckpointsAreTheSameFiles) {
  const auto hashes_of = [](const std::string& layout) {
    const TemporaryFolder folder;
    Training trainer = make_training(prepare(recipe(layout)), {});
    trainer.initialize();
    train_steps(trainer, 1);
    std::vector<std::string> hashes;
    const Checkpoint checkpoint(trainer.save(folder.path()));
    for (const auto& tensor : checkpoint.tensors())
      hashes.push_back(tensor.name + " " + tensor.file + " " + tensor.hash);
    return hashes;
  };
  EXPECT_EQ(hashes_of("p=2 r=2 head=first rts=optimizer"), hashes_of(""));
}

TEST(Layouts, ArenasAreAsPlanned) {
  Training trainer = make_training(prepare(recipe("p=2 r=2 head=first")), {});
  ASSERT_EQ(trainer.cluster().arena_bytes().size(), 4u);
  for (int device = 0; device < 4; ++device)
    EXPECT_EQ(trainer.cluster().arena_bytes()[static_cast<size_t>(device)],
              trainer.cluster().stages()[static_cast<size_t>(device / 2)].planned_bytes());
  EXPECT_EQ(trainer.cluster().local_planned_bytes(), trainer.planned_bytes());
}

/// However many micro-batches there are, few of them are in device memory on their way from phase to phase.
TEST(Layouts, WhatGoesFromPhaseToPhaseStreams) {
  const Settings more = {"train.accumulation=12", "train.lanes=1", "model.layers=4"};
  const Trained expected = train_layout("", 2, more);
  for (const char* layout : {"phases=4 offload=activations", "p=2 phases=2 head=first offload=activations",
                             "p=2 phases=2 head=first offload=weights,activations"}) {
    SCOPED_TRACE(layout);
    Training trainer = make_training(prepare(recipe(layout, more)), {});
    trainer.initialize();
    expect_same(train_steps(trainer, 2), expected);
    for (const Executable& exe : trainer.cluster().stages())
      for (const Buffer& buffer : exe.buffers) EXPECT_LE(buffer.slots, 5) << exe.stage << ": " << buffer.name;
  }
}

/// Between what the layout needs with all kept and at its least, each layer does what the limit asks for, and no bit
/// changes.
TEST(Layouts, FitStreamsAndRecomputesByLayer) {
  const Settings more = {"model.layers=8"};
  const Trained expected = train_layout("", 2, more);
  const auto planned = [&](const std::string& layout) {
    int64_t most = 0;
    for (const Executable& exe : compile_recipe(prepare(recipe(layout, more)), {}).stages)
      most = std::max(most, exe.planned_bytes());
    return most;
  };
  for (const std::string& base :
       {std::string("phases=4 offload=activations"), std::string("p=2 head=first schedule=gpipe offload=activations"),
        std::string("r=2 rts=optimizer phases=2 offload=activations,optimizer")}) {
    const int64_t kept = planned(base + " recompute=fit:1GiB"), least = planned(base + " recompute=fit:1KiB");
    ASSERT_LT(least, kept) << base;
    const int64_t limit = (kept + least) / 2;
    const std::string layout = base + " recompute=fit:" + std::to_string(limit);
    SCOPED_TRACE(layout);
    Training trainer = make_training(prepare(recipe(layout, more)), {});
    trainer.initialize();
    expect_same(train_steps(trainer, 2), expected);
    const Cluster& cluster = trainer.cluster();
    for (size_t device = 0; device < cluster.arena_bytes().size(); ++device) {
      const Executable& exe =
          cluster.stages()[static_cast<size_t>(cluster.mesh().position(static_cast<int>(device)).stage)];
      EXPECT_EQ(cluster.arena_bytes()[device], exe.planned_bytes());
      EXPECT_LE(exe.planned_bytes(), limit + limit / 50) << "but for what the placement leaves free";
      EXPECT_THAT(exe.activations, testing::ContainsRegex("stream|recompute"));
      EXPECT_THAT(exe.activations, HasSubstr("keep"));
    }
  }
}

/// What the refusal says would fit does.
TEST(Layouts, TooLittleDeviceMemorySaysWhatWouldFit) {
  const Settings base = {"layout=p=2 head=first offload=optimizer", "model.layers=8", "data.sequence_length=16"};
  const auto compiled = [&](const Settings& more) {
    Settings settings = base;
    settings.insert(settings.end(), more.begin(), more.end());
    Recipe made = recipe("", settings);
    made.layout = parse_recipe("", "small.toml", ".", settings).layout;
    return compile_recipe(prepare(made), {});
  };
  int64_t planned = 0;
  for (const Executable& stage : compiled({}).stages) planned = std::max(planned, stage.planned_bytes());
  const std::string limit = "layout.device_memory=" + std::to_string(planned / 2);
  try {
    compiled({limit});
    FAIL() << "should have been refused";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("What would help: recompute=layer: about "));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex("[:;] ([a-z_]+=[^:;]*): about [^,;]*, fits"))) << text;
    Settings changes = {limit};
    std::istringstream words(found[1].str());
    for (std::string word; words >> word;) changes.push_back("layout." + word);
    EXPECT_GT(changes.size(), 1u) << text;
    EXPECT_NO_THROW(compiled(changes)) << text;
  }
}

/// All states that a checkpoint holds, bit by bit.
std::map<std::string, std::string> saved_states(const Training& trainer) {
  std::map<std::string, std::string> states;
  for (const StateTensor& state : trainer.compiled().states) {
    std::string bytes(static_cast<size_t>(state.type.bytes()), '\0');
    trainer.read_state(state.name, std::as_writable_bytes(std::span(bytes)));
    states.emplace(state.name, std::move(bytes));
  }
  return states;
}

/// A learning rate of a million makes the numbers of the second or third step infinite. Whatever the layout, that step
/// is refused, its message says which node gave the first of them and on which device, and no state has changed.
TEST(Layouts, TellWhereNumbersWentWrongAndChangeNothing) {
  for (const char* layout : {"", "p=2 head=first", "r=2", "t=2 r=2"}) {
    SCOPED_TRACE(layout);
    Training trainer = make_training(prepare(recipe(layout, {"train.schedule.learning_rate=1e6",
                                                             "train.schedule.warmup_steps=0", "train.clip_norm=0"})),
                                     {});
    trainer.initialize();
    std::string text;
    std::map<std::string, std::string> before;
    for (int i = 0; i < 5 && text.empty(); ++i) {
      before = saved_states(trainer);
      try {
        trainer.step();
      } catch (const Error& error) {
        text = error.what();
      }
    }
    EXPECT_THAT(text, HasSubstr("is not finite"));
    EXPECT_THAT(text, HasSubstr("gave"));
    if (*layout) {
      EXPECT_THAT(text, HasSubstr("on device "));
    }
    EXPECT_TRUE(trainer.whole());
    EXPECT_EQ(before.size(), 3 * trainer.model().weights.size()) << "each weight with its two moments";
    EXPECT_TRUE(saved_states(trainer) == before) << "a refused step changed a state";
  }
}

TEST(Layouts, FoldersThatAreNotThereAreRefusedBeforeTheRun) {
  try {
    Training trainer = make_training(prepare(recipe("p=2 head=first offload=optimizer streaming=/no/such/folder")), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/folder: cannot make a file of streaming memory"));
  }
}

}  // namespace
}  // namespace ramet::tests
