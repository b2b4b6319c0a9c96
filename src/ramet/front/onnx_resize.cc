// ONNX's resizing: linear maps along one dimension each, by its own rules of coordinates.
#include <algorithm>
#include <cmath>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

struct Rule {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// One dimension that changes.
struct Line {
  int64_t inputs = 1, outputs = 1;
  double scale = 1, from = 0, to = 1;  ///< `from`, `to`: the part that tf_crop_and_resize takes
};

/// Where element i of the result lies among the inputs.
double position_of(const OnnxCall& at, const Rule& rule, const Line& line, int64_t i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(line.inputs);
  const double out = line.scale * in;
  if (rule.coordinates == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (rule.coordinates == "asymmetric") return x / line.scale;
  if (rule.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / line.scale;
  if (rule.coordinates == "tf_crop_and_resize")
    return (out == 1 ? (line.to - line.from) * (in - 1) / 2 : x * (line.to - line.from) * (in - 1) / (out - 1)) +
           line.from * (in - 1);
  const double half = (x + 0.5) / line.scale - 0.5;
  if (rule.coordinates == "pytorch_half_pixel") return out == 1 ? -0.5 : half;
  if (rule.coordinates == "half_pixel") return half;
  if (rule.coordinates == "half_pixel_symmetric") return in / 2 * (1 - static_cast<double>(line.outputs) / out) + half;
  at.refuse("coordinate_transformation_mode '" + rule.coordinates + "' is not known");
}

/// Weights of the neighbours from floor(position) + `first` on.
struct Neighbours {
  int64_t first = 0;
  std::vector<double> weights{};
};

double cubic_weight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// The neighbours of a filter of this radius around `position`, spread where the result is smaller.
Neighbours filtered(const Rule& rule, double position, double scale, double radius) {
  const double spread = rule.antialias ? std::min(scale, 1.0) : 1;
  const auto weight = [&](double x) {
    return rule.mode == "cubic" ? cubic_weight(x, rule.cubic) : std::max(0.0, 1 - std::fabs(x));
  };
  Neighbours made;
  const double base = std::floor(position), reach = radius / spread;
  made.first = static_cast<int64_t>(std::floor(position - reach) - base);
  const auto last = static_cast<int64_t>(std::ceil(position + reach) - base);
  double sum = 0;
  for (int64_t k = made.first; k <= last; ++k) {
    made.weights.push_back(weight((base + static_cast<double>(k) - position) * spread));
    sum += made.weights.back();
  }
  if (rule.antialias)
    for (double& each : made.weights) each /= sum;
  return made;
}

int64_t nearest_of(const OnnxCall& at, const Rule& rule, double position) {
  const double low = std::floor(position), fraction = position - low;
  const auto base = static_cast<int64_t>(low);
  if (fraction == 0) return base;
  if (rule.nearest == "floor") return base;
  if (rule.nearest == "ceil") return base + 1;
  if (rule.nearest == "round_prefer_floor") return fraction <= 0.5 ? base : base + 1;
  if (rule.nearest == "round_prefer_ceil") return fraction < 0.5 ? base : base + 1;
  at.refuse("nearest_mode '" + rule.nearest + "' is not known");
}

/// The map of one dimension as a matrix [outputs, inputs]; rows of zeros where the result is `outside`.
struct Matrix {
  std::vector<double> weights{};
  std::vector<double> outside{};
};
Matrix matrix_of(const OnnxCall& at, const Rule& rule, const Line& line) {
  if (line.inputs * line.outputs > (int64_t{1} << 24)) at.refuse("a dimension is too large to be resized by this rule");
  Matrix made{std::vector<double>(static_cast<size_t>(line.inputs * line.outputs), 0),
              std::vector<double>(static_cast<size_t>(line.outputs), 0)};
  for (int64_t i = 0; i < line.outputs; ++i) {
    const double position = position_of(at, rule, line, i);
    const auto add = [&](int64_t k, double weight) {
      made.weights[static_cast<size_t>(i * line.inputs + std::clamp<int64_t>(k, 0, line.inputs - 1))] += weight;
    };
    if (rule.coordinates == "tf_crop_and_resize" && (position < 0 || position > static_cast<double>(line.inputs - 1))) {
      made.outside[static_cast<size_t>(i)] = 1;
      continue;
    }
    if (rule.mode == "nearest") {
      add(nearest_of(at, rule, position), 1);
      continue;
    }
    const Neighbours near = filtered(rule, position, line.scale, rule.mode == "cubic" ? 2 : 1);
    const auto base = static_cast<int64_t>(std::floor(position)) + near.first;
    double sum = 0;
    for (int64_t k = 0; k < std::ssize(near.weights); ++k)
      if (!rule.exclude_outside || (base + k >= 0 && base + k < line.inputs))
        sum += near.weights[static_cast<size_t>(k)];
    for (int64_t k = 0; k < std::ssize(near.weights); ++k)
      if (!rule.exclude_outside || (base + k >= 0 && base + k < line.inputs))
        add(base + k, near.weights[static_cast<size_t>(k)] / (rule.exclude_outside && sum != 0 ? sum : 1));
  }
  return made;
}

Tensor resized_line(const OnnxCall& at, Tensor a, int axis, const Rule& rule, const Line& line) {
  const Matrix map = matrix_of(at, rule, line);
  const bool any_outside = std::any_of(map.outside.begin(), map.outside.end(), [](double each) { return each != 0; });
  Tensor made;
  if (rule.mode == "nearest") {
    std::vector<int64_t> taken(static_cast<size_t>(line.outputs), 0);
    for (int64_t i = 0; i < line.outputs; ++i)
      for (int64_t k = 0; k < line.inputs; ++k)
        if (map.weights[static_cast<size_t>(i * line.inputs + k)] != 0) taken[static_cast<size_t>(i)] = k;
    made = index_select(a, at.integer_constant({line.outputs}, taken, DType::kI32), axis, true);
  } else {
    const Tensor matrix = at.constant(a.dtype(), {line.outputs, line.inputs}, map.weights);
    made = move_axis(matmul(move_axis(a, axis, -1), matrix, false, true), -1, axis);
  }
  if (!any_outside) return made;
  std::vector<int64_t> dims(static_cast<size_t>(a.shape().rank()), 1);
  dims[static_cast<size_t>(axis)] = line.outputs;
  const Tensor outside = at.constant(DType::kBool, Shape(dims), map.outside);
  return select(outside, at.full(a.dtype(), {}, rule.extrapolation), made);
}

/// The op of Ramet's own, where it has the rule: it is fast, and keeps no matrix.
std::optional<ResampleRule> own_rule(const Rule& rule) {
  ResampleRule made{.antialias = rule.antialias, .cubic = rule.cubic};
  if (rule.exclude_outside || rule.antialias) return std::nullopt;
  if (rule.coordinates == "half_pixel")
    made.coordinates = ResampleCoordinates::kHalfPixel;
  else if (rule.coordinates == "align_corners")
    made.coordinates = ResampleCoordinates::kCorners;
  else if (rule.coordinates == "asymmetric")
    made.coordinates = ResampleCoordinates::kAsymmetric;
  else
    return std::nullopt;
  made.method = rule.mode == "nearest"  ? ResampleMethod::kNearest
                : rule.mode == "linear" ? ResampleMethod::kLinear
                                        : ResampleMethod::kCubic;
  made.rounding = rule.nearest == "floor"                ? ResampleRounding::kFloor
                  : rule.nearest == "ceil"               ? ResampleRounding::kCeil
                  : rule.nearest == "round_prefer_floor" ? ResampleRounding::kHalfDown
                                                         : ResampleRounding::kHalfUp;
  return made;
}

Tensor resize_by(const OnnxCall& at, Tensor a, const Rule& rule, const std::vector<Line>& lines) {
  const int rank = a.shape().rank();
  bool space_only = rank >= 3 && rank <= 5;
  int64_t elements = 1;
  std::vector<int64_t> sizes;
  for (int i = 0; i < rank; ++i) {
    const Line& line = lines[static_cast<size_t>(i)];
    const bool same = line.inputs == line.outputs && line.scale == 1 && line.from == 0 && line.to == 1;
    if (i < 2) space_only = space_only && same;
    if (i >= 2) {
      sizes.push_back(line.outputs), elements *= line.outputs;
      // The step of the op is that of the extents.
      space_only = space_only && line.scale * static_cast<double>(line.inputs) == static_cast<double>(line.outputs);
    }
  }
  const auto own = own_rule(rule);
  // Small results come by the rule as it is written; large ones by the op.
  if (space_only && own && elements > 4096) return ops::resize(a, sizes, {.rule = *own});
  for (int i = 0; i < rank; ++i) {
    const Line& line = lines[static_cast<size_t>(i)];
    if (line.inputs == line.outputs && line.scale == 1 && line.from == 0 && line.to == 1) continue;
    if (line.inputs == 0) at.refuse("a dimension without elements cannot be resized");
    a = resized_line(at, a, i, rule, line);
  }
  return a;
}

std::vector<Line> lines_of(const OnnxCall& at, Tensor a, const std::vector<int64_t>& axes) {
  std::vector<Line> lines(static_cast<size_t>(a.shape().rank()));
  for (size_t i = 0; i < lines.size(); ++i) lines[i].inputs = lines[i].outputs = a.dim(static_cast<int>(i));
  const bool old = at.version() < 11;
  const size_t roi_input = 1, scale_input = old ? 1 : 2;
  std::vector<int64_t> sizes;
  if (!old && at.has(3)) sizes = at.known_integers(3, "the sizes of Resize");
  std::vector<double> scales;
  if (sizes.empty() && at.has(scale_input)) scales = at.known_numbers(scale_input, "the scales of Resize");
  if (scales.empty() && sizes.empty()) scales = at.numbers("scales");
  if (std::max(sizes.size(), scales.size()) != axes.size()) at.refuse("scales or sizes differ in number from the axes");
  const std::string policy = at.text("keep_aspect_ratio_policy", "stretch");
  if (!sizes.empty()) {
    double chosen = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      Line& line = lines[static_cast<size_t>(axes[i])];
      line.outputs = sizes[i];
      line.scale = static_cast<double>(sizes[i]) / static_cast<double>(line.inputs);
      const bool better = policy == "not_larger" ? line.scale < chosen : line.scale > chosen;
      if (i == 0 || better) chosen = line.scale;
    }
    if (policy != "stretch")
      for (const int64_t axis : axes) {
        Line& line = lines[static_cast<size_t>(axis)];
        line.scale = chosen;
        line.outputs = static_cast<int64_t>(std::floor(chosen * static_cast<double>(line.inputs) + 0.5));
      }
  } else {
    for (size_t i = 0; i < axes.size(); ++i) {
      Line& line = lines[static_cast<size_t>(axes[i])];
      line.scale = scales[i];
      line.outputs = static_cast<int64_t>(std::floor(scales[i] * static_cast<double>(line.inputs)));
    }
  }
  for (const Line& line : lines)
    if (!(line.scale > 0) || line.outputs < 0 || line.outputs > (int64_t{1} << 31))
      at.refuse("a scale is out of range");
  if (!old && at.has(roi_input) && at.text("coordinate_transformation_mode") == "tf_crop_and_resize") {
    const std::vector<double> roi = at.known_numbers(roi_input, "the part of Resize");
    if (roi.size() != 2 * axes.size()) at.refuse("the part of Resize differs in number from the axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      lines[static_cast<size_t>(axes[i])].from = roi[i];
      lines[static_cast<size_t>(axes[i])].to = roi[i + axes.size()];
    }
  }
  return lines;
}

Values resize(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int rank = a.shape().rank();
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  axes = checked_axes(at.integers("axes", axes), rank);
  const bool old = at.version() < 11;
  Rule rule{.mode = at.text("mode", "nearest"),
            .coordinates = at.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
            .nearest = at.text("nearest_mode", old ? "floor" : "round_prefer_floor"),
            .cubic = at.number("cubic_coeff_a", -0.75),
            .extrapolation = at.number("extrapolation_value", 0),
            .exclude_outside = at.flag("exclude_outside"),
            .antialias = at.flag("antialias")};
  if (rule.mode == "bilinear" || rule.mode == "trilinear") rule.mode = "linear";
  if (rule.mode != "nearest" && rule.mode != "linear" && rule.mode != "cubic")
    at.refuse("mode '" + rule.mode + "' is not known");
  const std::vector<Line> lines = lines_of(at, a, axes);
  if (rule.mode == "nearest") return {resize_by(at, a, rule, lines)};
  const Tensor wide = is_floating(a.dtype()) ? at_least_f32(a) : cast(a, DType::kF32);
  return {in_type(resize_by(at, wide, rule, lines), a.dtype())};
}

constexpr OnnxEntry kEntries[] = {{"Resize", resize}, {"Upsample", resize}};

}  // namespace

std::span<const OnnxEntry> onnx_resize_operators() { return kEntries; }

}  // namespace ramet::front
