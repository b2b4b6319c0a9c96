// GPS (Rampasek et al., arXiv 2205.12454): messages along edges beside attention among all nodes of a graph.

#include <algorithm>

#include "ramet/model/graph_layers.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

/// Nodes as the first layer reads them: their features, and beside them what their positions give.
Tensor embedded(GraphNetBuilder& net) {
  Scope scope(net.build(), "embeddings");
  const int64_t hidden = net.config().hidden;
  const Tensor positions = net.positions();
  if (!positions.valid()) return net.dense(net.node_features(), "node_emb", hidden);
  const int64_t size = net.config().position_size;
  const Tensor features = net.dense(net.node_features(), "node_emb", hidden - size);
  return concat({features, net.dense(net.batch_norm_of_nodes(positions, "pe_norm"), "pe_lin", size)}, 2);
}

/// Attention with the weights of PyTorch's MultiheadAttention.
Tensor attention_of(GraphNetBuilder& net, Tensor x, const std::string& name) {
  const int64_t hidden = x.dim(-1);
  const Tensor moved = net.product(x, name + ".in_proj_weight", 3 * hidden, glorot(hidden, 3 * hidden));
  const Tensor mixed = net.attention_within_graphs(net.bias(moved, name + ".in_proj_bias"), name + ".weights.drop");
  return net.dense(mixed, name + ".out_proj", hidden);
}

Tensor feed_forward(GraphNetBuilder& net, Tensor x, const std::string& name) {
  const double rate = net.config().dropout;
  const Tensor wide = net.drop(relu(net.dense(x, name + ".0", 2 * x.dim(-1))), rate, name + ".2.drop");
  return net.drop(net.dense(wide, name + ".3", x.dim(-1)), rate, name + ".4.drop");
}

/// Equations 3 to 6 of the paper: each branch is added to x and normalised, and a feed-forward network reads the sum of
/// both.
Tensor gps_layer(GraphNetBuilder& net, Tensor x, const std::string& name) {
  const auto added = [&](Tensor branch, const std::string& which, const std::string& norm) {
    const Tensor dropped = net.drop(branch, net.config().dropout, name + which + ".drop");
    return net.batch_norm_of_nodes(add(net.drop_graphs(dropped, name + which + ".drop_path"), x), name + norm);
  };
  const Tensor local = added(gine_layer(net, x, name + ".conv", x.dim(-1)), ".conv", ".norm1.module");
  const Tensor global = added(attention_of(net, x, name + ".attn"), ".attn", ".norm2.module");
  const Tensor sum = add(local, global);
  const Tensor more = net.drop_graphs(feed_forward(net, sum, name + ".mlp"), name + ".mlp.drop_path");
  return net.batch_norm_of_nodes(add(sum, more), name + ".norm3.module");
}

}  // namespace

Tensor gps_nodes(GraphNetBuilder& net) {
  Tensor x = embedded(net);
  for (int64_t i = 0; i < net.config().layers; ++i) {
    PartScope part(net.build(), "layer", i);
    x = gps_layer(net, x, "convs." + std::to_string(i));
  }
  net.add_noise_loss(x);
  return x;
}

Tensor gps_answers(GraphNetBuilder& net, Tensor x) {
  Scope scope(net.build(), "head");
  if (net.task().per_graph) x = net.of_graphs(x);
  const int64_t half = std::max<int64_t>(1, x.dim(-1) / 2), quarter = std::max<int64_t>(1, x.dim(-1) / 4);
  return net.dense(relu(net.dense(relu(net.dense(x, "mlp.0", half)), "mlp.2", quarter)), "mlp.4", net.task().answers());
}

}  // namespace ramet::model
