#include "ramet/ops/channel_norm.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/ops/network_rules.h"

// Norms over channels are made of three ops: moments of a tensor, an element-wise map that normalises with them, and
// the sums that this map's gradient needs.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Reduce = ShardingRule::Reduce;

bool is_channels_last(const NodeSignature& node) { return node.attributes.get_bool_or("channels_last", false); }

/// The dimension of channels; a matrix has only one that they can be.
int channel_axis(const Shape& shape, bool channels_last) { return channels_last ? shape.rank() - 1 : 1; }

/// [samples, channels, 1...] in the layout of `like`.
Shape vector_shape(const Shape& like, bool channels_last, int64_t samples, int64_t channels) {
  std::vector<int64_t> dims(static_cast<size_t>(like.rank()), 1);
  dims[0] = samples;
  dims[static_cast<size_t>(channel_axis(like, channels_last))] = channels;
  return Shape(std::move(dims));
}

/// Checks a vector of numbers by channel: f32 [1 or N, C, 1...].
void check_vector(const NodeSignature& node, int index, const char* name, const Shape& shape, bool channels_last) {
  const int64_t samples = shape[0], channels = shape.dim(channel_axis(shape, channels_last));
  const TensorType& found = node.inputs.at(static_cast<size_t>(index));
  const Shape one = vector_shape(shape, channels_last, 1, channels),
              each = vector_shape(shape, channels_last, samples, channels);
  if (found.dtype != DType::kF32 || (found.shape != one && found.shape != each))
    refuse(node, "input " + std::to_string(index) + " (" + name + ") has the wrong type", found.text(),
           TensorType{DType::kF32, one}.text() + (one == each ? "" : " or " + TensorType{DType::kF32, each}.text()));
}

/// Checks the numbers of rows that are in use.
void check_used(const NodeSignature& node, const ChannelForm& form) {
  require_rank(node, 0, "a", 3, 3);
  require_dtype(node, 1, "used", {DType::kI32});
  require_shape(node, 1, "used", Shape{form.samples});
  if (!form.each_sample || !form.channels_last)
    refuse(node, "some rows are left out where each sample has moments of its own and channels are last",
           form.each_sample ? "channels that are not last" : "moments of all samples");
}

}  // namespace

ChannelForm channel_form(const NodeSignature& node) {
  ChannelForm form;
  form.moments = node.inputs.size() < 3;
  form.used = node.inputs.size() == 2;
  const int a = form.moments ? 0 : 1;
  require_floating(node, a, "a");
  require_rank(node, a, "a", 2);
  const Shape& shape = node.inputs[static_cast<size_t>(a)].shape;
  form.channels_last = is_channels_last(node);
  form.samples = shape[0];
  form.channels = shape.dim(channel_axis(shape, form.channels_last));
  for (int axis = 1; axis < shape.rank(); ++axis)
    if (axis != channel_axis(shape, form.channels_last)) form.space *= shape[axis];
  if (form.moments) {
    form.each_sample = node.attributes.has("groups");
    form.groups = node.attributes.get_int_or("groups", 0);
    if (form.each_sample && (form.groups < 1 || form.channels % form.groups != 0))
      refuse(node, "the groups do not divide the channels", std::to_string(form.groups) + " groups",
             "a divisor of " + std::to_string(form.channels));
  } else {
    form.each_sample = node.attributes.get_bool_or("each_sample", false);
    form.groups = form.channels;
  }
  if (form.used) check_used(node, form);
  return form;
}

namespace {

std::vector<TensorType> infer_moments(const NodeSignature& node) {
  const ChannelForm form = channel_form(node);
  const Shape shape =
      vector_shape(node.inputs[0].shape, form.channels_last, form.each_sample ? form.samples : 1, form.sums());
  if (shape.elements() > 0 && form.count() == 0)
    refuse(node, "there are no elements to take statistics of", node.inputs[0].text());
  return {{DType::kF32, shape}, {DType::kF32, shape}};
}

std::vector<TensorType> infer_sums(const NodeSignature& node) {
  const ChannelForm form = channel_form(node);
  const Shape& shape = node.inputs[1].shape;
  require_floating(node, 0, "dy");
  require_shape(node, 0, "dy", shape);
  check_vector(node, 2, "mean", shape, form.channels_last);
  if (!form.each_sample && node.inputs[2].shape[0] != 1)
    refuse(node, "sums over all samples are taken with means of each", node.inputs[2].text(), "each_sample=true");
  const TensorType sums{DType::kF32,
                        vector_shape(shape, form.channels_last, form.each_sample ? form.samples : 1, form.channels)};
  return {sums, sums};
}

std::vector<TensorType> infer_normalize(const NodeSignature& node) {
  require_floating(node, 0, "a");
  if (node.inputs[0].dtype == DType::kF64)
    refuse(node, "statistics of channels are f32", node.inputs[0].text(), "f32, bf16 or f16",
           "Cast the operand to f32");
  require_rank(node, 0, "a", 2);
  const Shape& shape = node.inputs[0].shape;
  check_vector(node, 1, "mean", shape, is_channels_last(node));
  check_vector(node, 2, "scale", shape, is_channels_last(node));
  check_vector(node, 3, "bias", shape, is_channels_last(node));
  return {node.inputs[0]};
}

// --- sharding: channels are free, a reduced space is whole, samples are free where each has its own sums ---

/// Writes the operands of one layout.
class ChannelRule {
 public:
  ChannelRule(const Shape& shape, const ChannelForm& form)
      : form_(form), axis_(channel_axis(shape, form.channels_last)) {
    samples_ = rule.factor(form.samples, !form.each_sample, form.each_sample ? Reduce::kNone : Reduce::kSum);
    const int64_t neighbours = form.each_sample ? form.channels / form.groups : 1;
    group_ = rule.factor(form.channels / neighbours);
    if (neighbours > 1) channels_.push_back(rule.factor(neighbours, true, Reduce::kSum));
    channels_.insert(channels_.begin(), group_);
    for (int axis = 0; axis < shape.rank(); ++axis)
      full.push_back(axis == 0       ? ShardingRule::Dim{samples_}
                     : axis == axis_ ? channels_
                                     : ShardingRule::Dim{rule.factor(shape[axis], true, Reduce::kSum)});
  }
  /// Of a vector of sums, or of another of these channels.
  ShardingRule::Operand vector(bool each_sample) const {
    ShardingRule::Operand dims(full.size());
    if (each_sample) dims[0] = {samples_};
    dims[static_cast<size_t>(axis_)] = {group_};
    return dims;
  }
  ShardingRule::Operand of_samples() const { return {{samples_}}; }
  int group() const { return group_; }

  RuleBuilder rule;
  ShardingRule::Operand full;

 private:
  ChannelForm form_;
  int axis_, samples_ = 0, group_ = 0;
  ShardingRule::Dim channels_;
};

ShardingRule moments_sharding(const NodeSignature& node) {
  const ChannelForm form = channel_form(node);
  ChannelRule rule(node.inputs[0].shape, form);
  rule.rule.at(rule.group()).name = "groups";
  const ShardingRule::Operand sums = rule.vector(form.each_sample);
  rule.rule.input(rule.full);
  if (form.used) rule.rule.input(rule.of_samples());
  return rule.rule.output(sums).output(sums).build();
}

/// A shard has some of the groups.
Attributes localize_groups(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule) {
  Attributes attributes = node.attributes;
  if (!attributes.has("groups")) return attributes;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (rule.factors[f].name == "groups") attributes.set("groups", attributes.get_int("groups") / parts[f]);
  return attributes;
}

ShardingRule sums_sharding(const NodeSignature& node) {
  const ChannelForm form = channel_form(node);
  ChannelRule rule(node.inputs[1].shape, form);
  const ShardingRule::Operand sums = rule.vector(form.each_sample);
  // A mean of one sample is a mean for all.
  const bool own_means = form.each_sample && node.inputs[2].shape[0] == form.samples;
  return rule.rule.input(rule.full).input(rule.full).input(rule.vector(own_means)).output(sums).output(sums).build();
}

// --- gradients ---

/// A vector of groups [N, G, 1...] as one of channels.
Tensor by_channel(Tensor vector, int64_t channels, bool channels_last) {
  const Shape shape = vector.shape();
  const int64_t samples = shape[0], groups = shape.dim(channel_axis(shape, channels_last));
  if (groups == channels) return vector;
  const Tensor stretched = broadcast_to(reshape(vector, {samples, groups, 1}), {samples, groups, channels / groups});
  return reshape(stretched, vector_shape(shape, channels_last, samples, channels));
}

/// da = dmean / n + 2 dvariance (a - mean) / n; 0 in rows that are not used.
std::vector<Tensor> moments_gradient(GradientContext& context) {
  const ChannelForm form = channel_form(context.node);
  const Tensor a = context.inputs[0], used = form.used ? context.inputs[1] : Tensor();
  const double n = form.used ? static_cast<double>(form.channels / form.sums()) : static_cast<double>(form.count());
  const auto slope = [&](size_t output, double factor) {
    Tensor gradient = context.output_gradients[output];
    gradient = gradient.valid() ? scale(gradient, factor) : zeros(context.build, context.outputs[output].type());
    if (form.used) gradient = divide(gradient, rows_in_use(used, a.dim(1)));
    return by_channel(gradient, form.channels, form.channels_last);
  };
  const Tensor da = normalize_channels(a, by_channel(context.outputs[0], form.channels, form.channels_last),
                                       slope(1, 2 / n), slope(0, 1 / n), form.channels_last);
  std::vector<Tensor> gradients(context.inputs.size());
  gradients[0] = form.used ? cast_to(multiply(da, use_mask(used, a.dim(1))), a.dtype()) : da;
  return gradients;
}

/// With S = sum(dy) and T = sum(dy (a - mean)): da = dy scale, dmean = -scale S, dscale = T, dbias = S.
std::vector<Tensor> normalize_gradient(GradientContext& context) {
  const Tensor a = context.inputs[0], mean = context.inputs[1], factor = context.inputs[2];
  const Tensor dy = cast_to(context.output_gradients[0], a.dtype());
  std::vector<Tensor> gradients(4);
  if (context.needed[0]) gradients[0] = cast_to(multiply(cast_to(dy, DType::kF32), factor), a.dtype());
  if (!context.needed[1] && !context.needed[2] && !context.needed[3]) return gradients;
  Attributes attributes;
  if (is_channels_last(context.node)) attributes.set("channels_last", true);
  for (size_t i = 1; i < 4; ++i)
    if (context.inputs[i].dim(0) != 1) attributes.set("each_sample", true);
  const std::vector<Tensor> sums = context.build.ops("channel_sums", {dy, a, mean}, attributes);
  if (context.needed[1]) gradients[1] = sum_to(negate(multiply(factor, sums[0])), mean.type());
  if (context.needed[2]) gradients[2] = sum_to(sums[1], factor.type());
  if (context.needed[3]) gradients[3] = sum_to(sums[0], context.inputs[3].type());
  return gradients;
}

// --- what norms are made of ---

/// A vector [C] as [1, C, 1...].
Tensor as_channels(Tensor vector, const Shape& like, bool channels_last) {
  const Tensor wide = cast_to(vector, DType::kF32);
  return reshape(wide, vector_shape(like, channels_last, 1, wide.shape().elements()));
}

/// (a - mean) / sqrt(variance + epsilon) * gain + bias with statistics of a's rank.
Tensor normalized(Tensor a, Tensor gain, Tensor bias, Tensor mean, Tensor variance, double epsilon,
                  bool channels_last) {
  const int64_t channels = a.dim(channel_axis(a.shape(), channels_last));
  Tensor factor = rsqrt(add_scalar(variance, epsilon));
  if (gain.valid()) factor = multiply(factor, as_channels(gain, a.shape(), channels_last));
  const Tensor shift = bias.valid()
                           ? as_channels(bias, a.shape(), channels_last)
                           : zeros(*a.builder, {DType::kF32, vector_shape(a.shape(), channels_last, 1, channels)});
  return normalize_channels(a, mean, factor, shift, channels_last);
}

[[noreturn]] void refuse_norm(const std::string& what, const std::string& found, const std::string& expected,
                              const std::string& remedy = "") {
  throw Error({.what = what, .where = "norm over channels", .found = found, .expected = expected, .remedy = remedy});
}

/// Number of channels of a norm's input; throws Error unless all that goes with it fits.
int64_t checked_channels(Tensor a, double epsilon, bool channels_last, std::initializer_list<Tensor> vectors) {
  if (a.shape().rank() < 2 || !is_floating(a.dtype()))
    refuse_norm("the input has no channels", a.type().text(), "a floating tensor [N, C, ...]");
  if (!std::isfinite(epsilon)) refuse_norm("epsilon is not finite", std::to_string(epsilon), "a number, such as 1e-5");
  const int64_t channels = a.dim(channel_axis(a.shape(), channels_last));
  for (const Tensor& vector : vectors)
    if (vector.valid() && vector.shape() != Shape{channels})
      refuse_norm("a vector does not have one number for each channel", vector.type().text(),
                  Shape{channels}.text() + " for an input " + a.type().text());
  return channels;
}

/// A vector of no elements: a batch without samples, whose channels nobody knows.
bool is_nothing(Tensor a) { return a.shape() == Shape{0} && is_floating(a.dtype()); }

AttributeSpec channels_last_attribute() {
  return optional_attribute("channels_last", Kind::kBool, "channels are the last dimension, not the second (false)");
}

}  // namespace

void register_channel_norm_ops(OpRegistry& registry) {
  registry.add({.name = "channel_moments",
                .doc = "a [N,C,...] -> mean and variance f32 [1,C,1...] over samples and space; with groups f32 "
                       "[N,groups,1...] of each sample, over the space and C / groups channels; with used i32 [N] "
                       "over the first rows of a [N,R,C] alone (no rows: 0)",
                .min_inputs = 1,
                .max_inputs = 2,
                .attributes = {optional_attribute("groups", Kind::kInt,
                                                  "of channels, in each sample; absent: all "
                                                  "samples together, each channel for itself"),
                               channels_last_attribute()},
                .infer = infer_moments,
                .gradient = moments_gradient,
                .sharding = moments_sharding,
                .localize = localize_groups,
                .cost =
                    [](const NodeSignature& node) {
                      return streaming_cost(node, 4.0 * static_cast<double>(node.inputs[0].elements()));
                    },
                .channels = {{0}, {0, 1}}});
  registry.add(
      {.name = "channel_sums",
       .doc = "(dy [N,C,...], a, mean f32 [1 or N,C,1...]) -> sum(dy) and sum(dy (a - mean)), f32 [1,C,1...] over "
              "samples and space, or [N,C,1...] over the space",
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = {optional_attribute("each_sample", Kind::kBool, "a sum for each sample (false)"),
                      channels_last_attribute()},
       .infer = infer_sums,
       .gradient = {},
       .sharding = sums_sharding,
       .cost =
           [](const NodeSignature& node) {
             return streaming_cost(node, 4.0 * static_cast<double>(node.inputs[0].elements()));
           },
       .full_inputs = {2},
       .channels = {{0, 1, 2}, {0, 1}}});
  registry.add({.name = "normalize_channels",
                .doc = "(a [N,C,...], mean, scale, bias f32 [1 or N,C,1...]) -> (a - mean) scale + bias",
                .min_inputs = 4,
                .max_inputs = 4,
                .attributes = {channels_last_attribute()},
                .infer = infer_normalize,
                .gradient = normalize_gradient,
                .sharding = elementwise_sharding,
                .cost = [](const NodeSignature& node) { return streaming_cost_each(node, 3); },
                .map_op = "4:%4=subtract(%0,%1);%5=multiply(%4,%2);%6=add(%5,%3)->%6",
                .cheap = true,
                .full_inputs = {1, 2, 3},
                .channels = {{0, 1, 2, 3}, {0}}});
}

std::pair<Tensor, Tensor> channel_moments(Tensor a, int64_t groups, bool channels_last) {
  Attributes attributes;
  if (groups != 0) attributes.set("groups", groups);
  if (channels_last) attributes.set("channels_last", true);
  const std::vector<Tensor> results = a.builder->ops("channel_moments", {a}, std::move(attributes));
  return {results[0], results[1]};
}

std::pair<Tensor, Tensor> used_channel_moments(Tensor a, Tensor used) {
  const std::vector<Tensor> results =
      a.builder->ops("channel_moments", {a, used}, {{"groups", a.dim(2)}, {"channels_last", true}});
  return {results[0], results[1]};
}

Tensor use_mask(Tensor used, int64_t rows) {
  const int64_t samples = used.dim(0);
  const Tensor row = iota(*used.builder, DType::kI32, {samples, rows}, 1);
  return reshape(cast(less(row, reshape(used, {samples, 1})), DType::kF32), {samples, rows, 1});
}

Tensor rows_in_use(Tensor used, int64_t rows) {
  const auto number = [&](int64_t value) { return full(*used.builder, DType::kI32, {}, static_cast<double>(value)); };
  const Tensor in_use = minimum(maximum(used, number(1)), number(std::max<int64_t>(1, rows)));
  return reshape(cast(in_use, DType::kF32), {used.dim(0), 1, 1});
}

Tensor normalize_channels(Tensor a, Tensor mean, Tensor scale, Tensor bias, bool channels_last) {
  Attributes attributes;
  if (channels_last) attributes.set("channels_last", true);
  return a.builder->op("normalize_channels", {a, mean, scale, bias}, std::move(attributes));
}

BatchNorm batch_norm(Tensor a, Tensor gain, Tensor bias, double epsilon, bool channels_last) {
  if (is_nothing(a)) return {a, zeros(*a.builder, {DType::kF32, {0}}), zeros(*a.builder, {DType::kF32, {0}})};
  const int64_t channels = checked_channels(a, epsilon, channels_last, {gain, bias});
  const int64_t count = channels == 0 ? 0 : a.shape().elements() / channels;
  if (channels > 0 && count < 2)
    refuse_norm("a batch norm has one element in each channel to take statistics of", a.type().text(),
                "2 elements or more", "Make the micro-batch larger, or use a group norm");
  const auto [mean, variance] = channel_moments(a, 0, channels_last);
  return {normalized(a, gain, bias, mean, variance, epsilon, channels_last), reshape(mean, {channels}),
          reshape(variance, {channels})};
}

Tensor batch_norm_apply(Tensor a, Tensor gain, Tensor bias, Tensor mean, Tensor variance, double epsilon,
                        bool channels_last) {
  if (is_nothing(a)) return a;
  checked_channels(a, epsilon, channels_last, {gain, bias, mean, variance});
  return normalized(a, gain, bias, as_channels(mean, a.shape(), channels_last),
                    as_channels(variance, a.shape(), channels_last), epsilon, channels_last);
}

Tensor group_norm(Tensor a, Tensor gain, Tensor bias, int64_t groups, double epsilon, bool channels_last) {
  const int64_t channels = checked_channels(a, epsilon, channels_last, {gain, bias});
  if (groups < 1) refuse_norm("a group norm needs groups", std::to_string(groups), "1 or more");
  const auto [mean, variance] = channel_moments(a, groups, channels_last);
  return normalized(a, gain, bias, by_channel(mean, channels, channels_last),
                    by_channel(variance, channels, channels_last), epsilon, channels_last);
}

Tensor instance_norm(Tensor a, Tensor gain, Tensor bias, double epsilon, bool channels_last) {
  const int64_t channels = checked_channels(a, epsilon, channels_last, {gain, bias});
  if (a.shape().rank() < 3 || a.shape().elements() / std::max<int64_t>(1, a.dim(0) * channels) < 2)
    refuse_norm("an instance norm has one element in each channel to take statistics of", a.type().text(),
                "a space of 2 elements or more");
  return group_norm(a, gain, bias, std::max<int64_t>(1, channels), epsilon, channels_last);
}

Tensor local_response_norm(Tensor a, int64_t size, double alpha, double beta, double k, bool channels_last,
                           int64_t before) {
  const int64_t channels = checked_channels(a, 0, channels_last, {});
  if (size < 1 || before >= size)
    refuse_norm("wrong number of neighbouring channels",
                std::to_string(size) + ", " + std::to_string(before) + " before", "1 or more, fewer of them before");
  if (a.shape().elements() == 0) return a;
  const int64_t low = before < 0 ? size / 2 : before, high = size - 1 - low;
  const Tensor wide = cast_to(a, DType::kF32);
  // Channels as the space of a pooling: [N, 1, C, space] or [N x space, 1, C].
  const int64_t samples = channels_last ? a.shape().elements() / std::max<int64_t>(1, channels) : a.dim(0);
  const int64_t space = channels_last ? 1 : a.shape().elements() / std::max<int64_t>(1, samples * channels);
  const Tensor squares = reshape(map_unary("square", wide), {samples, 1, channels, space});
  const PoolOptions window{.taps = {size, 1}, .strides = {1, 1}, .low = {low, 0}, .high = {high, 0}};
  const Tensor mean = reshape(average_pool(squares, window), wide.shape());
  const Tensor base = add_scalar(scale(mean, alpha), k);
  const Tensor factor = ops::power(base, full(*a.builder, DType::kF32, {}, -beta));
  return cast_to(multiply(wide, factor), a.dtype());
}

}  // namespace ramet::ops
