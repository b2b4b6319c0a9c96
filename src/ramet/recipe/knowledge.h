#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ramet/graphs/triples.h"
#include "ramet/recipe/recipe.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/metrics.h"
#include "ramet/train/predictor.h"

namespace ramet::recipe {

struct RankedGraph;  // recipe/paths.h

/// The graph of a recipe of embeddings of a knowledge graph. Errors name the recipe's key.
std::shared_ptr<const KnowledgeGraph> open_knowledge(const Recipe& recipe);

/// `limit` triples, evenly from all over them; 0: all.
std::vector<Triple> some_of(std::vector<Triple> triples, int64_t limit);
/// "mrr", "hits@1", "hits@3", "hits@10" and "mean_rank" of ranks from 1 on.
Numbers numbers_of_ranks(const std::vector<double>& ranks);

/// Filtered ranks (Bordes et al. 2013) of triples: "mrr", "hits@1", "hits@3", "hits@10" and "mean_rank" over heads and
/// tails. Of equal scores half are better.
class Ranking {
 public:
  /// The triples of a part ("" : the recipe's held-out part); `limit` of them, evenly from all over it; 0: all.
  Ranking(const Recipe& complete, const KnowledgeGraph& graph, const std::string& part, int64_t limit);

  /// The numbers for a cluster's weights, by its program "rank". On the leading rank; empty on others.
  Numbers run(Cluster& cluster) const;
  /// The same numbers where the rows of entities live in streaming memory (Cluster::rows), by the program "rank_rows":
  /// among `block` entities at a time.
  Numbers run_by_rows(Cluster& cluster) const;
  int64_t block() const { return std::min<int64_t>(entities_, 1024); }
  const RankSource& source() const { return *source_; }

 private:
  std::shared_ptr<const RankSource> source_;
  int64_t micro_batch_, group_, entities_;
};

/// The likeliest ends of triples.
class QueryAnswerer {
 public:
  struct Candidate {
    std::string entity;
    double score = 0;
  };
  QueryAnswerer(const Recipe& complete, int64_t top, const Layout& layout, const Where& where);
  Predictor& predictor() { return *predictor_; }  ///< for its weights

  /// A query is a triple of names with tabs between, where "?" stands for the head or the tail. Throws Error for other
  /// texts and for unknown names. The answers of each, likeliest first.
  std::vector<std::vector<Candidate>> answer(const std::vector<std::string>& queries);

 private:
  std::shared_ptr<const KnowledgeGraph> graph_;
  std::shared_ptr<const RankedGraph> paths_;  ///< of a network along paths; else null
  int64_t top_ = 0, group_;
  std::unique_ptr<Predictor> predictor_;
};

/// The model of a complete recipe with room for the answers that ranks of `part` need, and `top` answers of a query.
Model build_knowledge_of(const Recipe& complete, const std::string& part, int64_t top);

}  // namespace ramet::recipe
