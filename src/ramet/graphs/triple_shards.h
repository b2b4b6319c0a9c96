#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ramet/graphs/triples.h"

namespace ramet::graphs {

/// Triples to learn, grouped by the shards of their heads and tails (Cattaneo et al., arXiv 2211.12281). Sample i holds
/// what shard i mod n has in step i / n: a micro-batch is the n samples of a step. Every pair of shards (j, k) has
/// P = group / n places for triples whose head is in shard j and whose tail is in shard k. Tensors of B samples:
///
/// - "head" i32 [B, n, P]: rows of the shard, of the heads of its triples with tails in each shard;
/// - "tail" i32 [B, n, P]: rows of the shard, of the tails of the triples whose heads are in each shard;
/// - "relation" i32 [B, group] and "real" u8 [B, group]: of the triples with heads in the shard, by the shard of the
///   tail; "real" is 0 for a place without a triple;
/// - "weight" f32 [B, group], with `subsampling`: weights of these triples, 0 for a place without one;
/// - "tail_negatives", "head_negatives" i32 [B, n, K / n]: rows of the shard, drawn with replacement from its entities:
///   wrong answers for the triples whose heads are in each shard;
/// - "tail_true", "head_true" u8 [B, group, K]: 1 where a negative makes a true triple of the shard's triples, and for
/// a
///   place without a triple; negatives of shard 0 first.
///
/// In an epoch every triple stands once. An epoch has so many steps that the largest pair's triples fit; each pair's
/// triples are spread evenly over them. Negatives are a function of (seed, step, shard, side) alone.
class ShardedTripleSource final : public Source {
 public:
  /// `triples` and `known` have entities by their rows (EntityShards), as a KnowledgeGraph of so many shards gives
  /// them. Throws Error for a group or a number of negatives that n does not divide, and for a group without triples.
  ShardedTripleSource(std::span<const Triple> triples, std::span<const Triple> known, EntityShards shards,
                      std::string contents, TripleOptions options);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index / epoch_samples(0); }
  int64_t epoch_samples(int64_t) const override { return steps_ * shards_.shards; }
  Hash identity() const override;
  std::string text_of(int64_t index) const override;
  int64_t host_bytes() const override;

  int64_t triples() const { return triples_; }  ///< of an epoch
  /// Places for triples in an epoch.
  int64_t places() const { return steps_ * shards_.shards * options_.group; }

 private:
  /// The triples of a pair in a step, and their weights.
  struct Chosen {
    std::vector<Triple> triples;
    std::vector<float> weights;  ///< none without subsampling
  };
  Chosen chosen_of(int64_t head_shard, int64_t tail_shard, int64_t step) const;
  void fill_sample(int64_t index, int64_t sample, const Places& places) const;
  void fill_true(int64_t index, TripleEnd answer, const std::vector<Chosen>& own, uint8_t* is_true) const;
  /// The row, within its shard, of negative k of the triples with heads in the shard of sample `index`.
  int32_t negative(int64_t index, TripleEnd answer, int64_t k) const;
  int64_t pair_places() const { return options_.group / shards_.shards; }

  const EntityShards shards_;
  TripleOptions options_;
  std::string contents_;
  std::vector<std::vector<Triple>> pairs_;   ///< by head shard * n + tail shard
  std::vector<std::vector<float>> weights_;  ///< of these triples; none without subsampling
  int64_t triples_ = 0, steps_ = 1;
  KnownAnswers tails_, heads_;
};

}  // namespace ramet::graphs
