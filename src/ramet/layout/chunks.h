#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/layout/layout.h"
#include "ramet/transform/parts.h"

namespace ramet::layout {

/// Which chunk of the model each node of a micro or evaluation graph belongs to, and whether it runs in the backward
/// pass.
struct ChunkMap {
  std::vector<int> chunk;      ///< of each node
  std::vector<bool> backward;  ///< of each node
  std::vector<bool> anywhere;  ///< nodes without inputs (constants): copied to wherever they are read
};

/// The chunk of each layer: contiguous runs, as `layout.layers` says or, where it is empty, such that the costliest
/// chunk costs least (`cost[i]` of layer i; `before` and `after` of what precedes the layers and of the loss head,
/// which count for the chunks that hold them). Throws Error when there are fewer layers than chunks.
std::vector<int> chunks_of_layers(const Layout& layout, const std::vector<double>& cost, double before, double after);

/// Work of a node in operations of large matrix products, where no machine is known: what moves a byte takes the time
/// of `kFlopsPerByte` of them, as on processors with 16-bit products and memory of their day.
double work_of(const Cost& cost);
inline constexpr double kFlopsPerByte = 16;

/// Forward and backward work of each layer of a micro graph, and of what comes before and after them.
struct LayerCosts {
  std::vector<double> layers;
  double before = 0, after = 0;
};
LayerCosts layer_costs(const Graph& micro, const PartOrder& parts);

/// The nodes through which a graph reads and writes a chained or kept state, kNoNode where it does not.
struct Chain {
  std::string state;
  NodeId read = kNoNode, write = kNoNode;
};

/// The graph with one node through which everything reads the old value of each of the states, so that the backward
/// pass gets what the forward pass read, and one that writes the new value.
Graph hold_chains(const Graph& graph, const std::set<std::string>& states, std::vector<Chain>& chains);

/// Finds each node's place. Layers are the parts of all the model's stacks in their order; what lies between follows the
/// data: what depends on the last layer is the head; the rest goes with the first chunk that reads it, or, in the
/// backward pass, the last that made what it reads. Throws Error when a value would have to flow against the pipeline,
/// or a chained state would not be read and written in one forward pass.
ChunkMap map_chunks(const Graph& graph, const PartOrder& parts, const std::vector<int>& chunk_of_layer, int chunks,
                    const std::vector<Chain>& chains = {});

}  // namespace ramet::layout
