// Several problems at once, of graphs, nodes and edges.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "graphs/made_graphs.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"
#include "ramet/recipe/graph_predictor.h"
#include "ramet/recipe/prepare.h"
#include "ramet/text/tasks/metrics.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

class GraphTasks : public GraphNets {
 protected:
  Recipe tasks(const Settings& more = {}, const std::string& kind = "gps") const {
    Settings settings{
        "data.graphs.tasks=size graph.size absolute 1, yes graph.tasks binary 0.5, kind node.kind classes, "
        "order edge.order classes 0.25, bond edge.bond squared 0.2",
        "data.graphs.features=node.x", "model.graph.dropout=0.1", "train.evaluation.batches=3"};
    settings.insert(settings.end(), more.begin(), more.end());
    return recipe(kind, true, settings);
  }
};

TEST_F(GraphTasks, HaveTheSameBitsOnEveryLayout) {
  for (const char* kind : {"gps", "gine", "sage"}) {
    const Settings more = kind == std::string("sage") ? Settings{"data.graphs.edge_features="} : Settings{};
    const Trained expected = train(tasks(more, kind));
    const std::vector<std::string> few = {
        "threads=2", "r=2", "p=2", "phases=2 offload=optimizer", "recompute=layer", "r=2 rts=optimizer", "p=2 r=2"};
    for (const std::string& layout : kind == std::string("gps") ? kTwoLayerLayouts : few) {
      SCOPED_TRACE(kind + (" " + layout));
      expect_same(train(tasks(more, kind), layout, 3, 2), expected);
    }
  }
}

TEST_F(GraphTasks, LossIsTheWeightedSum) {
  Training training = make_training(prepare(tasks({"model.graph.dropout=0"})), {});
  training.initialize();
  const Numbers first = training.step();
  double sum = 0;
  for (const char* name : {"size", "yes", "kind", "order", "bond"})
    sum += number_of(first, name + std::string("_loss"));
  EXPECT_NEAR(number_of(first, "loss"), sum, 1e-5);
  for (int i = 0; i < 80; ++i) training.step();
  const Numbers last = training.step();
  EXPECT_LT(number_of(last, "size_loss"), 0.5 * number_of(first, "size_loss"));
  EXPECT_LT(number_of(last, "kind_loss"), 0.5 * number_of(first, "kind_loss"));
  EXPECT_GT(number_of(last, "kind_accuracy"), 0.8);
  EXPECT_GT(number_of(last, "yes_accuracy"), number_of(first, "yes_accuracy"));
}

/// A step's loss with "step" divides each task by its own items.
TEST_F(GraphTasks, DivideEachTaskByItsOwnItems) {
  const Settings more{"train.loss_mean=step"};
  const Trained expected = train(tasks(more));
  expect_same(train(tasks(more), "r=2 rts=optimizer", 3, 2), expected);
  EXPECT_NE(expected.hash, train(tasks()).hash);
}

/// The mean of the areas of two columns, of those that have one.
double mean_area(const std::vector<double>& scores, const std::vector<double>& answers) {
  double sum = 0, areas = 0;
  for (size_t column = 0; column < 2; ++column) {
    std::vector<double> score, answer;
    for (size_t i = column; i < scores.size(); i += 2) score.push_back(scores[i]), answer.push_back(answers[i]);
    if (const double area = text::roc_auc(answer, score); !std::isnan(area)) sum += area, ++areas;
  }
  return sum / areas;
}

std::vector<double> floats_of(const NamedTensor& tensor) {
  std::vector<double> values;
  for (size_t i = 0; i < tensor.bytes.size() / 4; ++i)
    values.push_back(reinterpret_cast<const float*>(tensor.bytes.data())[i]);
  return values;
}

TEST_F(GraphTasks, PredictAtEachLevelAndRankAnswers) {
  Preparation ready = prepare(tasks({"data.graphs.batch=count:40"}));
  const Recipe complete = ready.recipe;
  Training training = make_training(std::move(ready), {});
  training.initialize();
  for (int i = 0; i < 10; ++i) training.step();
  const Numbers evaluation = training.evaluate();
  GraphPredictor predictor(complete, {}, {.threads = 1});
  predictor.predictor().load(Checkpoint(training.save(folder_ / "checkpoints")));
  std::map<std::string, NamedTensor> found;
  for (const NamedTensor& tensor : predictor.predict()) found[tensor.name] = tensor;
  const auto floats = [&](const std::string& name) { return floats_of(found.at(name)); };
  EXPECT_EQ(found.at("graph").type.shape, (Shape{13}));
  EXPECT_EQ(found.at("size_values").type.shape, (Shape{13, 1}));
  EXPECT_EQ(found.at("kind_probabilities").type.shape, (Shape{found.at("node").type.shape[0], 3}));
  EXPECT_EQ(found.at("bond_values").type.shape, (Shape{found.at("edge").type.shape[0], 2}));
  EXPECT_EQ(found.at("order_labels").type.shape, found.at("edge").type.shape);
  EXPECT_EQ(found.count("size_known"), 0u);
  for (const double size : floats("size_targets")) EXPECT_TRUE(size >= 3.5 && size <= 5) << size;
  const std::vector<double> scores = floats("yes_logits"), answers = floats("yes_targets");
  EXPECT_NEAR(number_of(evaluation, "yes_roc_auc"), mean_area(scores, answers), 1e-12);
}

/// Networks whose answers are sums over layers or nodes rank the answers of yes or no, too, on every layout.
TEST_F(GraphTasks, RankAnswersOfNetworksThatShareNoNodes) {
  for (const char* kind : {"gin", "schnet"}) {
    const Recipe of_answers = recipe(kind, true,
                                     {"data.graphs.label=graph.tasks", "model.graph.loss=binary",
                                      "data.graphs.batch=count:40", "train.accumulation=4"});
    Preparation ready = prepare(of_answers);
    const Recipe complete = ready.recipe;
    Training training = make_training(std::move(ready), {});
    training.initialize();
    const Trained expected = train_steps(training, 3);
    const Numbers evaluation = training.evaluate();
    GraphPredictor predictor(complete, {}, {.threads = 1});
    predictor.predictor().load(Checkpoint(training.save(folder_ / kind)));
    std::map<std::string, std::vector<double>> found;
    for (const NamedTensor& tensor : predictor.predict())
      if (tensor.name == "logits" || tensor.name == "targets") found[tensor.name] = floats_of(tensor);
    EXPECT_NEAR(number_of(evaluation, "roc_auc"), mean_area(found.at("logits"), found.at("targets")), 1e-12) << kind;
    for (const std::string layout : {"r=2", "p=2", "p=2 head=first", "phases=2", "r=2 p=2 rts=optimizer"}) {
      SCOPED_TRACE(kind + (": " + layout));
      const Trained other = train(of_answers, layout, 3);
      EXPECT_EQ(other.hash, expected.hash);
      EXPECT_EQ(other.evaluation, evaluation);
    }
  }
}

TEST_F(GraphTasks, SayWhatIsWrong) {
  const auto error = [&](const std::string& text, const std::string& kind = "gps", Settings more = {}) {
    more.insert(more.begin(), "data.graphs.tasks=" + text);
    return error_of([&] { prepare(recipe(kind, true, more)); });
  };
  EXPECT_THAT(error("size graph.size"),
              HasSubstr("data.graphs.tasks: this is no task; found 'size graph.size'; expected "
                        "NAME FIELD LOSS [WEIGHT] with a loss of squared, absolute, binary or "
                        "classes"));
  EXPECT_THAT(error("a graph.size squared, a graph.tasks binary"), HasSubstr("two tasks have one name; found 'a'"));
  EXPECT_THAT(error("a graph.size squared 0"), HasSubstr("a task's weight must be positive"));
  EXPECT_THAT(error("a graph.size classes"), HasSubstr("classes are those of a category"));
  EXPECT_THAT(error("a graph.y squared"), HasSubstr("classes are those of a category"));
  EXPECT_THAT(error("a edge.bond binary"), HasSubstr("edge.bond, edge 0: a task of yes or no has another number"));
  EXPECT_THAT(error("a graph.absent squared"), HasSubstr("the graph set has no such field; found 'graph.absent'"));
  EXPECT_THAT(error("a graph.size squared", "gin"), HasSubstr("gin has no features that several tasks could share"));
  EXPECT_THAT(error("a graph.size squared", "gps", {"data.graphs.split=node.split"}),
              HasSubstr("several tasks are held out by graphs"));
}

TEST(AppendGraphs, WhatOneSetLacksIsNotKnown) {
  GraphTables first = made_graphs(3), second = made_graphs(2);
  graphs::rename_field(first, "graph.size", "large");
  FieldTable& kind = *second.find("node.kind");
  kind.field.values = {"c", "d", "a"};
  const int64_t nodes = first.nodes[0].ptr.back(), edges = first.edges[0].ptr.back();
  const auto old_kind = kind;
  graphs::append_graphs(first, second);
  const GraphSet both(std::move(first), "both");
  EXPECT_EQ(both.graphs(), 5);
  EXPECT_EQ(both.node_ptr(0)[4] - both.node_ptr(0)[3], second.nodes[0].ptr[1]);
  EXPECT_EQ(both.edge_ptr(0)[3], edges);
  const auto number = [&](const char* key, int64_t at) {
    const size_t field = both.field(key);
    return field_number(both.fields()[field], both.bytes(field), at);
  };
  EXPECT_EQ(number("graph.large", 0),
            field_number({.dtype = DType::kF32}, made_graphs(3).find("graph.size")->bytes, 0));
  EXPECT_TRUE(std::isnan(number("graph.large", 3)));
  EXPECT_TRUE(std::isnan(number("graph.size", 2)));
  EXPECT_FALSE(std::isnan(number("graph.size", 3)));
  EXPECT_EQ(both.fields()[both.field("node.kind")].values, (std::vector<std::string>{"a", "b", "c", "d"}));
  for (int64_t i = 0; i < second.nodes[0].ptr.back(); ++i) {
    const double old = field_number(old_kind.field, old_kind.bytes, i);
    EXPECT_EQ(number("node.kind", nodes + i), old == 0 ? 2 : old == 1 ? 3 : 0) << i;
  }
}

/// examples/gps-plus-qm9.toml on molecules made by hand: a number that all have, and one of yes or no that two lack.
TEST(SmallMolecules, LearnWithDistancesAndTwoTasks) {
  const TemporaryFolder folder;
  const std::string samples = RAMET_SOURCE_DIR "/tests/samples/graphs/";
  GraphTables tables = graphs::parse_sdf(read_file(samples + "six.sdf"), "six.sdf");
  graphs::append_graphs(tables, graphs::parse_sdf(read_file(samples + "two.sdf"), "two.sdf"));
  for (const char* change : {"rename=graph.gap__eV_:gap", "returns=3", "laplacian=2"})
    graphs::apply_transform(tables, change, "edge");
  EXPECT_EQ(tables.graphs, 8);
  GraphSet(std::move(tables), "molecules").save(folder / "molecules.safetensors");
  Settings settings{"data.graphs.set=" + (folder / "molecules.safetensors").string(),
                    "data.graphs.split=",
                    "data.graphs.edge_features=edge.bond",
                    "data.graphs.batch=count:4",
                    "model.graph.hidden=16",
                    "model.graph.position_size=4",
                    "model.graph.layers=2",
                    "train.schedule.warmup_steps=2",
                    "model.graph.input_masks=distances:0.1",
                    "train.evaluation.batches=0",
                    "data.graphs.tasks=gap graph.gap squared, polar graph.polar binary, z node.z classes 0.1"};
  const Recipe recipe = load_recipe(RAMET_SOURCE_DIR "/examples/gps-plus-qm9.toml", settings);
  const Trained found = train(recipe, "", 20);
  EXPECT_LT(found.losses.back(), 0.8 * found.losses.front());
  Training training = make_training(prepare(recipe), {});
  training.initialize();
  EXPECT_LE(number_of(training.step(), "polar_accuracy"), 1);
}

TEST(AppendGraphs, RefusesWhatHasNoUnknownValue) {
  GraphTables first = made_graphs(2), second = made_graphs(2);
  second.set_field({.name = "z", .of = "node", .dtype = DType::kU8},
                   std::vector<uint8_t>(static_cast<size_t>(second.nodes[0].ptr.back())));
  EXPECT_THAT(error_of([&] { graphs::append_graphs(first, second); }),
              HasSubstr("append: node.z: only one of the sets has a field of whole numbers that are never unknown"));
  second = made_graphs(2);
  second.find("node.x")->field.shape = Shape{1, 5};
  EXPECT_THAT(
      error_of([&] { graphs::append_graphs(first, second); }),
      HasSubstr("append: node.x: a field is of another type in the other set; found f32[1,5]; expected f32[5]"));
  EXPECT_THAT(error_of([&] { graphs::rename_field(first, "node.x", "kind"); }),
              HasSubstr("rename: the set has a field of that name; found 'node.kind'"));
}

}  // namespace
}  // namespace ramet::tests
