#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Defines the order of sums that a tensor layout may split (DESIGN, exact bits rule 2): every node with a `chunks`
/// attribute whose reduced dimensions do not come from the batch gets `chunks` = C where C divides them; others keep
/// one sum. Which dimensions come from the batch is followed from the data inputs through the ops' sharding rules. Ops
/// that choose what their chunks cut (OpDef::chunked_extent) get them wherever C divides that: rows of samples, which a
/// layout may cut along the sequence. Where the reduced dimension is one that a state's logical axis sees as blocks (a
/// joint query, key and value), `chunk_blocks` says so, and each chunk is a part of every block. Forward graphs and
/// differentiated ones; nodes that have their chunks already may get them again. C = 1 changes nothing.
Graph set_chunks(const Graph& graph, int64_t chunks, const std::vector<StateTensor>& states = {});

/// Makes every sum over what comes from the batch (samples, tokens, masked words), of the ops that have the attribute
/// `in_order`, one chain of additions in the order of its terms, so that terms of zero, wherever they stand, change no
/// bit of it: then rows may be padded or packed as one likes (docs/packing.md). In f32 graphs; before `set_chunks`,
/// which leaves such sums whole.
Graph set_sums_in_order(const Graph& graph);

}  // namespace ramet::transform
