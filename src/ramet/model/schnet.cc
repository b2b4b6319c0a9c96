// SchNet (Schuett et al., arXiv 1706.08566): messages between all nodes within a cutoff, filtered by a network of the
// distance.

#include <numbers>

#include "ramet/model/graph_layers.h"
#include "ramet/ops/build_elementwise.h"

namespace ramet::model {
namespace {

/// e^x of what is less counts as 0.
constexpr double kLeastExponent = -70;

/// log(1 + e^x) - log 2
Tensor shifted_softplus(Tensor x) { return add_scalar(softplus(x), -std::numbers::ln2); }

Tensor glorot_dense(GraphNetBuilder& net, Tensor x, const std::string& name, int64_t out) {
  return net.dense(x, name, out, glorot(x.dim(-1), out));
}

FilterNetwork filter_network(GraphNetBuilder& net, const std::string& name) {
  const int64_t hidden = net.config().hidden, gaussians = net.config().gaussians;
  ModelBuilder& model = net.model();
  return {.w1 = model.matrix(name + ".0.weight", {hidden, gaussians}, {{}, {}}, glorot(gaussians, hidden)),
          .b1 = model.vector(name + ".0.bias", hidden, {}, 0),
          .w2 = model.matrix(name + ".2.weight", {hidden, hidden}, {{}, {}}, glorot(hidden, hidden)),
          .b2 = model.vector(name + ".2.bias", hidden, {}, 0)};
}

/// `count` numbers from 0 to the cutoff at equal distances, along dimension `axis` of a table.
Tensor distances(GraphNetBuilder& net, int64_t count, int64_t axis) {
  const Tensor numbers = iota(net.build(), DType::kF32, axis == 0 ? Shape{count, 1} : Shape{1, count}, axis);
  return scale(numbers, net.config().cutoff / static_cast<double>(count - 1));
}

/// The filters at `filter_points` distances, [points, hidden]: a network of Gaussians, times (cos(pi d / cutoff) + 1) /
/// 2.
Tensor filter_table(GraphNetBuilder& net, const FilterNetwork& network) {
  const GraphNetConfig& config = net.config();
  const double step = config.cutoff / static_cast<double>(config.gaussians - 1);
  const Tensor distance = distances(net, config.filter_points, 0);
  const Tensor apart = scale(subtract(distance, distances(net, config.gaussians, 1)), 1 / step);
  const Tensor exponent = scale(multiply(apart, apart), -0.5);
  // The Gaussians of far centres are 0: processors multiply denormal numbers slowly.
  const Tensor basis = select(less(exponent, full(net.build(), DType::kF32, Shape{}, kLeastExponent)),
                              full(net.build(), DType::kF32, exponent.shape(), 0), exp(exponent));
  const Tensor hidden = shifted_softplus(linear(basis, network.w1, network.b1));
  const Tensor angle = scale(distance, std::numbers::pi / config.cutoff);
  const Tensor envelope = add_scalar(scale(map_unary("cos", angle), 0.5), 0.5);
  return multiply(linear(hidden, network.w2, network.b2), envelope);
}

Tensor filtered_sum(GraphNetBuilder& net, Tensor x, const std::string& name) {
  const FilterNetwork network = filter_network(net, name);
  const double cutoff = net.config().cutoff;
  if (net.config().filter_points == 0) return network_filter_sum(x, net.pairs(), network, cutoff, net.trains());
  return table_filter_sum(x, net.pairs(), filter_table(net, network), cutoff);
}

}  // namespace

Tensor schnet_nodes(GraphNetBuilder& net) {
  const int64_t hidden = net.config().hidden;
  const Tensor table = net.model().matrix("embedding.weight", {net.task().features[0].categories, hidden}, {{}, {}}, 1);
  Tensor x = gather(table, net.node_categories());
  for (int64_t i = 0; i < net.config().layers; ++i) {
    PartScope part(net.build(), "layer", i);
    const std::string name = "interactions." + std::to_string(i);
    const Tensor moved = net.product(x, name + ".conv.lin1.weight", hidden, glorot(hidden, hidden));
    const Tensor sum = filtered_sum(net, moved, name + ".mlp");
    const Tensor next = shifted_softplus(glorot_dense(net, sum, name + ".conv.lin2", hidden));
    x = add(x, glorot_dense(net, next, name + ".lin", hidden));
  }
  Scope scope(net.build(), "head");
  const Tensor next = shifted_softplus(glorot_dense(net, x, "lin1", std::max<int64_t>(1, hidden / 2)));
  return glorot_dense(net, next, "lin2", net.task().answers());
}

}  // namespace ramet::model
