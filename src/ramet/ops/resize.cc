#include "ramet/ops/resize.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/patches.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

/// f32 positions tell elements apart up to here.
constexpr int64_t kMostResized = int64_t{1} << 24;

template <typename Value>
struct Word {
  const char* name;
  Value value;
};
constexpr Word<ResampleMethod> kMethods[] = {
    {"nearest", ResampleMethod::kNearest}, {"linear", ResampleMethod::kLinear}, {"cubic", ResampleMethod::kCubic}};
constexpr Word<ResampleCoordinates> kCoordinates[] = {{"half_pixel", ResampleCoordinates::kHalfPixel},
                                                      {"corners", ResampleCoordinates::kCorners},
                                                      {"asymmetric", ResampleCoordinates::kAsymmetric}};
constexpr Word<ResampleRounding> kRoundings[] = {{"floor", ResampleRounding::kFloor},
                                                 {"ceil", ResampleRounding::kCeil},
                                                 {"half_down", ResampleRounding::kHalfDown},
                                                 {"half_up", ResampleRounding::kHalfUp}};

template <typename Value, size_t kCount>
Value value_of(const NodeSignature& node, const char* attribute, const Word<Value> (&words)[kCount]) {
  const std::string found = node.attributes.get_string_or(attribute, words[0].name);
  std::string known;
  for (const auto& word : words) {
    if (found == word.name) return word.value;
    known += (known.empty() ? "\"" : ", \"") + std::string(word.name) + "\"";
  }
  refuse(node, "attribute '" + std::string(attribute) + "' has an unknown value", "\"" + found + "\"", known);
}

template <typename Value, size_t kCount>
const char* word_of(Value value, const Word<Value> (&words)[kCount]) {
  return std::find_if(words, words + kCount, [&](const auto& word) { return word.value == value; })->name;
}

ResampleRule rule_of(const NodeSignature& node) {
  ResampleRule rule;
  rule.method = value_of(node, "method", kMethods);
  rule.coordinates = value_of(node, "coordinates", kCoordinates);
  rule.rounding = value_of(node, "rounding", kRoundings);
  rule.antialias = node.attributes.get_bool_or("antialias", false);
  rule.cubic = node.attributes.get_float_or("cubic", -0.75);
  if (!(std::fabs(rule.cubic) <= 16)) refuse(node, "'cubic' is out of range", std::to_string(rule.cubic), "-16 to 16");
  if (rule.antialias && rule.method == ResampleMethod::kNearest)
    refuse(node, "the nearest element has no antialiasing", "antialias=true", "method \"linear\" or \"cubic\"");
  if (rule.antialias && rule.coordinates == ResampleCoordinates::kAsymmetric)
    refuse(node, "antialiasing has no asymmetric positions", "coordinates=\"asymmetric\"",
           "\"half_pixel\" or \"corners\"");
  return rule;
}

/// Steps that the node gives, one a dimension of space; 0: recomputed.
std::vector<float> steps_of(const NodeSignature& node, size_t space) {
  std::vector<float> steps(space, 0.0f);
  if (!node.attributes.has("steps")) return steps;
  const TensorData& given = node.attributes.get_tensor("steps");
  if (given.type() != TensorType{DType::kF32, Shape{static_cast<int64_t>(space)}})
    refuse(node, "attribute 'steps' has the wrong type", given.type().text(),
           "f32[" + std::to_string(space) + "], one a dimension of space");
  steps = given.tensor().floats();
  // A filter as wide as a step that is much larger than the input would not end.
  for (float step : steps)
    if (!(step == 0 || (step >= 0x1p-24f && step <= 0x1p24f)))
      refuse(node, "a step is out of range", std::to_string(step), "0, or 2^-24 to 2^24");
  return steps;
}

std::vector<TensorType> infer_resample(const NodeSignature& node) {
  const SpaceForm form = resample_form(node);
  const TensorType& a = node.inputs[0];
  Dims dims = a.shape.dims();
  const std::vector<int> axes = space_axes(a.shape.rank(), node.attributes.get_bool_or("channels_last", false));
  for (size_t i = 0; i < axes.size(); ++i) dims[static_cast<size_t>(axes[i])] = form.to[i];
  require_bounded(node, Shape(dims));
  return {{a.dtype, Shape(std::move(dims))}};
}

std::vector<Tensor> resample_gradient(GradientContext& c) {
  Attributes attributes = c.node.attributes;
  const SpaceForm form = resample_form(c.node);
  attributes.set("sizes", form.from).set("transposed", !attributes.get_bool_or("transposed", false));
  return {c.build.op("resample", {cast_to(c.output_gradients[0], c.inputs[0].dtype())}, std::move(attributes))};
}

ShardingRule resample_sharding(const NodeSignature& node) {
  return same_dims_sharding(
      node, space_axes(node.inputs[0].shape.rank(), node.attributes.get_bool_or("channels_last", false)));
}

/// Taps an element of the larger of input and output, for costs.
double taps_each(const NodeSignature& node) {
  const ResampleRule rule = rule_of(node);
  const double taps = rule.method == ResampleMethod::kNearest ? 1 : rule.method == ResampleMethod::kLinear ? 2 : 4;
  return taps * static_cast<double>(node.inputs[0].shape.rank() - 2);
}

Cost resample_cost(const NodeSignature& node) {
  const auto elements = static_cast<double>(std::max(node.inputs.at(0).elements(), node.outputs.at(0).elements()));
  return streaming_cost(node, 2 * taps_each(node) * elements);
}

Tensor simplify_resample(SimplifyContext& context) {
  if (resample_form(context.node).from != resample_form(context.node).to) return {};
  const SpaceForm form = resample_form(context.node);
  const std::vector<TapTable> tables = resample_tables(context.node);
  for (size_t i = 0; i < tables.size(); ++i)
    if (!tables[i].is_identity(form.from[i])) return {};
  return context.inputs[0];
}

OpDef resample_op() {
  OpDef op;
  op.name = "resample";
  op.doc =
      "a [N, C, space...] with space resized to `sizes`, a linear map along each dimension of it; sums in f32. With "
      "transposed=true the transposed map: from the sizes that the map makes to `sizes`";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("sizes", Kind::kInts, "extents of the result's space"),
                   optional_attribute("method", Kind::kString, "\"nearest\", \"linear\" or \"cubic\" (\"nearest\")"),
                   optional_attribute("coordinates", Kind::kString,
                                      "\"half_pixel\", \"corners\" or \"asymmetric\" (\"half_pixel\")"),
                   optional_attribute("rounding", Kind::kString,
                                      "to the nearest: \"floor\", \"ceil\", \"half_down\" or \"half_up\" (\"floor\")"),
                   optional_attribute("antialias", Kind::kBool, "filters as wide as the step (false)"),
                   optional_attribute("cubic", Kind::kFloat, "the cubic filter's parameter (-0.75)"),
                   optional_attribute("steps", Kind::kTensor, "f32: input elements an output element; 0: by extents"),
                   optional_attribute("transposed", Kind::kBool, "the transposed map (false)"),
                   channels_last_attribute()};
  op.infer = infer_resample;
  op.gradient = resample_gradient;
  op.simplify = simplify_resample;
  op.sharding = resample_sharding;
  op.cost = resample_cost;
  op.cheap = true;
  op.channels = {{0}, {0}};
  return op;
}

}  // namespace

AttributeSpec channels_last_attribute() {
  return optional_attribute("channels_last", Kind::kBool, "activations are [N, space..., C] (false)");
}

std::vector<int> space_axes(int rank, bool channels_last) {
  std::vector<int> axes;
  for (int axis = channels_last ? 1 : 2; axis < (channels_last ? rank - 1 : rank); ++axis) axes.push_back(axis);
  return axes;
}

int channel_axis(int rank, bool channels_last) { return channels_last ? rank - 1 : 1; }

SpaceForm space_form(const NodeSignature& node, int input, const std::string& operand) {
  const Shape& shape = node.inputs.at(static_cast<size_t>(input)).shape;
  require_rank(node, input, operand, 3, 5);
  const bool last = node.attributes.get_bool_or("channels_last", false);
  SpaceForm form;
  for (int axis : space_axes(shape.rank(), last)) form.from.push_back(shape.dim(axis));
  form.outer = shape.dim(0) * (last ? 1 : shape.dim(1));
  form.inner = last ? shape.dim(-1) : 1;
  return form;
}

SpaceForm resample_form(const NodeSignature& node) {
  require_floating(node, 0, "a");
  SpaceForm form = space_form(node, 0, "a");
  form.to = node.attributes.get_ints("sizes");
  if (form.to.size() != form.from.size())
    refuse(node, "attribute 'sizes' has the wrong length", std::to_string(form.to.size()) + " extents",
           std::to_string(form.from.size()) + ", one a dimension of space");
  for (const Dims* extents : {&form.from, &form.to})
    for (int64_t extent : *extents)
      if (extent < 1 || extent > kMostResized)
        refuse(node, "an extent of space is out of range", std::to_string(extent), "1 to 2^24");
  rule_of(node);
  steps_of(node, form.from.size());
  return form;
}

std::vector<TapTable> resample_tables(const NodeSignature& node) {
  const SpaceForm form = resample_form(node);
  const ResampleRule rule = rule_of(node);
  const std::vector<float> steps = steps_of(node, form.from.size());
  const bool transposed = node.attributes.get_bool_or("transposed", false);
  std::vector<TapTable> tables;
  for (size_t i = 0; i < form.from.size(); ++i) {
    const int64_t inputs = transposed ? form.to[i] : form.from[i], outputs = transposed ? form.from[i] : form.to[i];
    TapTable table = tap_table(rule, inputs, outputs, steps[i]);
    tables.push_back(transposed ? table.transposed(inputs) : std::move(table));
  }
  return tables;
}

void register_resize_ops(OpRegistry& registry) {
  registry.add(resample_op());
  register_grid_sample_ops(registry);
  register_patch_ops(registry);
}

ResampleRule resample_rule_of_mode(const std::string& mode, bool corners, bool antialias) {
  const bool nearest = mode == "nearest" || mode == "nearest-exact", cubic = mode == "bicubic" || mode == "cubic";
  if (!nearest && !cubic && mode != "linear" && mode != "bilinear" && mode != "trilinear")
    throw Error({.what = "unknown mode of resizing",
                 .found = "\"" + mode + "\"",
                 .expected = "nearest, nearest-exact, linear, bilinear, trilinear or bicubic"});
  if (nearest && (corners || antialias))
    throw Error({.what = "this mode of resizing has neither aligned corners nor antialiasing", .found = mode});
  ResampleRule rule;
  rule.antialias = antialias;
  rule.method = nearest ? ResampleMethod::kNearest : cubic ? ResampleMethod::kCubic : ResampleMethod::kLinear;
  rule.coordinates = mode == "nearest" ? ResampleCoordinates::kAsymmetric
                     : corners         ? ResampleCoordinates::kCorners
                                       : ResampleCoordinates::kHalfPixel;
  rule.rounding = mode == "nearest-exact" ? ResampleRounding::kHalfUp : ResampleRounding::kFloor;
  rule.cubic = antialias ? -0.5 : -0.75;
  return rule;
}

Tensor resize(Tensor a, const std::vector<int64_t>& sizes, const ResizeOptions& options) {
  const ResampleRule& rule = options.rule;
  Attributes attributes{{"sizes", sizes},
                        {"method", std::string(word_of(rule.method, kMethods))},
                        {"coordinates", std::string(word_of(rule.coordinates, kCoordinates))}};
  if (rule.method == ResampleMethod::kNearest)
    attributes.set("rounding", std::string(word_of(rule.rounding, kRoundings)));
  if (rule.method == ResampleMethod::kCubic) attributes.set("cubic", rule.cubic);
  if (rule.antialias) attributes.set("antialias", true);
  if (options.channels_last) attributes.set("channels_last", true);
  if (!options.scales.empty()) {
    std::vector<double> steps;
    for (double scale : options.scales) steps.push_back(scale > 0 ? 1 / scale : 0);
    const Shape shape{static_cast<int64_t>(steps.size())};
    attributes.set("steps", TensorData(HostTensor::of(DType::kF32, shape, steps)));
  }
  return a.builder->op("resample", {a}, std::move(attributes));
}

namespace {

/// Dims [..., channels, H, W] (or with channels last) of a, as (leading, channels, height, width).
struct Image {
  Dims leading;
  int64_t channels, height, width;
};
Image image_of(Tensor a, bool channels_last, const std::string& where) {
  if (a.shape().rank() < 3)
    throw Error({.what = "an image has three dimensions or more", .where = where, .found = a.type().text()});
  const Dims& dims = a.shape().dims();
  const Dims leading(dims.begin(), dims.end() - 3);
  if (channels_last) return {leading, a.dim(-1), a.dim(-3), a.dim(-2)};
  return {leading, a.dim(-3), a.dim(-2), a.dim(-1)};
}

/// Reshapes to [leading, inside...], transposes what is inside, and reshapes to [leading, result...].
Tensor rearrange(Tensor a, const Dims& leading, const Dims& inside, const std::vector<int64_t>& order,
                 const Dims& result) {
  const auto behind = [&](const Dims& dims) {
    Dims all = leading;
    all.insert(all.end(), dims.begin(), dims.end());
    return Shape(all);
  };
  const auto rank = static_cast<int64_t>(leading.size());
  std::vector<int64_t> permutation;
  for (int64_t axis = 0; axis < rank; ++axis) permutation.push_back(axis);
  for (int64_t axis : order) permutation.push_back(rank + axis);
  return reshape(transpose(reshape(a, behind(inside)), permutation), behind(result));
}

void require_factor(bool fits, Tensor a, const std::string& where, const std::string& expected) {
  if (!fits)
    throw Error(
        {.what = "the factor does not fit the image", .where = where, .found = a.type().text(), .expected = expected});
}

}  // namespace

Tensor pixel_shuffle(Tensor a, int64_t factor, bool channels_last) {
  const std::string where = "pixel_shuffle by " + std::to_string(factor);
  const auto [leading, channels, h, w] = image_of(a, channels_last, where);
  const int64_t r = factor;
  require_factor(r > 0 && r < 65536 && channels % (r * r) == 0, a, where, "channels that the factor's square divides");
  const int64_t c = channels / (r * r);
  if (channels_last) return rearrange(a, leading, {h, w, c, r, r}, {0, 3, 1, 4, 2}, {h * r, w * r, c});
  return rearrange(a, leading, {c, r, r, h, w}, {0, 3, 1, 4, 2}, {c, h * r, w * r});
}

Tensor pixel_unshuffle(Tensor a, int64_t factor, bool channels_last) {
  const std::string where = "pixel_unshuffle by " + std::to_string(factor);
  const auto [leading, c, height, width] = image_of(a, channels_last, where);
  const int64_t r = factor;
  require_factor(r > 0 && r < 65536 && height % r == 0 && width % r == 0, a, where,
                 "a height and a width that the factor divides");
  const int64_t h = height / r, w = width / r;
  if (channels_last) return rearrange(a, leading, {h, r, w, r, c}, {0, 2, 4, 1, 3}, {h, w, c * r * r});
  return rearrange(a, leading, {c, h, r, w, r}, {0, 2, 4, 1, 3}, {c * r * r, h, w});
}

Tensor channel_shuffle(Tensor a, int64_t groups, bool channels_last) {
  const std::string where = "channel_shuffle of " + std::to_string(groups) + " groups";
  if (a.shape().rank() < 3)
    throw Error({.what = "activations have three dimensions or more", .where = where, .found = a.type().text()});
  const int axis = channel_axis(a.shape().rank(), channels_last);
  const int64_t channels = a.dim(axis);
  require_factor(groups > 0 && channels % groups == 0, a, where, "channels that the groups divide");
  Dims cut = a.shape().dims();
  cut[static_cast<size_t>(axis)] = groups;
  cut.insert(cut.begin() + axis + 1, channels / groups);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < static_cast<int64_t>(cut.size()); ++i) order.push_back(i);
  std::swap(order[static_cast<size_t>(axis)], order[static_cast<size_t>(axis) + 1]);
  return reshape(transpose(reshape(a, Shape(cut)), order), a.shape());
}

}  // namespace ramet::ops
