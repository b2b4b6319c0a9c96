#pragma once

#include <cstdint>
#include <string>

#include "ramet/model/model.h"

namespace ramet::model {

/// A network along the paths between entities (NBFNet; Zhu et al., arXiv 2106.06935).
struct PathNetConfig {
  int64_t layers = 6, width = 32;
  std::string message = "distmult";  ///< or "transe", "rotate" (complex numbers: `width` is even)
  std::string aggregate = "pna";     ///< or "sum"
  double temperature = 2;            ///< a wrong answer weighs as the softmax of its score times this; 0: all alike
  bool shortcut = true, norm = true;
};

/// The graph that paths lead through, and what is known of the questions on it.
struct PathGraphSize {
  int64_t entities = 2, edges = 0;
  int64_t known = 1;  ///< room of a group's lists of other answers, for ranks
};

/// What a batch holds (graphs/path_queries.h).
struct PathTask {
  int64_t micro_batch = 1, group = 1, negatives = 1;
  int64_t relations = 1;        ///< in one direction; the network has twice as many
  PathGraphSize train, ranked;  ///< of the loss; of the programs
  int64_t top = 10;             ///< answers of a query
  int64_t seed = 0;
};

/// NBFNet with its loss. A query's entity begins with the vector of its relation, all others with zeros. In each layer
/// an entity gathers what its neighbours hold, changed by vectors that a linear layer makes of the query's relation for
/// every relation, and what it began with. Two layers make a score of what an entity holds at last and of the query.
/// Outputs: loss, count. Programs on request, on the graph `ranked`, whose entities no weight knows:
///
/// - "rank": "rank" f32 [B, Q]: the answers' filtered ranks;
/// - "predict": the `top` likeliest answers i32 [B, Q, top] with "scores" f32.
///
/// Weights: "query.weight" [2 relations, width]; "layers.L.relation_linear", "layers.L.linear" [width, 2 width], or
/// with "pna" [width, 13 width]: what the entity held, then mean, greatest, least and deviation, times 1, s and 1 / s
/// with s the logarithm of the degree; "layers.L.layer_norm"; "mlp.0" and "mlp.1". Throws Error when sizes or options
/// contradict each other.
Model build_path_net(const PathNetConfig& config, const PathTask& task);

}  // namespace ramet::model
