#include "ramet/ops/pooling.h"

#include <algorithm>
#include <string>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

/// Bounds within which no arithmetic on positions overflows.
constexpr int64_t kMostSpace = int64_t{1} << 24, kMostWindow = int64_t{1} << 20;

}  // namespace

int64_t PoolAxis::first_tap(int64_t o) const {
  const int64_t from = start(o);
  return from >= 0 ? 0 : std::min(taps_of(o), (-from + dilation - 1) / dilation);
}

int64_t PoolAxis::last_tap(int64_t o) const {
  const int64_t left = input - start(o);  // positions from the first tap to the end of the input
  return left <= 0 ? 0 : std::min(taps_of(o), (left + dilation - 1) / dilation);
}

int64_t PoolAxis::counted(int64_t o, bool padding) const {
  if (!padding) return last_tap(o) - first_tap(o);
  return std::min(taps_of(o), (input + high - start(o) + dilation - 1) / dilation);
}

int64_t PoolForm::taps() const {
  int64_t product = 1;
  for (const PoolAxis& axis : axes) product *= axis.taps;
  return product;
}
int64_t PoolForm::input_space() const {
  int64_t product = 1;
  for (const PoolAxis& axis : axes) product *= axis.input;
  return product;
}
int64_t PoolForm::output_space() const {
  int64_t product = 1;
  for (const PoolAxis& axis : axes) product *= axis.output;
  return product;
}

namespace {

bool is_gradient(const NodeSignature& node) { return node.attributes.has("space"); }

/// An attribute with one number for each spatial dimension, at least `least`; `otherwise` where it is absent.
std::vector<int64_t> list_attribute(const NodeSignature& node, const char* name, size_t count, int64_t least,
                                    std::vector<int64_t> otherwise) {
  if (!node.attributes.has(name)) return otherwise;
  std::vector<int64_t> list = node.attributes.get_ints(name);
  if (list.size() != count)
    refuse(node, std::string("'") + name + "' must have one number for each spatial dimension",
           std::to_string(list.size()), std::to_string(count));
  for (int64_t number : list)
    if (number < least || number > kMostWindow)
      refuse(node, std::string("a number of '") + name + "' is out of range", std::to_string(number),
             std::to_string(least) + " to 2^20");
  return list;
}

std::string at_dimension(size_t dim) { return " in spatial dimension " + std::to_string(dim); }

/// Number of outputs: floor((input + padding - window) / stride) + 1. In ceil mode the division rounds up, unless the
/// last window would then start behind the input and its low padding (PyTorch, pooling_output_shape).
int64_t output_extent(const NodeSignature& node, const PoolAxis& axis, bool ceil_mode, size_t dim) {
  const int64_t window = (axis.taps - 1) * axis.dilation + 1;
  const int64_t room = axis.input + axis.low + axis.high - window;
  if (room < 0)
    refuse(node, "the window is larger than the padded input" + at_dimension(dim), std::to_string(window),
           "at most " + std::to_string(axis.input + axis.low + axis.high));
  int64_t count = room / axis.stride + 1;
  if (ceil_mode && room % axis.stride != 0 && count * axis.stride < axis.input + axis.low) ++count;
  return count;
}

void check_windows(const NodeSignature& node, const PoolAxis& axis, size_t dim) {
  for (int64_t o = 0; o < axis.output; ++o) {
    if (axis.first_tap(o) < axis.last_tap(o)) continue;
    refuse(node, "a window has no element of the input" + at_dimension(dim),
           "output " + std::to_string(o) + " starts at " + std::to_string(axis.start(o)) + " of " +
               std::to_string(axis.input),
           "less padding than the window is long");
  }
}

PoolAxis windowed_axis(const NodeSignature& node, int64_t input, size_t dim, size_t count) {
  const std::vector<int64_t> ones(count, 1), none(count, 0);
  const std::vector<int64_t> taps = list_attribute(node, "taps", count, 1, {});
  if (taps.empty()) refuse(node, "a pooling needs 'taps' or 'sizes'");
  PoolAxis axis;
  axis.input = input;
  axis.taps = taps[dim];
  axis.stride = list_attribute(node, "strides", count, 1, taps)[dim];
  axis.dilation = list_attribute(node, "dilations", count, 1, ones)[dim];
  axis.low = list_attribute(node, "low", count, 0, none)[dim];
  axis.high = list_attribute(node, "high", count, 0, none)[dim];
  axis.output = output_extent(node, axis, node.attributes.get_bool_or("ceil_mode", false), dim);
  check_windows(node, axis, dim);
  return axis;
}

PoolAxis adaptive_axis(const NodeSignature& node, int64_t input, size_t dim, size_t count) {
  PoolAxis axis;
  axis.input = input;
  axis.adaptive = true;
  axis.output = list_attribute(node, "sizes", count, 1, {})[dim];
  for (int64_t o = 0; o < axis.output; ++o) axis.taps = std::max(axis.taps, axis.taps_of(o));
  return axis;
}

}  // namespace

PoolForm pool_form(const NodeSignature& node) {
  require_floating(node, 0, is_gradient(node) ? "dy" : "a");
  require_rank(node, 0, is_gradient(node) ? "dy" : "a", 3, 5);
  const Shape& shape = node.inputs[0].shape;
  const auto count = static_cast<size_t>(shape.rank() - 2);
  PoolForm form;
  form.channels_last = node.attributes.get_bool_or("channels_last", false);
  form.count_padding = node.attributes.get_bool_or("count_padding", true);
  form.flat = node.attributes.get_bool_or("flat_indices", false);
  form.divisor = node.attributes.get_int_or("divisor", 0);
  form.samples = shape[0];
  form.channels = shape.dim(form.channels_last ? -1 : 1);
  const int first = form.channels_last ? 1 : 2;
  std::vector<int64_t> space(shape.dims().begin() + first, shape.dims().begin() + first + static_cast<int>(count));
  if (is_gradient(node)) space = node.attributes.get_ints("space");
  if (space.size() != count)
    refuse(node, "'space' must have one number for each spatial dimension", std::to_string(space.size()),
           std::to_string(count));
  for (size_t dim = 0; dim < count; ++dim) {
    if (space[dim] < 1 || space[dim] > kMostSpace)
      refuse(node, "extent out of range" + at_dimension(dim), std::to_string(space[dim]), "1 to 2^24");
    form.axes.push_back(node.attributes.has("sizes") ? adaptive_axis(node, space[dim], dim, count)
                                                     : windowed_axis(node, space[dim], dim, count));
    if (is_gradient(node) && form.axes.back().output != shape.dim(first + static_cast<int>(dim)))
      refuse(node, "the gradient has another extent than the pooled tensor" + at_dimension(dim),
             std::to_string(shape.dim(first + static_cast<int>(dim))), std::to_string(form.axes.back().output));
  }
  if (form.input_space() > INT32_MAX)
    refuse(node, "a channel has too many elements for indices", std::to_string(form.input_space()), "less than 2^31");
  return form;
}

namespace {

Shape shape_of(const PoolForm& form, bool pooled) {
  std::vector<int64_t> dims{form.samples};
  if (!form.channels_last) dims.push_back(form.channels);
  for (const PoolAxis& axis : form.axes) dims.push_back(pooled ? axis.output : axis.input);
  if (form.channels_last) dims.push_back(form.channels);
  return Shape(std::move(dims));
}

/// Numbers of taps fit one byte in all but the largest windows.
DType index_type(const PoolForm& form) { return form.flat || form.taps() > 256 ? DType::kI32 : DType::kU8; }

std::vector<TensorType> infer_pool(const NodeSignature& node, bool max) {
  const PoolForm form = pool_form(node);
  const Shape shape = shape_of(form, true);
  require_bounded(node, shape);
  std::vector<TensorType> types{{node.inputs[0].dtype, shape}};
  if (max) types.push_back({index_type(form), shape});
  return types;
}

std::vector<TensorType> infer_pool_grad(const NodeSignature& node, bool max) {
  const PoolForm form = pool_form(node);
  if (max) {
    require_dtype(node, 1, "index", {index_type(form)});
    require_shape(node, 1, "index", node.inputs[0].shape);
  }
  const Shape shape = shape_of(form, false);
  require_bounded(node, shape);
  return {{node.inputs[0].dtype, shape}};
}

/// Samples and channels are free, space is whole.
ShardingRule pool_sharding(const NodeSignature& node) {
  RuleBuilder rule;
  const bool last = node.attributes.get_bool_or("channels_last", false);
  const Shape &from = node.inputs[0].shape, &to = node.outputs[0].shape;
  const int sample = rule.factor(from[0]), channel = rule.factor(from.dim(last ? -1 : 1));
  const auto operand = [&](const Shape& shape) {
    ShardingRule::Operand dims{{sample}};
    if (!last) dims.push_back({channel});
    const int first = last ? 1 : 2;
    for (int axis = first; axis < first + shape.rank() - 2; ++axis) dims.push_back({rule.factor(shape[axis], true)});
    if (last) dims.push_back({channel});
    return dims;
  };
  const ShardingRule::Operand in = operand(from), out = operand(to);
  for (size_t i = 0; i < node.inputs.size(); ++i) rule.input(in);
  for (size_t o = 0; o < node.outputs.size(); ++o) rule.output(out);
  return rule.build();
}

Cost pool_cost(const NodeSignature& node) {
  const PoolForm form = pool_form(node);
  return streaming_cost(node, static_cast<double>(form.samples * form.channels) *
                                  static_cast<double>(form.output_space()) * static_cast<double>(form.taps()));
}

Attributes with_space(const GradientContext& context) {
  Attributes attributes = context.node.attributes;
  std::vector<int64_t> space;
  for (const PoolAxis& axis : pool_form(context.node).axes) space.push_back(axis.input);
  return attributes.set("space", space);
}

std::vector<Tensor> max_pool_gradient(GradientContext& context) {
  if (!context.output_gradients[0].valid()) return {Tensor{}};
  const Tensor dy = cast_to(context.output_gradients[0], context.inputs[0].dtype());
  return {context.build.op("max_pool_grad", {dy, context.outputs[1]}, with_space(context))};
}

std::vector<Tensor> average_pool_gradient(GradientContext& context) {
  const Tensor dy = cast_to(context.output_gradients[0], context.inputs[0].dtype());
  return {context.build.op("average_pool_grad", {dy}, with_space(context))};
}

std::vector<AttributeSpec> window_attributes() {
  return {optional_attribute("taps", Kind::kInts, "extent of the window in each spatial dimension; or `sizes`"),
          optional_attribute("sizes", Kind::kInts, "extents of the result; windows share the input out among them"),
          optional_attribute("strides", Kind::kInts, "distance of windows (taps)"),
          optional_attribute("dilations", Kind::kInts, "distance of the taps of a window (1)"),
          optional_attribute("low", Kind::kInts, "padding before the first element (0)"),
          optional_attribute("high", Kind::kInts, "padding after the last element (0)"),
          optional_attribute("ceil_mode", Kind::kBool, "the last window may reach beyond the padding (false)"),
          optional_attribute("channels_last", Kind::kBool, "channels are the last dimension, not the second (false)")};
}

OpDef pool_op(const std::string& name, const std::string& doc, bool max, bool gradient) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = op.max_inputs = max && gradient ? 2 : 1;
  op.attributes = window_attributes();
  if (max) {
    op.attributes.push_back(optional_attribute(
        "flat_indices", Kind::kBool, "indices are i32 positions in the input's space, not numbers of taps (false)"));
  } else {
    op.attributes.push_back(optional_attribute("count_padding", Kind::kBool, "padding counts as zeros (true)"));
    op.attributes.push_back(optional_attribute("divisor", Kind::kInt, "of the sums; 0: the number of taps (0)"));
  }
  if (gradient)
    op.attributes.push_back(required_attribute("space", Kind::kInts, "spatial extents of the pooling's input"));
  op.infer = [=](const NodeSignature& node) { return gradient ? infer_pool_grad(node, max) : infer_pool(node, max); };
  if (!gradient) op.gradient = max ? max_pool_gradient : average_pool_gradient;
  op.sharding = pool_sharding;
  op.cost = pool_cost;
  const ChannelOperands read_two{{0, 1}, {0}}, give_two{{0}, {0, 1}}, one_each{{0}, {0}};
  op.channels = !max ? one_each : gradient ? read_two : give_two;
  return op;
}

Attributes attributes_of(const PoolOptions& options) {
  Attributes attributes{{"taps", options.taps}};
  const auto set = [&](const char* name, const std::vector<int64_t>& list) {
    if (!list.empty()) attributes.set(name, list);
  };
  set("strides", options.strides);
  set("dilations", options.dilations);
  set("low", options.low);
  set("high", options.high);
  if (options.ceil_mode) attributes.set("ceil_mode", true);
  if (options.channels_last) attributes.set("channels_last", true);
  return attributes;
}

Attributes adaptive_attributes(std::vector<int64_t> sizes, bool channels_last) {
  Attributes attributes{{"sizes", std::move(sizes)}};
  if (channels_last) attributes.set("channels_last", true);
  return attributes;
}

std::pair<Tensor, Tensor> max_with_indices(Tensor a, Attributes attributes) {
  attributes.set("flat_indices", true);
  const std::vector<Tensor> results = a.builder->ops("max_pool", {a}, std::move(attributes));
  return {results[0], results[1]};
}

/// Spatial dimensions of a tensor [N, C, space...].
std::vector<int64_t> space_axes(Tensor a, bool channels_last) {
  std::vector<int64_t> axes;
  for (int axis = channels_last ? 1 : 2; axis < a.shape().rank() - (channels_last ? 1 : 0); ++axis)
    axes.push_back(axis);
  return axes;
}

}  // namespace

void register_pooling_ops(OpRegistry& registry) {
  registry.add(pool_op("max_pool",
                       "[N,C,space] -> the greatest element of each window, and its number among the window's taps "
                       "(u8, or i32 beyond 256 taps)",
                       true, false));
  registry.add(pool_op("max_pool_grad", "(dy, indices of max_pool) -> da: each gradient where the greatest element was",
                       true, true));
  registry.add(pool_op("average_pool", "[N,C,space] -> the mean of each window, summed in f32 in order of its taps",
                       false, false));
  registry.add(
      pool_op("average_pool_grad", "dy -> da: each gradient shared out among its window's elements", false, true));
}

Tensor max_pool(Tensor a, const PoolOptions& options) {
  return a.builder->ops("max_pool", {a}, attributes_of(options))[0];
}
std::pair<Tensor, Tensor> max_pool_with_indices(Tensor a, const PoolOptions& options) {
  return max_with_indices(a, attributes_of(options));
}

Tensor average_pool(Tensor a, const PoolOptions& options, int64_t divisor) {
  Attributes attributes = attributes_of(options);
  if (!options.count_padding) attributes.set("count_padding", false);
  if (divisor != 0) attributes.set("divisor", divisor);
  return a.builder->op("average_pool", {a}, std::move(attributes));
}

Tensor lp_pool(Tensor a, const PoolOptions& options, double power, bool whole_windows) {
  GraphBuilder& build = *a.builder;
  if (!(power > 0)) throw Error({.what = "the power of an lp_pool must be positive", .found = std::to_string(power)});
  const auto number = [&](double value) { return full(build, DType::kF32, {}, value); };
  const Tensor wide = cast_to(a, DType::kF32);
  const Tensor powers = power == 2 ? map_unary("square", wide) : ops::power(map_unary("abs", wide), number(power));
  Tensor sum = average_pool(powers, options, whole_windows ? 0 : 1);
  if (whole_windows) {
    double taps = 1;
    for (int64_t extent : options.taps) taps *= static_cast<double>(extent);
    sum = scale(sum, taps);
  }
  const Tensor nothing = equal(sum, number(0)), safe = select(nothing, number(1), sum);
  const Tensor root = power == 2 ? sqrt(safe) : ops::power(safe, number(1 / power));
  return cast_to(select(nothing, number(0), root), a.dtype());
}

Tensor adaptive_average_pool(Tensor a, std::vector<int64_t> sizes, bool channels_last) {
  const bool means = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
  if (means && static_cast<int>(sizes.size()) == a.shape().rank() - 2) return global_average_pool(a, channels_last);
  return a.builder->op("average_pool", {a}, adaptive_attributes(std::move(sizes), channels_last));
}
Tensor adaptive_max_pool(Tensor a, std::vector<int64_t> sizes, bool channels_last) {
  return a.builder->ops("max_pool", {a}, adaptive_attributes(std::move(sizes), channels_last))[0];
}
std::pair<Tensor, Tensor> adaptive_max_pool_with_indices(Tensor a, std::vector<int64_t> sizes, bool channels_last) {
  return max_with_indices(a, adaptive_attributes(std::move(sizes), channels_last));
}

Tensor global_average_pool(Tensor a, bool channels_last) { return reduce_mean(a, space_axes(a, channels_last), true); }
Tensor global_max_pool(Tensor a, bool channels_last) {
  return adaptive_max_pool(a, std::vector<int64_t>(space_axes(a, channels_last).size(), 1), channels_last);
}

}  // namespace ramet::ops
