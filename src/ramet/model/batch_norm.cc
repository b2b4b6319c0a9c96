#include "ramet/model/batch_norm.h"

#include "ramet/base/error.h"
#include "ramet/ops/build_norm.h"

namespace ramet::model {
namespace {

void declare(std::vector<StateTensor>& states, const std::string& name, int64_t channels, double first,
             const BatchNormOptions& options) {
  StateTensor state{name, {DType::kF32, {channels}}, StateKind::kDeferred, {StateInit::Kind::kConstant, first, 0}, ""};
  state.axes = {options.axis};
  state.fold = {.by = "average", .momentum = options.momentum};
  states.push_back(std::move(state));
}

}  // namespace

Tensor batch_norm_layer(ModelBuilder& of, std::vector<StateTensor>* states, Tensor x, const std::string& name,
                        const BatchNormOptions& options) {
  if (!(options.momentum >= 0 && options.momentum <= 1))
    throw Error({.what = "the momentum of a batch norm is out of range",
                 .where = "'" + name + "'",
                 .found = std::to_string(options.momentum),
                 .expected = "0 to 1"});
  if (x.shape().rank() < 2)
    throw Error(
        {.what = "the input of a batch norm has no channels", .where = "'" + name + "'", .found = x.type().text()});
  GraphBuilder& build = of.build();
  const int64_t channels = x.dim(options.channels_last ? -1 : 1);
  Tensor gain, bias;
  if (options.affine) {
    gain = of.vector(name + ".weight", channels, options.axis, 1);
    bias = of.vector(name + ".bias", channels, options.axis, 0);
  }
  const std::string mean = name + ".running_mean", variance = name + ".running_var";
  if (!states && options.running)
    return batch_norm_apply(x, gain, bias, build.state(mean, DType::kF32, {channels}),
                            build.state(variance, DType::kF32, {channels}), options.epsilon, options.channels_last);
  const BatchNorm normal = batch_norm(x, gain, bias, options.epsilon, options.channels_last);
  if (!states || !options.running) return normal.output;
  declare(*states, mean, channels, 0, options);
  declare(*states, variance, channels, 1, options);
  const auto count = static_cast<double>(x.shape().elements()) / static_cast<double>(channels);
  build.output(mean, normal.mean, OutputRole::kState);
  build.output(variance, scale(normal.variance, count / (count - 1)), OutputRole::kState);
  return normal.output;
}

}  // namespace ramet::model
