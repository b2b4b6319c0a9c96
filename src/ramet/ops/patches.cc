#include "ramet/ops/patches.h"

#include "ramet/ops/build.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

constexpr int64_t kMostPatchExtent = int64_t{1} << 30;

int64_t product(const Dims& dims) {
  int64_t all = 1;
  for (int64_t dim : dims) all *= dim;
  return all;
}

/// An attribute of one number a dimension of space, each from `least` to 2^30; absent: all `otherwise`.
Dims per_dimension(const NodeSignature& node, const std::string& name, size_t space, int64_t least, int64_t otherwise) {
  if (!node.attributes.has(name)) return Dims(space, otherwise);
  const Dims& values = node.attributes.get_ints(name);
  if (values.size() != space)
    refuse(node, "attribute '" + name + "' has the wrong length", text_of(values),
           std::to_string(space) + " numbers, one a dimension of space");
  for (int64_t value : values)
    if (value < least || value > kMostPatchExtent)
      refuse(node, "attribute '" + name + "' is out of range", text_of(values), std::to_string(least) + " to 2^30");
  return values;
}

/// Fills what follows from the extents of space.
void fill_form(const NodeSignature& node, PatchForm& form) {
  const size_t space = form.space.size();
  form.taps = per_dimension(node, "taps", space, 1, 1);
  form.strides = per_dimension(node, "strides", space, 1, 1);
  form.dilations = per_dimension(node, "dilations", space, 1, 1);
  form.low = per_dimension(node, "low", space, 0, 0);
  form.high = per_dimension(node, "high", space, 0, 0);
  for (size_t i = 0; i < space; ++i) {
    if (form.space[i] < 0 || form.space[i] > kMostPatchExtent)
      refuse(node, "an extent of space is out of range", std::to_string(form.space[i]), "0 to 2^30");
    const int64_t padded = form.space[i] + form.low[i] + form.high[i];
    const int64_t patch = form.dilations[i] * (form.taps[i] - 1) + 1;
    if (patch > padded)
      refuse(node, "a patch is larger than the padded image",
             std::to_string(patch) + " elements along dimension " + std::to_string(i) + " of space",
             "at most " + std::to_string(padded));
    form.counts.push_back((padded - patch) / form.strides[i] + 1);
  }
  require_bounded(node, Shape(form.taps));
  require_bounded(node, Shape(form.counts));
  require_bounded(node, Shape(form.space));
}

Dims column_dims(const PatchForm& form) {
  const int64_t rows = form.channels * form.taps_each();
  return form.channels_last ? Dims{form.samples, form.patches(), rows} : Dims{form.samples, rows, form.patches()};
}

Dims image_dims(const PatchForm& form) {
  Dims dims{form.samples};
  if (!form.channels_last) dims.push_back(form.channels);
  dims.insert(dims.end(), form.space.begin(), form.space.end());
  if (form.channels_last) dims.push_back(form.channels);
  return dims;
}

std::vector<TensorType> infer_patches(const NodeSignature& node, bool to_columns) {
  const PatchForm form = patch_form(node, to_columns);
  if (form.channels > kMostPatchExtent)
    refuse(node, "too many channels", std::to_string(form.channels), "at most 2^30");
  const Shape shape(to_columns ? column_dims(form) : image_dims(form));
  require_bounded(node, shape);
  return {{node.inputs[0].dtype, shape}};
}

/// "([n,c,!s...],)->[n,c*!t,!l]" and the reverse: samples and channels are free.
ShardingRule patch_sharding(const NodeSignature& node, bool to_columns) {
  const PatchForm form = patch_form(node, to_columns);
  RuleBuilder rule;
  const int n = rule.factor(form.samples), c = rule.factor(form.channels);
  ShardingRule::Operand image{{n}}, space;
  for (int64_t extent : form.space) space.push_back({rule.factor(extent, true)});
  const ShardingRule::Dim rows{c, rule.factor(form.taps_each(), true)}, patches{rule.factor(form.patches(), true)};
  if (!form.channels_last) image.push_back({c});
  image.insert(image.end(), space.begin(), space.end());
  if (form.channels_last) image.push_back({c});
  const ShardingRule::Operand columns =
      form.channels_last ? ShardingRule::Operand{{n}, patches, rows} : ShardingRule::Operand{{n}, rows, patches};
  // Elements of space (patches) stand on one side only: shards of them would be partial.
  for (int factor : patches)
    rule.at(factor).reduce = to_columns ? ShardingRule::Reduce::kNone : ShardingRule::Reduce::kSum;
  for (const auto& dim : space)
    for (int factor : dim) rule.at(factor).reduce = ShardingRule::Reduce::kSum;
  return rule.input(to_columns ? image : columns).output(to_columns ? columns : image).build();
}

OpDef patch_op(bool to_columns) {
  OpDef op;
  op.name = to_columns ? "im2col" : "col2im";
  op.doc = to_columns ? "patches of a [N, C, space...] as columns -> [N, C taps, patches]; zeros in the padding"
                      : "columns [N, C taps, patches] added up where im2col read them -> [N, C, sizes...], in f32, in "
                        "order of taps";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("taps", Kind::kInts, "extents of a patch"),
                   optional_attribute("strides", Kind::kInts, "between patches (1)"),
                   optional_attribute("dilations", Kind::kInts, "between elements of a patch (1)"),
                   optional_attribute("low", Kind::kInts, "zeros before space (0)"),
                   optional_attribute("high", Kind::kInts, "zeros behind space (0)"),
                   channels_last_attribute()};
  if (!to_columns) op.attributes.push_back(required_attribute("sizes", Kind::kInts, "extents of the result's space"));
  op.infer = [to_columns](const NodeSignature& node) { return infer_patches(node, to_columns); };
  op.gradient = [to_columns](GradientContext& c) {
    Attributes attributes = c.node.attributes;
    attributes.erase("sizes");
    if (to_columns) attributes.set("sizes", patch_form(c.node, true).space);
    const Tensor dy = cast_to(c.output_gradients[0], c.inputs[0].dtype());
    return std::vector{c.build.op(to_columns ? "col2im" : "im2col", {dy}, std::move(attributes))};
  };
  op.sharding = [to_columns](const NodeSignature& node) { return patch_sharding(node, to_columns); };
  op.cost = [to_columns](const NodeSignature& node) {
    return streaming_cost(node, to_columns ? 0 : static_cast<double>(node.inputs.at(0).elements()));
  };
  op.cheap = true;
  return op;
}

Attributes attributes_of(const PatchOptions& options) {
  Attributes attributes{{"taps", options.taps}};
  const std::pair<const char*, const Dims*> optional[] = {
      {"strides", &options.strides}, {"dilations", &options.dilations}, {"low", &options.low}, {"high", &options.high}};
  for (const auto& [name, values] : optional)
    if (!values->empty()) attributes.set(name, *values);
  if (options.channels_last) attributes.set("channels_last", true);
  return attributes;
}

}  // namespace

int64_t PatchForm::taps_each() const { return product(taps); }
int64_t PatchForm::patches() const { return product(counts); }
int64_t PatchForm::pixels() const { return product(space); }

int64_t PatchForm::pixel(int64_t patch, int64_t tap) const {
  int64_t at = 0, stride = 1;
  for (size_t i = space.size(); i-- > 0;) {
    const int64_t index = patch % counts[i] * strides[i] + tap % taps[i] * dilations[i] - low[i];
    if (index < 0 || index >= space[i]) return -1;
    at += index * stride;
    stride *= space[i];
    patch /= counts[i];
    tap /= taps[i];
  }
  return at;
}

PatchForm patch_form(const NodeSignature& node, bool to_columns) {
  PatchForm form;
  form.channels_last = node.attributes.get_bool_or("channels_last", false);
  const Shape& shape = node.inputs.at(0).shape;
  if (to_columns) {
    form.space = space_form(node, 0, "a").from;
    form.samples = shape.dim(0);
    form.channels = shape.dim(channel_axis(shape.rank(), form.channels_last));
    fill_form(node, form);
    return form;
  }
  require_floating(node, 0, "columns");
  require_rank(node, 0, "columns", 3, 3);
  form.space = node.attributes.get_ints("sizes");
  if (form.space.empty() || form.space.size() > 3)
    refuse(node, "attribute 'sizes' has the wrong length", text_of(form.space), "1 to 3 extents");
  fill_form(node, form);
  form.samples = shape.dim(0);
  const int64_t rows = shape.dim(form.channels_last ? 2 : 1), patches = shape.dim(form.channels_last ? 1 : 2);
  if (rows % form.taps_each() != 0)
    refuse(node, "rows are no channels of patches", std::to_string(rows),
           "a multiple of the taps of a patch, " + std::to_string(form.taps_each()));
  if (patches != form.patches())
    refuse(node, "the number of columns is not that of patches", std::to_string(patches),
           std::to_string(form.patches()), "Check sizes, strides, dilations and padding");
  form.channels = rows / form.taps_each();
  return form;
}

void register_patch_ops(OpRegistry& registry) {
  registry.add(patch_op(true));
  registry.add(patch_op(false));
}

Tensor im2col(Tensor a, const PatchOptions& options) { return a.builder->op("im2col", {a}, attributes_of(options)); }

Tensor col2im(Tensor columns, const std::vector<int64_t>& sizes, const PatchOptions& options) {
  Attributes attributes = attributes_of(options);
  attributes.set("sizes", sizes);
  return columns.builder->op("col2im", {columns}, std::move(attributes));
}

}  // namespace ramet::ops
