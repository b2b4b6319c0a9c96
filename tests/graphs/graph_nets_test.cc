#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "graphs/made_graphs.h"
#include "ramet/graphs/graph_set.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/transform.h"
#include "ramet/model/graph_net.h"
#include "ramet/recipe/graph_predictor.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using model::graph_kinds;
using testing::HasSubstr;

TEST_F(GraphNets, HaveTheSameBitsOnEveryLayout) {
  for (const bool of_graphs : {false, true})
    for (const std::string& kind : graph_kinds()) {
      const bool of_both = kind == "gcn" || kind == "sage" || kind == "gat" || kind == "gin";
      if (!of_graphs && !of_both) continue;
      const Trained expected = train(recipe(kind, of_graphs));
      EXPECT_TRUE(std::isfinite(expected.losses.back()));
      EXPECT_NE(expected.losses.front(), expected.losses.back());
      for (const std::string layout : {"threads=2", "r=2", "r=4", "p=2", "phases=2 offload=optimizer",
                                       "recompute=layer", "r=2 rts=optimizer", "p=2 r=2"}) {
        if (kind == "mpnn" && layout.starts_with("p=")) continue;  // all of its layers share their weights
        SCOPED_TRACE(kind + (of_graphs ? " of graphs " : " of nodes ") + layout);
        expect_same(train(recipe(kind, of_graphs), layout, 3, 2), expected);
      }
    }
}

TEST_F(GraphNets, MorePaddingChangesNoLogit) {
  // The room for the largest graphs is greater than the exact maximum.
  for (const std::string& kind : graph_kinds()) {
    const Settings plain{"model.graph.dropout=0"};
    Settings padded = plain;
    padded.emplace_back("data.graphs.batch=pad:5");
    const Trained expected = train(recipe(kind, true, plain)), found = train(recipe(kind, true, padded));
    EXPECT_EQ(found.losses, expected.losses) << kind;
    EXPECT_EQ(found.evaluation, expected.evaluation) << kind;
    EXPECT_EQ(found.hash, expected.hash) << kind;
  }
}

TEST_F(GraphNets, ATableOfFiltersIsCloseToTheFilters) {
  const Settings exactly{"train.precision=f32", "train.schedule.learning_rate=0.002"};
  Settings by_table = exactly;
  by_table.emplace_back("model.graph.filter_points=512");
  const Trained exact = train(recipe("schnet", true, exactly), "", 20),
                table = train(recipe("schnet", true, by_table), "", 20);
  EXPECT_LT(exact.losses.back(), 0.5 * exact.losses.front());
  EXPECT_NE(exact.hash, table.hash);
  for (size_t i = 0; i < exact.losses.size(); ++i)
    EXPECT_NEAR(table.losses[i], exact.losses[i], 1e-4 * std::max(1.0, std::abs(exact.losses[i]))) << i;
  const Trained expected = train(recipe("schnet", true, {"model.graph.filter_points=16"}));
  for (const std::string layout : {"threads=2", "r=2", "p=2", "recompute=layer"}) {
    SCOPED_TRACE(layout);
    expect_same(train(recipe("schnet", true, {"model.graph.filter_points=16"}), layout, 3, 2), expected);
  }
}

TEST_F(GraphNets, SparseFeaturesGiveTheResultsOfDenseOnes) {
  const Settings dense_ones{"data.graphs.features=node.x", "model.graph.dropout=0", "train.precision=f32"};
  const Settings sparse{"data.graphs.features=node.x:sparse", "model.graph.dropout=0", "train.precision=f32"};
  for (const char* kind : {"gcn", "sage", "gat", "gatv2"}) {
    SCOPED_TRACE(kind);
    for (const bool of_graphs : {false, true}) {
      const Trained dense = train(recipe(kind, of_graphs, dense_ones));
      const Trained found = train(recipe(kind, of_graphs, sparse));
      for (size_t i = 0; i < dense.losses.size(); ++i) EXPECT_NEAR(found.losses[i], dense.losses[i], 1e-5);
      for (const std::string layout : {"threads=2", "r=2", "p=2"})
        expect_same(train(recipe(kind, of_graphs, sparse), layout, 3, 2), found);
    }
    const Settings dropped{"data.graphs.features=node.x:sparse", "model.graph.dropout=0.5"};
    EXPECT_TRUE(std::isfinite(train(recipe(kind, false, dropped)).losses.back()));
  }
  EXPECT_THAT(error_of([&] { prepare(recipe("gin", true, sparse)); }), HasSubstr("gin reads no sparse features"));
  EXPECT_THAT(error_of([&] { prepare(recipe("gcn", true, {"data.graphs.features=node.x:sparse,node.kind"})); }),
              HasSubstr("sparse features must be the only ones"));
  EXPECT_THAT(error_of([&] { prepare(recipe("gcn", true, {"data.graphs.features=node.kind:sparse"})); }),
              HasSubstr("sparse features must be floats of nodes"));
}

TEST_F(GraphNets, LearnNumbersOfGraphs) {
  // The number of a graph follows from how many nodes it has.
  const Settings numbers{"data.graphs.label=graph.size", "model.graph.dropout=0", "data.graphs.factor=2"};
  for (const char* loss : {"squared", "absolute"}) {
    Settings more = numbers;
    more.push_back(std::string("model.graph.loss=") + loss);
    const Trained found = train(recipe("gin", true, more), "", 60);
    EXPECT_LT(found.losses.back(), 0.3 * found.losses.front()) << loss;
    const double absolute = number_of(found.evaluation, "absolute"), squared = number_of(found.evaluation, "squared");
    EXPECT_LT(absolute, 0.5) << loss;
    EXPECT_GE(squared, absolute * absolute) << loss;
    EXPECT_LT(squared, 1) << loss;
  }
}

TEST_F(GraphNets, LearnTasksOfYesOrNoWithMissingLabels) {
  const Settings tasks{"data.graphs.label=graph.tasks", "model.graph.loss=binary", "model.graph.dropout=0",
                       "train.evaluation.batches=3"};
  const Trained found = train(recipe("gin", true, tasks), "", 60);
  EXPECT_LT(found.losses.back(), 0.5 * found.losses.front());
  EXPECT_GE(number_of(found.evaluation, "accuracy"), 0.4) << "of few graphs";
  const Trained again = train(recipe("gin", true, tasks), "r=2 p=2 rts=optimizer", 60);
  EXPECT_EQ(again.evaluation, found.evaluation);
  EXPECT_EQ(again.losses, found.losses);
  EXPECT_EQ(again.hash, found.hash);
  const auto error = [&](Settings more) {
    more.insert(more.begin(), "model.graph.loss=binary");
    return error_of([&] { prepare(recipe("gin", true, more)); });
  };
  EXPECT_THAT(error({"data.graphs.label=graph.size"}),
              HasSubstr("graph.size, graph 0: a task of yes or no has another number; found "));
  EXPECT_THAT(error({"data.graphs.label=graph.tasks", "data.graphs.factor=2"}),
              HasSubstr("data.graphs.factor: a task of yes or no has no unit; found 2"));
  EXPECT_THAT(error({"data.graphs.label=graph.y"}), HasSubstr("tasks of yes or no have a label of numbers, 1 or 0"));
}

/// The loss is the mean of -log of the probability of the right answer, over the targets that are known.
TEST_F(GraphNets, TheLossOfTasksIsTheMeanCrossEntropyOfKnownTargets) {
  const Recipe of_tasks = recipe("gin", true,
                                 {"data.graphs.label=graph.tasks", "model.graph.loss=binary", "train.precision=f32",
                                  "data.graphs.batch=count:40"});
  Preparation ready = prepare(of_tasks);
  const Recipe complete = ready.recipe;
  Training training = make_training(std::move(ready), {.threads = 1});
  training.initialize();
  training.step();
  const double loss = number_of(training.evaluate(), "loss");
  GraphPredictor predictor(complete, {}, {.threads = 1});
  predictor.predictor().load(Checkpoint(training.save(folder_ / "checkpoints")));
  std::vector<float> probabilities, targets;
  for (const NamedTensor& tensor : predictor.predict()) {
    std::vector<float>* const to = tensor.name == "probabilities" ? &probabilities
                                   : tensor.name == "targets"     ? &targets
                                                                  : nullptr;
    if (!to) continue;
    to->resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(to->data(), tensor.bytes.data(), tensor.bytes.size());
  }
  ASSERT_EQ(probabilities.size(), targets.size());
  double sum = 0, known = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (std::isnan(targets[i])) continue;
    sum -= std::log(targets[i] > 0 ? probabilities[i] : 1 - probabilities[i]), ++known;
  }
  EXPECT_GT(known, 5);
  EXPECT_LT(known, static_cast<double>(targets.size()));
  EXPECT_NEAR(loss, sum / known, 1e-5);
}

TEST_F(GraphNets, LearnWithEveryWayToMakeBatches) {
  for (const char* batch : {"count:5", "stream:40", "stream:40:90", "histogram:40:8"})
    EXPECT_TRUE(std::isfinite(train(recipe("gin", true, {std::string("data.graphs.batch=") + batch})).losses.back()))
        << batch;
  for (const char* batch : {"neighbors:16:3,3", "walks:10:2"})
    EXPECT_TRUE(std::isfinite(
        train(recipe("sage", false, {std::string("data.graphs.batch=") + batch, "data.graphs.oversize=trim"}))
            .losses.back()))
        << batch;
}

TEST_F(GraphNets, CorrectedSamplesHaveTheSameBitsOnEveryLayout) {
  for (const char* kind : {"gcn", "sage"}) {
    const auto with = [&](const std::string& batch) {
      return recipe(kind, false, {"data.graphs.batch=" + batch, "model.graph.dropout=0"});
    };
    const Trained expected = train(with("walks:10:2:40"));
    EXPECT_TRUE(std::isfinite(expected.losses.back()));
    EXPECT_NE(expected.losses, train(with("walks:10:2")).losses);
    EXPECT_NE(expected.hash, train(with("walks:10:2:41")).hash);
    for (const char* layout : {"threads=2", "r=2", "r=4 rts=optimizer", "p=2", "phases=2 offload=optimizer"}) {
      SCOPED_TRACE(std::string(kind) + " " + layout);
      expect_same(train(with("walks:10:2:40"), layout, 3, 2), expected);
    }
  }
  EXPECT_THAT(error_of([&] { train(recipe("gat", false, {"data.graphs.batch=walks:10:2:40"})); }),
              HasSubstr("samples are corrected where nodes sum neighbours with weights"));
  // With samples that have every node and edge, all weights are 1: the loss is that of the whole graph.
  const Settings none{"model.graph.dropout=0", "train.accumulation=1", "train.lanes=1"};
  Settings all = none, whole = none;
  all.emplace_back("data.graphs.batch=walks:20000:1:2"), whole.emplace_back("data.graphs.batch=count:1");
  const std::vector<double> found = train(recipe("sage", false, all)).losses,
                            of_graph = train(recipe("sage", false, whole)).losses;
  ASSERT_EQ(found.size(), of_graph.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], of_graph[i], 1e-4 * of_graph[i]) << i;
}

TEST_F(GraphNets, LearnTheirLabels) {
  // The category of a node is the position of its greatest feature.
  const Trained nodes = train(recipe("sage", false, {"model.graph.dropout=0"}), "", 60);
  EXPECT_GT(number_of(nodes.evaluation, "accuracy"), 0.95);
  // Three of 40 graphs' batches are held out: too few for an accuracy, so the loss of training must fall.
  const Trained graphs = train(recipe("gin", true, {"model.graph.dropout=0"}), "", 60);
  EXPECT_LT(graphs.losses.back(), 0.5 * graphs.losses.front());
}

TEST_F(GraphNets, RecipesArePrintedAsTheyAreRead) {
  const Recipe complete = prepare(recipe("gat", false)).recipe;
  const std::string text = print_recipe(complete);
  EXPECT_EQ(print_recipe(prepare(parse_recipe(text, "printed.toml", ".", {})).recipe), text);
}

TEST_F(GraphNets, SayWhatIsMissing) {
  const auto error = [&](const std::string& kind, bool of_graphs, const Settings& more) {
    return error_of([&] { prepare(recipe(kind, of_graphs, more)); });
  };
  EXPECT_THAT(error("gcn", false, {"data.graphs.features=node.y"}),
              HasSubstr("data.graphs.features, " + (folder_ / "one.safetensors").string() +
                        ": the graph set has no such field; found 'node.y'; expected one of"));
  EXPECT_THAT(error("gcn", false, {"data.graphs.held_out=tests"}),
              HasSubstr("the split has no such part; found 'tests'; expected one of train, validation or test"));
  EXPECT_THAT(error("gcn", false, {"data.graphs.batch=some:3"}), HasSubstr("unknown way to make batches of graphs"));
  EXPECT_THAT(error("gcn", false, {"data.graphs.label=node.x"}), HasSubstr("the label must be a category"));
  EXPECT_THAT(error("gcn", false, {"data.graphs.set=absent"}), HasSubstr("absent"));
  EXPECT_THAT(error("gine", false, {"data.graphs.edge_features="}), HasSubstr("gine reads features of edges"));
  EXPECT_THAT(error("sage", false, {"data.graphs.edge_features=edge.bond"}),
              HasSubstr("sage reads no features of edges; found edge.bond"));
  EXPECT_THAT(error("schnet", true, {"data.graphs.features=node.x"}),
              HasSubstr("schnet reads one category of each node"));
  EXPECT_THAT(error("schnet", true, {"data.graphs.columns=1"}), HasSubstr("data.graphs.label"));
  EXPECT_THAT(error_of([&] { train(recipe("schnet", true, {"model.graph.cutoff=2"})); }),
              HasSubstr("the distance of a pair is not within the cutoff"));
  EXPECT_THAT(
      error_of([&] { train(recipe("schnet", true, {"data.graphs.set=" + (folder_ / "many.safetensors").string()})); }),
      HasSubstr("edge.distance"));
  EXPECT_THAT(error("gcn", true, {"data.graphs.batch=stream:3"}), HasSubstr("a graph does not fit the budget"));
}

/// GCN on Cora with the public split (Kipf and Welling report 81.5 % of the test nodes).
TEST(RealGraphNets, GcnOnCora) {
  const char* data = std::getenv("RAMET_DATA");
  const std::filesystem::path planetoid = std::filesystem::path(data ? data : "") / "planetoid";
  if (!data || !std::filesystem::exists(planetoid / "ind.cora.x")) GTEST_SKIP() << "RAMET_DATA has no Cora";
  const TemporaryFolder folder;
  GraphTables tables = graphs::read_planetoid(planetoid, "cora");
  for (const char* each : {"normalise=x", "self-loops", "gcn"}) apply_transform(tables, each, "edge");
  GraphSet(std::move(tables), "cora").save(folder / "cora.safetensors");
  const Settings settings{"data.graphs.set=" + (folder / "cora.safetensors").string(), "train.seed=1"};
  Training training = make_training(prepare(load_recipe(RAMET_SOURCE_DIR "/examples/gcn-cora.toml", settings)), {});
  training.initialize();
  EXPECT_GT(number_of(train_steps(training, 200).evaluation, "accuracy"), 0.79);
}

}  // namespace
}  // namespace ramet::tests
