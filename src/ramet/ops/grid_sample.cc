#include "ramet/ops/grid_sample.h"

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/patches.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;
using Reduce = ShardingRule::Reduce;

int64_t product(const Dims& dims) {
  int64_t all = 1;
  for (int64_t dim : dims) all *= dim;
  return all;
}

void read_options(const NodeSignature& node, GridForm& form) {
  const std::string method = node.attributes.get_string_or("method", "linear");
  const std::string padding = node.attributes.get_string_or("padding", "zeros");
  if (method != "nearest" && method != "linear" && method != "cubic")
    refuse(node, "attribute 'method' has an unknown value", "\"" + method + "\"",
           "\"nearest\", \"linear\" or \"cubic\"");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    refuse(node, "attribute 'padding' has an unknown value", "\"" + padding + "\"",
           "\"zeros\", \"border\" or \"reflection\"");
  form.method = method == "nearest"  ? GridMethod::kNearest
                : method == "linear" ? GridMethod::kLinear
                                     : GridMethod::kCubic;
  form.padding = padding == "zeros"    ? GridPadding::kZeros
                 : padding == "border" ? GridPadding::kBorder
                                       : GridPadding::kReflection;
  form.corners = node.attributes.get_bool_or("corners", false);
  form.channels_last = node.attributes.get_bool_or("channels_last", false);
}

/// The grid in input `input`: positions and dimensions of space.
void read_grid(const NodeSignature& node, int input, GridForm& form) {
  require_floating(node, input, "grid");
  require_rank(node, input, "grid", 3, 5);
  const Shape& grid = node.inputs[static_cast<size_t>(input)].shape;
  const int dims = grid.rank() - 2;
  if (grid.dim(-1) != dims)
    refuse(node, "the grid's last dimension is not the number of dimensions of space", grid.text(),
           std::to_string(dims) + " coordinates a position");
  form.samples = grid.dim(0);
  form.positions.assign(grid.dims().begin() + 1, grid.dims().end() - 1);
}

/// The activation in input `input`: channels, and space where `space` is wanted.
void read_activation(const NodeSignature& node, int input, const std::string& operand, GridForm& form, Dims& space) {
  require_floating(node, input, operand);
  const int rank = static_cast<int>(form.positions.size()) + 2;
  require_rank(node, input, operand, rank, rank);
  const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
  if (shape.dim(0) != form.samples)
    refuse(node, "numbers of samples differ", shape.text(), std::to_string(form.samples) + " as in the grid");
  form.channels = shape.dim(channel_axis(rank, form.channels_last));
  space.clear();
  for (int axis : space_axes(rank, form.channels_last)) space.push_back(shape.dim(axis));
}

/// A position outside of an empty image has no border to read.
void check_space(const NodeSignature& node, const GridForm& form) {
  for (int64_t extent : form.space)
    if (extent < 1 || extent > (int64_t{1} << 24))
      refuse(node, "an extent of space is out of range", std::to_string(extent), "1 to 2^24");
  if (form.pixels() > INT32_MAX)
    refuse(node, "an image has too many elements", std::to_string(form.pixels()), "at most 2^31 - 1");
}

void check_dy(const NodeSignature& node, GridForm& form) {
  Dims space;
  const int64_t channels = form.channels;
  read_activation(node, 0, "dy", form, space);
  if (space != form.positions || (channels != 0 && form.channels != channels))
    refuse(node, "the gradient's shape is not the result's", node.inputs[0].shape.text());
}

Shape activation_shape(const GridForm& form, const Dims& space) {
  Dims dims{form.samples};
  if (!form.channels_last) dims.push_back(form.channels);
  dims.insert(dims.end(), space.begin(), space.end());
  if (form.channels_last) dims.push_back(form.channels);
  return Shape(dims);
}

/// Factors of the operands; space and positions are whole.
struct GridFactors {
  RuleBuilder rule;
  ShardingRule::Operand activation, sampled, grid;

  GridFactors(const GridForm& form, int64_t chunks, Reduce channels, Reduce space_reduce, Reduce places) {
    const int n = rule.factor(form.samples);
    ShardingRule::Dim c;
    if (chunks > 1) {
      c.push_back(rule.factor(chunks, false, channels));
      rule.at(c.back()).name = "c";
    }
    const bool sums = channels != Reduce::kNone;
    c.push_back(rule.factor(form.channels / chunks, sums, channels));
    if (chunks > 1) rule.at(c.back()).name = "k";
    const auto operand = [&](const Dims& space, Reduce reduce, ShardingRule::Operand& dims) {
      ShardingRule::Operand whole;
      for (int64_t extent : space) whole.push_back({rule.factor(extent, true, reduce)});
      dims = {{n}};
      if (!form.channels_last) dims.push_back(c);
      dims.insert(dims.end(), whole.begin(), whole.end());
      if (form.channels_last) dims.push_back(c);
      return whole;
    };
    operand(form.space, space_reduce, activation);
    grid = {{n}};
    const ShardingRule::Operand whole = operand(form.positions, places, sampled);
    grid.insert(grid.end(), whole.begin(), whole.end());
    grid.push_back({rule.factor(static_cast<int64_t>(form.space.size()), true)});
  }
};

std::vector<AttributeSpec> grid_attributes() {
  return {optional_attribute("method", Kind::kString, "\"nearest\", \"linear\" or \"cubic\" (\"linear\")"),
          optional_attribute("padding", Kind::kString, "\"zeros\", \"border\" or \"reflection\" (\"zeros\")"),
          optional_attribute("corners", Kind::kBool, "-1 and 1 are centres, not edges (false)"),
          channels_last_attribute()};
}

Cost grid_cost(const NodeSignature& node, const GridForm& form, double each) {
  return streaming_cost(node, each * form.taps() * static_cast<double>(form.samples * form.channels * form.places()));
}

std::vector<Tensor> grid_sample_gradient(GradientContext& c) {
  const GridForm form = grid_sample_form(c.node);
  const Tensor dy = cast_to(c.output_gradients[0], c.inputs[0].dtype());
  std::vector<Tensor> gradients(2);
  Attributes attributes = c.node.attributes;
  if (c.needed[1])
    gradients[1] =
        cast_to(c.build.op("grid_position_grad", {dy, c.inputs[0], c.inputs[1]}, attributes), c.inputs[1].dtype());
  attributes.set("sizes", form.space);
  if (c.needed[0])
    gradients[0] = cast_to(c.build.op("grid_sample_grad", {dy, c.inputs[1]}, attributes), c.inputs[0].dtype());
  return gradients;
}

OpDef grid_sample_op() {
  OpDef op;
  op.name = "grid_sample";
  op.doc =
      "a [N, C, in...] at the positions grid [N, out..., d] -> [N, C, out...]; coordinates go from -1 to 1, the last "
      "dimension of space first";
  op.min_inputs = op.max_inputs = 2;
  op.attributes = grid_attributes();
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const GridForm form = grid_sample_form(node);
    const Shape shape = activation_shape(form, form.positions);
    require_bounded(node, shape);
    return {{node.inputs[0].dtype, shape}};
  };
  op.gradient = grid_sample_gradient;
  op.sharding = [](const NodeSignature& node) {
    GridFactors factors(grid_sample_form(node), 1, Reduce::kNone, Reduce::kNone, Reduce::kNone);
    return factors.rule.input(factors.activation).input(factors.grid).output(factors.sampled).build();
  };
  op.cost = [](const NodeSignature& node) { return grid_cost(node, grid_sample_form(node), 2); };
  op.full_inputs = {1};
  op.channels = {{0}, {0}};
  return op;
}

OpDef grid_sample_grad_op() {
  OpDef op;
  op.name = "grid_sample_grad";
  op.doc =
      "(dy [N, C, out...], grid [N, out..., d]) -> the gradient of grid_sample's a, f32[N, C, sizes...]; sums are one "
      "chain in order of positions";
  op.min_inputs = op.max_inputs = 2;
  op.attributes = grid_attributes();
  op.attributes.push_back(required_attribute("sizes", Kind::kInts, "extents of the result's space"));
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const GridForm form = grid_sample_grad_form(node);
    const Shape shape = activation_shape(form, form.space);
    require_bounded(node, shape);
    return {{DType::kF32, shape}};
  };
  op.sharding = [](const NodeSignature& node) {
    GridFactors factors(grid_sample_grad_form(node), 1, Reduce::kNone, Reduce::kNone, Reduce::kSum);
    return factors.rule.input(factors.sampled).input(factors.grid).output(factors.activation).build();
  };
  op.cost = [](const NodeSignature& node) { return grid_cost(node, grid_sample_grad_form(node), 2); };
  op.full_inputs = {1};
  op.channels = {{0}, {0}};
  return op;
}

OpDef grid_position_grad_op() {
  OpDef op;
  op.name = "grid_position_grad";
  op.doc =
      "(dy [N, C, out...], a [N, C, in...], grid [N, out..., d]) -> the gradient of grid_sample's grid, f32; sums over "
      "channels";
  op.min_inputs = op.max_inputs = 3;
  op.attributes = grid_attributes();
  op.attributes.push_back(
      optional_attribute("chunks", Kind::kInt, "equal parts of the channels, summed apart, then by a tree (1)"));
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    grid_position_grad_form(node);
    return {{DType::kF32, node.inputs[2].shape}};
  };
  op.sharding = [](const NodeSignature& node) {
    GridFactors factors(grid_position_grad_form(node), node.attributes.get_int_or("chunks", 1), Reduce::kSum,
                        Reduce::kSum, Reduce::kNone);
    return factors.rule.input(factors.sampled)
        .input(factors.activation)
        .input(factors.grid)
        .output(factors.grid)
        .build();
  };
  op.localize = localize_chunks;
  op.chunked_extent = [](const NodeSignature& node) { return grid_position_grad_form(node).channels; };
  op.cost = [](const NodeSignature& node) {
    const GridForm form = grid_position_grad_form(node);
    return grid_cost(node, form, 2.0 * static_cast<double>(form.space.size()));
  };
  op.full_inputs = {2};
  op.channels = {{0, 1}, {}};
  return op;
}

}  // namespace

int64_t GridForm::pixels() const { return product(space); }
int64_t GridForm::places() const { return product(positions); }
int GridForm::taps() const {
  const int each = method == GridMethod::kNearest ? 1 : method == GridMethod::kLinear ? 2 : 4;
  int all = 1;
  for (size_t i = 0; i < space.size(); ++i) all *= each;
  return all;
}

GridForm grid_sample_form(const NodeSignature& node) {
  GridForm form;
  read_options(node, form);
  read_grid(node, 1, form);
  read_activation(node, 0, "a", form, form.space);
  check_space(node, form);
  return form;
}

GridForm grid_sample_grad_form(const NodeSignature& node) {
  GridForm form;
  read_options(node, form);
  read_grid(node, 1, form);
  form.space = node.attributes.get_ints("sizes");
  if (form.space.size() != form.positions.size())
    refuse(node, "attribute 'sizes' has the wrong length", text_of(form.space),
           std::to_string(form.positions.size()) + " extents");
  check_dy(node, form);
  check_space(node, form);
  return form;
}

GridForm grid_position_grad_form(const NodeSignature& node) {
  GridForm form;
  read_options(node, form);
  read_grid(node, 2, form);
  read_activation(node, 1, "a", form, form.space);
  check_dy(node, form);
  check_space(node, form);
  const int64_t chunks = node.attributes.get_int_or("chunks", 1);
  if (chunks < 1 || (chunks > 1 && (form.channels == 0 || form.channels % chunks != 0)))
    refuse(node, "chunks must divide the channels", "chunks=" + std::to_string(chunks),
           "1, or a divisor of " + std::to_string(form.channels));
  return form;
}

void register_grid_sample_ops(OpRegistry& registry) {
  registry.add(grid_sample_op());
  registry.add(grid_sample_grad_op());
  registry.add(grid_position_grad_op());
}

Tensor grid_sample(Tensor a, Tensor grid, const GridSampleOptions& options) {
  Attributes attributes{{"method", options.method}, {"padding", options.padding}};
  if (options.corners) attributes.set("corners", true);
  if (options.channels_last) attributes.set("channels_last", true);
  return a.builder->op("grid_sample", {a, grid}, std::move(attributes));
}

Tensor affine_grid(Tensor theta, const std::vector<int64_t>& space, bool corners) {
  const auto dims = static_cast<int64_t>(space.size());
  const bool fits = theta.shape().rank() == 3 && theta.dim(1) == dims && theta.dim(2) == dims + 1;
  if (dims < 2 || dims > 3 || !fits)
    throw Error({.what = "affine maps of other dimensions than space's",
                 .where = "affine_grid",
                 .found = theta.type().text() + " for " + std::to_string(dims) + " dimensions",
                 .expected = "theta [N, d, d + 1] for d = 2 or 3"});
  // Homogeneous coordinates of the positions, [space..., d + 1].
  Dims column = space;
  column.push_back(1);
  std::vector<Tensor> columns;
  for (int64_t axis = dims - 1; axis >= 0; --axis) {
    const int64_t extent = space[static_cast<size_t>(axis)];
    const auto size = static_cast<double>(extent);
    const double step = corners ? (extent > 1 ? 2 / (size - 1) : 0) : 2 / std::max(size, 1.0);
    const double first = corners ? (extent > 1 ? -1 : 0) : 1 / std::max(size, 1.0) - 1;
    columns.push_back(add_scalar(scale(iota(*theta.builder, DType::kF32, Shape(column), axis), step), first));
  }
  columns.push_back(full(*theta.builder, DType::kF32, Shape(column), 1));
  const int64_t places = product(space), samples = theta.dim(0);
  const Tensor base =
      broadcast_to(reshape(concat(columns, -1), Shape{1, places, dims + 1}), {samples, places, dims + 1});
  const Tensor grid = matmul(base, cast_to(theta, DType::kF32), false, true);
  Dims shape{samples};
  shape.insert(shape.end(), space.begin(), space.end());
  shape.push_back(dims);
  return reshape(grid, Shape(shape));
}

}  // namespace ramet::ops
