#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ramet/graphs/triples.h"

namespace ramet::graphs {

/// True triples as edges: each leads from its head to its tail with its relation, and back with the relation's number
/// plus `relations`. Edges are sorted by the entity that they end in, then by source and relation (ops/paths.h).
class FactGraph {
 public:
  FactGraph(std::span<const Triple> facts, int64_t entities, int64_t relations);

  int64_t entities() const { return entities_; }
  int64_t relations() const { return relations_; }  ///< in one direction
  int64_t edges() const { return std::ssize(source_); }
  /// Writes the lists: source and relation [edges()], ptr [entities() + 1]. `removed` [edges()] is 1 for edges that are
  /// left out; null: none. Places behind the last edge become 0.
  void write(const uint8_t* removed, int32_t* source, int32_t* relation, int32_t* ptr) const;
  /// Sets `removed` to 1 for all edges between two entities, in both directions.
  void remove_between(int32_t a, int32_t b, std::span<uint8_t> removed) const;
  /// Bytes of the lists.
  int64_t host_bytes() const { return edges() * 8 + (entities_ + 1) * 4; }

 private:
  int64_t entities_, relations_;
  std::vector<int32_t> source_, relation_, ptr_;
};

struct PathQueryOptions {
  int64_t group = 1;      ///< queries of a sample, which share a graph
  int64_t negatives = 1;  ///< wrong answers of a query
  bool shuffle = true;    ///< a new order in every epoch
  uint64_t seed = 0;
};

/// Triples to learn as queries, in groups: sample i holds the triples [i * group, (i + 1) * group) of an endless
/// sequence of epochs. Of every other triple the tail is asked for, of those between the head, by the relation's way
/// back. Tensors of B samples of Q queries, each with 1 right answer and K wrong ones, on a graph of N entities and E
/// edges:
///
/// - "entity", "relation" i32 [B, Q]: what is given; a relation is in [0, 2 relations);
/// - "candidates" i32 [B, Q, 1 + K]: the right answer first. The others are drawn from the entities that make no true
///   triple, with replacement;
/// - "source", "edge_relation" i32 [B, E], "ptr" i32 [B, N + 1]: the facts (ops/paths.h) without the edges between a
///   query's entity and any of its candidates, right or wrong, so that nothing is learned from an edge that is the
///   answer. What is left of E holds no edge.
///
/// Negative k of a query is a function of (seed, the query's place in the sequence, k) and the true triples alone.
class PathQuerySource final : public Source {
 public:
  /// `known`: the triples that count as true, those to learn among them. Throws Error for a group of more triples than
  /// there are, and for a question that every entity answers.
  PathQuerySource(std::vector<Triple> triples, std::span<const Triple> known, std::shared_ptr<const FactGraph> graph,
                  std::string contents, PathQueryOptions options);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index * options_.group / std::ssize(triples_); }
  int64_t epoch_samples(int64_t epoch) const override;
  Hash identity() const override;
  std::string text_of(int64_t index) const override { return "group " + std::to_string(index); }
  int64_t host_bytes() const override;

 private:
  std::vector<Triple> triples_;
  std::shared_ptr<const FactGraph> graph_;
  PathQueryOptions options_;
  std::string contents_;
  KnownAnswers known_;  ///< of triples in both directions
};

/// Triples to rank in both directions, in order, in groups of Q queries; the last group is filled up with the last
/// query. Tensors of B samples: "entity", "relation" and "answer" i32 [B, Q]; "known" i32 [B, K] and "known_ptr" i32
/// [B, Q + 1], the other true answers as RankSource has them; and the whole graph's "source", "edge_relation" and
/// "ptr".
class PathRankSource final : public Source {
 public:
  PathRankSource(std::span<const Triple> triples, std::span<const Triple> known, std::shared_ptr<const FactGraph> graph,
                 int64_t group);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index / epoch_samples(0); }
  int64_t epoch_samples(int64_t epoch) const override;
  Hash identity() const override { return source_identity("ranked queries", "", {}); }
  int64_t queries() const { return std::ssize(queries_); }
  int64_t room() const { return room_; }
  /// How many entities query i is ranked among, without the right answer.
  int64_t wrong_answers(int64_t i) const { return graph_->entities() - std::ssize(known(i)); }
  const FactGraph& graph() const { return *graph_; }

 private:
  std::span<const int32_t> known(int64_t i) const;

  std::vector<Triple> queries_;
  std::shared_ptr<const FactGraph> graph_;
  int64_t group_, room_ = 1;
  KnownAnswers known_;
};

}  // namespace ramet::graphs
