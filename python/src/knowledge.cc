#include "ramet/knowledge.h"

#include "arrays.h"
#include "builder.h"
#include "training.h"

namespace ramet_python {
namespace {

using ramet::KnowledgeOptions;

std::vector<int32_t> triples_of(nb::handle triples, const char* name) {
  return triples.is_none() ? std::vector<int32_t>{} : numbers_of<int32_t>(triples, name);
}

nb::dict dict_of(const ramet::KnowledgeRanks& ranks) {
  nb::dict made;
  made["mrr"] = ranks.mrr, made["hits@1"] = ranks.hits_at_1, made["hits@3"] = ranks.hits_at_3;
  made["hits@10"] = ranks.hits_at_10, made["mean_rank"] = ranks.mean_rank;
  made["tails"] = array_of(ranks.tails, {std::ssize(ranks.tails)});
  made["heads"] = array_of(ranks.heads, {std::ssize(ranks.heads)});
  return made;
}

nb::tuple pair_of(const ramet::KnowledgeAnswers& answers, int64_t questions) {
  const ramet::Shape shape{questions, questions == 0 ? 0 : std::ssize(answers.entities) / questions};
  return nb::make_tuple(array_of(answers.entities, shape), array_of(answers.scores, shape));
}

/// knowledge_ranks and knowledge_answers of PyTraining or PyPredictor.
template <typename Engine>
void bind_runs(nb::module_& m, const char* engine) {
  m.def(
      "knowledge_ranks",
      [](Engine& self, const KnowledgeOptions& options, nb::object ranked, nb::object known) {
        const std::vector<int32_t> triples = triples_of(ranked, "ranked"), others = triples_of(known, "known");
        return dict_of(self.run("knowledge_ranks",
                                [&](auto& run) { return ramet::knowledge_ranks(run, options, triples, others); }));
      },
      nb::arg(engine), "options"_a, "ranked"_a, "known"_a = nb::none(),
      "Filtered ranks of triples [triples, 3] among all entities, without those that make another true triple: the "
      "arrays tails and heads, and the numbers mrr, hits@1, hits@3, hits@10 and mean_rank. A Predictor needs the "
      "program 'rank'. The options need room for them: KnowledgeOptions.with_room_for_ranks.");
  m.def(
      "knowledge_answers",
      [](Engine& self, const KnowledgeOptions& options, nb::object questions) {
        const std::vector<int32_t> asked = triples_of(questions, "questions");
        return pair_of(
            self.run("knowledge_answers", [&](auto& run) { return ramet::knowledge_answers(run, options, asked); }),
            std::ssize(asked) / 3);
      },
      nb::arg(engine), "options"_a, "questions"_a,
      "The `top` likeliest answers to questions [questions, 3], best first, and their scores: two arrays [questions, "
      "top]. A question is a triple in which -1 stands for the head or the tail that is asked for. A Predictor needs "
      "the program 'predict'.");
}

}  // namespace

void bind_knowledge(nb::module_& m) {
  nb::class_<KnowledgeOptions> options(
      m, "KnowledgeOptions",
      "A model of a knowledge graph: a row for each entity and each relation, and a score for each triple. "
      "docs/graphs.md "
      "explains the scores, the losses and the batches.");
  options.def(
      "__init__",
      [](KnowledgeOptions* self, const std::string& function, int64_t entities, int64_t relations, int64_t width,
         int64_t norm, const std::string& loss, double margin, double temperature, double penalty, double deviation,
         int64_t micro_batch, int64_t group, int64_t negatives, const std::string& sides, bool reciprocal,
         bool subsampling, int64_t pad, int64_t shards, int64_t top, uint64_t seed) {
        new (self) KnowledgeOptions{.function = function,
                                    .entities = entities,
                                    .relations = relations,
                                    .width = width,
                                    .norm = norm,
                                    .loss = loss,
                                    .margin = margin,
                                    .temperature = temperature,
                                    .penalty = penalty,
                                    .deviation = deviation,
                                    .micro_batch = micro_batch,
                                    .group = group,
                                    .negatives = negatives,
                                    .sides = sides,
                                    .reciprocal = reciprocal,
                                    .subsampling = subsampling,
                                    .pad = pad,
                                    .shards = shards,
                                    .top = top,
                                    .seed = seed};
      },
      "function"_a, "entities"_a, "relations"_a, nb::kw_only(), "width"_a = int64_t(128), "norm"_a = int64_t(1),
      "loss"_a = "log-sigmoid", "margin"_a = 0.0, "temperature"_a = 0.0, "penalty"_a = 0.0, "deviation"_a = 0.1,
      "micro_batch"_a = int64_t(1), "group"_a = int64_t(1), "negatives"_a = int64_t(0), "sides"_a = "both",
      "reciprocal"_a = false, "subsampling"_a = false, "pad"_a = int64_t(1), "shards"_a = int64_t(1),
      "top"_a = int64_t(10), "seed"_a = uint64_t(0));
  const auto field = [&](const char* name, auto member, const char* doc) { options.def_rw(name, member, doc); };
  field("function", &KnowledgeOptions::function, "One of score_functions().");
  field("entities", &KnowledgeOptions::entities, "");
  field("relations", &KnowledgeOptions::relations, "");
  field("width", &KnowledgeOptions::width, "Features of an entity; complex ones of 'complex' and 'rotate'.");
  field("norm", &KnowledgeOptions::norm, "Of distances: 1 or 2.");
  field("loss", &KnowledgeOptions::loss, "'log-sigmoid', 'margin', 'softmax' or 'all'.");
  field("margin", &KnowledgeOptions::margin, "");
  field("temperature", &KnowledgeOptions::temperature, "Of the weights of wrong answers; 0: all weigh alike.");
  field("penalty", &KnowledgeOptions::penalty, "Times the cubes of the rows of a triple.");
  field("deviation", &KnowledgeOptions::deviation, "Of the first weights.");
  field("micro_batch", &KnowledgeOptions::micro_batch, "Samples, each of `group` triples; with shards their number.");
  field("group", &KnowledgeOptions::group, "Triples of a sample, which share wrong answers.");
  field("negatives", &KnowledgeOptions::negatives, "Wrong answers of a sample on each side.");
  field("sides", &KnowledgeOptions::sides, "Ends of triples that the loss asks for: 'both', 'tails' or 'heads'.");
  field("reciprocal", &KnowledgeOptions::reciprocal, "Each triple also stands the other way round.");
  field("subsampling", &KnowledgeOptions::subsampling, "Frequent triples count less in the loss.");
  field("pad", &KnowledgeOptions::pad, "The table of entities has a multiple of so many rows.");
  field("shards", &KnowledgeOptions::shards, "Of the table of entities, a power of two; layouts deal them (g).");
  field("top", &KnowledgeOptions::top, "Answers of a question.");
  field("seed", &KnowledgeOptions::seed, "Of the first weights, the order of triples, and wrong answers.");
  field("known_tails", &KnowledgeOptions::known_tails, "Room for other right answers, which ranks leave out.");
  field("known_heads", &KnowledgeOptions::known_heads, "");
  options.def(
      "with_room_for_ranks",
      [](const KnowledgeOptions& self, nb::object ranked, nb::object known) {
        return ramet::with_room_for_ranks(self, triples_of(ranked, "ranked"), triples_of(known, "known"));
      },
      "ranked"_a, "known"_a = nb::none(),
      "These options with room to rank the triples [triples, 3]; `known`: all other triples that are true.");
  m.def("knowledge_model", &ramet::knowledge_model, "options"_a,
        "The model, with the programs on request 'predict' and 'rank'. Data.triples feeds it; knowledge_ranks and "
        "knowledge_answers run the programs.");
  m.def("score_functions", &ramet::score_functions,
        "'transe', 'transh', 'distmult', 'complex', 'rotate', 'pairre', 'triplere', 'boxe', 'interht'.");
}

void bind_knowledge_runs(nb::module_& m) {
  bind_runs<PyTraining>(m, "training");
  bind_runs<PyPredictor>(m, "predictor");
}

}  // namespace ramet_python
