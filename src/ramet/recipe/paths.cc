// Recipes of networks along the paths of a knowledge graph.
#include "ramet/recipe/paths.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/path_net.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/feeder.h"

namespace ramet::recipe {
namespace {

using graphs::FactGraph;
using graphs::PathQuerySource;
using graphs::PathRankSource;

constexpr int64_t kAnswers = 10;                      // of a query, where nobody says how many
constexpr int64_t kSampledNegatives = 50, kTop = 10;  // of hits@10 among 50 negatives

/// The facts of a graph: the part to train on, or all of them.
std::vector<Triple> facts_of(const Recipe& recipe, const KnowledgeGraph& graph) {
  const auto& data = recipe.data.triples;
  return data.split.empty() ? graph.triples() : graph.triples(data.split, data.train);
}

void renumber(std::vector<Triple>& triples, const std::vector<int32_t>& relations) {
  for (Triple& triple : triples) triple.relation = relations[static_cast<size_t>(triple.relation)];
}

std::shared_ptr<const PathRankSource> rank_source(const Recipe& recipe, const RankedGraph& ranked) {
  const auto& data = recipe.data.triples;
  const std::vector<Triple> triples = some_of(ranked.triples(data.split, data.held_out), data.ranked);
  return std::make_shared<const PathRankSource>(triples, ranked.known, ranked.facts, data.group);
}

/// How likely it is that fewer than `top` of `drawn` wrong answers are better than the right one, where each is with
/// the probability `better`: hits@top among drawn negatives, over all ways to draw them.
double hits_of_drawn(double better, int64_t top, int64_t drawn) {
  double sum = 0, ways = 1;
  for (int64_t i = 0; i < top; ++i) {
    sum += ways * std::pow(better, static_cast<double>(i)) * std::pow(1 - better, static_cast<double>(drawn - i));
    ways *= static_cast<double>(drawn - i) / static_cast<double>(i + 1);
  }
  return sum;
}

/// The ranks of the held-out triples, in both directions.
class PathEvaluator final : public Evaluator {
 public:
  PathEvaluator(std::shared_ptr<const PathRankSource> source, int64_t micro_batch, int64_t group)
      : source_(std::move(source)), micro_batch_(micro_batch), group_(group) {}
  std::string program() const override { return "rank"; }
  bool finds_best() const override { return true; }

  Numbers evaluate(Cluster& cluster) override {
    const int64_t batches = (source_->epoch_samples(0) + micro_batch_ - 1) / micro_batch_;
    Feeder feeder(source_, cluster, {.micro_batch = micro_batch_, .program = "rank", .count = batches});
    feeder.begin(0);
    const std::vector<ResultTensors> answers = cluster.run("rank", batches, feeder.feed());
    if (!cluster.leads()) return {};
    std::vector<double> ranks;
    for (const ResultTensors& batch : answers)
      for (int64_t i = 0; i < micro_batch_ * group_ && std::ssize(ranks) < source_->queries(); ++i)
        ranks.push_back(batch[0].get(i));
    Numbers numbers = numbers_of_ranks(ranks);
    double hits = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto wrong = static_cast<double>(source_->wrong_answers(static_cast<int64_t>(i)));
      hits += hits_of_drawn(wrong > 0 ? (ranks[i] - 1) / wrong : 0, kTop, kSampledNegatives);
    }
    numbers.emplace_back("hits@10_of_50", hits / static_cast<double>(ranks.size()));
    return numbers;
  }

 private:
  const std::shared_ptr<const PathRankSource> source_;
  const int64_t micro_batch_, group_;
};

PathNetConfig config_of(const Recipe& recipe) {
  const auto& paths = recipe.model.paths;
  return {.layers = paths.layers,
          .width = recipe.model.knowledge.width,
          .message = paths.message,
          .aggregate = paths.aggregate,
          .temperature = recipe.model.knowledge.temperature};
}

PathTask task_of(const Recipe& recipe, const FactGraph& train, const RankedGraph& ranked, int64_t top) {
  const auto& data = recipe.data.triples;
  PathTask task{.micro_batch = recipe.train.micro_batch,
                .group = data.group,
                .negatives = data.negatives,
                .relations = train.relations(),
                .train = {.entities = train.entities(), .edges = train.edges()},
                .ranked = {.entities = ranked.facts->entities(), .edges = ranked.facts->edges()},
                .top = std::min(top, ranked.facts->entities()),
                .seed = recipe.train.seed};
  if (!data.split.empty()) task.ranked.known = rank_source(recipe, ranked)->room();
  return task;
}

std::shared_ptr<const FactGraph> train_graph(const Recipe& recipe, const KnowledgeGraph& graph) {
  return for_key(recipe, "data.triples.train", [&] {
    return std::make_shared<const FactGraph>(facts_of(recipe, graph), graph.entities(), graph.relations());
  });
}

}  // namespace

bool is_path_net(const Recipe& recipe) { return recipe.model.kind == "nbfnet"; }

void check_knowledge_keys(const Recipe& recipe) {
  // A run's own recipe has every key, so only values that say something are refused.
  const Recipe usual;
  const auto &knowledge = recipe.model.knowledge, &usual_knowledge = usual.model.knowledge;
  const auto &paths = recipe.model.paths, &usual_paths = usual.model.paths;
  const auto &triples = recipe.data.triples, &usual_triples = usual.data.triples;
  struct Key {
    std::string name;
    bool said;
    bool of_paths = false;
  };
  for (const Key& key :
       std::initializer_list<Key>{{"model.knowledge.norm", knowledge.norm != usual_knowledge.norm},
                                  {"model.knowledge.pad", knowledge.pad != usual_knowledge.pad},
                                  {"model.knowledge.shards", knowledge.shards != usual_knowledge.shards},
                                  {"model.knowledge.loss", knowledge.loss != usual_knowledge.loss},
                                  {"model.knowledge.margin", knowledge.margin != usual_knowledge.margin},
                                  {"model.knowledge.penalty", knowledge.penalty != usual_knowledge.penalty},
                                  {"model.knowledge.deviation", knowledge.deviation != usual_knowledge.deviation},
                                  {"data.triples.sides", triples.sides != usual_triples.sides},
                                  {"data.triples.reciprocal", triples.reciprocal != usual_triples.reciprocal},
                                  {"data.triples.subsampling", triples.subsampling != usual_triples.subsampling},
                                  {"model.paths.layers", paths.layers != usual_paths.layers, true},
                                  {"model.paths.message", paths.message != usual_paths.message, true},
                                  {"model.paths.aggregate", paths.aggregate != usual_paths.aggregate, true},
                                  {"data.triples.ranked_set", triples.ranked_set != usual_triples.ranked_set, true}})
    if (key.said && key.of_paths != is_path_net(recipe))
      throw Error({.what = "the model does not read this key",
                   .where = recipe.where(key.name),
                   .found = key.name + " with model.kind '" + recipe.model.kind + "'",
                   .expected = key.of_paths ? "model.kind 'nbfnet'" : "embeddings",
                   .remedy = "Leave the key out"});
}

std::vector<Triple> RankedGraph::triples(const std::string& split, const std::string& part) const {
  std::vector<Triple> chosen = graph->triples(split, part);
  renumber(chosen, relations);
  return chosen;
}

RankedGraph open_ranked_graph(const Recipe& recipe) {
  const std::shared_ptr<const KnowledgeGraph> train = open_knowledge(recipe);
  const std::string& path = recipe.data.triples.ranked_set;
  return for_key(recipe, path.empty() ? "data.triples.set" : "data.triples.ranked_set", [&] {
    RankedGraph ranked;
    ranked.graph = path.empty() ? train
                                : std::make_shared<const KnowledgeGraph>(
                                      std::make_shared<const graphs::GraphSet>(graphs::GraphSet::open(path)));
    for (int64_t i = 0; i < ranked.graph->relations(); ++i)
      ranked.relations.push_back(train->relation(ranked.graph->relation_name(static_cast<int32_t>(i))));
    ranked.known = ranked.graph->triples();
    renumber(ranked.known, ranked.relations);
    std::vector<Triple> facts = facts_of(recipe, *ranked.graph);
    renumber(facts, ranked.relations);
    ranked.facts = std::make_shared<const FactGraph>(facts, ranked.graph->entities(), train->relations());
    return ranked;
  });
}

OpenedData open_path_net(const Recipe& recipe) {
  const std::shared_ptr<const KnowledgeGraph> graph = open_knowledge(recipe);
  return {.make_workload = [graph](Preparation& made) {
    const Recipe& complete = made.recipe;
    const auto& data = complete.data.triples;
    Workload& workload = made.workload;
    const auto train = train_graph(complete, *graph);
    const RankedGraph ranked = open_ranked_graph(complete);
    const std::vector<Triple> triples = facts_of(complete, *graph),
                              known = data.known == "all" ? graph->triples() : triples;
    const std::string contents = graph->set().contents().hex() + data.split + data.train + data.known;
    const bool group = data.group > std::ssize(triples);
    workload.train = for_key(complete, group ? "data.triples.group" : "data.triples.negatives", [&] {
      return std::make_shared<const PathQuerySource>(
          triples, known, train, contents,
          graphs::PathQueryOptions{.group = data.group,
                                   .negatives = data.negatives,
                                   .shuffle = complete.data.shuffle,
                                   .seed = static_cast<uint64_t>(complete.train.seed)});
    });
    workload.units = {.name = "queries", .per_sample = data.group};
    const PathTask task =
        for_key(complete, "data.triples.held_out", [&] { return task_of(complete, *train, ranked, kAnswers); });
    workload.model = for_key(complete, "model.kind", [&] { return model::build_path_net(config_of(complete), task); });
    if (!data.split.empty())
      workload.evaluator =
          std::make_unique<PathEvaluator>(rank_source(complete, ranked), complete.train.micro_batch, data.group);
    settle_epochs(made.recipe, *workload.train);
    workload.data_identity = workload.train->identity().hex();
  }};
}

Model build_path_net_of(const Recipe& complete, int64_t top) {
  const RankedGraph ranked = open_ranked_graph(complete);
  const auto train = train_graph(complete, *open_knowledge(complete));
  const PathTask task =
      for_key(complete, "data.triples.held_out", [&] { return task_of(complete, *train, ranked, top); });
  return for_key(complete, "model.kind", [&] { return model::build_path_net(config_of(complete), task); });
}

}  // namespace ramet::recipe
