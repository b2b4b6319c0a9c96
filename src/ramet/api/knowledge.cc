#include "ramet/model/knowledge.h"

#include <algorithm>

#include "ramet/api/contents.h"
#include "ramet/api/samples.h"
#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/graphs/triple_shards.h"
#include "ramet/knowledge.h"

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
          .top = std::min(options.top, options.entities),
          .seed = static_cast<int64_t>(options.seed)};
}

/// The triples of an array, with entities by their rows.
std::vector<Triple> triples_of(const KnowledgeOptions& options, const ArrayView& view, const char* what) {
  const EntityShards shards{options.entities, options.shards};
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
      if (at[column] < 0 || at[column] >= bound)
        throw Error({.what = column == 1 ? "a triple has a relation that there is not"
                                         : "a triple has an entity that there is not",
                     .where = std::string(what) + ", triple " + std::to_string(i),
                     .found = std::to_string(at[column]),
                     .expected = "0 to " + std::to_string(bound - 1)});
    }
    triples.push_back({shards.row_of(at[0]), at[1], shards.row_of(at[2])});
  }
  return triples;
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

std::vector<std::string> score_functions() {
  std::vector<std::string> names;
  for (const model::ScoreFunction& function : model::score_functions()) names.push_back(function.name);
  return names;
}

}  // namespace ramet::v0
