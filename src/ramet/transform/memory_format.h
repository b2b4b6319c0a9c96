#pragma once

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Whether the graph has a product whose operands have channels (OpDef::channels) and that reads them first.
bool has_channels_first(const Graph& graph);

/// Brings activations into the order of dimensions that kernels read fastest, [samples, space..., channels]. Products
/// with channels (convolutions) get `channels_last`; the other ops with channels, element-wise ops, reductions, and all
/// that have a permute rule follow where what they read comes so. Values are transposed only where a network enters or
/// leaves that order: once each, not at every node. Inputs and outputs of the graph stay as they are.
///
/// The pass belongs to the model, before anything depends on a layout: the order of a sum may follow the order of
/// dimensions, so the pass decides bits, but the same ones for every layout.
Graph set_memory_format(const Graph& graph);

}  // namespace ramet::transform
