// GPS: messages along edges beside attention within graphs.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "graphs/made_graphs.h"
#include "ramet/graphs/near_nodes.h"
#include "ramet/recipe/graph_predictor.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

class Gps : public GraphNets {
 protected:
  Recipe gps(const Settings& more = {}) const { return recipe("gps", true, more); }
  /// A network that is trained on packs answers with the same bits for graphs in batches of other forms.
  void expect_same_answers(const Settings& settings, const std::vector<std::string>& batches);
};

TEST_F(Gps, HasTheSameBitsOnManyLayouts) {
  const Trained expected = train(gps());
  EXPECT_TRUE(std::isfinite(expected.losses.back()));
  for (const std::string& layout : kTwoLayerLayouts) {
    SCOPED_TRACE(layout);
    expect_same(train(gps(), layout, 3, 2), expected);
  }
}

std::vector<float> logits_of(const Recipe& complete, const std::filesystem::path& checkpoint) {
  GraphPredictor predictor(complete, {}, {.threads = 1});
  predictor.predictor().load(Checkpoint(checkpoint));
  for (const NamedTensor& tensor : predictor.predict())
    if (tensor.name == "logits") {
      std::vector<float> logits(tensor.bytes.size() / sizeof(float));
      std::memcpy(logits.data(), tensor.bytes.data(), tensor.bytes.size());
      return logits;
    }
  return {};
}

void Gps::expect_same_answers(const Settings& settings, const std::vector<std::string>& batches) {
  Preparation ready = prepare(gps(settings));
  const Recipe packed = ready.recipe;
  Training training = make_training(std::move(ready), {});
  training.initialize();
  train_steps(training, 2);
  const std::filesystem::path saved = training.save(folder_ / "checkpoints");
  const std::vector<float> together = logits_of(packed, saved);
  ASSERT_EQ(together.size(), 26u);
  for (const std::string& batch : batches) {
    Settings other = settings;
    other.push_back("data.graphs.batch=" + batch);
    EXPECT_EQ(logits_of(prepare(gps(other)).recipe, saved), together) << batch;
  }
}

/// Graphs of a pack do not see each other.
TEST_F(Gps, AnswersForAGraphAsIfItWereAlone) { expect_same_answers({}, {"count:1", "pad:3"}); }

TEST_F(Gps, LearnsFromAttentionAndPositions) {
  const Settings plain{"model.graph.dropout=0", "model.graph.attention_dropout=0", "model.graph.drop_path=0"};
  const Trained found = train(gps(plain), "", 40);
  EXPECT_LT(found.losses.back(), 0.3 * found.losses.front());
  Settings of_nodes = plain;
  for (const char* each : {"data.graphs.label=node.kind", "data.graphs.split=", "data.graphs.features=node.x"})
    of_nodes.emplace_back(each);
  const Trained nodes = train(gps(of_nodes), "", 40);
  EXPECT_LT(nodes.losses.back(), 0.5 * nodes.losses.front());
  Settings without = plain;
  without.emplace_back("data.graphs.positions=");
  EXPECT_NE(train(gps(without)).hash, train(gps(plain)).hash);
}

TEST_F(Gps, StochasticDepthActsInTrainingAlone) {
  const Settings plain{"model.graph.dropout=0", "model.graph.attention_dropout=0", "model.graph.drop_path=0"};
  Settings deep = plain;
  deep.back() = "model.graph.drop_path=0.5";
  const Trained expected = train(gps(plain), "", 1), found = train(gps(deep), "", 1);
  EXPECT_NE(found.losses, expected.losses);
  const Trained again = train(gps(deep), "", 1);
  EXPECT_EQ(again.losses, found.losses);
}

// --- GPS++ ---

const Settings kPlusPlus = {"data.graphs.hops=3",
                            "data.graphs.distances=node.pos",
                            "model.graph.cutoff=4",
                            "model.graph.gaussians=7",
                            "model.graph.node_noise=0.2",
                            "model.graph.edge_noise=0.1",
                            "model.graph.noise_weight=0.5",
                            "model.graph.input_masks=node.returns+hops:0.2,distances:0.3",
                            "data.graphs.edge_features=edge.bond,edge.order"};

TEST_F(Gps, WithDistancesNoiseAndMasksHasTheSameBitsOnManyLayouts) {
  const Trained expected = train(gps(kPlusPlus));
  EXPECT_TRUE(std::isfinite(expected.losses.back()));
  for (const std::string& layout : kTwoLayerLayouts) {
    SCOPED_TRACE(layout);
    expect_same(train(gps(kPlusPlus), layout, 3, 2), expected);
  }
}

/// Twenty-seven graphs to train on are six packs an epoch, so the fourth micro-batch of a step is in its middle.
TEST_F(Gps, GoesOnInTheMiddleOfAnEpoch) {
  for (const Settings& settings : {Settings{}, kPlusPlus}) {
    Training whole = make_training(prepare(gps(settings)), {});
    whole.initialize();
    const Trained expected = train_steps(whole, 5);
    Training first = make_training(prepare(gps(settings)), {});
    first.initialize();
    train_steps(first, 2);
    const std::filesystem::path saved = first.save(folder_ / "checkpoints");
    Recipe spread = gps(settings);
    set_layout(spread, "p=2 r=2");
    Training rest = make_training(prepare(spread), {.threads = 2});
    EXPECT_EQ(rest.restore(Checkpoint(saved)), "");
    const Trained found = train_steps(rest, 3);
    EXPECT_EQ(found.losses, std::vector<double>(expected.losses.begin() + 2, expected.losses.end()));
    EXPECT_EQ(found.hash, expected.hash);
  }
}

TEST_F(Gps, EveryPartOfPlusPlusCounts) {
  std::vector<std::string> hashes{train(gps(kPlusPlus)).hash};
  const std::vector<std::string> without = {"data.graphs.hops=0",       "model.graph.node_noise=0",
                                            "model.graph.edge_noise=0", "model.graph.noise_weight=0.1",
                                            "model.graph.input_masks=", "model.graph.input_masks=distances:0.3",
                                            "data.graphs.distances=",   "data.graphs.hops=2"};
  for (const std::string& each : without) {
    Settings more = kPlusPlus;
    if (each == "data.graphs.hops=0") more.emplace_back("model.graph.input_masks=node.returns:0.2,distances:0.3");
    if (each == "data.graphs.distances=") more.emplace_back("model.graph.input_masks=node.returns+hops:0.2");
    more.push_back(each);
    hashes.push_back(train(gps(more)).hash);
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST_F(Gps, KnowsDistancesWithinAGraphAlone) {
  expect_same_answers({"data.graphs.hops=3", "data.graphs.distances=node.pos", "model.graph.cutoff=4"}, {"count:1"});
}

TEST_F(Gps, LearnsToTellWhatNoiseReplaced) {
  const Settings noisy{"model.graph.dropout=0", "model.graph.attention_dropout=0", "model.graph.drop_path=0",
                       "model.graph.node_noise=0.1", "model.graph.noise_weight=1"};
  Training training = make_training(prepare(gps(noisy)), {});
  training.initialize();
  const double before = number_of(training.step(), "noise_loss");
  double after = 0;
  for (int i = 0; i < 60; ++i) {
    const Numbers numbers = training.step();
    after = number_of(numbers, "noise_loss");
    EXPECT_NEAR(number_of(numbers, "loss"), number_of(numbers, "answer_loss") + after, 1e-5);
  }
  EXPECT_LT(after, 0.7 * before);
  // An evaluation replaces nothing.
  const Numbers first = training.evaluate();
  EXPECT_EQ(first, training.evaluate());
}

TEST(NearNodes, FewestEdgesAlongTheWayOfMessages) {
  // Two graphs: the path 0 -> 1 -> 2 with an edge back from 1 to 0, and a node alone.
  graphs::PackContents pack;
  pack.graphs = {0, 1}, pack.graph_ptr = {0, 3, 4}, pack.nodes = {5, 6, 7, 8};
  pack.source = {1, 0, 1}, pack.target = {0, 1, 2}, pack.edges = {0, 1, 2};
  std::vector<int32_t> hops(3 * 9, 7);
  graphs::fill_hops(pack, 3, 1, hops);
  EXPECT_EQ(hops,
            (std::vector<int32_t>{1, 2, 3, 2, 1, 3, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  graphs::fill_hops(pack, 3, 2, hops);
  EXPECT_EQ(std::vector<int32_t>(hops.begin(), hops.begin() + 9), (std::vector<int32_t>{1, 2, 4, 2, 1, 4, 3, 2, 1}));
  std::vector<int32_t> place(5, 9), node_at(9, 9), taken(9, 9);
  graphs::fill_places(pack, 3, place, node_at, taken);
  EXPECT_EQ(place, (std::vector<int32_t>{0, 1, 2, 3, 0}));
  EXPECT_EQ(node_at, (std::vector<int32_t>{0, 1, 2, 3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(taken, (std::vector<int32_t>{1, 1, 1, 1, 0, 0, 0, 0, 0}));
}

TEST_F(Gps, SaysWhatIsMissing) {
  const auto error = [&](const std::string& kind, const Settings& more) {
    return error_of([&] { prepare(recipe(kind, true, more)); });
  };
  EXPECT_THAT(error("gps", {"data.graphs.edge_features="}), HasSubstr("gps reads features of edges"));
  EXPECT_THAT(error("gps", {"model.graph.heads=3"}),
              HasSubstr("the hidden size is not a multiple of the number of heads; found hidden 8, heads 3"));
  EXPECT_THAT(error("gps", {"model.graph.position_size=8"}),
              HasSubstr("positions take a part of a node's features; found 8 of 8"));
  EXPECT_THAT(error("gps", {"data.graphs.positions=node.kind"}),
              HasSubstr("positions of nodes are floats; found node.kind"));
  EXPECT_THAT(error("gps", {"data.graphs.positions=edge.bond"}),
              HasSubstr("a feature of nodes must be a field of nodes"));
  EXPECT_THAT(error("gin", {"data.graphs.positions=node.returns"}),
              HasSubstr("gin reads no positions of nodes; found node.returns"));
  for (const char* key : {"node_noise=0.1", "edge_noise=0.1", "drop_path=0.1", "input_masks=node.x:0.1"})
    EXPECT_THAT(error("gin", {std::string("model.graph.") + key}), HasSubstr("gin has no noise, no masks of inputs"));
  EXPECT_THAT(error("gin", {"data.graphs.hops=2"}), HasSubstr("gin reads no distances of nodes"));
  EXPECT_THAT(error("gps", {"data.graphs.distances=node.kind"}), HasSubstr("distances are those of positions"));
  EXPECT_THAT(error("gps", {"data.graphs.hops=2", "data.graphs.label=node.kind", "data.graphs.split="}),
              HasSubstr("distances are of nodes of whole graphs"));
  EXPECT_THAT(error("gps", {"model.graph.edge_noise=0.1"}), HasSubstr("noise changes categories of edges"));
  EXPECT_THAT(error("gps", {"model.graph.input_masks=hops:0.1"}),
              HasSubstr("a mask is of an input that the model does not read; found 'hops'"));
  EXPECT_THAT(error("gps", {"model.graph.input_masks=node.x:0.7,node.kind:0.6"}),
              HasSubstr("the rates of masks are shares of the graphs"));
  EXPECT_THAT(error("gps", {"model.graph.input_masks=node.x+node.x:0.7"}), HasSubstr("an input is in two masks"));
  EXPECT_THAT(error("gps", {"model.graph.input_masks=node.x"}), HasSubstr("this is no mask of inputs; found 'node.x'"));
}

}  // namespace
}  // namespace ramet::tests
