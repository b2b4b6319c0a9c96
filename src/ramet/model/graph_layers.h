#pragma once

#include <string>

#include "ramet/model/graph_net_builder.h"

namespace ramet::model {

// Layers of networks on graphs: nodes [B, N, F] -> [B, N, out]. `name` is the layer's scope in PyTorch Geometric's
// state_dict: "convs.0". GraphFamily cites the papers.

Tensor gcn_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);
Tensor sage_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);
Tensor cluster_gcn_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);
/// [B, N, heads * size], heads side by side.
Tensor gat_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t size, int64_t heads);
Tensor gatv2_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t size, int64_t heads);
/// (1 + eps) x plus the sum of the neighbours, through two layers with batch norms.
Tensor gin_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);
/// (1 + eps) x plus the sum of relu(neighbour + transformed edge), through two layers.
Tensor gine_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);
Tensor pna_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);
/// The greatest of two layers on (x_i, x_j - x_i) over the neighbours j of i.
Tensor edge_conv_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out);

/// The hidden features of MPNN's nodes behind all of its layers, [B, N, hidden].
Tensor mpnn_nodes(GraphNetBuilder& net);
/// The hidden features of GPS's nodes behind all of its layers, [B, N, hidden] (model/gps.cc).
Tensor gps_nodes(GraphNetBuilder& net);
/// GPS's answers for the nodes, or for the graphs, [B, N, answers] or [B, G, answers].
Tensor gps_answers(GraphNetBuilder& net, Tensor nodes);
/// SchNet's answers for the nodes, [B, N, answers] (model/schnet.cc).
Tensor schnet_nodes(GraphNetBuilder& net);

}  // namespace ramet::model
