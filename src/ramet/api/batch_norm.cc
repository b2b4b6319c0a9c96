#include "ramet/api/graphs.h"
#include "ramet/base/error.h"
#include "ramet/ops/build_norm.h"

namespace ramet::v0 {
namespace {

using detail::Graphs;

struct Names {
  std::string mean, variance;
  explicit Names(const std::string& layer) : mean(layer + ".running_mean"), variance(layer + ".running_var") {}
};

/// The two states; in a program those of the model.
std::pair<Tensor, Tensor> running_statistics(Builder& builder, const Operand& a, const Names& names, int64_t channels,
                                             const BatchNormOptions& options) {
  auto* model = dynamic_cast<ModelBuilder*>(&builder);
  if (!model) return {builder.state(names.mean, a.place()), builder.state(names.variance, a.place())};
  const TensorType type{DType::kF32, {channels}};
  const StateOptions how{.fold = {.by = "average", .momentum = options.momentum}, .axes = {options.axis}};
  const Tensor mean = model->state(names.mean, type, StateRole::kDeferred, Init::zeros(), how, a.place());
  return {mean, model->state(names.variance, type, StateRole::kDeferred, Init::constant(1), how, a.place())};
}

}  // namespace

Tensor batch_norm_layer(Builder& builder, Operand a, const std::string& name, const BatchNormOptions& options) {
  Graphs& graphs = Graphs::of(a);
  if (&graphs != &Graphs::of(builder))
    throw Error({.what = "tensors of two models or programs in one op", .where = ir::origin_of(a.place())});
  if (a.shape().rank() < 2)
    throw Error({.what = "the input of a batch norm has no channels",
                 .where = "'" + name + "' at " + ir::origin_of(a.place()),
                 .found = a.type().text()});
  const int64_t channels = a.dim(options.channels_last ? -1 : 1);
  Tensor gain, bias;
  if (options.affine) {
    const WeightOptions how{.axes = {options.axis}};
    gain = builder.weight(name + ".weight", {channels}, Init::constant(1), how, a.place());
    bias = builder.weight(name + ".bias", {channels}, Init::zeros(), how, a.place());
  }
  const Names names(name);
  std::pair<Tensor, Tensor> running;
  if (options.running) running = running_statistics(builder, a, names, channels, options);
  const std::vector<Tensor> made = graphs.build_each(a.place(), [&](int which, ir::GraphBuilder&) {
    const auto in = [&](const Tensor& tensor) { return graphs.in(which, tensor); };
    const ir::Tensor x = in(a.tensor()), g = in(gain), b = in(bias);
    if (options.running && !graphs.trains(which))
      return std::vector<ir::Tensor>{ops::batch_norm_apply(x, g, b, in(running.first), in(running.second),
                                                           options.epsilon, options.channels_last)};
    const ops::BatchNorm norm = ops::batch_norm(x, g, b, options.epsilon, options.channels_last);
    if (!options.running) return std::vector<ir::Tensor>{norm.output};
    const auto count = static_cast<double>(x.shape().elements()) / static_cast<double>(channels);
    return std::vector<ir::Tensor>{norm.output, norm.mean, ops::scale(norm.variance, count / (count - 1))};
  });
  if (options.running && !graphs.is_program()) {
    builder.set_state(names.mean, Operand(made[1], a.place()));
    builder.set_state(names.variance, Operand(made[2], a.place()));
  }
  return made[0];
}

}  // namespace ramet::v0
