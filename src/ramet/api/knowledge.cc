#include "ramet/model/knowledge.h"

#include <algorithm>

#include "ramet/api/contents.h"
#include "ramet/api/samples.h"
#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/graphs/triple_shards.h"
#include "ramet/knowledge.h"
#include "ramet/predict.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/train.h"

namespace ramet::v0 {
namespace {

using graphs::EntityShards;
using graphs::Triple;

model::KnowledgeTask task_of(const KnowledgeOptions& options) {
  if (options.sides != "both" && options.sides != "tails" && options.sides != "heads")
    throw Error({.what = "unknown ends of triples",
                 .where = "KnowledgeOptions::sides",
                 .found = "'" + options.sides + "'",
                 .expected = "both, tails or heads"});
  return {.micro_batch = options.micro_batch,
          .group = options.group,
          .negatives = options.negatives,
          .entities = options.entities,
          .pad = options.pad,
          .shards = options.shards,
          .relations = options.relations,
          .tails = options.sides != "heads",
          .heads = options.sides != "tails" && !options.reciprocal,
          .reciprocal = options.reciprocal,
          .subsampling = options.subsampling,
          .known_tails = options.known_tails,
          .known_heads = options.known_heads,
          .top = std::min(options.top, options.entities),
          .seed = static_cast<int64_t>(options.seed)};
}

/// The triples of an array, with entities by their rows. With `questions` one end of each is -1.
std::vector<Triple> triples_of(const KnowledgeOptions& options, const ArrayView& view, const char* what,
                               bool questions = false) {
  const EntityShards shards{options.entities, options.shards};
  const auto row_of = [&](int32_t entity) { return entity < 0 ? entity : shards.row_of(entity); };
  if (view.elements() == 0) return {};
  if (view.dtype() != DType::kI32 || view.elements() % 3 != 0)
    throw Error({.what = "triples must be head, relation and tail",
                 .where = what,
                 .found = std::to_string(view.elements()) + " of " + std::string(name_of(view.dtype())),
                 .expected = "i32 [triples, 3]"});
  const auto* const numbers = static_cast<const int32_t*>(static_cast<const void*>(view.data()));
  std::vector<Triple> triples;
  for (int64_t i = 0; i < view.elements() / 3; ++i) {
    const int32_t* const at = numbers + 3 * i;
    for (const int column : {0, 1, 2}) {
      const int64_t bound = column == 1 ? options.relations : options.entities;
      if (questions && column != 1 && at[column] == -1) continue;
      if (at[column] < 0 || at[column] >= bound)
        throw Error({.what = column == 1 ? "a triple has a relation that there is not"
                                         : "a triple has an entity that there is not",
                     .where = std::string(what) + ", triple " + std::to_string(i),
                     .found = std::to_string(at[column]),
                     .expected = "0 to " + std::to_string(bound - 1)});
    }
    if (questions && (at[0] == -1) == (at[2] == -1))
      throw Error({.what = "a question asks for the head or for the tail",
                   .where = std::string(what) + ", triple " + std::to_string(i),
                   .expected = "-1 in one of the two places"});
    triples.push_back({row_of(at[0]), at[1], row_of(at[2])});
  }
  return triples;
}

graphs::RankSource rank_source(const KnowledgeOptions& options, const ArrayView& ranked, const ArrayView& known) {
  std::vector<Triple> triples = triples_of(options, ranked, "ranked triples"),
                      all = triples_of(options, known, "known triples");
  all.insert(all.end(), triples.begin(), triples.end());
  return graphs::RankSource(std::move(triples), all, options.group, task_of(options).rows());
}

NamedViews views_of(const data::Batch& batch) {
  NamedViews views;
  for (const data::NamedTensor& tensor : batch.tensors)
    views.emplace_back(tensor.name, ArrayView(tensor.type.dtype, tensor.bytes.data(), tensor.type.elements()));
  return views;
}

/// The source's samples in room for more known answers than it has.
data::Batch with_room(const data::Batch& batch, const std::string& name, int64_t room) {
  data::Batch wider = batch;
  for (data::NamedTensor& tensor : wider.tensors) {
    if (tensor.name != name || tensor.type.shape.dim(1) == room) continue;
    const auto row = static_cast<size_t>(tensor.type.shape.dim(1)) * sizeof(int32_t),
               wide = static_cast<size_t>(room) * sizeof(int32_t);
    std::vector<std::byte> bytes(static_cast<size_t>(batch.count) * wide);
    for (size_t i = 0; i < static_cast<size_t>(batch.count); ++i)
      std::copy_n(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(i * row), row,
                  bytes.begin() + static_cast<std::ptrdiff_t>(i * wide));
    tensor = {name, {DType::kI32, {batch.count, room}}, std::move(bytes)};
  }
  return wider;
}

template <typename Engine>
KnowledgeRanks ranks_of(Engine& engine, const KnowledgeOptions& options, const ArrayView& ranked,
                        const ArrayView& known) {
  const graphs::RankSource source = rank_source(options, ranked, known);
  const int64_t tails = source.room(graphs::TripleEnd::kTail), heads = source.room(graphs::TripleEnd::kHead);
  if (tails > options.known_tails || heads > options.known_heads)
    throw Error({.what = "the model has no room for all that ranks leave out",
                 .where = "KnowledgeOptions::known_tails, known_heads",
                 .found = std::to_string(options.known_tails) + " and " + std::to_string(options.known_heads),
                 .expected = "at least " + std::to_string(tails) + " and " + std::to_string(heads),
                 .remedy = "Make the model of what with_room_for_ranks gives for these triples"});
  KnowledgeRanks ranks;
  std::vector<double> all;
  for (int64_t first = 0; first < source.epoch_samples(0); first += options.micro_batch) {
    data::Batch batch = source.make(first, options.micro_batch);
    batch = with_room(with_room(batch, "tail_known", options.known_tails), "head_known", options.known_heads);
    const Arrays found = engine.run("rank", views_of(batch));
    for (int64_t i = 0; i < options.micro_batch * options.group && std::ssize(ranks.tails) < source.triples(); ++i) {
      ranks.tails.push_back(found["tail_rank"].at(i)), ranks.heads.push_back(found["head_rank"].at(i));
      all.push_back(ranks.tails.back()), all.push_back(ranks.heads.back());
    }
  }
  const auto numbers = recipe::numbers_of_ranks(all);
  const auto number = [&](const std::string& name) {
    return std::find_if(numbers.begin(), numbers.end(), [&](const auto& each) { return each.first == name; })->second;
  };
  ranks.mrr = number("mrr"), ranks.mean_rank = number("mean_rank");
  ranks.hits_at_1 = number("hits@1"), ranks.hits_at_3 = number("hits@3"), ranks.hits_at_10 = number("hits@10");
  return ranks;
}

template <typename Engine>
KnowledgeAnswers answers_of(Engine& engine, const KnowledgeOptions& options, const ArrayView& questions) {
  const std::vector<Triple> asked = triples_of(options, questions, "questions", true);
  const EntityShards shards{options.entities, options.shards};
  const int64_t batch = options.micro_batch * options.group, top = task_of(options).top;
  KnowledgeAnswers answers;
  for (size_t first = 0; first < asked.size(); first += static_cast<size_t>(batch)) {
    std::vector<int32_t> head, relation, tail;
    for (int64_t i = 0; i < batch; ++i) {
      const Triple& each = asked[std::min(first + static_cast<size_t>(i), asked.size() - 1)];
      head.push_back(std::max(each.head, 0)), relation.push_back(each.relation), tail.push_back(std::max(each.tail, 0));
    }
    const Arrays found = engine.run("predict", {{"head", head}, {"relation", relation}, {"tail", tail}});
    for (int64_t i = 0; i < std::min(batch, std::ssize(asked) - static_cast<int64_t>(first)); ++i) {
      const std::string end = asked[first + static_cast<size_t>(i)].head < 0 ? "head" : "tail";
      for (int64_t k = 0; k < top; ++k) {
        answers.entities.push_back(shards.entity_of(static_cast<int64_t>(found[end + "s"].at(i * top + k))));
        answers.scores.push_back(static_cast<float>(found[end + "_scores"].at(i * top + k)));
      }
    }
  }
  return answers;
}

}  // namespace

Model knowledge_model(const KnowledgeOptions& options) {
  auto contents = std::make_shared<Model::Contents>();
  contents->engine = model::build_knowledge({.function = options.function,
                                             .width = options.width,
                                             .norm = options.norm,
                                             .loss = options.loss,
                                             .margin = options.margin,
                                             .temperature = options.temperature,
                                             .penalty = options.penalty,
                                             .deviation = options.deviation},
                                            task_of(options));
  contents->units = {.name = "triples", .per_sample = options.group};
  contents->micro_batch = options.micro_batch;
  return Model(std::move(contents));
}

Data Data::triples(const KnowledgeOptions& options, const ArrayView& triples, const ArrayView& known) {
  const model::KnowledgeTask task = task_of(options);
  const graphs::TripleOptions wanted{.group = task.group,
                                     .negatives = options.loss == "all" ? 0 : task.negatives,
                                     .tails = task.tails,
                                     .heads = task.heads,
                                     .reciprocal = task.reciprocal,
                                     .subsampling = task.subsampling,
                                     .entities = task.entities,
                                     .relations = task.relations,
                                     .seed = options.seed};
  std::vector<Triple> learned = triples_of(options, triples, "triples"),
                      all = triples_of(options, known, "known triples");
  all.insert(all.end(), learned.begin(), learned.end());
  std::string text;
  for (const auto* list : {&learned, &all}) text += hash_bytes(list->data(), list->size() * sizeof(Triple)).hex();
  std::shared_ptr<const data::Source> source;
  if (task.sharded())
    source = std::make_shared<const graphs::ShardedTripleSource>(learned, all, task.shard(), text, wanted);
  else
    source = std::make_shared<const graphs::TripleSource>(std::move(learned), all, text, wanted);
  auto contents = std::make_shared<Data::Contents>();
  contents->bind = [source](const Model::Contents& model, bool held_out) {
    if (held_out)
      throw Error({.what = "triples hold nothing out",
                   .where = "Data::held_out",
                   .remedy = "Make a second Data of the triples that are held out"});
    const auto sorted = [](api::Inputs inputs) {
      std::sort(inputs.begin(), inputs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      return inputs;
    };
    if (sorted(source->signature(model.micro_batch)) != sorted(api::inputs_of(model.engine)))
      throw Error({.what = "the triples were made with other options than the model",
                   .where = "model '" + model.engine.name + "'"});
    return source;
  };
  return Data(std::move(contents));
}

KnowledgeOptions with_room_for_ranks(KnowledgeOptions options, const ArrayView& ranked, const ArrayView& known) {
  const graphs::RankSource source = rank_source(options, ranked, known);
  options.known_tails = std::max(options.known_tails, source.room(graphs::TripleEnd::kTail));
  options.known_heads = std::max(options.known_heads, source.room(graphs::TripleEnd::kHead));
  return options;
}

KnowledgeRanks knowledge_ranks(Training& training, const KnowledgeOptions& options, const ArrayView& ranked,
                               const ArrayView& known) {
  return ranks_of(training, options, ranked, known);
}
KnowledgeRanks knowledge_ranks(Predictor& predictor, const KnowledgeOptions& options, const ArrayView& ranked,
                               const ArrayView& known) {
  return ranks_of(predictor, options, ranked, known);
}

KnowledgeAnswers knowledge_answers(Training& training, const KnowledgeOptions& options, const ArrayView& questions) {
  return answers_of(training, options, questions);
}
KnowledgeAnswers knowledge_answers(Predictor& predictor, const KnowledgeOptions& options, const ArrayView& questions) {
  return answers_of(predictor, options, questions);
}

std::vector<std::string> score_functions() {
  std::vector<std::string> names;
  for (const model::ScoreFunction& function : model::score_functions()) names.push_back(function.name);
  return names;
}

}  // namespace ramet::v0
