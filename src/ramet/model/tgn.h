#pragma once

#include <cstdint>

#include "ramet/graphs/events.h"
#include "ramet/model/model.h"

namespace ramet::model {

/// Sizes of a temporal graph network (Rossi et al., arXiv 2006.10637).
struct TgnConfig {
  int64_t memory = 100;     ///< features of a node's memory
  int64_t time = 100;       ///< features of an encoded time (Xu et al., arXiv 2002.07962)
  int64_t embedding = 100;  ///< features of a node as the predictor of links sees it
  int64_t heads = 2;        ///< of the attention over neighbours
  double dropout = 0.1;     ///< on the weights of this attention
};

/// The data of a temporal graph network.
struct TgnTask {
  graphs::EventRoom room;
  int64_t nodes = 1, batch = 1, message_width = 0;
  int64_t seed = 0;
};

/// A memory of each node, an attention over its last neighbours, and a predictor of links. A micro-batch is one sample
/// of an EventSource, whose tensors are its inputs. It brings the memories of all nodes involved up to date with their
/// last event (a gated recurrent unit), lets each node that is asked about attend to its last neighbours (a transformer
/// convolution, Shi et al., arXiv 2009.03509), scores the events and their negatives, and leaves the memories of the
/// events' nodes for the next micro-batch, in the chained state "memory.memory" f32 [nodes + 1, memory]. A row counts
/// from the node's first event in an epoch on; so a new epoch begins without any memory. Outputs: loss, the sum of the
/// mean cross-entropies of events and of negatives; count, the events.
///
/// Program "score", on request, on samples to evaluate, in order: "event_score" and "negative_score" f32 [1, batch]. It
/// goes on from the memory of training in a kept state, so that training does not notice.
///
/// Weights have the names of PyTorch Geometric's example of this network: "memory.gru.weight_ih",
/// "gnn.conv.lin_key.weight", "link_pred.lin_src.weight". Throws Error when a size is not positive, or heads do not
/// divide the embedding.
Model build_tgn(const TgnConfig& config, const TgnTask& task);

}  // namespace ramet::model
