#pragma once

#include <cstdint>

#include "ramet/model/model.h"

namespace ramet::model {

/// What a batch of walks holds (graphs/walks.h).
struct WalkTask {
  int64_t micro_batch = 1, group = 1, length = 2;
  int64_t context = 2;    ///< nodes of a window, from 2 to `length`
  int64_t negatives = 1;  ///< drawn nodes of a walk
  int64_t nodes = 2;
  int64_t seed = 0;
};

/// Embeddings of nodes by walks, as node2vec and DeepWalk have them (arXiv 1607.00653, 1403.6652): the first node of
/// each window of a walk has high products with the others of the window, and low ones with the walk's negatives
/// (Mikolov et al., arXiv 1310.4546). Outputs: loss, the mean of both parts' cross-entropies added, and count. Weight:
/// "embedding.weight" [nodes, width]. The program on request "rows" gives for nodes i32 [B, group] their rows f32 [B,
/// group, width]. Throws Error when sizes contradict each other.
Model build_node2vec(int64_t width, const WalkTask& task);

}  // namespace ramet::model
