#include "ramet/model/image_blocks.h"

#include <cmath>

#include "ramet/model/batch_norm.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_pooling.h"

namespace ramet::model {
namespace {

/// One number a channel, as [C,1,1].
Tensor of_channels(GraphBuilder& build, const std::vector<double>& numbers, int64_t channels) {
  HostTensor tensor(TensorType{DType::kF32, Shape{channels, 1, 1}});
  for (int64_t c = 0; c < channels; ++c) tensor.set(c, numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(c)]);
  return constant(build, TensorData(std::move(tensor)));
}

}  // namespace

ImageBuilder::ImageBuilder(Graph& graph, Model* declared, const VisionConfig& config, const ImageTask& task)
    : config_(config),
      task_(task),
      declared_(declared),
      model_(graph, declared ? &declared->weights : nullptr, 0.02, declared != nullptr, task.seed) {}

Tensor ImageBuilder::images() {
  const Tensor bytes = build().input(
      "images", DType::kU8, {task_.micro_batch, task_.channels, task_.height, task_.width}, {"batch", "", "", ""});
  // (p / 255 - mean) / deviation = p * factor + term
  std::vector<double> factors, terms;
  for (size_t c = 0; c < task_.mean.size(); ++c) terms.push_back(-task_.mean[c]);
  const std::vector<double>& deviations = task_.deviation;
  for (const double deviation : deviations) factors.push_back(1 / (255 * deviation));
  terms.resize(std::max(terms.size(), deviations.size()), terms.back());
  for (size_t c = 0; c < terms.size(); ++c) terms[c] /= deviations[deviations.size() == 1 ? 0 : c];
  const Tensor scaled = multiply(cast(bytes, DType::kF32), of_channels(build(), factors, task_.channels));
  return add(scaled, of_channels(build(), terms, task_.channels));
}

Tensor ImageBuilder::convolution(Tensor x, const std::string& name, int64_t out, const ConvShape& shape) {
  const int64_t in = x.dim(1), taps = shape.taps, pad = shape.pad < 0 ? (taps - 1) / 2 : shape.pad;
  const double deviation =
      shape.deviation > 0 ? shape.deviation : std::sqrt(2.0 / static_cast<double>(out * taps * taps / shape.groups));
  // Where each group has one channel, the output's channels are the input's.
  const LogicalAxis in_axis = shape.groups == 1 ? shape.in_axis : kNoAxis;
  const Tensor filter = model_.matrix(name + ".weight", {out, in / shape.groups, taps, taps},
                                      {shape.out_axis, in_axis, kNoAxis, kNoAxis}, deviation);
  const Tensor bias = shape.bias ? model_.vector(name + ".bias", out, shape.out_axis, 0) : Tensor{};
  ConvolutionOptions options;
  options.strides = {shape.stride, shape.stride};
  options.low = options.high = {pad, pad};
  options.groups = shape.groups;
  return ops::convolution(x, filter, bias, options);
}

Tensor ImageBuilder::enlarge(Tensor x, const std::string& name, int64_t out, int64_t taps) {
  const double deviation = std::sqrt(1.0 / static_cast<double>(x.dim(1)));
  const Tensor filter =
      model_.matrix(name + ".weight", {x.dim(1), out, taps, taps}, {kEmbed, kMlp, kNoAxis, kNoAxis}, deviation);
  ConvolutionOptions options;
  options.strides = {taps, taps};
  return convolution_transposed(x, filter, model_.vector(name + ".bias", out, kMlp, 0), options);
}

Tensor ImageBuilder::batch_norm(Tensor x, const std::string& name, const LogicalAxis& axis, double epsilon) {
  return batch_norm_layer(model_, declared_ ? &declared_->states : nullptr, x, name,
                          {.epsilon = epsilon, .momentum = config_.momentum, .axis = axis});
}

Tensor ImageBuilder::conv_norm(Tensor x, const std::string& conv, const std::string& norm, int64_t out,
                               const ConvShape& shape, bool active) {
  const Tensor normed = batch_norm(convolution(x, conv, out, shape), norm, shape.out_axis);
  return active ? relu(normed) : normed;
}

Tensor ImageBuilder::channel_norm(Tensor x, const std::string& name, double epsilon) {
  return channels_to_front(model_.norm(channels_to_back(x), name, epsilon));
}

Tensor ImageBuilder::max_pool(Tensor x, int64_t taps, int64_t stride, int64_t pad) {
  PoolOptions options;
  options.taps = {taps, taps};
  options.strides = {stride, stride};
  options.low = options.high = {pad, pad};
  return ops::max_pool(x, options);
}

Tensor ImageBuilder::mean_pixels(Tensor x) { return reshape(adaptive_average_pool(x, {1, 1}), {x.dim(0), x.dim(1)}); }

Tensor ImageBuilder::drop_path(Tensor branch, int64_t block, int64_t count, const std::string& name) {
  const double rate =
      count < 2 ? config_.drop_path : config_.drop_path * static_cast<double>(block) / static_cast<double>(count - 1);
  if (!declared_ || rate == 0) return branch;
  std::vector<int64_t> dims(static_cast<size_t>(branch.shape().rank()), 1);
  dims[0] = branch.dim(0);
  const Tensor kept = model_.drop(full(build(), DType::kF32, Shape(std::move(dims)), 1), rate, name);
  return multiply(branch, cast(kept, branch.dtype()));
}

Tensor ImageBuilder::classify(Tensor x, const std::string& name, double deviation) {
  x = model_.drop(x, config_.head_dropout, name + ".dropout");
  const Tensor weight = model_.matrix(name + ".weight", {task_.classes, x.dim(-1)}, {kNoAxis, kEmbed}, deviation);
  return linear(x, weight, model_.vector(name + ".bias", task_.classes, kNoAxis, 0));
}

Tensor silu(Tensor x) { return multiply(x, sigmoid(x)); }
Tensor channels_to_back(Tensor x) { return transpose(x, {0, 2, 3, 1}); }
Tensor channels_to_front(Tensor x) { return transpose(x, {0, 3, 1, 2}); }

}  // namespace ramet::model
