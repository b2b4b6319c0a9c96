#pragma once

#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// N of the path component "layerN" in a node's name, or -1: how passes know a model's layers.
int layer_of(const std::string& name);
/// Whether a node's name says that it belongs to the backward pass (differentiate gives it the scope "backward").
bool is_backward(const std::string& name);
/// The name of the forward node of which a node is the gradient or the repetition; any other's own name.
std::string forward_name(const std::string& name);
/// What a node is called that repeats node `name` in the backward pass; `is_recomputed` knows it again.
std::string recomputed(const std::string& name);
bool is_recomputed(const std::string& name);

/// For each node of the backward pass, the layer that the pass is at when it comes to it: `layers` before it has come
/// to any, as the loss head's; the first one's after all. -1 for other nodes. `backward` says which nodes these are.
std::vector<int> backward_layers(const Graph& micro, const std::vector<bool>& backward, size_t layers);

}  // namespace ramet::transform
