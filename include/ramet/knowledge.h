#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/model.h"

namespace ramet::v0 {

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
  /// The table of entities has a multiple of so many rows, for tensor shards; or so many shards, for layouts of g
  /// devices (`micro_batch` is then the shards).
  int64_t pad = 1, shards = 1;
  int64_t top = 10;   ///< answers of a query
  uint64_t seed = 0;  ///< of the first weights, of the order of triples and of negatives
};

/// The model, with the programs on request "predict", which gives for head, relation and tail i32 [micro_batch, group]
/// the `top` likeliest tails and heads with their scores, and "rank". With shards, entity e is row
/// (e mod shards) * ceil(entities / shards) + e / shards of what the programs read and give. Data::triples feeds it.
/// Throws Error where options contradict each other.
RAMET_API Model knowledge_model(const KnowledgeOptions& options);

/// "transe", "transh", "distmult", "complex", "rotate", "pairre", "triplere", "boxe", "interht".
RAMET_API std::vector<std::string> score_functions();

}  // namespace ramet::v0
