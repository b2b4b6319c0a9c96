// Ranks and queries of embeddings of knowledge graphs.
#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/graphs/lines.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/train/feeder.h"
#include "ramet/train/model_passes.h"

namespace ramet::recipe {
namespace {

using graphs::KnowledgeGraph;
using graphs::RankSource;

std::shared_ptr<const RankSource> rank_source(const Recipe& recipe, const KnowledgeGraph& graph,
                                              const std::string& part, int64_t limit) {
  std::vector<Triple> triples =
      graph.triples(recipe.data.triples.split, part.empty() ? recipe.data.triples.held_out : part);
  if (const int64_t size = std::ssize(triples); limit > 0 && limit < size) {
    // In the graph's order neighbours are alike: take triples from all over it.
    for (int64_t i = 0; i < limit; ++i)
      triples[static_cast<size_t>(i)] = triples[static_cast<size_t>(i * size / limit)];
    triples.resize(static_cast<size_t>(limit));
  }
  const int64_t pad = recipe.model.knowledge.pad, entities = graph.entities();
  const int64_t rows = graph.shards().shards > 1 ? graph.shards().rows() : (entities + pad - 1) / pad * pad;
  return std::make_shared<const RankSource>(std::move(triples), graph.triples(), recipe.data.triples.group, rows);
}

}  // namespace

Ranking::Ranking(const Recipe& recipe, const KnowledgeGraph& graph, const std::string& part, int64_t limit)
    : source_(rank_source(recipe, graph, part, limit)),
      micro_batch_(graph.shards().shards > 1 ? graph.shards().shards : recipe.train.micro_batch),
      group_(recipe.data.triples.group) {}

Numbers Ranking::run(Cluster& cluster) const {
  const int64_t batches = (source_->epoch_samples(0) + micro_batch_ - 1) / micro_batch_;
  Feeder feeder(source_, cluster, {.micro_batch = micro_batch_, .program = "rank", .count = batches});
  feeder.begin(0);
  const std::vector<ResultTensors> answers = cluster.run("rank", batches, feeder.feed());
  if (!cluster.leads()) return {};
  double reciprocal = 0, sum = 0, hits[3] = {};
  int64_t count = 0;
  for (size_t batch = 0; batch < answers.size(); ++batch)
    for (const ResultTensor& ranks : answers[batch])
      for (int64_t i = 0; i < micro_batch_ * group_; ++i) {
        if (static_cast<int64_t>(batch) * micro_batch_ * group_ + i >= source_->triples()) break;
        const double rank = ranks.get(i);
        reciprocal += 1 / rank, sum += rank, ++count;
        for (size_t h = 0; h < 3; ++h) hits[h] += rank <= (h == 0 ? 1 : h == 1 ? 3 : 10);
      }
  const auto mean = [&](double total) { return total / static_cast<double>(count); };
  return {{"mrr", mean(reciprocal)},
          {"hits@1", mean(hits[0])},
          {"hits@3", mean(hits[1])},
          {"hits@10", mean(hits[2])},
          {"mean_rank", mean(sum)}};
}

QueryAnswerer::QueryAnswerer(const Recipe& recipe, int64_t top, const Layout& layout, const Where& where)
    : graph_(open_knowledge(recipe)),
      top_(std::min(top, graph_->entities())),
      group_(recipe.data.triples.group),
      predictor_(std::make_unique<Predictor>(apply_model_passes(build_knowledge_of(recipe, "", top), recipe.train),
                                             recipe.train, layout, where, std::vector<std::string>{"predict"})) {}

std::vector<std::vector<QueryAnswerer::Candidate>> QueryAnswerer::answer(const std::vector<std::string>& queries) {
  const auto samples = (std::ssize(queries) + group_ - 1) / group_;
  std::vector<NamedTensor> inputs;
  for (const char* const name : {"head", "relation", "tail"})
    inputs.push_back({name,
                      {DType::kI32, {samples, group_}},
                      std::vector<std::byte>(static_cast<size_t>(samples * group_) * sizeof(int32_t))});
  std::vector<bool> asks_heads;
  for (size_t i = 0; i < queries.size(); ++i) {
    const auto words = graphs::split_at(queries[i], '\t');
    if (words.size() != 3 || (words[0] == "?") == (words[2] == "?"))
      throw Error({.what = "a text is no query",
                   .where = "predict",
                   .found = "'" + queries[i].substr(0, 200) + "'",
                   .expected = "head, relation and tail with tabs between, and '?' for the head or the tail"});
    asks_heads.push_back(words[0] == "?");
    const int32_t known = graph_->entity(words[asks_heads.back() ? 2 : 0]), relation = graph_->relation(words[1]);
    const int32_t values[3] = {known, relation, known};
    for (size_t k = 0; k < 3; ++k) reinterpret_cast<int32_t*>(inputs[k].bytes.data())[i] = values[k];
  }
  const std::vector<NamedTensor> results = predictor_->run("predict", inputs);
  const auto result = [&](const std::string& name) -> const NamedTensor& {
    return *std::find_if(results.begin(), results.end(), [&](const NamedTensor& each) { return each.name == name; });
  };
  std::vector<std::vector<Candidate>> answers(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    const NamedTensor& entities = result(asks_heads[i] ? "heads" : "tails");
    const NamedTensor& scores = result(asks_heads[i] ? "head_scores" : "tail_scores");
    for (int64_t k = 0; k < top_; ++k) {
      const int64_t at = static_cast<int64_t>(i) * top_ + k;
      const auto entity = static_cast<int32_t>(load_element(entities.bytes.data(), DType::kI32, at));
      answers[i].push_back({graph_->entity_name(entity), load_element(scores.bytes.data(), scores.type.dtype, at)});
    }
  }
  return answers;
}

}  // namespace ramet::recipe
