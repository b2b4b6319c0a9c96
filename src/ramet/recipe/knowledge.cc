// Recipes of embeddings of knowledge graphs.
#include "ramet/recipe/knowledge.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/knowledge.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/paths.h"
#include "ramet/recipe/prepare.h"

namespace ramet::recipe {
namespace {

using graphs::KnowledgeGraph;
using graphs::ShardedTripleSource;
using graphs::TripleEnd;
using graphs::TripleOptions;
using graphs::TripleSource;

constexpr int64_t kAnswers = 10;  // of a query, where nobody says how many

KnowledgeConfig config_of(const Recipe& recipe) {
  const auto& knowledge = recipe.model.knowledge;
  return {.function = recipe.model.kind,
          .width = knowledge.width,
          .norm = knowledge.norm,
          .loss = knowledge.loss,
          .margin = knowledge.margin,
          .temperature = knowledge.temperature,
          .penalty = knowledge.penalty,
          .deviation = knowledge.deviation};
}

KnowledgeTask task_of(const Recipe& recipe, const KnowledgeGraph& graph, const std::string& part, int64_t top) {
  const auto& data = recipe.data.triples;
  const int64_t shards = recipe.model.knowledge.shards;
  KnowledgeTask task{.micro_batch = shards > 1 ? shards : recipe.train.micro_batch,
                     .group = data.group,
                     .negatives = data.negatives,
                     .entities = graph.entities(),
                     .pad = recipe.model.knowledge.pad,
                     .shards = shards,
                     .relations = graph.relations(),
                     .tails = data.sides != "heads",
                     .heads = data.sides != "tails" && !data.reciprocal,
                     .reciprocal = data.reciprocal,
                     .subsampling = data.subsampling,
                     .top = std::min(top, graph.entities()),
                     .seed = recipe.train.seed};
  if (part.empty()) return task;
  const Ranking ranking(recipe, graph, part, data.ranked);
  task.known_tails = ranking.source().room(TripleEnd::kTail),
  task.known_heads = ranking.source().room(TripleEnd::kHead);
  return task;
}

/// What to train on, and for a person how full its places are.
struct TrainTriples {
  std::shared_ptr<const Source> source;
  std::string note;
};

TrainTriples train_triples(const Recipe& recipe, const KnowledgeGraph& graph, const KnowledgeTask& task) {
  const auto& data = recipe.data.triples;
  std::vector<Triple> triples = for_key(recipe, "data.triples.train", [&] {
    return data.split.empty() ? graph.triples() : graph.triples(data.split, data.train);
  });
  const std::vector<Triple> known = data.known == "all" ? graph.triples() : triples;
  const TripleOptions options{.group = task.group,
                              .negatives = recipe.model.knowledge.loss == "all" ? 0 : task.negatives,
                              .tails = task.tails,
                              .heads = task.heads,
                              .reciprocal = task.reciprocal,
                              .subsampling = task.subsampling,
                              .entities = task.entities,
                              .relations = task.relations,
                              .shuffle = recipe.data.shuffle,
                              .seed = static_cast<uint64_t>(recipe.train.seed)};
  const std::string contents = graph.set().contents().hex() + data.split + data.train + data.known;
  if (task.sharded() && recipe.model.knowledge.loss != "all")
    return for_key(recipe, "model.knowledge.shards", [&]() -> TrainTriples {
      auto source = std::make_shared<const ShardedTripleSource>(triples, known, graph.shards(), contents, options);
      const std::string note = "triples by shards: " + std::to_string(task.shards * task.shards) +
                               " pairs of shards with room for " + std::to_string(task.group / task.shards) +
                               " triples each, " + std::to_string(100 * source->triples() / source->places()) +
                               "% of it used";
      return {std::move(source), note};
    });
  const bool group = options.group > std::ssize(triples);
  return for_key(recipe, group ? "data.triples.group" : "data.triples.negatives", [&]() -> TrainTriples {
    return {std::make_shared<const TripleSource>(std::move(triples), known, contents, options), ""};
  });
}

/// The ranks of the held-out triples.
class RankEvaluator final : public Evaluator {
 public:
  RankEvaluator(Ranking ranking, KnowledgeConfig config, KnowledgeTask task)
      : ranking_(std::move(ranking)), config_(std::move(config)), task_(task) {}
  std::string program() const override { return "rank"; }
  std::vector<NamedGraph> programs_by_rows() const override {
    return {ranks_by_rows(config_, task_, ranking_.block())};
  }
  Numbers evaluate(Cluster& cluster) override {
    return cluster.rows() ? ranking_.run_by_rows(cluster) : ranking_.run(cluster);
  }
  bool finds_best() const override { return true; }

 private:
  const Ranking ranking_;
  const KnowledgeConfig config_;
  const KnowledgeTask task_;
};

/// The part to rank; "" where the triples have no parts.
std::string held_out_of(const Recipe& recipe) {
  return recipe.data.triples.split.empty() ? "" : recipe.data.triples.held_out;
}

/// Embeddings of entities and relations, or networks along paths, on triples.
class KnowledgeKind final : public RecipeKind {
 public:
  std::string title() const override { return "model of a knowledge graph"; }
  std::vector<std::string> model_kinds() const override {
    std::vector<std::string> names;
    for (const ScoreFunction& function : score_functions()) names.push_back(function.name);
    names.emplace_back("nbfnet");
    return names;
  }
  bool takes(const Recipe& recipe) const override {
    return (find_score_function(recipe.model.kind) != nullptr || is_path_net(recipe)) && !recipe.is_task();
  }
  std::vector<RecipeKey> keys() const override { return knowledge_keys(); }
  bool keeps_its_keys() const override { return true; }
  bool reads_text() const override { return false; }
  std::vector<std::string> data_kinds() const override { return {"triples"}; }
  bool has_presets() const override { return false; }
  bool takes_any_batch(const Recipe&) const override { return true; }
  std::vector<std::string> presets(const Recipe&) const override { return {}; }
  bool answers_queries() const override { return true; }

  void check(const Recipe& recipe) const override {
    check_knowledge_keys(recipe);
    if (recipe.data.triples.reciprocal && recipe.data.triples.sides != "both" &&
        recipe.places.count("data.triples.sides"))
      throw Error({.what = "reciprocal triples ask for tails alone, and so for both ends of each triple",
                   .where = recipe.where("data.triples.sides"),
                   .found = recipe.data.triples.sides,
                   .remedy = "Leave one of the two keys out"});
  }

  void complete(Recipe&, int64_t) const override {}

  OpenedData open(Recipe& recipe, Preparation&) const override {
    if (is_path_net(recipe)) return open_path_net(recipe);
    const std::shared_ptr<const KnowledgeGraph> graph = open_knowledge(recipe);
    if (const int64_t shards = recipe.model.knowledge.shards; shards > 1) {
      if (recipe.places.count("train.micro_batch") && recipe.train.micro_batch != shards)
        throw Error({.what = "a micro-batch of triples by shards has one sample of each shard",
                     .where = recipe.where("train.micro_batch"),
                     .found = std::to_string(recipe.train.micro_batch),
                     .expected = std::to_string(shards),
                     .remedy = "Leave the key out"});
      recipe.train.micro_batch = shards;
    }
    return {.make_workload = [graph](Preparation& made) {
      const Recipe& complete = made.recipe;
      Workload& workload = made.workload;
      const std::string part = held_out_of(complete);
      const KnowledgeTask task =
          for_key(complete, "data.triples.held_out", [&] { return task_of(complete, *graph, part, kAnswers); });
      const TrainTriples triples = train_triples(complete, *graph, task);
      workload.train = triples.source;
      if (!triples.note.empty()) workload.notes.push_back(triples.note);
      workload.units = {.name = "triples", .per_sample = task.group};
      workload.model = for_key(complete, "model.kind", [&] { return build_knowledge(config_of(complete), task); });
      if (!part.empty())
        workload.evaluator = std::make_unique<RankEvaluator>(
            Ranking(complete, *graph, part, complete.data.triples.ranked), config_of(complete), task);
      if (!task.sharded() && complete.model.knowledge.loss != "all")
        workload.rows = {{kEntities, {std::begin(kEntityInputs), std::end(kEntityInputs)}}};
      settle_epochs(made.recipe, *workload.train);
      workload.data_identity = workload.train->identity().hex();
    }};
  }

  Model build_model(const Recipe& recipe) const override {
    if (is_path_net(recipe)) return build_path_net_of(recipe, kAnswers);
    return build_knowledge_of(recipe, held_out_of(recipe), kAnswers);
  }

  Error without_samples(const Recipe& recipe, bool held_out) const override {
    if (!held_out) return RecipeKind::without_samples(recipe, held_out);
    return Error({.what = "no part of the triples is held out for evaluation",
                  .where = recipe.where("data.triples.split"),
                  .remedy = "Name the field that says which part a triple belongs to"});
  }

  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "no class of transformers has this model",
                 .where = recipe.where("model.kind"),
                 .found = recipe.model.kind,
                 .remedy = "Name FILE.safetensors for the weights, or FILE.ramet for the model with them"});
  }
};

}  // namespace

std::shared_ptr<const KnowledgeGraph> open_knowledge(const Recipe& recipe) {
  const std::string& path = recipe.data.triples.set;
  if (path.empty())
    throw Error({.what = "a model of a knowledge graph needs a graph set of triples",
                 .where = recipe.where("data.triples.set"),
                 .remedy = "Make one with `ramet graphs prepare triples`"});
  return for_key(recipe, "data.triples.set", [&] {
    return std::make_shared<const KnowledgeGraph>(std::make_shared<const GraphSet>(GraphSet::open(path)),
                                                  recipe.model.knowledge.shards);
  });
}

Model build_knowledge_of(const Recipe& recipe, const std::string& part, int64_t top) {
  const auto graph = open_knowledge(recipe);
  const KnowledgeTask task =
      for_key(recipe, "data.triples.held_out", [&] { return task_of(recipe, *graph, part, top); });
  return for_key(recipe, "model.kind", [&] { return build_knowledge(config_of(recipe), task); });
}

const RecipeKind& knowledge_kind() {
  static const KnowledgeKind kind;
  return kind;
}

}  // namespace ramet::recipe
