// What attention by distance, input masks and noise make of the inputs of networks on graphs.

#include <algorithm>

#include "ramet/model/graph_net_builder.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

/// e^x of what is less counts as 0: processors multiply denormal numbers slowly.
constexpr double kLeastExponent = -70;
constexpr double kDeviation = 0.02;  ///< of the first numbers that steps between nodes add to scores

}  // namespace

Tensor GraphNetBuilder::kept_by(const std::string& key) {
  if (use_ != Use::kTrain) return {};
  double low = 0;
  for (const InputMask& mask : config_.input_masks) {
    const double high = low + mask.rate;
    if (std::find(mask.inputs.begin(), mask.inputs.end(), key) != mask.inputs.end()) {
      if (!mask_draw_.valid())
        mask_draw_ = random_uniform(draw_by("input_masks"), {task_.micro_batch, task_.room.graphs, 1});
      const auto below = [&](double bound) { return cast(less(mask_draw_, number(bound)), DType::kF32); };
      return add_scalar(subtract(below(low), below(high)), 1);
    }
    low = high;
  }
  return {};
}

Tensor GraphNetBuilder::edge_mask() {
  const int64_t nodes = task_.room.nodes;
  const Tensor place = iota(build_, DType::kI32, {task_.micro_batch, task_.room.edges}, 1);
  return less(place, slice_axis(pointers(), 1, nodes, nodes + 1));
}

Tensor GraphNetBuilder::categories(const GraphFeature& field, int64_t rows, Per per) {
  const Tensor right = input(field.key, DType::kI32, {rows});
  const double rate = per == Per::kNode ? config_.node_noise : config_.edge_noise;
  if (rate == 0 || use_ == Use::kPredict) return right;
  replaced_.push_back({field, per, right});
  if (use_ != Use::kTrain) return right;
  const Shape& shape = right.shape();
  const Tensor hit = bernoulli(draw_by("noise." + field.key), shape, rate);
  const Tensor other = random_integers(draw_by("noise." + field.key + ".category"), shape, 0, field.categories);
  return select(less(number(0.5), hit), other, right);
}

void GraphNetBuilder::add_noise_loss(Tensor nodes) {
  if (replaced_.empty()) return;
  Scope scope(build_, "noise");
  Tensor loss, count;
  for (const Replaced& each : replaced_) {
    const bool of_nodes = each.per == Per::kNode;
    const Tensor x = of_nodes ? nodes : add(of_sources(nodes), of_targets(nodes));
    const Tensor logits = dense(x, "noise." + each.field.key, each.field.categories);
    const Tensor is_there = of_nodes ? less(number(0.5), reshape(node_mask(), each.right.shape())) : edge_mask();
    const Tensor labels = select(is_there, each.right, full(build_, DType::kI32, {}, -1));
    const CrossEntropy found = cross_entropy(reshape(logits, {-1, each.field.categories}), reshape(labels, {-1}));
    loss = loss.valid() ? add(loss, found.loss) : found.loss;
    count = count.valid() ? add(count, found.count) : found.count;
  }
  noise_loss_ = scale(loss, config_.noise_weight / static_cast<double>(replaced_.size()));
  build_.output("noise_loss", noise_loss_);
  build_.output("noise_count", count);
}

/// What the distances of two nodes of a graph add to their scores, the same in all layers: [B G, heads, M, M].
Tensor GraphNetBuilder::distance_bias() {
  if (distance_bias_.valid()) return distance_bias_;
  const int64_t graphs = task_.micro_batch * task_.room.graphs, places = task_.places, heads = config_.heads;
  const auto kept = [&](Tensor bias, const std::string& key) {
    const Tensor mask = kept_by(key);
    return mask.valid() ? multiply(bias, reshape(mask, {graphs, 1, 1, 1})) : bias;
  };
  if (task_.hops > 0) {
    const Tensor hops = input("hops", DType::kI32, {task_.room.graphs, places, places});
    const Tensor table = model_.matrix("hops.weight", {task_.hops + 3, heads}, {{}, {}}, kDeviation);
    distance_bias_ = kept(relative_bias(table, reshape(hops, {graphs, places, places})), "hops");
  }
  if (!task_.distances) return distance_bias_;
  const Tensor distance =
      reshape(input("distance", DType::kF32, {task_.room.graphs, places, places}), {graphs, places, places, 1});
  const int64_t gaussians = config_.gaussians;
  const double step = config_.cutoff / static_cast<double>(gaussians - 1);
  const Tensor centres = scale(iota(build_, DType::kF32, {1, 1, 1, gaussians}, 3), step);
  const Tensor apart = scale(subtract(minimum(distance, number(config_.cutoff)), centres), 1 / step);
  const Tensor exponent = scale(multiply(apart, apart), -0.5);
  const Tensor basis = select(less(exponent, number(kLeastExponent)), number(0), exp(exponent));
  const Tensor each = dense(gelu(dense(basis, "distances.0", gaussians)), "distances.2", heads);
  const Tensor known = cast(less(number(-0.5), distance), DType::kF32);
  const Tensor bias = kept(transpose(multiply(each, known), {0, 3, 1, 2}), "distances");
  return distance_bias_ = distance_bias_.valid() ? add(distance_bias_, bias) : bias;
}

/// Graphs stand in squares of equal size: no score of two graphs is ever there.
Tensor GraphNetBuilder::attention_by_distance(Tensor qkv, const std::string& name) {
  const int64_t graphs = task_.micro_batch * task_.room.graphs, places = task_.places, heads = config_.heads;
  const int64_t hidden = qkv.dim(2) / 3;
  if (!place_.valid()) {
    place_ = input("place", DType::kI32, {task_.room.nodes});
    node_at_ = input("node_at", DType::kI32, {task_.room.graphs * places});
    taken_ = reshape(input("taken", DType::kI32, {task_.room.graphs * places}), {graphs, places});
  }
  const Tensor rows = gather_rows(qkv, node_at_);
  const auto part = [&](int64_t k) {
    return reshape(slice_axis(rows, 2, k * hidden, (k + 1) * hidden), {graphs, places, heads, hidden / heads});
  };
  AttentionOptions options;
  options.dropout = use_ == Use::kTrain ? config_.attention_dropout : 0;
  options.random_name = name;
  options.seed = task_.seed;
  const Tensor mixed = attention_with(part(0), part(1), part(2), {.key_mask = taken_, .bias = distance_bias()}, options,
                                      options.dropout > 0 ? model_.counter() : Tensor{});
  return gather_rows(reshape(mixed, {task_.micro_batch, task_.room.graphs * places, hidden}), place_);
}

}  // namespace ramet::model
