#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/data/source.h"
#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// Head and tail are numbers of entities.
struct Triple {
  int32_t head = 0, relation = 0, tail = 0;
  friend bool operator==(const Triple&, const Triple&) = default;
};
/// The end of a triple that is asked for: given the head, the tail, or the other way round.
enum class TripleEnd : uint8_t { kTail, kHead };

/// Entities dealt to shards: entity e of the graph is in shard e mod `shards`, so that entities which the data name
/// early and often are spread. All shards have room for equally many.
struct EntityShards {
  int64_t entities = 0, shards = 1;

  int64_t room() const { return (entities + shards - 1) / shards; }  ///< rows of a shard
  int64_t rows() const { return room() * shards; }
  int64_t size(int64_t shard) const { return (entities - shard + shards - 1) / shards; }  ///< entities of a shard
  /// The row of an entity in the table of all shards, one after another, and back.
  int32_t row_of(int64_t entity) const { return static_cast<int32_t>(entity % shards * room() + entity / shards); }
  int32_t entity_of(int64_t row) const { return static_cast<int32_t>(row % room() * shards + row / room()); }
};

/// A graph set whose edges are triples: "edge.relation" says which relation an edge is.
class KnowledgeGraph {
 public:
  /// The number of an entity is its row in the table of `shards` shards. Throws Error for a set of several graphs or
  /// types, and for one without relations.
  explicit KnowledgeGraph(std::shared_ptr<const GraphSet> set, int64_t shards = 1);

  int64_t entities() const { return shards_.entities; }
  const EntityShards& shards() const { return shards_; }
  int64_t relations() const { return std::ssize(relation_names_); }
  /// All triples in the global edge order; with a field `split` ("edge.split") those of the part named. Throws Error
  /// naming the parts there are.
  std::vector<Triple> triples() const;
  std::vector<Triple> triples(const std::string& split, const std::string& part) const;
  /// The number of a name. Throws Error naming the nearest name.
  int32_t entity(std::string_view name) const;
  int32_t relation(std::string_view name) const;
  std::string entity_name(int32_t row) const;
  const std::string& relation_name(int32_t relation) const { return relation_names_[static_cast<size_t>(relation)]; }
  const GraphSet& set() const { return *set_; }

 private:
  std::shared_ptr<const GraphSet> set_;
  EntityShards shards_;
  std::vector<std::string> relation_names_, entity_names_;
  std::unordered_map<std::string_view, int32_t> entity_of_, relation_of_;
};

/// For each entity and relation, the answers that make true triples.
class KnownAnswers {
 public:
  KnownAnswers(std::span<const Triple> triples, TripleEnd answer);
  /// Ascending, without duplicates; none for a question that no triple answers.
  std::span<const int32_t> of(int32_t entity, int32_t relation) const;
  int64_t host_bytes() const { return (std::ssize(questions_) + std::ssize(ptr_)) * 8 + std::ssize(answers_) * 4; }
  /// The most answers of one question.
  int64_t most() const { return most_; }

 private:
  std::vector<uint64_t> questions_;  ///< ascending: entity, relation
  std::vector<int64_t> ptr_;
  std::vector<int32_t> answers_;
  int64_t most_ = 0;
};

/// Draws entities that are not among `excluded` (ascending, without duplicates), with replacement: a drawn number is a
/// rank among these, so no draw is ever repeated. Number k depends on the stream and k alone.
void draw_others(const RandomStream& stream, std::span<const int32_t> excluded, int64_t entities,
                 std::span<int32_t> drawn);

struct TripleOptions {
  int64_t group = 1;      ///< triples of a sample
  int64_t negatives = 0;  ///< wrong answers that a sample's triples share
  bool tails = true, heads = true;
  /// Each triple also stands the other way round, with the relation's number plus `relations`; only tails are answered.
  bool reciprocal = false;
  bool subsampling = false;  ///< samples hold the weights of their triples (subsampling_weights)
  int64_t entities = 0, relations = 0;
  bool shuffle = true;  ///< a new order in every epoch
  uint64_t seed = 0;
};

/// The triples, and where `options` want them, behind these each of them the other way round.
std::vector<Triple> with_reciprocal(std::span<const Triple> triples, const TripleOptions& options);

/// What each triple weighs in a loss so that frequent ones count less: 1 / sqrt(t + h), where t triples answer the
/// question for its tail and h the one for its head, both counted from 4 (the program of Sun et al., arXiv 1902.10197,
/// after word2vec's subsampling).
std::vector<float> subsampling_weights(std::span<const Triple> triples);

/// Triples to learn, in groups: sample i holds the triples [i * group, (i + 1) * group) of an endless sequence of
/// epochs. Tensors of B samples of M triples with K negatives:
///
/// - "head", "relation", "tail" i32 [B, M];
/// - "weight" f32 [B, M], with `subsampling`;
/// - "tail_negatives", "head_negatives" i32 [B, K]: entities, drawn with replacement. With M = 1 they are drawn from
/// the
///   entities that are no true answer: the drawn number is a rank among these, so no draw is ever repeated. With M > 1
///   they are drawn from all entities, and
/// - "tail_true", "head_true" u8 [B, M, K] is 1 where a negative makes a true triple.
///
/// Negative k of sample i is a function of (seed, i, side, k) and the true triples alone.
class TripleSource final : public Source {
 public:
  /// `known`: the triples that count as true, those to learn among them. Throws Error for a group of more triples than
  /// there are, for more negatives than entities, and for a question that every entity answers.
  TripleSource(std::vector<Triple> triples, std::span<const Triple> known, std::string contents, TripleOptions options);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index * options_.group / std::ssize(triples_); }
  int64_t epoch_samples(int64_t epoch) const override;
  Hash identity() const override;
  std::string text_of(int64_t index) const override { return "group " + std::to_string(index); }
  int64_t host_bytes() const override;

 private:
  void fill_negatives(int64_t index, TripleEnd answer, std::span<const Triple> group, int32_t* negatives,
                      uint8_t* is_true) const;
  const KnownAnswers& known(TripleEnd answer) const { return answer == TripleEnd::kTail ? tails_ : heads_; }

  std::vector<Triple> triples_;
  std::vector<float> weights_;  ///< of the triples; none without subsampling
  TripleOptions options_;
  std::string contents_;
  KnownAnswers tails_, heads_;
};

/// Triples to rank, in order, in groups; the last group is filled up with the last triple. Tensors of B samples of M
/// triples:
///
/// - "head", "relation", "tail" i32 [B, M];
/// - "tail_known" i32 [B, E], "tail_known_ptr" i32 [B, M + 1]: for triple m the other true answers, at the places
///   [ptr[m], ptr[m + 1]), each as m * stride + entity; "head_known" and "head_known_ptr" likewise.
class RankSource final : public Source {
 public:
  /// `known`: all true triples. `stride`: entities, with padding.
  RankSource(std::vector<Triple> triples, std::span<const Triple> known, int64_t group, int64_t stride);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index / epoch_samples(0); }
  int64_t epoch_samples(int64_t epoch) const override;
  Hash identity() const override { return source_identity("ranked triples", "", {}); }
  int64_t triples() const { return std::ssize(triples_); }
  int64_t stride() const { return stride_; }
  /// E of tails and of heads.
  int64_t room(TripleEnd answer) const { return room_[static_cast<size_t>(answer)]; }

 private:
  std::span<const int32_t> known(const Triple& triple, TripleEnd answer) const;

  std::vector<Triple> triples_;
  int64_t group_, stride_;
  KnownAnswers tails_, heads_;
  int64_t room_[2] = {1, 1};
};

}  // namespace ramet::graphs
