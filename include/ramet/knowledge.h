#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/array.h"
#include "ramet/model.h"

namespace ramet::v0 {

class Predictor;
class Training;

/// A model of a knowledge graph: a row for each entity and each relation, and a score for each triple. docs/graphs.md
/// explains the scores, the losses and the batches; the recipe's keys model.knowledge.* and data.triples.* have the
/// same names.
struct KnowledgeOptions {
  std::string function = "rotate";  ///< one of score_functions()
  int64_t entities = 0, relations = 0;
  int64_t width = 128;               ///< features of an entity; complex ones of "complex" and "rotate"
  int64_t norm = 1;                  ///< of distances: 1 or 2
  std::string loss = "log-sigmoid";  ///< or "margin", "softmax", "all"
  double margin = 0, temperature = 0, penalty = 0, deviation = 0.1;
  int64_t micro_batch = 1;  ///< samples, each of `group` triples with `negatives` wrong answers on each side
  int64_t group = 1, negatives = 0;
  std::string sides = "both";  ///< ends of triples that the loss asks for: "both", "tails" or "heads"
  bool reciprocal = false;     ///< each triple also stands the other way round, and tails alone are asked for
  bool subsampling = false;    ///< frequent triples count less in the loss (data.triples.subsampling of recipes)
  /// The table of entities has a multiple of so many rows, for tensor shards; or so many shards, for layouts of g
  /// devices (`micro_batch` is then the shards).
  int64_t pad = 1, shards = 1;
  int64_t top = 10;   ///< answers of a query
  uint64_t seed = 0;  ///< of the first weights, of the order of triples and of negatives
  /// Room for the other right answers to a sample's questions, which ranks leave out; with_room_for_ranks sets both.
  int64_t known_tails = 1, known_heads = 1;
};

/// The model, with the programs on request "predict", which gives for head, relation and tail i32 [micro_batch, group]
/// the `top` likeliest tails and heads with their scores, and "rank". With shards, entity e is row
/// (e mod shards) * ceil(entities / shards) + e / shards of what the programs read and give. Data::triples feeds it.
/// Throws Error where options contradict each other.
RAMET_API Model knowledge_model(const KnowledgeOptions& options);

/// "transe", "transh", "distmult", "complex", "rotate", "pairre", "triplere", "boxe", "interht".
RAMET_API std::vector<std::string> score_functions();

/// The options with room to rank these triples, i32 [triples, 3]. `known`: all other triples that are true. Throws
/// Error for numbers that are no entity or relation, here and below.
RAMET_API KnowledgeOptions with_room_for_ranks(KnowledgeOptions options, const ArrayView& ranked,
                                               const ArrayView& known = ArrayView());

/// Filtered ranks (Bordes et al. 2013): the places, from 1 on, of the right tail and the right head of each triple
/// among all entities but those that make another true triple. Of equal scores half are better.
struct KnowledgeRanks {
  std::vector<double> tails{}, heads{};
  /// Over tails and heads: the mean of 1 / rank, shares of ranks of at most 1, 3 and 10, and the mean rank.
  double mrr = 0, hits_at_1 = 0, hits_at_3 = 0, hits_at_10 = 0, mean_rank = 0;
};
/// The ranks of triples by the weights of a training of knowledge_model(options), or of a Predictor of it that has the
/// program "rank". Throws Error where the options have no room for them (with_room_for_ranks).
RAMET_API KnowledgeRanks knowledge_ranks(Training& training, const KnowledgeOptions& options, const ArrayView& ranked,
                                         const ArrayView& known = ArrayView());
RAMET_API KnowledgeRanks knowledge_ranks(Predictor& predictor, const KnowledgeOptions& options, const ArrayView& ranked,
                                         const ArrayView& known = ArrayView());

/// The `top` likeliest answers to each question, best first: [questions, top].
struct KnowledgeAnswers {
  std::vector<int32_t> entities{};
  std::vector<float> scores{};
};
/// The answers to questions, i32 [questions, 3]: triples of head, relation and tail in which -1 stands for the head or
/// the tail that is asked for. The Predictor must have the program "predict".
RAMET_API KnowledgeAnswers knowledge_answers(Training& training, const KnowledgeOptions& options,
                                             const ArrayView& questions);
RAMET_API KnowledgeAnswers knowledge_answers(Predictor& predictor, const KnowledgeOptions& options,
                                             const ArrayView& questions);

}  // namespace ramet::v0
