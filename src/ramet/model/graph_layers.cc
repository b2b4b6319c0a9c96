#include "ramet/model/graph_layers.h"

#include <cmath>

#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

constexpr double kAttentionSlope = 0.2;  // of the LeakyReLU of attention
constexpr double kLeastVariance = 1e-5;  // below which PNA takes a deviation as 0

/// x W^T over the columns [begin, end) of a weight [out, in].
Tensor product_of_part(Tensor x, Tensor weight, int64_t begin, int64_t end) {
  return matmul(x, slice_axis(weight, 1, begin, end), false, true);
}

/// (1 + eps) x, with a learned eps. It is stretched to all features, so that its gradient sums rows where they are made.
Tensor own_share(GraphNetBuilder& net, Tensor x, const std::string& name) {
  const Tensor share = add(net.model().vector(name + ".eps", 1, {}, 0), net.number(1));
  return multiply(x, broadcast_to(share, {x.dim(-1)}));
}

/// dense, ReLU, dense: "NAME.0" and "NAME.2" of a Sequential.
Tensor two_layers(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  return net.dense(relu(net.dense(x, name + ".0", out)), name + ".2", out);
}

}  // namespace

Tensor gcn_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  const Tensor moved = net.product(x, name + ".lin.weight", out, glorot(net.width(x), out));
  return net.bias(net.sum_of_neighbors(moved, net.edge_weights()), name + ".bias");
}

Tensor sage_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  const int64_t in = net.width(x);
  const auto moved = [&](Tensor rows) { return net.product(rows, name + ".lin_l.weight", out, of_linear(in)); };
  // Both orders have one result but for rounding: the narrower rows travel along edges.
  const Tensor mean = out < in || !x.valid() ? net.neighbor_mean(moved(x)) : moved(net.neighbor_mean(x));
  return add(net.bias(mean, name + ".lin_l.bias"), net.product(x, name + ".lin_r.weight", out, of_linear(in)));
}

Tensor cluster_gcn_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  const int64_t in = x.dim(-1);
  const Tensor own = scale(x, 1 + net.config().diagonal);
  const Tensor mean = divide(add(net.sum_of_neighbors(x), own), add_scalar(net.degrees(), 1));
  return add(net.dense(mean, name + ".lin_out", out), net.product(x, name + ".lin_root.weight", out, of_linear(in)));
}

Tensor gat_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t size, int64_t heads) {
  const int64_t width = heads * size;
  const Tensor moved = net.product(x, name + ".lin.weight", width, glorot(net.width(x), width));
  const Tensor apart = reshape(moved, {moved.dim(0), moved.dim(1), heads, size});
  const auto score = [&](const std::string& side) {
    const Tensor vector = net.model().matrix(name + side, {heads, size}, {{}, {}}, glorot(heads, size));
    return reduce_sum(multiply(apart, vector), {3});  // [B, N, heads]
  };
  const Tensor of_edges = add(net.of_sources(score(".att_src")), net.of_targets(score(".att_dst")));
  const Tensor weights = segment_softmax(leaky_relu(of_edges, kAttentionSlope), net.pointers());
  const Tensor dropped = net.drop(weights, net.config().attention_dropout, name + ".attention.drop");
  return net.bias(net.sum_of_neighbors(moved, dropped), name + ".bias");
}

Tensor gatv2_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t size, int64_t heads) {
  const int64_t width = heads * size;
  const double deviation = glorot(net.width(x), width);
  const Tensor sources = net.dense(x, name + ".lin_l", width, deviation),
               targets = net.dense(x, name + ".lin_r", width, deviation);
  const Tensor joined = leaky_relu(add(net.of_sources(sources), net.of_targets(targets)), kAttentionSlope);
  const Tensor vector = net.model().matrix(name + ".att", {heads, size}, {{}, {}}, glorot(heads, size));
  const Tensor apart = reshape(joined, {joined.dim(0), joined.dim(1), heads, size});
  const Tensor weights = segment_softmax(reduce_sum(multiply(apart, vector), {3}), net.pointers());
  const Tensor dropped = net.drop(weights, net.config().attention_dropout, name + ".attention.drop");
  return net.bias(net.sum_of_neighbors(sources, dropped), name + ".bias");
}

Tensor gin_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  x = add(own_share(net, x, name), net.sum_of_neighbors(x));
  for (int64_t k = 0; k < 2; ++k) {
    x = net.dense(x, name + ".nn." + std::to_string(3 * k), out);
    x = relu(net.batch_norm_of_nodes(x, name + ".nn." + std::to_string(3 * k + 1)));
  }
  return x;
}

Tensor gine_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  const Tensor of_edges = net.dense(net.edge_features(), name + ".lin", x.dim(-1));
  const Tensor messages = relu(add(net.of_sources(x), of_edges));
  const Tensor sum = add(own_share(net, x, name), segment_sum(messages, net.pointers()));
  return two_layers(net, sum, name + ".nn", out);
}

Tensor pna_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  const int64_t in = x.dim(-1);
  const Tensor ptr = net.pointers();
  // A dense layer on (x_i, x_j), computed for nodes in two parts.
  const std::string before = name + ".pre_nns.0.0";
  const Tensor weight = net.model().matrix(before + ".weight", {in, 2 * in}, {{}, {}}, of_linear(2 * in));
  const Tensor of_target = net.bias(product_of_part(x, weight, 0, in), before + ".bias");
  const Tensor messages = add(net.of_targets(of_target), net.of_sources(product_of_part(x, weight, in, 2 * in)));
  const Tensor mean = segment_mean(messages, ptr);
  const Tensor variance = subtract(segment_mean(multiply(messages, messages), ptr), multiply(mean, mean));
  const Tensor deviation = sqrt(maximum(variance, net.number(kLeastVariance)));
  const Tensor is_some = cast(less(net.number(std::sqrt(kLeastVariance)), deviation), DType::kF32);
  const Tensor kinds =
      concat({mean, segment_min(messages, ptr), segment_max(messages, ptr), multiply(deviation, is_some)}, 2);
  const Tensor degrees = net.degrees(), average = net.number(net.task().average_log_degree);
  const auto of_degree = [](Tensor count) { return log(add_scalar(count, 1)); };
  const Tensor more = multiply(kinds, divide(of_degree(degrees), average)),
               less_so = multiply(kinds, divide(average, of_degree(maximum(degrees, net.number(1)))));
  const Tensor all = concat({x, kinds, more, less_so}, 2);
  return net.dense(net.dense(all, name + ".post_nns.0.0", out), name + ".lin", out);
}

Tensor edge_conv_layer(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  const int64_t in = x.dim(-1);
  // The first of two dense layers on (x_i, x_j - x_i), computed for nodes in two parts.
  const Tensor weight = net.model().matrix(name + ".nn.0.weight", {out, 2 * in}, {{}, {}}, of_linear(2 * in));
  const Tensor of_source = product_of_part(x, weight, in, 2 * in);
  const Tensor of_target = net.bias(subtract(product_of_part(x, weight, 0, in), of_source), name + ".nn.0.bias");
  const Tensor joined = relu(add(net.of_targets(of_target), net.of_sources(of_source)));
  return segment_max(net.dense(joined, name + ".nn.2", out), net.pointers());
}

namespace {

/// NNConv: each edge multiplies its source's row by a matrix, which a network makes of the edge's features. The
/// network's last layer is linear. So a node sums its neighbours once for each of the network's hidden features, and
/// one product follows: no matrix of an edge ever exists.
Tensor edge_network_layer(GraphNetBuilder& net, Tensor x, const std::string& name) {
  const int64_t size = x.dim(-1), hidden = net.config().hidden;
  const Tensor of_edges = relu(net.dense(net.edge_features(), name + ".nn.0", hidden));
  const Tensor ones = full(net.build(), DType::kF32, {of_edges.dim(0), of_edges.dim(1), 1}, 1);
  const Tensor factors = concat({of_edges, ones}, 2);  // the last is the bias's
  const Tensor sums = net.sum_of_neighbors(tile(x, {1, 1, hidden + 1}), factors);
  const Tensor matrix = net.model().matrix(name + ".nn.2.weight", {size * size, hidden}, {{}, {}}, of_linear(hidden));
  const Tensor shift = net.model().vector(name + ".nn.2.bias", size * size, {}, 0);
  const Tensor all = concat({transpose(matrix, {1, 0}), reshape(shift, {1, size * size})}, 0);
  const Tensor messages = matmul(sums, reshape(all, {(hidden + 1) * size, size}));
  return net.bias(add(messages, net.product(x, name + ".lin.weight", size, of_linear(size))), name + ".bias");
}

/// A gated recurrent unit (Cho et al., arXiv 1406.1078), with the names of torch.nn.GRUCell.
Tensor gated_unit(GraphNetBuilder& net, Tensor x, Tensor state, const std::string& name) {
  const int64_t size = state.dim(-1);
  const auto gates = [&](Tensor from, const std::string& side) {
    const Tensor moved = net.product(from, name + ".weight_" + side, 3 * size, of_linear(size));
    return net.bias(moved, name + ".bias_" + side);
  };
  const Tensor of_input = gates(x, "ih"), of_state = gates(state, "hh");
  const auto part = [&](Tensor all, int64_t k) { return slice_axis(all, 2, k * size, (k + 1) * size); };
  const Tensor reset = sigmoid(add(part(of_input, 0), part(of_state, 0))),
               update = sigmoid(add(part(of_input, 1), part(of_state, 1)));
  const Tensor next = tanh(add(part(of_input, 2), multiply(reset, part(of_state, 2))));
  return add(next, multiply(update, subtract(state, next)));
}

}  // namespace

Tensor mpnn_nodes(GraphNetBuilder& net) {
  Tensor x = relu(net.dense(net.node_features(), "lin0", net.config().hidden));
  for (int64_t i = 0; i < net.config().layers; ++i) {
    PartScope part(net.build(), "layer", i);
    x = gated_unit(net, relu(edge_network_layer(net, x, "conv")), x, "gru");
  }
  return x;
}

}  // namespace ramet::model
