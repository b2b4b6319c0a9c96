#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/layout/layout.h"
#include "ramet/transform/layers.h"

namespace ramet::layout {

/// Which part of the model each node of a micro or evaluation graph belongs to, and whether it runs in the backward
/// pass.
struct PartMap {
  std::vector<int> part;       ///< of each node
  std::vector<bool> backward;  ///< of each node
  std::vector<bool> anywhere;  ///< nodes without inputs (constants): copied into every part that reads them
};

/// The part of each layer: contiguous runs, as `layout.layers` says or, where it is empty, such that the costliest
/// part costs least (`cost[i]` of layer i; `before` and `after` of what precedes the layers and of the loss head,
/// which count for the parts that hold them). Throws Error when there are fewer layers than parts.
std::vector<int> parts_of_layers(const Layout& layout, const std::vector<double>& cost, double before, double after);

/// Work of a node in operations of large matrix products, where no machine is known: what moves a byte takes the time
/// of `kFlopsPerByte` of them, as on processors with 16-bit products and memory of their day.
double work_of(const Cost& cost);
inline constexpr double kFlopsPerByte = 16;

/// Forward and backward work of each layer of a micro graph, and of the nodes before and after the layers.
struct LayerCosts {
  std::vector<double> layers;
  double before = 0, after = 0;
};
LayerCosts layer_costs(const Graph& micro, const LayerOrder& layers);

/// The nodes through which a graph reads and writes a chained or kept state, kNoNode where it does not.
struct Chain {
  std::string state;
  NodeId read = kNoNode, write = kNoNode;
};

/// The graph with two more nodes for each of the states: all readers read the old value through one of them, so that
/// the backward pass reads the value that the forward pass read; the other writes the new value.
Graph hold_chains(const Graph& graph, const std::set<std::string>& states, std::vector<Chain>& chains);

/// Finds each node's place. Layers are the model's parts of all stacks in their order (transform/layers.h). Nodes
/// outside of the layers follow the data: a node that depends on the last layer belongs to the head; any other goes to
/// the first pipeline part that reads it or, in the backward pass, to the last part that it reads from. Throws Error
/// when a value would have to flow against the pipeline, or when a chained state would not be read and written in one
/// forward pass.
PartMap map_parts(const Graph& graph, const LayerOrder& layers, const std::vector<int>& part_of_layer, int parts,
                  const std::vector<Chain>& chains = {});

}  // namespace ramet::layout
