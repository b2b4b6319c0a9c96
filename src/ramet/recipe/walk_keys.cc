// Keys of embeddings of nodes by random walks.
#include "ramet/recipe/keys.h"

namespace ramet::recipe {

std::vector<RecipeKey> walk_keys() {
  using Kind = RecipeKey::Kind;
  return {
      {.name = "model.walks.width",
       .after = "model.paths.aggregate",
       .doc = "features of a node",
       .field = RAMET_FIELD(model.walks.width),
       .low = 1,
       .high = 1e6,
       .quiet = true},
      {.name = "data.walks.set",
       .after = "data.triples.known",
       .doc =
           "graph set of one graph, along whose edges walks go; where it has edge.split, along those to train on, and "
           "evaluations predict the links of validation and test",
       .field = RAMET_FIELD(data.walks.set),
       .kind = Kind::kPath,
       .decides = false},
      {.name = "data.walks.length",
       .doc = "nodes of a walk",
       .field = RAMET_FIELD(data.walks.length),
       .low = 2,
       .high = 1e5,
       .quiet = true},
      {.name = "data.walks.context",
       .doc = "nodes of a window, the first of which learns to be near the others",
       .field = RAMET_FIELD(data.walks.context),
       .low = 2,
       .high = 1e5,
       .quiet = true},
      {.name = "data.walks.per_node",
       .doc = "walks of an epoch that begin in each node",
       .field = RAMET_FIELD(data.walks.per_node),
       .low = 1,
       .high = 1e6,
       .quiet = true},
      {.name = "data.walks.group",
       .doc = "walks of a sample",
       .field = RAMET_FIELD(data.walks.group),
       .low = 1,
       .high = 1e6,
       .quiet = true},
      {.name = "data.walks.negatives",
       .doc = "drawn nodes of a walk, for each node of a window but the first",
       .field = RAMET_FIELD(data.walks.negatives),
       .low = 1,
       .high = 1e6,
       .quiet = true},
      {.name = "data.walks.p",
       .doc = "a walk goes back with the weight 1 / p (Grover and Leskovec, arXiv 1607.00653)",
       .field = RAMET_FIELD(data.walks.p),
       .low = 1e-6,
       .high = 1e6,
       .quiet = true},
      {.name = "data.walks.q",
       .doc = "a walk goes away from where it came from with the weight 1 / q",
       .field = RAMET_FIELD(data.walks.q),
       .low = 1e-6,
       .high = 1e6,
       .quiet = true},
  };
}

}  // namespace ramet::recipe
