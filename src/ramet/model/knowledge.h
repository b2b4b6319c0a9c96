#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/graphs/triple_shards.h"
#include "ramet/model/model.h"

namespace ramet::model {

/// By what rows of entities are divided before anything else: nothing, their length, or their norm (that of distances).
enum class EntityRows : uint8_t { kFree, kByLength, kByNorm };

/// How two entities and a relation make a score; a greater one means that the triple is likelier. Rows are those of
/// tables: of an entity `entity_parts` * width features, of a relation `relation_parts` * width.
struct ScoreFunction {
  std::string name;
  int64_t entity_parts = 1, relation_parts = 1;
  bool complex_entities = false;  ///< the first half of an entity's row are real parts, the second imaginary ones
  EntityRows entities = EntityRows::kFree;
  bool phases = false;  ///< rows of relations are angles
  /// Scores of all columns as the missing entity: known [G, M, e], relation [G, M, r], columns [G, K, e] -> [G, M, K].
  /// Columns of one group may be [K, e].
  /// `norm`: 1 or 2, where the function has a choice.
  Tensor (*scores)(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t norm);
};

/// TransE (Bordes et al. 2013), TransH (Wang et al. 2014), DistMult (Yang et al., arXiv 1412.6575), ComplEx (Trouillon
/// et al., arXiv 1606.06357), RotatE (Sun et al., arXiv 1902.10197), PairRE (Chao et al., arXiv 2011.03798), TripleRE
/// (Yu et al. 2021), BoxE (Abboud et al., arXiv 2007.06267) and InterHT (Wang et al., arXiv 2202.04897).
const std::vector<ScoreFunction>& score_functions();
/// Null where there is none of that name.
const ScoreFunction* find_score_function(const std::string& name);

struct KnowledgeConfig {
  std::string function;              ///< name of a score function
  int64_t width = 128;               ///< features of an entity; complex ones where entities are complex
  int64_t norm = 1;                  ///< of distances
  std::string loss = "log-sigmoid";  ///< or "margin", "softmax", "all"
  double margin = 0;                 ///< added to scores ("log-sigmoid"), or between right and wrong ones ("margin")
  double temperature = 0;            ///< of the weights of wrong answers ("log-sigmoid"); 0: all weigh alike
  double penalty = 0;                ///< times the sum of cubes of the moduli of a triple's rows (arXiv 1806.07297)
  double deviation = 0.1;            ///< of the first weights
};

/// What a batch holds, and what is asked of the model (graphs/triples.h).
struct KnowledgeTask {
  int64_t micro_batch = 1, group = 1, negatives = 0;
  int64_t entities = 2, pad = 1;  ///< the table of entities has a multiple of `pad` rows
  /// Above 1: a power of two. The table has so many shards, and a micro-batch is a step of a ShardedTripleSource
  /// (graphs/triple_shards.h), `micro_batch` the shards. The loss then reads rows of other shards with one exchange
  /// each way. Layouts deal shards to devices (g).
  int64_t shards = 1;
  int64_t relations = 1;
  bool tails = true, heads = true, reciprocal = false;
  bool subsampling = false;                  ///< triples come with weights, and a loss is their weighted mean
  int64_t known_tails = 1, known_heads = 1;  ///< room of a group's lists of answers, for ranks
  int64_t top = 10;                          ///< answers of a query
  int64_t seed = 0;

  bool sharded() const { return shards > 1; }
  int64_t rows() const { return sharded() ? shard().rows() : (entities + pad - 1) / pad * pad; }
  graphs::EntityShards shard() const { return {entities, shards}; }
};

/// Embeddings of entities and relations with their loss. Outputs: loss, count. Programs on request:
///
/// - "rank": tail_rank and head_rank f32 [B, M]: the place of the right answer among all entities that are not known as
///   other right answers; of equal scores, half are before it;
/// - "predict": for head, relation and tail i32 [B, M] the `top` likeliest tails i32 [B, M, top] with tail_scores f32,
///   and heads with head_scores.
///
/// Weights: "entities.weight", with shards [shards, rows, features], and "relations.weight". Throws Error when sizes or
/// options contradict each other.
Model build_knowledge(const KnowledgeConfig& config, const KnowledgeTask& task);

/// The table of entities, and the inputs that number its rows.
inline constexpr const char* kEntities = "entities.weight";
inline constexpr const char* kEntityInputs[] = {"head", "tail", "tail_negatives", "head_negatives"};

/// A program that ranks as "rank" does, but among `block` entities at a time, and reads no table of them. For each end
/// ("tail", "head") it counts the block's entities that have a lower score than the right answer, tail_lower, and the
/// same, tail_even, f32 [B, M]; known right answers do not count. Inputs: head_row and tail_row f32 [B, M, e], relation
/// i32 [B, M]; block f32 [block, e], of which the first block_size i32 [1] are entities; and known answers as those of
/// a RankSource (graphs/triples.h) with the stride `block`, numbered within the block.
NamedGraph ranks_by_rows(const KnowledgeConfig& config, const KnowledgeTask& task, int64_t block);

}  // namespace ramet::model
