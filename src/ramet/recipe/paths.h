#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ramet/graphs/path_queries.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// Whether the recipe is one of a network along paths (model/path_net.h), and not of embeddings.
bool is_path_net(const Recipe& recipe);
/// Throws Error naming keys that the recipe has and its model does not read.
void check_knowledge_keys(const Recipe& recipe);

/// The graph that questions are asked on: that of `data.triples.ranked_set`, or else the one to train on. Relations
/// have their numbers among those of the graph to train on; entities are the ranked graph's own.
struct RankedGraph {
  std::shared_ptr<const KnowledgeGraph> graph;
  std::shared_ptr<const graphs::FactGraph> facts;  ///< the part `data.triples.train` of it
  std::vector<Triple> known;                       ///< all true triples
  std::vector<int32_t> relations;                  ///< number of each of its relations in the graph to train on
  std::vector<Triple> triples(const std::string& split, const std::string& part) const;
};
RankedGraph open_ranked_graph(const Recipe& recipe);

/// As RecipeKind has them.
OpenedData open_path_net(const Recipe& recipe);
Model build_path_net_of(const Recipe& complete, int64_t top);

}  // namespace ramet::recipe
