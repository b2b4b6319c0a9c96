#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// Where element i of the output lies among the elements of the input, whose centres are 0, 1, 2, ...; `step` is input
/// elements an output element.
enum class ResampleCoordinates : uint8_t {
  kHalfPixel,  ///< (i + 1/2) step - 1/2: the outer edges of both meet
  kCorners,    ///< i (inputs - 1) / (outputs - 1): the outermost centres meet
  kAsymmetric  ///< i step
};
enum class ResampleMethod : uint8_t { kNearest, kLinear, kCubic };
/// Which neighbour is the nearest one.
enum class ResampleRounding : uint8_t { kFloor, kCeil, kHalfDown, kHalfUp };

/// How one dimension is resized. Positions and weights are f32, as PyTorch's are.
struct ResampleRule {
  ResampleMethod method = ResampleMethod::kLinear;
  ResampleCoordinates coordinates = ResampleCoordinates::kHalfPixel;
  ResampleRounding rounding = ResampleRounding::kFloor;  ///< of kNearest
  /// Widens the filter by the step when the output is smaller (as Pillow does), so that no element is left out. With
  /// kCorners the step alone changes, as in PyTorch.
  bool antialias = false;
  /// Of kCubic: the filter's slope at 1 (Keys, "Cubic convolution interpolation", 1981: -1/2; PyTorch without
  /// antialias: -3/4).
  double cubic = -0.75;
  friend bool operator==(const ResampleRule&, const ResampleRule&) = default;
};

/// A sparse linear map along one dimension: element i of the result is the sum of weights[t] * element taps[t] over t
/// in [starts[i], starts[i + 1]), in this order.
struct TapTable {
  std::vector<int64_t> starts{0};
  std::vector<int32_t> taps;
  std::vector<float> weights;

  int64_t outputs() const { return static_cast<int64_t>(starts.size()) - 1; }
  /// Whether result and operand, of `inputs` elements, are the same.
  bool is_identity(int64_t inputs) const;
  /// The transposed map, whose operand has as many elements as this one's result, and the reverse.
  TapTable transposed(int64_t inputs) const;
};

/// The table of a rule; `step` as given, or 0: inputs / outputs. Where it is the identity it has one tap an element.
TapTable tap_table(const ResampleRule& rule, int64_t inputs, int64_t outputs, float step = 0);

/// What a node of op `resample` or an op of the same layout is about: [outer, space..., inner].
struct SpaceForm {
  int64_t outer = 1, inner = 1;
  std::vector<int64_t> from, to;  ///< extents of space, of the input and of the output
};

/// The form of a `resample` node; throws Error on a node that breaks a rule. Output types may be missing.
SpaceForm resample_form(const NodeSignature& node);
/// The map along each dimension of space.
std::vector<TapTable> resample_tables(const NodeSignature& node);

/// Dimensions of space of a tensor of `rank` [N, C, space...] or [N, space..., C].
std::vector<int> space_axes(int rank, bool channels_last);
/// The dimension of channels.
int channel_axis(int rank, bool channels_last);

}  // namespace ramet::ops
