// Ranks and queries of models of knowledge graphs.
#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/graphs/lines.h"
#include "ramet/model/knowledge.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/recipe/paths.h"
#include "ramet/runtime/row_tables.h"
#include "ramet/train/feeder.h"
#include "ramet/train/model_passes.h"

namespace ramet::recipe {
namespace {

using graphs::KnowledgeGraph;
using graphs::RankSource;

std::shared_ptr<const RankSource> rank_source(const Recipe& recipe, const KnowledgeGraph& graph,
                                              const std::string& part, int64_t limit) {
  std::vector<Triple> triples =
      some_of(graph.triples(recipe.data.triples.split, part.empty() ? recipe.data.triples.held_out : part), limit);
  const int64_t pad = recipe.model.knowledge.pad, entities = graph.entities();
  const int64_t rows = graph.shards().shards > 1 ? graph.shards().rows() : (entities + pad - 1) / pad * pad;
  return std::make_shared<const RankSource>(std::move(triples), graph.triples(), recipe.data.triples.group, rows);
}

}  // namespace

std::vector<Triple> some_of(std::vector<Triple> triples, int64_t limit) {
  const int64_t size = std::ssize(triples);
  if (limit == 0 || limit >= size) return triples;
  // In the graph's order neighbours are alike: take triples from all over it.
  for (int64_t i = 0; i < limit; ++i) triples[static_cast<size_t>(i)] = triples[static_cast<size_t>(i * size / limit)];
  triples.resize(static_cast<size_t>(limit));
  return triples;
}

Numbers numbers_of_ranks(const std::vector<double>& ranks) {
  double reciprocal = 0, sum = 0, hits[3] = {};
  for (const double rank : ranks) {
    reciprocal += 1 / rank, sum += rank;
    for (size_t h = 0; h < 3; ++h) hits[h] += rank <= (h == 0 ? 1 : h == 1 ? 3 : 10);
  }
  const auto mean = [&](double total) { return total / static_cast<double>(ranks.size()); };
  return {{"mrr", mean(reciprocal)},
          {"hits@1", mean(hits[0])},
          {"hits@3", mean(hits[1])},
          {"hits@10", mean(hits[2])},
          {"mean_rank", mean(sum)}};
}

Ranking::Ranking(const Recipe& recipe, const KnowledgeGraph& graph, const std::string& part, int64_t limit)
    : source_(rank_source(recipe, graph, part, limit)),
      micro_batch_(graph.shards().shards > 1 ? graph.shards().shards : recipe.train.micro_batch),
      group_(recipe.data.triples.group),
      entities_(graph.entities()) {}

Numbers Ranking::run(Cluster& cluster) const {
  const int64_t batches = (source_->epoch_samples(0) + micro_batch_ - 1) / micro_batch_;
  Feeder feeder(source_, cluster, {.micro_batch = micro_batch_, .program = "rank", .count = batches});
  feeder.begin(0);
  const std::vector<ResultTensors> answers = cluster.run("rank", batches, feeder.feed());
  if (!cluster.leads()) return {};
  std::vector<double> found;
  for (size_t batch = 0; batch < answers.size(); ++batch)
    for (const ResultTensor& ranks : answers[batch])
      for (int64_t i = 0; i < micro_batch_ * group_; ++i) {
        if (static_cast<int64_t>(batch) * micro_batch_ * group_ + i >= source_->triples()) break;
        found.push_back(ranks.get(i));
      }
  return numbers_of_ranks(found);
}

namespace {

const std::string kEnds[] = {"tail", "head"};

template <typename Value>
Value* values_of(Batch& batch, const std::string& name) {
  return reinterpret_cast<Value*>(const_cast<NamedTensor&>(batch.at(name)).bytes.data());
}

/// A micro-batch of triples to rank: what a RankSource gives, with the rows of its entities, and what is counted.
struct RankedBatch {
  Batch all;                              ///< of the source; known answers are numbered within all entities
  Batch fed;                              ///< of a block
  std::vector<double> lower[2], even[2];  ///< of each triple, by end
};

/// The known answers of one sample's triples that lie in [first, first + size), numbered within a block.
void take_known(RankedBatch& batch, const std::string& end, int64_t sample, int64_t stride, int64_t first, int64_t size,
                int64_t block) {
  const Shape& shape = batch.all.at(end + "_known").type.shape;
  const int64_t room = shape[1], pointers = batch.all.at(end + "_known_ptr").type.shape[1];
  const int32_t* const known = values_of<int32_t>(batch.all, end + "_known") + sample * room;
  const int32_t* const ptr = values_of<int32_t>(batch.all, end + "_known_ptr") + sample * pointers;
  int32_t* const to = values_of<int32_t>(batch.fed, end + "_known") + sample * room;
  int32_t* const to_ptr = values_of<int32_t>(batch.fed, end + "_known_ptr") + sample * pointers;
  int32_t kept = 0;
  for (int64_t m = 0; m + 1 < pointers; ++m) {
    to_ptr[m] = kept;
    for (int32_t i = ptr[m]; i < ptr[m + 1]; ++i)
      if (const int64_t entity = known[i] - m * stride; entity >= first && entity < first + size)
        to[kept++] = static_cast<int32_t>(m * block + entity - first);
  }
  to_ptr[pointers - 1] = kept;
  std::fill(to + kept, to + room, 0);
}

}  // namespace

Numbers Ranking::run_by_rows(Cluster& cluster) const {
  const StateTensor* const table = cluster.rows()->find(kEntities);
  if (!table) internal_error("Ranking::run_by_rows", "the rows of entities are on the devices");
  const int64_t batches = (source_->epoch_samples(0) + micro_batch_ - 1) / micro_batch_, width = table->type.shape[1],
                stride = source_->stride(), triples = micro_batch_ * group_;
  const auto row_bytes = static_cast<size_t>(width) * sizeof(float);
  std::vector<RankedBatch> ranked(static_cast<size_t>(batches));
  for (int64_t b = 0; b < batches; ++b) {
    RankedBatch& batch = ranked[static_cast<size_t>(b)];
    batch.all = source_->make(b * micro_batch_, micro_batch_);
    batch.fed = batch.all;
    for (const std::string& end : kEnds) {
      NamedTensor rows{end + "_row", {DType::kF32, {micro_batch_, group_, width}}, {}};
      rows.bytes.resize(static_cast<size_t>(triples) * row_bytes);
      for (int64_t i = 0; i < triples; ++i)
        cluster.read_state(*table, static_cast<uint64_t>(values_of<int32_t>(batch.all, end)[i]) * row_bytes,
                           {rows.bytes.data() + static_cast<size_t>(i) * row_bytes, row_bytes});
      batch.fed.tensors.push_back(std::move(rows));
      std::erase_if(batch.fed.tensors, [&](const NamedTensor& tensor) { return tensor.name == end; });
    }
    for (auto* const counts : {batch.lower, batch.even})
      for (int end = 0; end < 2; ++end) counts[end].assign(static_cast<size_t>(triples), 0);
  }
  NamedTensor rows{"block", {DType::kF32, {block(), width}}, {}}, size{"block_size", {DType::kI32, {1}}, {}};
  rows.bytes.resize(static_cast<size_t>(block()) * row_bytes);
  size.bytes.resize(sizeof(int32_t));
  for (int64_t first = 0; first < entities_; first += block()) {
    const auto count = static_cast<int32_t>(std::min(block(), entities_ - first));
    std::memcpy(size.bytes.data(), &count, sizeof count);
    cluster.read_state(*table, static_cast<uint64_t>(first) * row_bytes,
                       {rows.bytes.data(), static_cast<size_t>(count) * row_bytes});
    for (RankedBatch& batch : ranked)
      for (const std::string& end : kEnds)
        for (int64_t sample = 0; sample < micro_batch_; ++sample)
          take_known(batch, end, sample, stride, first, count, block());
    const auto feed = [&](int64_t micro, const Executable&, FeedSink& sink) {
      for (const NamedTensor& tensor : ranked[static_cast<size_t>(micro)].fed.tensors)
        sink.set(tensor.name, tensor.type, tensor.bytes.data());
      for (const NamedTensor* tensor : {&rows, &size}) sink.set(tensor->name, tensor->type, tensor->bytes.data());
    };
    const std::vector<ResultTensors> counts = cluster.run("rank_rows", batches, feed);
    for (size_t b = 0; b < counts.size(); ++b)
      for (const ResultTensor& result : counts[b])
        for (int end = 0; end < 2; ++end)
          for (auto [to, name] : {std::pair{&ranked[b].lower[end], kEnds[end] + "_lower"},
                                  std::pair{&ranked[b].even[end], kEnds[end] + "_even"}})
            if (result.name == name)
              for (int64_t i = 0; i < triples; ++i) (*to)[static_cast<size_t>(i)] += result.get(i);
  }
  // As model/ranks.h has it. All numbers are whole, so their order does not matter.
  std::vector<double> found;
  for (int64_t b = 0; b < batches; ++b)
    for (int end = 0; end < 2; ++end)
      for (int64_t i = 0; i < triples && b * triples + i < source_->triples(); ++i) {
        RankedBatch& batch = ranked[static_cast<size_t>(b)];
        const int32_t* const ptr =
            values_of<int32_t>(batch.all, kEnds[end] + "_known_ptr") + i / group_ * (group_ + 1) + i % group_;
        const auto at = static_cast<size_t>(i);
        found.push_back(static_cast<double>(entities_ - (ptr[1] - ptr[0])) - batch.lower[end][at] -
                        (batch.even[end][at] - 1) / 2);
      }
  return numbers_of_ranks(found);
}

namespace {

/// A question: what is given, the relation, and whether the head is asked for.
struct Query {
  std::string entity, relation;
  bool asks_head = false;
};

Query query_of(const std::string& text) {
  const auto words = graphs::split_at(text, '\t');
  if (words.size() != 3 || (words[0] == "?") == (words[2] == "?"))
    throw Error({.what = "a text is no query",
                 .where = "predict",
                 .found = "'" + text.substr(0, 200) + "'",
                 .expected = "head, relation and tail with tabs between, and '?' for the head or the tail"});
  const bool asks_head = words[0] == "?";
  return {std::string(words[asks_head ? 2 : 0]), std::string(words[1]), asks_head};
}

NamedTensor numbers_for(const std::string& name, Shape shape) {
  const auto bytes = static_cast<size_t>(shape.elements()) * sizeof(int32_t);
  return {name, {DType::kI32, std::move(shape)}, std::vector<std::byte>(bytes)};
}
int32_t* values_of(NamedTensor& tensor) { return reinterpret_cast<int32_t*>(tensor.bytes.data()); }

/// The inputs of a network along paths: the questions, and the graph for each sample of `group` of them.
std::vector<NamedTensor> path_inputs(const RankedGraph& ranked, const std::vector<Query>& queries, int64_t group) {
  const int64_t samples = (std::ssize(queries) + group - 1) / group, edges = ranked.facts->edges(),
                pointers = ranked.facts->entities() + 1;
  std::vector<NamedTensor> inputs{numbers_for("entity", {samples, group}), numbers_for("relation", {samples, group}),
                                  numbers_for("source", {samples, edges}),
                                  numbers_for("edge_relation", {samples, edges}),
                                  numbers_for("ptr", {samples, pointers})};
  for (size_t i = 0; i < queries.size(); ++i) {
    const int32_t relation = ranked.relations[static_cast<size_t>(ranked.graph->relation(queries[i].relation))];
    values_of(inputs[0])[i] = ranked.graph->entity(queries[i].entity);
    values_of(inputs[1])[i] = relation + (queries[i].asks_head ? static_cast<int32_t>(ranked.facts->relations()) : 0);
  }
  for (int64_t sample = 0; sample < samples; ++sample)
    ranked.facts->write(nullptr, values_of(inputs[2]) + sample * edges, values_of(inputs[3]) + sample * edges,
                        values_of(inputs[4]) + sample * pointers);
  return inputs;
}

/// The inputs of embeddings.
std::vector<NamedTensor> embedding_inputs(const KnowledgeGraph& graph, const std::vector<Query>& queries,
                                          int64_t group) {
  const int64_t samples = (std::ssize(queries) + group - 1) / group;
  std::vector<NamedTensor> inputs;
  for (const char* const name : {"head", "relation", "tail"}) inputs.push_back(numbers_for(name, {samples, group}));
  for (size_t i = 0; i < queries.size(); ++i) {
    values_of(inputs[0])[i] = values_of(inputs[2])[i] = graph.entity(queries[i].entity);
    values_of(inputs[1])[i] = graph.relation(queries[i].relation);
  }
  return inputs;
}

}  // namespace

QueryAnswerer::QueryAnswerer(const Recipe& recipe, int64_t top, const Layout& layout, const Where& where)
    : graph_(open_knowledge(recipe)), group_(recipe.data.triples.group) {
  if (is_path_net(recipe)) {
    paths_ = std::make_shared<const RankedGraph>(open_ranked_graph(recipe));
    graph_ = paths_->graph;
  }
  top_ = std::min(top, graph_->entities());
  const Model model = paths_ ? build_path_net_of(recipe, top) : build_knowledge_of(recipe, "", top);
  predictor_ = std::make_unique<Predictor>(apply_model_passes(model, recipe.train), recipe.train, layout, where,
                                           std::vector<std::string>{"predict"});
}

std::vector<std::vector<QueryAnswerer::Candidate>> QueryAnswerer::answer(const std::vector<std::string>& texts) {
  std::vector<Query> queries;
  for (const std::string& text : texts) queries.push_back(query_of(text));
  const std::vector<NamedTensor> results = predictor_->run(
      "predict", paths_ ? path_inputs(*paths_, queries, group_) : embedding_inputs(*graph_, queries, group_));
  const auto result = [&](const std::string& name) -> const NamedTensor& {
    return *std::find_if(results.begin(), results.end(), [&](const NamedTensor& each) { return each.name == name; });
  };
  std::vector<std::vector<Candidate>> answers(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    const std::string side = queries[i].asks_head ? "head" : "tail";
    const NamedTensor& entities = result(paths_ ? "answers" : side + "s");
    const NamedTensor& scores = result(paths_ ? "scores" : side + "_scores");
    for (int64_t k = 0; k < top_; ++k) {
      const int64_t at = static_cast<int64_t>(i) * top_ + k;
      const auto entity = static_cast<int32_t>(load_element(entities.bytes.data(), DType::kI32, at));
      answers[i].push_back({graph_->entity_name(entity), load_element(scores.bytes.data(), scores.type.dtype, at)});
    }
  }
  return answers;
}

}  // namespace ramet::recipe
