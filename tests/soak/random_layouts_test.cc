// Random models under random recipes on random layouts, each against one device, bit by bit. RAMET_SOAK_DRAWS says how
// many must run, RAMET_SOAK_SEED which; RAMET_SOAK_CASE runs one given case, as a failure prints it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "soak/drawn_case.h"

namespace ramet::tests::soak {
namespace {

int64_t number_from(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

bool is_wrong(const DrawnCase& given) { return run_apart(given).kind == Verdict::Kind::kWrong; }

TEST(RandomLayouts, HaveTheBitsOfOneDevice) {
  if (const char* const text = std::getenv("RAMET_SOAK_CASE")) {
    const Verdict verdict = run(DrawnCase::parse(text));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kSame) << verdict.text;
    return;
  }
  const int64_t wanted = number_from("RAMET_SOAK_DRAWS", 40);
  const auto seed = static_cast<uint64_t>(number_from("RAMET_SOAK_SEED", 1));
  const bool told = wanted > 100;
  if (told) std::printf("random layouts: seed %llu\n", static_cast<unsigned long long>(seed));
  int64_t same = 0, refused = 0, empty = 0, wrong = 0;
  constexpr int64_t kMostWrong = 5;
  for (uint64_t number = 0; same + wrong < wanted && wrong < kMostWrong; ++number) {
    const DrawnCase given = DrawnCase::draw(seed, number);
    const Verdict verdict = run_apart(given);
    same += verdict.kind == Verdict::Kind::kSame;
    refused += verdict.kind == Verdict::Kind::kRefused;
    empty += verdict.kind == Verdict::Kind::kVoid;
    if (std::getenv("RAMET_SOAK_SHOW"))
      std::printf("%llu %s\n    %s\n", static_cast<unsigned long long>(number), given.text().c_str(),
                  verdict.text.c_str());
    if (verdict.kind == Verdict::Kind::kWrong) {
      ++wrong;
      const DrawnCase small = shrink(given, is_wrong);
      ADD_FAILURE() << "seed " << seed << " case " << number << ": " << verdict.text << "\n  " << given.text()
                    << "\n  the smallest that goes wrong: " << run_apart(small).text << "\n  RAMET_SOAK_CASE='"
                    << small.text() << "'";
    }
    if (told && (number + 1) % 50 == 0)
      std::printf("random layouts: %lld of %lld with the bits of one device, %lld refused, %lld void, %lld wrong\n",
                  static_cast<long long>(same), static_cast<long long>(wanted), static_cast<long long>(refused),
                  static_cast<long long>(empty), static_cast<long long>(wrong));
    std::fflush(stdout);
  }
  // A drawing of which little runs would test little.
  EXPECT_LE(refused + empty, 10 + same / 2);
  std::printf("random layouts: %lld runs with the bits of one device, %lld layouts refused, %lld void, seed %llu\n",
              static_cast<long long>(same), static_cast<long long>(refused), static_cast<long long>(empty),
              static_cast<unsigned long long>(seed));
}

/// Cases that once went wrong, or were refused without need.
TEST(DrawnCases, ThatWentWrongOnceDoNot) {
  for (const char* text : {
           "layers=odd/odd | | p=2",                                      // a map over two layers
           "head=squares layers=centered/centered | | p=2 head=first",    // a head's gradient on another stage
           "head=tied layers=winners/winners,lookup | | layers=2+0 p=2",  // a stage without evaluation
           // a copy of an input beside an output in place of another
           "head_size=5 heads=6 sequence=4 layers=soft_gate,winners | train.chunks=6 train.precision=bf16 | t=1x6",
           "input=numbers layers=attention/causal | | layers=0+2 p=2 offload=grads",  // the same of the first stage
           "layers=odd | train.accumulation=6 train.lanes=6 | r=6 rts=optimizer:3",   // groups that are no branches
           "layers=mlp/odd | train.accumulation=6 train.lanes=6 | r=6 rts=optimizer:3 | p=2",  // the same, and on from
                                                                                               // there
           // a bias of two stages that is widened once
           "layers=shared/shared | train.accumulation=2 train.precision=f16 train.weights=f16 | p=2",
           "layers=shared/mlp/shared | train.precision=bf16 train.weights=split | p=3 schedule=zero-bubble",
           // more messages under way than a mailbox held
           "axes=964 dropout=10 head=pair heads=6 inner=12 input=numbers padding=6 sequence=9 vocabulary=24 "
           "layers=mlp,causal,mlp/ranked | train.accumulation=16 train.chunks=6 train.lanes=8 "
           "train.optimizer.kind=lion train.precision=bf16 | layers=0+2 p=2 schedule=gpipe t=1x3",
       }) {
    const Verdict verdict = run_apart(DrawnCase::parse(text));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kSame) << text << ": " << verdict.text;
  }
}

/// Sorts, scans, and updates that meet in one element, where layouts cut samples, hidden sizes and layers.
TEST(DrawnCases, ElementsByIndexHaveTheBitsOfOneDevice) {
  for (const char* text :
       {"layers=ranked/addressed | | p=2", "heads=2 layers=ranked/addressed | train.chunks=2 | t=2",
        "layers=addressed/ranked | train.accumulation=4 train.lanes=4 train.precision=bf16 | r=2 rts=weights,grads"}) {
    const Verdict verdict = run_apart(DrawnCase::parse(text));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kSame) << text << ": " << verdict.text;
  }
}

/// Sparse weights whose patterns change, with states that layouts cut, and on from a checkpoint.
TEST(DrawnCases, PatternsThatChangeHaveTheBitsOfOneDevice) {
  for (const char* text :
       {"cells=4 density=40 every=1 layers=mlp/attention | train.chunks=4 train.optimizer.kind=adamw | t=2x2 p=2 | t=4",
        "cells=2 density=40 every=1 regrow=gradient layers=mlp/gated | train.accumulation=4 train.chunks=2 "
        "train.lanes=4 "
        "train.optimizer.kind=adamw train.precision=bf16 | r=2 rts=weights,grads,optimizer t=2 | p=2",
        "block=2 density=60 every=2 layers=mlp,mlp/mlp | train.optimizer.kind=lamb | phases=2 "
        "offload=weights,optimizer",
        // stages met in sums in another order
        "density=20 every=1 layers=masked/odd |  | offload=weights p=2"}) {
    const Verdict verdict = run_apart(DrawnCase::parse(text));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kSame) << text << ": " << verdict.text;
  }
}

TEST(DrawnCases, AreTextThatComesBack) {
  for (uint64_t number = 0; number < 200; ++number) {
    const std::string text = DrawnCase::draw(3, number).text();
    EXPECT_EQ(DrawnCase::parse(text).text(), text);
    EXPECT_EQ(DrawnCase::draw(3, number).text(), text);
  }
}

TEST(DrawnCases, ShrinkToWhatMatters) {
  const DrawnCase given = DrawnCase::parse(
      "heads=2 layers=mlp,mixer/causal/odd | train.chunks=4 train.clip_norm=1 | p=2 r=4 rts=weights,grads t=2");
  const DrawnCase small = shrink(given, [](const DrawnCase& c) {
    bool mixer = false;
    for (const auto& layer : c.model.layers)
      for (const auto& block : layer) mixer = mixer || block == "mixer";
    return mixer && c.layout.count("r") && c.recipe.count("train.clip_norm");
  });
  EXPECT_EQ(small.text(), "layers=mixer | train.clip_norm=1 | r=2");
}

}  // namespace
}  // namespace ramet::tests::soak
