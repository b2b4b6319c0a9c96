#include "ramet/transform/fit_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ramet/transform/differentiate.h"
#include "ramet/transform/layers.h"
#include "ramet/transform/simplify.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

/// A model whose memory is what waits for its backward pass and nothing else.
class FitActivations : public testing::Test {
 protected:
  FitActivations() {
    const Model model = small_bert(kLayers, 32, 128, 16);
    std::vector<std::string> names;
    for (const auto& weight : model.weights) names.push_back(weight.name);
    step_.micro = simplify(differentiate(model.forward, "loss", names));
    step_.states = model.weights;
    problem_.stage_of.assign(kLayers + 1, 0);
    problem_.may_stream = problem_.in_parts = true;
    problem_.peaks = [this](const StepGraph& candidate, const ActivationChoices& choices) {
      ++asked_;
      const std::vector<int64_t> bytes = waiting(candidate, choices);
      return std::vector<int64_t>{std::accumulate(bytes.begin(), bytes.end(), int64_t{0})};
    };
  }

  /// Bytes that wait in device memory for each layer's backward pass; what streams passes through a quarter of its
  /// room.
  static std::vector<int64_t> waiting(const StepGraph& candidate, const ActivationChoices& choices) {
    std::vector<int64_t> bytes = all_waiting(candidate.micro);
    for (size_t i = 0; i < bytes.size(); ++i)
      if (choices[i].stream) bytes[i] /= 4;
    return bytes;
  }

  static std::vector<int64_t> all_waiting(const Graph& micro) {
    std::vector<bool> backward;
    for (const Node& node : micro.nodes())
      backward.push_back(node.pass == NodePass::kBackward || node.pass == NodePass::kRecompute);
    const std::vector<int> layers = backward_layers(micro, LayerOrder(micro), backward);
    const auto uses = micro.uses();
    std::vector<int64_t> bytes(kLayers + 1, 0);
    for (size_t value = 0; value < uses.size(); ++value) {
      const NodeId producer = micro.value(static_cast<ValueId>(value)).producer;
      if (producer == kNoNode || backward[static_cast<size_t>(producer)] || micro.node(producer).inputs.empty())
        continue;
      const auto reader = std::find_if(uses[value].begin(), uses[value].end(),
                                       [&](NodeId user) { return backward[static_cast<size_t>(user)]; });
      if (reader != uses[value].end())
        bytes[static_cast<size_t>(layers[static_cast<size_t>(*reader)])] +=
            micro.type(static_cast<ValueId>(value)).bytes();
    }
    return bytes;
  }

  /// Seconds that a choices adds to a micro-batch.
  double cost(const ActivationChoices& choices) const {
    const StepGraph candidate = recompute(step_, choices);
    double seconds = 0;
    for (size_t n = 0; n < candidate.micro.nodes().size(); ++n) {
      const Node& node = candidate.micro.nodes()[n];
      if (node.pass == NodePass::kRecompute)
        seconds += problem_.rates.seconds(node.op->cost(candidate.micro.signature(static_cast<NodeId>(n))));
    }
    const std::vector<int64_t> bytes = all_waiting(candidate.micro);
    for (size_t i = 0; i < bytes.size(); ++i)
      if (choices[i].stream) seconds += 2 * static_cast<double>(bytes[i]) / (problem_.rates.bandwidth / 2);
    return seconds;
  }

  ActivationChoices fit_within(double time_share) const {
    FitProblem problem = problem_;
    problem.time_share = time_share;
    return fit_activations(step_, problem);
  }

  /// Seconds of a micro-batch where everything is kept.
  double compute() const {
    double seconds = 0;
    for (size_t n = 0; n < step_.micro.nodes().size(); ++n)
      seconds += problem_.rates.seconds(step_.micro.nodes()[n].op->cost(step_.micro.signature(static_cast<NodeId>(n))));
    return seconds;
  }

  int64_t peak(const ActivationChoices& choices) const {
    const std::vector<int64_t> bytes = waiting(recompute(step_, choices), choices);
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  }
  int64_t kept() const { return peak(ActivationChoices(kLayers + 1)); }

  static int count(const ActivationChoices& choices, bool (*is)(const LayerActivations&)) {
    return static_cast<int>(std::count_if(choices.begin(), choices.end(), is));
  }
  static bool streams(const LayerActivations& layer) { return layer.stream; }
  static bool recomputes(const LayerActivations& layer) { return layer.recompute != RecomputeLevel::kNone; }

  static bool drops(const LayerActivations& layer) { return layer.drop_input; }

  static constexpr int kLayers = 12;
  StepGraph step_;
  FitProblem problem_;
  int asked_ = 0;
};

TEST_F(FitActivations, KeepsAllThatFits) {
  problem_.byte_limit = kept();
  EXPECT_EQ(fit_activations(step_, problem_), ActivationChoices(kLayers + 1));
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(text_of(ActivationChoices(kLayers + 1)), "keep layers 0-11 and the head");
}

TEST_F(FitActivations, FollowsTheRates) {
  problem_.byte_limit = kept() / 2;
  problem_.rates = {.flops = 1e9, .bandwidth = 1e12};  // to compute is dear, to move is cheap
  const ActivationChoices streamed = fit_activations(step_, problem_);
  EXPECT_GT(count(streamed, streams), 0) << text_of(streamed);
  EXPECT_THAT(text_of(streamed), HasSubstr("stream layers 0-"));
  EXPECT_FALSE(streamed[kLayers - 1].stream) << "no more than the limit asks for";
  EXPECT_LE(peak(streamed), problem_.byte_limit);

  problem_.rates = {.flops = 1e15, .bandwidth = 1e9};  // the other way round
  problem_.to_files = true;
  problem_.rates.files = 1e3;
  const ActivationChoices again = fit_activations(step_, problem_);
  EXPECT_GT(count(again, recomputes), 0) << text_of(again);
  EXPECT_EQ(count(again, streams), 0) << text_of(again);
  EXPECT_LE(peak(again), problem_.byte_limit);

  problem_.rates = {.flops = 1e9, .bandwidth = 1e12};
  problem_.may_stream = false;  // no offload of activations
  EXPECT_EQ(count(fit_activations(step_, problem_), streams), 0);
}

TEST_F(FitActivations, FilesThatMoveBesideTheWorkCostNextToNothing) {
  problem_.byte_limit = kept() / 2;
  problem_.to_files = true;
  problem_.rates = {.flops = 1e9, .bandwidth = 1e9, .files = 1e9};
  const ActivationChoices choices = fit_activations(step_, problem_);
  EXPECT_GT(count(choices, streams), 0) << text_of(choices);
  EXPECT_EQ(count(choices, recomputes), 0) << text_of(choices);
}

TEST_F(FitActivations, IsNoDearerThanEitherAlone) {
  for (const double share : {0.9, 0.7, 0.5, 0.3, 0.2})
    for (const double flops : {1e10, 1e11, 1e12}) {
      problem_.byte_limit = static_cast<int64_t>(share * static_cast<double>(kept()));
      problem_.rates = {.flops = flops, .bandwidth = 2.5e10};
      problem_.may_stream = true;
      asked_ = 0;
      const ActivationChoices both = fit_activations(step_, problem_);
      EXPECT_LE(asked_, 20);
      EXPECT_EQ(fit_activations(step_, problem_), both) << "the same question has the same answer";
      problem_.may_stream = false;
      const ActivationChoices recomputed = fit_activations(step_, problem_);
      ActivationChoices streamed(kLayers + 1);
      for (LayerActivations& layer : streamed) layer.stream = true;
      const bool any = peak(recomputed) <= problem_.byte_limit || peak(streamed) <= problem_.byte_limit;
      if (any) {
        EXPECT_LE(peak(both), problem_.byte_limit) << share << " " << text_of(both);
      }
      // A trial in which less than half a percent of the time is to be won is not made.
      for (const ActivationChoices& alone : {recomputed, streamed})
        if (peak(alone) <= problem_.byte_limit) {
          EXPECT_LE(cost(both), cost(alone) + 0.005 * compute())
              << share << " " << text_of(both) << "; " << text_of(alone);
        }
    }
}

TEST_F(FitActivations, EachStageDoesWhatItsOwnMemoryAsks) {
  for (size_t i = kLayers / 2; i <= kLayers; ++i) problem_.stage_of[i] = 1;
  problem_.peaks = [](const StepGraph& candidate, const ActivationChoices& choices) {
    const std::vector<int64_t> bytes = waiting(candidate, choices);
    const auto half = bytes.begin() + kLayers / 2;
    // Four micro-batches are in flight on the first stage.
    return std::vector<int64_t>{4 * std::accumulate(bytes.begin(), half, int64_t{0}),
                                std::accumulate(half, bytes.end(), int64_t{0})};
  };
  problem_.byte_limit = problem_.peaks(step_, ActivationChoices(kLayers + 1))[0] / 2;
  const ActivationChoices choices = fit_activations(step_, problem_);
  EXPECT_LE(problem_.peaks(recompute(step_, choices), choices)[0], problem_.byte_limit);
  for (size_t i = kLayers / 2; i <= kLayers; ++i) EXPECT_EQ(choices[i], LayerActivations{}) << text_of(choices);
}

TEST_F(FitActivations, LargeInputsOfLayersAreDroppedWhereThatHelps) {
  problem_.may_stream = problem_.in_parts = false;
  problem_.byte_limit = 1;
  constexpr int64_t kLayer = int64_t{1} << 40;  // of a layer that is computed again beside the one that reads it
  problem_.peaks = [](const StepGraph& candidate, const ActivationChoices& choices) {
    const std::vector<int64_t> bytes = waiting(candidate, choices);
    int64_t run = 0, longest = 0;
    for (const LayerActivations& layer : choices) longest = std::max(longest, run = layer.drop_input ? run + 1 : 0);
    return std::vector<int64_t>{std::accumulate(bytes.begin(), bytes.end(), longest * kLayer)};
  };
  const ActivationChoices none = fit_activations(step_, problem_);
  EXPECT_EQ(count(none, recomputes), kLayers);
  EXPECT_EQ(count(none, drops), 0) << text_of(none) << ": that would take more than it saves";

  problem_.peaks = [peaks = problem_.peaks](const StepGraph& candidate, const ActivationChoices& choices) {
    std::vector<int64_t> bytes = peaks(candidate, choices);
    if (!choices[5].drop_input) bytes[0] += 2 * kLayer;
    return bytes;
  };
  const ActivationChoices large = fit_activations(step_, problem_);
  EXPECT_EQ(count(large, recomputes), kLayers);
  EXPECT_TRUE(large[5].drop_input) << text_of(large);
  EXPECT_FALSE(large[4].drop_input || large[6].drop_input) << text_of(large) << ": two layers at a time";
  EXPECT_EQ(problem_.peaks(recompute(step_, large), large)[0] / kLayer, 1);
}

TEST_F(FitActivations, WithinAShareOfTheTimeIsAsSmallAsThatAllows) {
  problem_.may_stream = false;
  problem_.byte_limit = 1;
  const int64_t smallest = peak(fit_activations(step_, problem_));
  int64_t last = kept() + 1;
  for (const double share : {0.0, 0.02, 0.1, 0.2}) {
    const ActivationChoices choices = fit_within(share);
    EXPECT_LE(cost(choices), share * compute()) << text_of(choices);
    EXPECT_LT(peak(choices), last) << share << ": " << text_of(choices);
    EXPECT_GT(peak(choices), smallest);
    last = peak(choices);
  }
  EXPECT_EQ(fit_within(0), ActivationChoices(kLayers + 1));
  EXPECT_EQ(peak(fit_within(1)), smallest) << "enough time for everything";
  problem_.byte_limit = kept() - 1;
  EXPECT_GT(peak(fit_within(0.2)), last) << "no more than the limit asks for";
}

TEST_F(FitActivations, WithinAShareOfTheTimeNothingIsComputedAgainThatSavesTooLittle) {
  problem_.may_stream = false;
  problem_.byte_limit = 1;
  EXPECT_EQ(count(fit_within(1), recomputes), kLayers);
  problem_.peaks = [peaks = problem_.peaks](const StepGraph& candidate, const ActivationChoices& choices) {
    return std::vector<int64_t>{peaks(candidate, choices)[0] + (int64_t{1} << 40)};
  };
  EXPECT_EQ(fit_within(1), ActivationChoices(kLayers + 1)) << "no share of such a memory";
}

TEST_F(FitActivations, WhatCannotFitIsAsSmallAsCanBe) {
  problem_.byte_limit = 1;
  const ActivationChoices choices = fit_activations(step_, problem_);
  EXPECT_EQ(count(choices, streams), kLayers + 1);
  EXPECT_EQ(count(choices, recomputes), kLayers) << "nothing of the head is recomputed";
  EXPECT_EQ(text_of(choices), "recompute and stream layers 0-11, stream the head");
}

}  // namespace
}  // namespace ramet::tests
