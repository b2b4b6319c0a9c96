#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Defines the order of those sums that a tensor layout may split: each is cut into C chunks, whose sums meet in a
/// balanced tree. A node with the attribute `chunks` gets `chunks` = C when its reduced dimensions do not come from the
/// batch and C divides them; other nodes keep one sum. The pass follows the batch's dimensions from the data inputs
/// through the ops' sharding rules. An op that chooses what its chunks cut (OpDef::chunked_extent) gets them wherever C
/// divides that extent: rows of samples, which a layout may cut along the sequence. Where a state's logical axis sees
/// the reduced dimension as blocks (a joint query, key and value), the pass sets `chunk_blocks`, and each chunk is a
/// part of every block. The graph may be a forward graph or a differentiated one. Running the pass twice changes
/// nothing, and neither does C = 1.
Graph set_chunks(const Graph& graph, int64_t chunks, const std::vector<StateTensor>& states = {});

/// Makes each sum over the batch (samples, tokens, masked words) one chain of additions in the order of its terms, for
/// ops that have the attribute `in_order`. Terms of zero then change no bit of the sum, wherever they stand, so rows
/// may be padded or packed freely (docs/packing.md). A micro-batch of one sample counts as a batch: where a reshape
/// joins it with the sample's rows, sums over these rows are in order, as they are for several samples. For f32 graphs.
/// Must run before `set_chunks`, which leaves such sums whole.
Graph set_sums_in_order(const Graph& graph);

}  // namespace ramet::transform
