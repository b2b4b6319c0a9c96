#include "ramet/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}
std::string parse_error(const std::string& text) {
  return error_of([&] { parse_layout(text); });
}
std::string toml_error(const std::string& text) {
  return error_of([&] { parse_layout_toml(text, "l.toml"); });
}
std::string again(const std::string& text) { return print_layout(parse_layout(text)); }

// A recipe and model that leave much open: BERT-base with 12 lanes and 8 parts.
const LayoutFacts kBase{.lanes = 12,
                        .chunks = 8,
                        .micro_batches = 24,
                        .tokens = 128,
                        .layers = 12,
                        .heads = 12,
                        .hidden = 768,
                        .intermediate = 3072,
                        .vocabulary = 30720};
std::vector<std::string> remarks_of(const std::string& text, const LayoutFacts& facts = kBase) {
  return validate(parse_layout(text), facts);
}
std::string refusal(const std::string& text, const LayoutFacts& facts = kBase) {
  return error_of([&] { remarks_of(text, facts); });
}

TEST(Layout, ReadsEveryKey) {
  const Layout layout = parse_layout(
      "p=2 t=2x4 r=8 rts=weights:2,grads,optimizer:4 phases=4 recompute=layer:1,3 offload=optimizer,activations\n"
      "schedule=1f1b layers=3+3+3+3+3+3+3+3 head=first sequence=true device_memory=1.5GiB streaming=\"/fast disk/x\" "
      "threads=2 per_process=16");
  EXPECT_EQ(layout.mesh(), (Mesh{.p = 2, .r = 8, .t1 = 2, .t2 = 4}));
  EXPECT_EQ(layout.devices(), 128);
  EXPECT_EQ(layout.rts.weights, 2);
  EXPECT_EQ(layout.rts.grads, 8);
  EXPECT_EQ(layout.rts.optimizer, 4);
  EXPECT_EQ(layout.phases, 4);
  ASSERT_TRUE(layout.recompute.has_value());
  EXPECT_EQ(layout.recompute->mode, RecomputeOptions::Mode::kLayers);
  EXPECT_THAT(layout.recompute->layers, ElementsAre(1, 3));
  EXPECT_TRUE(layout.offload.optimizer && layout.offload.activations);
  EXPECT_FALSE(layout.offload.weights || layout.offload.grads);
  EXPECT_EQ(layout.schedule, PipelineSchedule::kOneFOneB);
  EXPECT_THAT(layout.layers, ElementsAre(3, 3, 3, 3, 3, 3, 3, 3));
  EXPECT_EQ(layout.layer_parts(), 8);
  EXPECT_EQ(layout.model_parts(), 9);
  EXPECT_EQ(layout.stage_of(8), 0);
  EXPECT_TRUE(layout.sequence);
  EXPECT_EQ(layout.device_memory, int64_t{3} << 29);
  EXPECT_EQ(layout.streaming, "/fast disk/x");
  EXPECT_TRUE(layout.streams_to_files());
  EXPECT_EQ(layout.threads, 2);
  EXPECT_EQ(layout.per_process, 16);
  EXPECT_FALSE(layout.is_single());
}

TEST(Layout, AnEmptyTextIsOneDevice) {
  const Layout layout = parse_layout("");
  EXPECT_TRUE(layout.is_single());
  EXPECT_EQ(layout.model_parts(), 1);
  EXPECT_FALSE(layout.recompute.has_value());
  EXPECT_EQ(print_layout(layout), "p=1");
  EXPECT_TRUE(parse_layout("p=1").is_single());
  EXPECT_TRUE(parse_layout("recompute=all threads=3").is_single());
  EXPECT_FALSE(parse_layout("phases=2").is_single());
  EXPECT_FALSE(parse_layout("offload=optimizer").is_single());
  EXPECT_TRUE(parse_layout("offload=rows").is_single());
  EXPECT_EQ(print_layout(parse_layout("offload=rows,weights")), "offload=weights,rows");
}

TEST(Layout, PrintsOneTextForEqualLayouts) {
  EXPECT_EQ(again("r=4 rts=optimizer:4,weights:4 t=2x1  p=1"), "t=2 r=4 rts=weights,optimizer");
  EXPECT_EQ(again("offload=activations,weights schedule=1f1b device_memory=1536MiB"),
            "offload=weights,activations device_memory=1536MiB");
  EXPECT_EQ(again("recompute=fit:0.5GiB"), "recompute=fit:512MiB");
  EXPECT_EQ(again("recompute=none"), "recompute=none");
  EXPECT_EQ(again("rts=none offload=none layers=auto streaming=ram"), "p=1");
  for (const char* text :
       {"p=2 t=2 r=2 rts=weights,grads,optimizer phases=4 recompute=layer offload=optimizer,activations",
        "p=4 schedule=interleaved:3", "p=3 schedule=zero-bubble layers=0+4+5", "p=2 recompute=cheap schedule=gpipe",
        "t=2x3 sequence=true", "streaming=\"/a b\" threads=1 per_process=2", "r=6 rts=weights:3,grads:2"})
    EXPECT_EQ(again(text), text);
}

TEST(Layout, TomlSaysTheSame) {
  const std::string text =
      "p=2 t=2x4 r=4 rts=weights:2,grads offload=optimizer schedule=interleaved:2 layers=3+3+3+3 sequence=true";
  EXPECT_EQ(print_layout(parse_layout_toml(
                "p = 2\nt = [2, 4]\nr = 4\nrts = [\"weights:2\", \"grads\"]\noffload = \"optimizer\"\n"
                "schedule = \"interleaved:2\"\nlayers = [3, 3, 3, 3]\nsequence = true\n",
                "l.toml")),
            text);
  EXPECT_EQ(print_layout(parse_layout_toml("[layout]\np = 3\nt = \"2x1\"\nrts = []\nlayers = []\n", "l.toml")),
            "p=3 t=2");
}

TEST(Layout, ReadsFiles) {
  TemporaryFolder folder;
  write_file_atomic(folder / "a.toml", "p = 2\nstreaming = \"pages\"\n");
  const Layout layout = load_layout((folder / "a.toml").string());
  EXPECT_EQ(layout.p, 2);
  EXPECT_EQ(layout.streaming, (folder / "pages").string());
  EXPECT_EQ(load_layout("p=3").p, 3);
  EXPECT_THAT(error_of([&] { load_layout((folder / "b.toml").string()); }), HasSubstr("b.toml"));
}

TEST(Layout, BadTextsSayWhatWouldBeRight) {
  EXPECT_EQ(parse_error("replicas=2"),
            "--layout replicas: unknown key 'replicas' of a layout. A layout has: p, t, r, g, deal, rts, phases, "
            "recompute, offload, schedule, layers, head, sequence, device_memory, streaming, threads, per_process");
  EXPECT_THAT(parse_error("phase=2"), HasSubstr("expected perhaps 'phases'"));
  EXPECT_EQ(parse_error("p=two"),
            "--layout p: not a whole number; found 'two'; expected a whole number from 1 to 1048576");
  EXPECT_THAT(parse_error("p=0"), HasSubstr("--layout p: out of range; found '0'"));
  EXPECT_THAT(parse_error("p=99999999999999999999"), HasSubstr("out of range"));
  EXPECT_EQ(parse_error("p=2 p=2"), "--layout p: this key stands twice");
  EXPECT_EQ(
      parse_error("p"),
      "--layout: not a key with its value; found 'p'; expected KEY=VALUE apart by spaces, as in \"p=2 t=2x1 r=2\"");
  EXPECT_THAT(parse_error("=2"), HasSubstr("not a key with its value"));
  EXPECT_THAT(parse_error("t=2x2x2"),
              HasSubstr("--layout t: more than two sides; found '2x2x2'; expected T or T1xT2, as 4 or 2x2"));
  EXPECT_THAT(parse_error("t=2x"), HasSubstr("not a whole number"));
  EXPECT_THAT(parse_error("rts=weight"),
              HasSubstr("unknown kind of tensor; found 'weight'; expected none, or some of weights"));
  EXPECT_THAT(parse_error("rts=weights,weights:2"), HasSubstr("'weights' stands twice"));
  EXPECT_THAT(parse_error("offload=disk"),
              HasSubstr("expected none, or some of weights, grads, optimizer, activations and rows"));
  EXPECT_THAT(parse_error("schedule=pipedream"),
              HasSubstr("expected gpipe, 1f1b, interleaved:V (V parts of the model a device) or zero-bubble"));
  EXPECT_THAT(parse_error("schedule=interleaved"), HasSubstr("says not how many parts"));
  EXPECT_THAT(parse_error("schedule=interleaved:1"), HasSubstr("one part a device is not interleaved"));
  EXPECT_THAT(parse_error("schedule=gpipe:2"), HasSubstr("only interleaved takes a number"));
  EXPECT_THAT(parse_error("recompute=some"),
              HasSubstr("--layout recompute: unknown recomputation; found 'some'; expected none, cheap"));
  EXPECT_THAT(parse_error("device_memory=1Gb"), HasSubstr("--layout device_memory: not a size"));
  EXPECT_THAT(parse_error("layers=3+x"), HasSubstr("expected layers of every part of the model, as 3+7+7+7"));
  EXPECT_THAT(parse_error("head=middle"), HasSubstr("expected last or first"));
  EXPECT_THAT(parse_error("sequence=1"), HasSubstr("expected true or false"));
  EXPECT_THAT(parse_error("streaming=\"a"), HasSubstr("a quote without its end"));
  EXPECT_THAT(parse_error("p=1024 r=1024 t=2"), HasSubstr("too many devices; expected at most 1048576"));
  EXPECT_THAT(parse_error("p=1024 phases=1048576"), HasSubstr("too many parts of the model"));
  EXPECT_THAT(parse_error(std::string(70000, 'p')), HasSubstr("too long for a layout"));
}

TEST(Layout, AutomaticOnesAreThePlanners) {
  EXPECT_EQ(parse_error("auto"),
            "--layout: a layout is searched for by `ramet plan` and `ramet train` with --layout auto alone; found "
            "'auto'; expected numbers, as in \"p=2 t=2 r=2\". `ramet plan RECIPE --layout auto` prints what to write "
            "here");
  EXPECT_THAT(parse_error("p=auto"), HasSubstr("--layout p: a layout is searched for by"));
}

TEST(Layout, BadTomlSaysWhere) {
  EXPECT_THAT(toml_error("p = 2\nphase = 3\n"), HasSubstr("l.toml:2 layout.phase: unknown key 'phase'"));
  EXPECT_THAT(toml_error("r = 2\np = 2.5\n"),
              HasSubstr("l.toml:2 layout.p: wrong kind of value; expected a whole number"));
  EXPECT_THAT(toml_error("p = {a = 1}\n"), HasSubstr("wrong kind of value"));
  EXPECT_THAT(toml_error("layers = [[1]]\n"), HasSubstr("wrong kind of value"));
  EXPECT_THAT(toml_error("p = \n"), HasSubstr("l.toml:1: not TOML"));
  EXPECT_THAT(toml_error("[=]\n"), HasSubstr("l.toml:1: not TOML"));  // an assertion of the parser's own
  EXPECT_THAT(toml_error("rts = \"weights\\u0000\"\n"), HasSubstr("unknown kind of tensor"));
}

TEST(Layout, TheDocumentationHasEveryKeyAndItsDefault) {
  const std::string help = layout_help();
  for (const char* key :
       {"  p = N; default 1\n", "  rts = KIND[:GROUP],...; default none\n", "  recompute = none | cheap",
        "; default the recipe's\n", "  schedule = gpipe | 1f1b | interleaved:V | zero-bubble; default 1f1b\n",
        "  streaming = ram | FOLDER; default ram\n"})
    EXPECT_THAT(help, HasSubstr(key));
  for (size_t at = 0; at < help.size();) {
    const size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 101u) << help.substr(at, end - at);
    at = end + 1;
  }
}

TEST(LayoutFits, WhatWorks) {
  for (const char* text :
       {"", "r=3", "r=6", "r=12", "t=2", "t=4", "t=2x8", "p=12", "p=3 schedule=interleaved:4", "p=2 phases=6",
        "p=2 layers=5+7 head=first", "p=3 layers=0+12+0", "r=6 rts=weights:3,grads:2,optimizer:6", "r=12 rts=grads:4",
        "t=4 sequence=true", "p=2 t=2 r=3 per_process=4", "recompute=layer:0,11", "p=4 schedule=zero-bubble"})
    EXPECT_EQ(refusal(text), "no error") << text;
}

TEST(LayoutFits, ReplicasShareLanes) {
  EXPECT_EQ(refusal("r=2", {.lanes = 6}),
            "--layout r: every replica must take equally many whole lanes, 1, 2, 4 or another power of two of them; "
            "found r=2 with "
            "train.lanes=6. With lanes=6, r may be 1, 3 or 6; or train another recipe, with train.lanes=2 (lanes "
            "decide bits)");
  EXPECT_THAT(refusal("r=5"), HasSubstr("With lanes=12, r may be 1, 3, 6 or 12;"));
  EXPECT_EQ(refusal("r=2", {.lanes = 6, .exact = false}), "no error");
  EXPECT_THAT(refusal("r=4", {.lanes = 6, .exact = false}), HasSubstr("r may be 1, 2, 3 or 6"));
}

TEST(LayoutFits, GroupsDivideReplicas) {
  EXPECT_EQ(refusal("r=6 rts=weights:4"),
            "--layout rts: replicas must fall into equal groups; found weights:4 with r=6. With r=6, the group of "
            "weights may be 1, 2, 3 or 6");
  EXPECT_EQ(refusal("r=6 rts=grads:3"),
            "--layout rts: gradients are summed along a tree, of which a group must be a whole branch; found grads:3 "
            "with r=6. With r=6, "
            "the group of grads may be 1, 2 or 6");
}

TEST(LayoutFits, TensorShardsShareChunksHeadsAndWidths) {
  EXPECT_EQ(refusal("t=3", {.lanes = 1, .chunks = 8}),
            "--layout t: every tensor shard must take equally many whole chunks, 1, 2, 4 or another power of two of "
            "them; found t=3 with "
            "train.chunks=8. With chunks=8, t may be 1, 2, 4 or 8; or train another recipe, with train.chunks=3 "
            "(chunks decide bits)");
  EXPECT_THAT(refusal("t=2x3"), HasSubstr("found t2=3 with train.chunks=8"));
  EXPECT_THAT(remarks_of("t=8"),
              ElementsAre("12 attention heads cannot be split 8 ways: every tensor shard computes all of them, "
                          "while their weights are still split"));
  LayoutFacts odd = kBase;
  odd.hidden = 772;
  EXPECT_THAT(
      refusal("t=8", odd),
      HasSubstr("--layout t: every tensor shard must hold equally many of the model's hidden width; found t=8 of 772"));
  odd = kBase;
  odd.intermediate = 3076;
  EXPECT_EQ(refusal("t=2", odd),
            "--layout t: the sum over the model's feed-forward width has no chunks, because train.chunks does not "
            "divide it, so it cannot be "
            "split; found 3076 with train.chunks=8. train.chunks may be 2 or 4 (which decides bits), or leave t out");
  EXPECT_EQ(refusal("t=3", {.lanes = 1, .chunks = 6, .heads = 12, .hidden = 768}), "no error");
  odd = kBase;
  odd.vocabulary = 30522;
  EXPECT_THAT(
      remarks_of("t=2", odd),
      ElementsAre("the vocabulary of 30522 cannot be split 2 ways: every tensor shard holds and computes all of "
                  "it. model.pad_vocabulary=8 makes it 30528 rows, which can be (and decides bits)"));
  EXPECT_THAT(remarks_of("t=2"), IsEmpty());
}

TEST(LayoutFits, SequenceParallelismCutsTokens) {
  EXPECT_THAT(refusal("sequence=true"),
              HasSubstr("--layout sequence: sequence parallelism cuts tokens among tensor shards; found "
                        "sequence=true with t1=1. Set t to 2 or more, or leave sequence out"));
  LayoutFacts odd = kBase;
  odd.tokens = 100;
  EXPECT_THAT(refusal("t=4 sequence=true", odd),
              HasSubstr("found 100 tokens, t1=4, chunks=8. Use a data.sequence_length that is a multiple of 8"));
}

TEST(LayoutFits, SchedulesNeedStages) {
  EXPECT_THAT(refusal("schedule=interleaved:2"),
              HasSubstr("interleaved is a schedule of several stages; found p=1. Set p to 2 or more, or use phases"));
  EXPECT_THAT(refusal("schedule=zero-bubble"), HasSubstr("zero-bubble is a schedule of several stages"));
  EXPECT_THAT(refusal("p=2 phases=2 schedule=interleaved:2"),
              HasSubstr("found interleaved with phases=2. With phases, schedule may be gpipe or 1f1b"));
  EXPECT_THAT(refusal("head=first"), HasSubstr("Leave head out"));
}

TEST(LayoutFits, EveryPartHoldsALayer) {
  EXPECT_EQ(refusal("p=13"),
            "--layout p: every part of the model must hold a layer at least; found p=13 of 12 layers. With 12 "
            "layers, p may be at most 12");
  EXPECT_THAT(refusal("p=2 phases=7"),
              HasSubstr("found p x phases = 2 x 7 of 12 layers. With 12 layers and p=2, phases may be at most 6"));
  EXPECT_THAT(
      refusal("p=5 schedule=interleaved:3"),
      HasSubstr(
          "p x interleave = 5 x 3 of 12 layers. With 12 layers and p=5, the number of interleaved may be at most 2"));
  EXPECT_THAT(refusal("p=2 layers=4+4+4"), HasSubstr("found 3 numbers, p=2. Give 2 numbers, apart by +"));
  EXPECT_THAT(refusal("p=2 layers=4+4"), HasSubstr("found 8 layers. Give numbers whose sum is 12"));
  EXPECT_THAT(refusal("p=3 layers=6+0+6"), HasSubstr("found 0 in place 2"));
  EXPECT_THAT(refusal("recompute=layer:12"), HasSubstr("found layer 12. With 12 layers, their numbers are 0 to 11"));
}

TEST(LayoutFits, ProcessesAndTheMachine) {
  EXPECT_THAT(refusal("r=6 per_process=4"),
              HasSubstr("found 4 of 6 devices. With 6 devices, per_process may be 1, 2, 3 or 6"));
  LayoutFacts small = kBase;
  small.processors = 2, small.memory = int64_t{4} << 30;
  EXPECT_THAT(remarks_of("r=3 threads=1 device_memory=2GiB", small),
              ElementsAre("3 devices of 1 threads share 2 processors",
                          "3 devices of 2.00 GiB are more than the 4.00 GiB of this machine"));
  EXPECT_THAT(remarks_of("r=3 threads=1 per_process=1 device_memory=2GiB", small), IsEmpty());
}

TEST(LayoutFits, RemarksOnWhatRunsButWorse) {
  EXPECT_THAT(remarks_of("p=12 r=12"),
              ElementsAre(HasSubstr("2 micro-batches a step for each replica cannot fill 12 stages")));
  EXPECT_THAT(remarks_of("phases=2"), ElementsAre(HasSubstr("add weights to offload or to rts")));
  EXPECT_THAT(remarks_of("phases=2 offload=weights"), IsEmpty());
  EXPECT_THAT(remarks_of("r=3 rts=weights"), ElementsAre(HasSubstr("rts=weights,grads,optimizer saves more")));
}

}  // namespace
}  // namespace ramet::tests
