#include "ramet/ops/convolution.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/epilogue.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Form = ConvolutionForm;

constexpr int64_t kMost = int64_t{1} << 20;  // of strides, dilations, paddings and taps

Form::Kind kind_of(const NodeSignature& node) {
  if (node.op->name == "convolution") return Form::Kind::kForward;
  return node.op->name == "convolution_transposed" ? Form::Kind::kTransposed : Form::Kind::kFilterGradient;
}

/// Attribute `name` with one number in [least, kMost] a dimension of space; absent: `otherwise` for each.
std::vector<int64_t> per_space(const NodeSignature& node, const std::string& name, int rank, int64_t least,
                               int64_t otherwise) {
  if (!node.attributes.has(name)) return std::vector<int64_t>(static_cast<size_t>(rank), otherwise);
  const std::vector<int64_t>& values = node.attributes.get_ints(name);
  if (static_cast<int>(values.size()) != rank)
    refuse(node, "attribute '" + name + "' needs one number a dimension of space", text_of(values),
           std::to_string(rank) + " numbers");
  for (int64_t value : values)
    if (value < least || value > kMost)
      refuse(node, "attribute '" + name + "' is out of range", std::to_string(value),
             std::to_string(least) + " to 2^20",
             least == 0 ? "Cut the input with slice instead of negative padding" : "");
  return values;
}

/// Reads an operand of activations: samples, channels and extents of space.
struct Activations {
  int64_t samples, channels;
  std::vector<int64_t> space;
};
Activations activations(const NodeSignature& node, int index, const std::string& name, bool channels_last) {
  require_floating(node, index, name);
  require_rank(node, index, name, 3, 5);
  const std::vector<int64_t>& dims = node.inputs[static_cast<size_t>(index)].shape.dims();
  if (channels_last) return {dims[0], dims.back(), {dims.begin() + 1, dims.end() - 1}};
  return {dims[0], dims[1], {dims.begin() + 2, dims.end()}};
}

Shape activation_shape(int64_t samples, int64_t channels, const std::vector<int64_t>& space, bool channels_last) {
  std::vector<int64_t> dims{samples};
  if (!channels_last) dims.push_back(channels);
  dims.insert(dims.end(), space.begin(), space.end());
  if (channels_last) dims.push_back(channels);
  return Shape(std::move(dims));
}

/// Fills strides, dilations, paddings and taps.
void read_space(const NodeSignature& node, const std::vector<int64_t>& taps, Form& form) {
  const auto strides = per_space(node, "strides", form.rank, 1, 1);
  const auto dilations = per_space(node, "dilations", form.rank, 1, 1);
  const auto low = per_space(node, "low", form.rank, 0, 0), high = per_space(node, "high", form.rank, 0, 0);
  for (size_t d = 0; d < taps.size(); ++d) {
    if (taps[d] < 1 || taps[d] > kMost)
      refuse(node, "a filter needs taps in each dimension of space", text_of(taps), "1 to 2^20");
    ConvolutionSpace& space = form.space[3 - taps.size() + d];
    space.taps = taps[d], space.stride = strides[d], space.dilation = dilations[d];
    space.low = low[d], space.high = high[d];
  }
}

/// Extent of the output for the extents of the input.
int64_t forward_extent(const NodeSignature& node, const ConvolutionSpace& space, int64_t input) {
  const int64_t reach = space.dilation * (space.taps - 1) + 1, padded = input + space.low + space.high;
  if (padded < reach)
    refuse(node, "the filter is wider than the padded input",
           std::to_string(space.taps) + " taps at distance " + std::to_string(space.dilation) + ", so " +
               std::to_string(reach) + " elements",
           "at most " + std::to_string(padded), "Pad the input, or use a smaller filter");
  return (padded - reach) / space.stride + 1;
}

void forward_space(const NodeSignature& node, const std::vector<int64_t>& input, Form& form) {
  for (size_t d = 0; d < input.size(); ++d) {
    ConvolutionSpace& space = form.space[3 - input.size() + d];
    space.input = input[d];
    space.output = forward_extent(node, space, input[d]);
  }
}

void transposed_space(const NodeSignature& node, const std::vector<int64_t>& output, Form& form) {
  const auto more = per_space(node, "output_padding", form.rank, 0, 0);
  for (size_t d = 0; d < output.size(); ++d) {
    ConvolutionSpace& space = form.space[3 - output.size() + d];
    if (more[d] >= std::max(space.stride, space.dilation))
      refuse(node, "output_padding must be less than the stride or the dilation", std::to_string(more[d]),
             "less than " + std::to_string(std::max(space.stride, space.dilation)));
    space.output = output[d];
    space.input =
        (output[d] - 1) * space.stride + space.dilation * (space.taps - 1) + 1 - space.low - space.high + more[d];
    if (space.input < 0)
      refuse(node, "the padding takes away more than there is", std::to_string(space.low + space.high),
             "at most " + std::to_string(space.input + space.low + space.high));
  }
}

std::vector<int64_t> space_of(const Form& form, int64_t ConvolutionSpace::* extent) {
  std::vector<int64_t> extents;
  for (size_t d = 3 - static_cast<size_t>(form.rank); d < 3; ++d) extents.push_back(form.space[d].*extent);
  return extents;
}

/// Checks that groups divide both sides' channels.
void check_groups(const NodeSignature& node, const Form& form) {
  if (form.groups < 1 || form.channels % form.groups != 0 || form.filters % form.groups != 0)
    refuse(node, "groups must divide the channels of input and output",
           "groups=" + std::to_string(form.groups) + " of " + std::to_string(form.channels) + " and " +
               std::to_string(form.filters) + " channels");
}

/// The filter's checks, and what it says of the form: [filters, channels / groups, taps...].
void read_filter(const NodeSignature& node, Form& form) {
  form.filter = logical_b(node);
  if (!is_floating(form.filter.dtype) || form.filter.shape.rank() != form.rank + 2)
    refuse(node, "input 1 (filter) has the wrong type", form.filter.text(),
           std::to_string(form.rank + 2) + " dimensions of a floating type",
           "A filter has a dimension more for each of space");
  const std::vector<int64_t>& dims = form.filter.shape.dims();
  const bool transposed = form.kind == Form::Kind::kTransposed;
  const int64_t read = transposed ? form.filters : form.channels;
  if (form.groups < 1 || read % form.groups != 0)
    refuse(node, "groups must divide the channels of the input",
           "groups=" + std::to_string(form.groups) + " of " + std::to_string(read) + " channels");
  const int64_t fits = transposed ? read : read / form.groups, found = dims[transposed ? 0 : 1];
  if (found != fits)
    refuse(node, "the filter does not fit the channels of the input",
           form.filter.text() + " with groups=" + std::to_string(form.groups),
           std::to_string(fits) + " in dimension " + std::to_string(transposed ? 0 : 1),
           transposed ? "A transposed filter is [C, O / groups, taps...]" : "A filter is [O, C / groups, taps...]");
  (transposed ? form.channels : form.filters) = transposed ? dims[1] * form.groups : dims[0];
  check_groups(node, form);
  if (node.inputs[0].dtype != form.filter.dtype)
    refuse(node, "input and filter are of different types", node.inputs[0].text() + " and " + form.filter.text(),
           "one type", "Cast one of them");
  read_space(node, {dims.begin() + 2, dims.end()}, form);
}

void check_chunks(const NodeSignature& node, const Form& form) {
  const int64_t summed = form.kind == Form::Kind::kTransposed ? form.group_filters() : form.group_channels();
  if (form.chunks < 1 || summed % form.chunks != 0)
    refuse(node, "chunks must divide the channels of a group", "chunks=" + std::to_string(form.chunks),
           "a divisor of " + std::to_string(summed), "Choose train.chunks that divides every width of the model");
}

void finish_forward(const NodeSignature& node, Form& form) {
  const bool transposed = form.kind == Form::Kind::kTransposed;
  check_chunks(node, form);
  const int64_t made = transposed ? form.channels : form.filters;
  form.has_bias = node.inputs.size() > 2;
  if (form.has_bias) {
    require_floating(node, 2, "bias");
    require_shape(node, 2, "bias", Shape{made});
  }
  form.result.dtype = node.attributes.has("dtype") ? node.attributes.get_dtype("dtype") : node.inputs[0].dtype;
  if (!is_floating(form.result.dtype))
    refuse(node, "the output must be floating", "dtype=" + std::string(name_of(form.result.dtype)));
  form.result.shape = activation_shape(
      form.samples, made, space_of(form, transposed ? &ConvolutionSpace::input : &ConvolutionSpace::output),
      form.channels_last);
}

void finish_filter_gradient(const NodeSignature& node, Form& form) {
  const Activations input = activations(node, 0, "input", form.channels_last);
  const Activations output = activations(node, 1, "output gradient", form.channels_last);
  if (node.inputs[0].dtype != node.inputs[1].dtype)
    refuse(node, "the operands are of different types", node.inputs[0].text() + " and " + node.inputs[1].text(),
           "one type", "Cast one of them");
  form.channels = input.channels, form.filters = output.channels;
  check_groups(node, form);
  const std::vector<int64_t>& taps = node.attributes.get_ints("taps");
  if (static_cast<int>(taps.size()) != form.rank)
    refuse(node, "attribute 'taps' needs one number a dimension of space", text_of(taps), std::to_string(form.rank));
  read_space(node, taps, form);
  forward_space(node, input.space, form);
  require_shape(
      node, 1, "output gradient",
      activation_shape(form.samples, form.filters, space_of(form, &ConvolutionSpace::output), form.channels_last));
  std::vector<int64_t> dims{form.filters, form.group_channels()};
  dims.insert(dims.end(), taps.begin(), taps.end());
  form.result = {DType::kF32, Shape(std::move(dims))};
  form.accumulate = node.attributes.get_bool_or("accumulate", false);
  if (node.inputs.size() != (form.accumulate ? 3u : 2u))
    refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()), form.accumulate ? "3" : "2",
           "accumulate=true takes a third input, and only then");
  if (form.accumulate) require_type(node, 2, "sum", form.result);
}

}  // namespace

ConvolutionForm convolution_form(const NodeSignature& node) {
  Form form;
  form.kind = kind_of(node);
  form.channels_last = node.attributes.get_bool_or("channels_last", false);
  form.groups = node.attributes.get_int_or("groups", 1);
  form.chunks = node.attributes.get_int_or("chunks", 1);
  const Activations read = activations(node, 0, "input", form.channels_last);
  form.samples = read.samples;
  form.rank = static_cast<int>(read.space.size());
  if (form.kind == Form::Kind::kFilterGradient) {
    finish_filter_gradient(node, form);
  } else if (form.kind == Form::Kind::kForward) {
    form.channels = read.channels;
    read_filter(node, form);
    forward_space(node, read.space, form);
    finish_forward(node, form);
  } else {
    form.filters = read.channels;
    read_filter(node, form);
    transposed_space(node, read.space, form);
    finish_forward(node, form);
  }
  require_bounded(node, form.result.shape);
  return form;
}

namespace {

std::vector<TensorType> infer_convolution(const NodeSignature& node) { return {convolution_form(node).result}; }

double multiply_adds(const Form& form) {
  return static_cast<double>(form.samples) * static_cast<double>(form.output_positions()) *
         static_cast<double>(form.filters) * static_cast<double>(form.group_channels()) *
         static_cast<double>(form.taps());
}

Cost convolution_cost(const NodeSignature& node) {
  return streaming_cost(node, 2 * multiply_adds(convolution_form(node)));
}

/// The products that a machine's matrix units compute, one a group.
std::vector<MatrixProduct> convolution_products(const NodeSignature& node) {
  const Form form = convolution_form(node);
  const int64_t rows = form.samples * form.output_positions(), inner = form.group_channels() * form.taps();
  MatrixProduct product{form.groups, rows, inner, form.group_filters(), node.inputs[0].dtype};
  if (form.kind == Form::Kind::kTransposed) std::swap(product.k, product.n);
  if (form.kind == Form::Kind::kFilterGradient)
    product = {form.groups, form.group_filters(), rows, inner, node.inputs[0].dtype};
  return {product};
}

/// Factors of all three ops: samples n, groups g, filters of a group o, channels of a group i; space and taps are
/// whole. The channels that are summed are cut in chunks c, of k channels each.
struct ConvolutionRule {
  RuleBuilder rule;
  const Form& form;
  const bool forward = form.kind == Form::Kind::kForward, gradient = form.kind == Form::Kind::kFilterGradient;
  int samples, groups;
  ShardingRule::Dim filters, channels;  ///< of a group
  ShardingRule::Operand input_space, output_space, taps;

  int factor(const std::string& name, int64_t size, bool whole, bool reduced) {
    const int index = rule.factor(size, whole, reduced ? ShardingRule::Reduce::kSum : ShardingRule::Reduce::kNone);
    rule.at(index).name = name;
    return index;
  }
  ShardingRule::Dim summed(int64_t extent) {
    ShardingRule::Dim dim;
    // A bias is added once, after the sum: with it no shard may hold a part of the sum.
    if (form.chunks > 1) dim.push_back(factor("c", form.chunks, form.has_bias, true));
    dim.push_back(factor("k", extent / form.chunks, true, true));
    return dim;
  }

  explicit ConvolutionRule(const Form& node_form) : form(node_form) {
    samples = factor("n", form.samples, gradient, gradient);
    groups = form.groups > 1 ? factor("g", form.groups, false, false) : -1;
    const bool transposed = form.kind == Form::Kind::kTransposed;
    filters =
        transposed ? summed(form.group_filters()) : ShardingRule::Dim{factor("o", form.group_filters(), false, false)};
    channels =
        forward ? summed(form.group_channels()) : ShardingRule::Dim{factor("i", form.group_channels(), false, false)};
    for (size_t d = 3 - static_cast<size_t>(form.rank); d < 3; ++d) {
      const std::string at = std::to_string(d);
      input_space.push_back({factor("x" + at, form.space[d].input, true, forward || gradient)});
      output_space.push_back({factor("y" + at, form.space[d].output, true, !forward)});
      taps.push_back({factor("t" + at, form.space[d].taps, true, !gradient)});
    }
  }

  ShardingRule::Dim of_all_groups(const ShardingRule::Dim& of_one) const {
    ShardingRule::Dim dim;
    if (groups >= 0) dim.push_back(groups);
    dim.insert(dim.end(), of_one.begin(), of_one.end());
    return dim;
  }
  ShardingRule::Operand activations(const ShardingRule::Dim& of_one, const ShardingRule::Operand& space) const {
    ShardingRule::Operand operand{{samples}};
    if (!form.channels_last) operand.push_back(of_all_groups(of_one));
    operand.insert(operand.end(), space.begin(), space.end());
    if (form.channels_last) operand.push_back(of_all_groups(of_one));
    return operand;
  }
  ShardingRule::Operand filter() const {
    ShardingRule::Operand operand{of_all_groups(filters), channels};
    operand.insert(operand.end(), taps.begin(), taps.end());
    return operand;
  }
};

ShardingRule convolution_sharding(const NodeSignature& node) {
  const Form form = convolution_form(node);
  ConvolutionRule made(form);
  ShardingRule::Operand filter = made.filter();
  if (node.attributes.has("b_blocked")) {
    // Blocked bytes have no dimensions to split: filters are blocked after partitioning.
    for (const ShardingRule::Dim& dim : filter)
      for (int factor : dim) made.rule.at(factor).whole = true;
    filter = {{made.factor("bytes", node.inputs[1].shape[0], true, true)}};
  }
  const auto input = made.activations(made.channels, made.input_space),
             output = made.activations(made.filters, made.output_space);
  switch (form.kind) {
    case Form::Kind::kForward: made.rule.input(input).input(filter).output(output); break;
    case Form::Kind::kTransposed: made.rule.input(output).input(filter).output(input); break;
    case Form::Kind::kFilterGradient: made.rule.input(input).input(output).output(made.filter()); break;
  }
  if (form.has_bias)
    made.rule.input({made.of_all_groups(form.kind == Form::Kind::kForward ? made.filters : made.channels)});
  if (form.accumulate) made.rule.input(made.filter());
  return made.rule.build();
}

/// A shard has some of the groups and some of the chunks.
Attributes localize_convolution(const NodeSignature& node, const std::vector<int64_t>& parts,
                                const ShardingRule& rule) {
  Attributes attributes = localize_chunks(node, parts, rule);
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (rule.factors[f].name == "g" && parts[f] > 1) attributes.set("groups", attributes.get_int("groups") / parts[f]);
  return attributes;
}

/// Channels that chunks cut. Where there are groups, a layout cuts groups.
int64_t chunked_channels(const NodeSignature& node) {
  const Form form = convolution_form(node);
  if (form.groups != 1) return 0;
  return form.kind == Form::Kind::kTransposed ? form.filters : form.channels;
}

/// The attributes of a node that all three ops share.
Attributes shared_attributes(const Attributes& attributes) {
  Attributes shared;
  for (const char* name : {"strides", "dilations", "low", "high", "groups", "channels_last"})
    for (const auto& [key, value] : attributes)
      if (key == name) shared.set(key, value);
  return shared;
}

/// The same chunks where they fit what the gradient sums over.
void keep_chunks(const Form& form, int64_t summed, Attributes& attributes) {
  if (form.chunks > 1 && form.groups == 1 && summed % form.chunks == 0) attributes.set("chunks", form.chunks);
}

Tensor filter_gradient(const Form& form, const Attributes& shared, Tensor input, Tensor output) {
  Attributes attributes = shared;
  attributes.set("taps", space_of(form, &ConvolutionSpace::taps));
  return input.builder->op("convolution_filter_grad", {input, output}, std::move(attributes));
}

/// How far the input reaches beyond the last tap of the last output: what a transposed convolution must add.
std::vector<int64_t> output_padding(const Form& form) {
  std::vector<int64_t> more;
  for (size_t d = 3 - static_cast<size_t>(form.rank); d < 3; ++d) {
    const ConvolutionSpace& space = form.space[d];
    more.push_back(space.input + space.low + space.high - (space.output - 1) * space.stride -
                   space.dilation * (space.taps - 1) - 1);
  }
  return more;
}

/// The forward convolution's input and attributes such that it gives the form's output and no more: an output_padding
/// of the stride or more, which a dilation allows, would give further outputs. Those read zeros behind the input, which
/// are left out, or the input's last elements, which are cut off.
std::pair<Tensor, Attributes> without_surplus(const Form& form, const Attributes& shared, Tensor input) {
  const std::vector<int64_t> more = output_padding(form);
  std::vector<int64_t> start(static_cast<size_t>(form.rank) + 2, 0), stop = input.shape().dims(), high;
  bool changed = false, cut = false;
  for (size_t d = 0; d < more.size(); ++d) {
    const ConvolutionSpace& space = form.space[3 - more.size() + d];
    const int64_t surplus = more[d] - more[d] % space.stride, zeros = std::min(surplus, space.high);
    high.push_back(space.high - zeros);
    stop[d + (form.channels_last ? 1 : 2)] -= surplus - zeros;
    changed = changed || surplus > 0, cut = cut || surplus > zeros;
  }
  if (!changed) return {input, shared};
  Attributes attributes = shared;
  attributes.set("high", high);
  return {cut ? slice(input, start, stop) : input, attributes};
}

Tensor transposed_of(const Form& form, const Attributes& shared, Tensor output, Tensor filter) {
  Attributes attributes = shared;
  keep_chunks(form, form.filters, attributes);
  const std::vector<int64_t> more = output_padding(form);
  if (std::any_of(more.begin(), more.end(), [](int64_t count) { return count > 0; }))
    attributes.set("output_padding", more);
  return output.builder->op("convolution_transposed", {output, filter}, std::move(attributes));
}

Tensor forward_of(const Form& form, const Attributes& shared, Tensor input, Tensor filter) {
  Attributes attributes = shared;
  keep_chunks(form, form.channels, attributes);
  return input.builder->op("convolution", {input, filter}, std::move(attributes));
}

/// Sum of the result's gradient over samples and space, f32: the gradient of the bias.
Tensor bias_gradient(const Form& form, Tensor dy) {
  if (form.channels_last) return column_sum(dy);
  std::vector<int64_t> axes{0};
  for (int64_t axis = 2; axis < dy.shape().rank(); ++axis) axes.push_back(axis);
  return dy.builder->op("reduce_sum", {dy}, {{"axes", axes}, {"dtype", DType::kF32}});
}

std::vector<Tensor> convolution_gradient(GradientContext& context) {
  const Form form = convolution_form(context.node);
  if (context.node.attributes.has("b_blocked"))
    refuse(context.node, "a convolution with a blocked filter has no gradient", "", "",
           "Differentiate before operands are blocked");
  const Attributes shared = shared_attributes(context.node.attributes);
  const Tensor first = context.inputs[0], second = context.inputs[1], dy = context.output_gradients[0];
  const Tensor low = cast_to(dy, first.dtype());
  std::vector<Tensor> gradients(context.inputs.size());
  const auto wanted = [&](size_t input) { return context.needed[input]; };
  switch (form.kind) {
    case Form::Kind::kForward:
      if (wanted(0)) gradients[0] = transposed_of(form, shared, low, second);
      if (wanted(1)) gradients[1] = filter_gradient(form, shared, first, low);
      break;
    case Form::Kind::kTransposed: {
      const auto [reached, attributes] = without_surplus(form, shared, low);
      if (wanted(0)) gradients[0] = forward_of(form, attributes, reached, second);
      if (wanted(1)) gradients[1] = filter_gradient(form, attributes, reached, first);
      break;
    }
    case Form::Kind::kFilterGradient:
      if (wanted(0)) gradients[0] = transposed_of(form, shared, second, low);
      if (wanted(1)) gradients[1] = forward_of(form, shared, first, low);
      break;
  }
  if (gradients.size() > 2 && wanted(2)) gradients[2] = form.has_bias ? bias_gradient(form, dy) : dy;
  return gradients;
}

/// A bare convolution of f32, then the bias and the rounding in one map.
Tensor convolution_apart(SimplifyContext& context) {
  const Form form = convolution_form(context.node);
  if (context.node.attributes.has("b_blocked") || (!form.has_bias && form.result.dtype == DType::kF32)) return {};
  Attributes attributes = context.node.attributes;
  attributes.set("dtype", DType::kF32);
  const Tensor sum =
      context.build.op(context.node.op->name, {context.inputs[0], context.inputs[1]}, std::move(attributes));
  if (!form.has_bias) return cast(sum, form.result.dtype);
  Tensor bias = context.inputs[2];
  if (!form.channels_last) {
    std::vector<int64_t> dims(static_cast<size_t>(form.rank) + 1, 1);
    dims[0] = bias.dim(0);
    bias = reshape(bias, Shape(std::move(dims)));
  }
  return context.build.op("map", {sum, bias},
                          {{"program", std::string("2:%2=add(%0,%1)->%2")},
                           {"shape", form.result.shape.dims()},
                           {"dtypes", std::string(name_of(form.result.dtype))}});
}

/// Products that a sum of the result has, on average over positions.
double terms_of(const Form& form) {
  const double taps = static_cast<double>(form.taps());
  if (form.kind == Form::Kind::kForward) return taps * static_cast<double>(form.group_channels());
  double strides = 1;
  for (const ConvolutionSpace& space : form.space) strides *= static_cast<double>(space.stride);
  return taps * static_cast<double>(form.group_filters()) / strides;
}

/// As of products with a weight; positions are rows.
ScalingRule convolution_scaling() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    const Form form = convolution_form(context.node);
    Amplitude out = context.inputs[0];
    out.rms = context.inputs[0].rms * context.inputs[1].rms * std::sqrt(terms_of(form));
    out.parameter = false;
    return std::vector{out};
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    Form form = convolution_form(context.node);
    const Amplitude &a = context.inputs[0], &b = context.inputs[1], &g = gradients[0];
    const bool forward = form.kind == Form::Kind::kForward;
    const int64_t rows = form.samples * form.output_positions();
    const int64_t made = form.samples * (forward ? form.output_positions() : form.input_positions());
    form.kind = forward ? Form::Kind::kTransposed : Form::Kind::kForward;
    std::vector<Amplitude> result{scaled(g, b.rms * std::sqrt(terms_of(form))),
                                  summed_over_rows(product_spread(a, g), rows, context.samples)};
    if (form.has_bias) result.push_back(summed_over_rows(g, made, context.samples));
    return result;
  };
  rule.fan_in = [](const NodeSignature& node) {
    return static_cast<int64_t>(std::max(1.0, std::round(terms_of(convolution_form(node)))));
  };
  rule.added = {2};
  return rule;
}

std::vector<AttributeSpec> shared_specs() {
  return {
      optional_attribute("strides", Kind::kInts, "one a dimension of space (1)"),
      optional_attribute("dilations", Kind::kInts, "distance between taps, one a dimension of space (1)"),
      optional_attribute("low", Kind::kInts, "zeros before the input, one a dimension of space (0)"),
      optional_attribute("high", Kind::kInts, "zeros behind the input (0)"),
      optional_attribute("groups", Kind::kInt, "of channels, each with filters of its own (1)"),
      optional_attribute("channels_last", Kind::kBool, "activations are [N, space..., C] (false: [N, C, space...])")};
}

OpDef convolution_op(const std::string& name, const std::string& doc) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.attributes = shared_specs();
  op.infer = infer_convolution;
  op.gradient = convolution_gradient;
  op.sharding = convolution_sharding;
  op.localize = localize_convolution;
  op.cost = convolution_cost;
  op.products = convolution_products;
  op.precision = OpDef::Precision::kLow;
  op.full_inputs = {2};
  return op;
}

/// Attributes of the two ops that sum over channels.
void add_channel_sums(OpDef& op) {
  op.attributes.push_back(optional_attribute("dtype", Kind::kDType, "of the result (the input's)"));
  op.attributes.push_back(
      optional_attribute("chunks", Kind::kInt, "equal parts of a group's channels, summed apart, then by a tree (1)"));
  op.attributes.push_back(
      optional_attribute("b_blocked", Kind::kString, "format in which the filter is blocked bytes"));
  op.attributes.push_back(optional_attribute("b_shape", Kind::kInts, "logical shape of a blocked filter"));
  op.attributes.push_back(optional_attribute("b_dtype", Kind::kDType, "logical type of a blocked filter"));
  op.apart = convolution_apart;
  op.chunked_extent = chunked_channels;
  op.scaling = convolution_scaling();
}

/// Lists of defaults are left out, unless they do not fit the input: then the type rule says so.
Attributes option_attributes(const ConvolutionOptions& options, Tensor input) {
  Attributes attributes;
  const auto set = [&](const char* name, const std::vector<int64_t>& values, int64_t otherwise) {
    const bool fits = values.empty() || std::ssize(values) + 2 == input.shape().rank();
    if (!fits || std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != otherwise; }))
      attributes.set(name, values);
  };
  set("strides", options.strides, 1);
  set("dilations", options.dilations, 1);
  set("low", options.low, 0);
  set("high", options.high, 0);
  if (options.groups != 1) attributes.set("groups", options.groups);
  if (options.channels_last) attributes.set("channels_last", true);
  return attributes;
}

Tensor build(const char* op, Tensor input, Tensor filter, Tensor bias, Attributes attributes) {
  if (bias.valid()) return input.builder->op(op, {input, filter, bias}, std::move(attributes));
  return input.builder->op(op, {input, filter}, std::move(attributes));
}

}  // namespace

void register_convolution_ops(OpRegistry& registry) {
  OpDef forward = convolution_op(
      "convolution",
      "input [n,c,space...] with filter [o,c/groups,taps...] (+ bias [o]) -> [n,o,space...]; sums are f32");
  add_channel_sums(forward);
  forward.channels = {{0}, {0}};
  take_epilogues(forward);
  registry.add(std::move(forward));
  OpDef transposed = convolution_op(
      "convolution_transposed",
      "the gradient of a convolution's input: [n,c,space...] with filter [c,o/groups,taps...] (+ bias [o])");
  add_channel_sums(transposed);
  transposed.channels = {{0}, {0}};
  transposed.attributes.push_back(optional_attribute("output_padding", Kind::kInts,
                                                     "further elements of the result, one a dimension of space (0)"));
  take_epilogues(transposed);
  registry.add(std::move(transposed));
  OpDef filter = convolution_op("convolution_filter_grad",
                                "the gradient of a convolution's filter: input, output gradient (+ sum) -> f32 filter");
  filter.channels = {{0, 1}, {}};
  filter.attributes.push_back(required_attribute("taps", Kind::kInts, "of the filter, one a dimension of space"));
  filter.attributes.push_back(optional_attribute("accumulate", Kind::kBool, "add to input 2, f32 (false)"));
  registry.add(std::move(filter));
}

Tensor convolution(Tensor input, Tensor filter, Tensor bias, const ConvolutionOptions& options) {
  return build("convolution", input, filter, bias, option_attributes(options, input));
}

Tensor convolution_transposed(Tensor input, Tensor filter, Tensor bias, const ConvolutionOptions& options,
                              const std::vector<int64_t>& output_padding) {
  Attributes attributes = option_attributes(options, input);
  if (std::any_of(output_padding.begin(), output_padding.end(), [](int64_t count) { return count != 0; }))
    attributes.set("output_padding", output_padding);
  return build("convolution_transposed", input, filter, bias, std::move(attributes));
}

Tensor convolution_filter_gradient(Tensor input, Tensor output_gradient, const std::vector<int64_t>& taps,
                                   const ConvolutionOptions& options) {
  Attributes attributes = option_attributes(options, input);
  attributes.set("taps", taps);
  return input.builder->op("convolution_filter_grad", {input, output_gradient}, std::move(attributes));
}

}  // namespace ramet::ops
