#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ramet/base/house.h"

// Where grid_sample reads: shared by all kernels, so that they choose the same elements. The formulas are those of
// torch.nn.functional.grid_sample.

namespace ramet::ops {

enum class GridMethod : uint8_t { kNearest, kLinear, kCubic };
enum class GridPadding : uint8_t { kZeros, kBorder, kReflection };

/// Elements along one dimension and their weights; `slopes` are the weights' derivatives by the coordinate in [-1, 1].
template <typename Real>
struct AxisTaps {
  int count = 0;
  int64_t index[4] = {};  ///< -1: outside, reads as 0
  Real weights[4] = {}, slopes[4] = {};
};

/// A position as index and its derivative by what it was made from.
template <typename Real>
struct GridPosition {
  Real at, slope;
};

/// The greatest integer up to x, for |x| < 2^31, without the C library.
template <typename Real>
Real grid_floor(Real x) {
  const Real whole = static_cast<Real>(static_cast<int64_t>(x));
  return whole > x ? whole - 1 : whole;
}

/// Held in [0, size - 1].
template <typename Real>
GridPosition<Real> grid_held(GridPosition<Real> position, int64_t size) {
  const Real most = static_cast<Real>(size - 1);
  if (position.at != position.at) return position;
  if (!(position.at > 0)) return {0, 0};
  if (position.at >= most) return {most, 0};
  return position;
}

/// Reflected at low / 2 and high / 2 until it is between them.
template <typename Real>
GridPosition<Real> grid_reflected(GridPosition<Real> position, int64_t low, int64_t high) {
  if (low == high) return {0, 0};
  const Real least = static_cast<Real>(low) / 2, span = static_cast<Real>(high - low) / 2;
  Real off = position.at - least, slope = position.slope;
  if (off < 0) off = -off, slope = -slope;
  // Infinite and NaN positions stay so, and will be outside.
  if (!(off < Real(0x1p24))) return {off - off == 0 ? least : off - off, 0};
  const Real flips = grid_floor(off / span), rest = off - flips * span;
  const bool even = grid_floor(flips / 2) * 2 == flips;
  return even ? GridPosition<Real>{rest + least, slope} : GridPosition<Real>{span - rest + least, -slope};
}

template <typename Real>
GridPosition<Real> grid_padded(GridPosition<Real> position, int64_t size, GridPadding padding, bool corners) {
  if (padding == GridPadding::kReflection)
    position = corners ? grid_reflected(position, 0, 2 * (size - 1)) : grid_reflected(position, -1, 2 * size - 1);
  if (padding != GridPadding::kZeros) position = grid_held(position, size);
  // What no element is near to, NaN with it, is outside.
  if (!(position.at > Real(-0x1p30) && position.at < Real(0x1p30))) return {-100, 0};
  return position;
}

template <typename Real>
int64_t grid_index(int64_t index, int64_t size) {
  return index >= 0 && index < size ? index : -1;
}

/// Keys' filter with a = -3/4 and its derivative: weights of the four elements around a position `part` behind the
/// second.
template <typename Real>
void grid_cubic(Real part, AxisTaps<Real>& taps) {
  const Real a = Real(-0.75);
  const auto near = [&](Real x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](Real x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto near_slope = [&](Real x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  const auto far_slope = [&](Real x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  const Real rest = 1 - part;
  taps.weights[0] = far(part + 1), taps.slopes[0] = far_slope(part + 1);
  taps.weights[1] = near(part), taps.slopes[1] = near_slope(part);
  taps.weights[2] = near(rest), taps.slopes[2] = -near_slope(rest);
  taps.weights[3] = far(rest + 1), taps.slopes[3] = -far_slope(rest + 1);
}

/// Taps of coordinate `x` along a dimension of `size` elements.
template <typename Real>
AxisTaps<Real> axis_taps(Real x, int64_t size, GridMethod method, GridPadding padding, bool corners) {
  AxisTaps<Real> taps;
  const Real factor = static_cast<Real>(corners ? size - 1 : size) / 2;
  const GridPosition<Real> raw{(x + 1) * factor - (corners ? Real(0) : Real(0.5)), factor};
  if (method == GridMethod::kCubic) {
    // The four elements are found first, and each of them is padded.
    const GridPosition<Real> position = grid_padded(raw, size, GridPadding::kZeros, corners);
    const Real below = grid_floor(position.at);
    taps.count = 4;
    grid_cubic(position.at - below, taps);
    for (int tap = 0; tap < 4; ++tap) {
      const GridPosition<Real> at{below + static_cast<Real>(tap - 1), 0};
      taps.index[tap] = grid_index<Real>(static_cast<int64_t>(grid_padded(at, size, padding, corners).at), size);
      taps.slopes[tap] *= position.slope;
    }
    return taps;
  }
  const GridPosition<Real> position = grid_padded(raw, size, padding, corners);
  if (method == GridMethod::kNearest) {
    // Halves to even.
    const Real below = grid_floor(position.at), part = position.at - below;
    const bool up = part > Real(0.5) || (part == Real(0.5) && grid_floor(below / 2) * 2 != below);
    taps.count = 1;
    taps.index[0] = grid_index<Real>(static_cast<int64_t>(below) + (up ? 1 : 0), size);
    taps.weights[0] = 1;
    return taps;
  }
  const Real below = grid_floor(position.at), part = position.at - below;
  taps.count = 2;
  taps.index[0] = grid_index<Real>(static_cast<int64_t>(below), size);
  taps.index[1] = grid_index<Real>(static_cast<int64_t>(below) + 1, size);
  taps.weights[0] = 1 - part, taps.weights[1] = part;
  taps.slopes[0] = -position.slope, taps.slopes[1] = position.slope;
  return taps;
}

/// Elements of a whole position in up to three dimensions.
template <typename Real>
struct GridTaps {
  static constexpr int kMost = 64;
  int count = 0;
  int64_t index[kMost];  ///< in space, row-major; -1: outside
  Real weights[kMost];
  Real slopes[3][kMost];  ///< of the weights, by coordinate: the last dimension of space first
};

/// What a grid_sample, or a gradient of it, reads: extents of space and how.
struct GridForm {
  int64_t samples = 0, channels = 0;
  std::vector<int64_t> space, positions;  ///< extents of the input's and of the grid's space
  GridMethod method = GridMethod::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool corners = false, channels_last = false;

  int64_t pixels() const;
  int64_t places() const;  ///< positions of a sample
  int taps() const;        ///< elements a position
};

/// Taps of the position with these coordinates, the last dimension of space first; slopes where they are wanted.
template <typename Real, bool kSlopes = true>
GridTaps<Real> grid_taps(const GridForm& form, const Real* coordinates) {
  const int dims = static_cast<int>(form.space.size());
  std::array<AxisTaps<Real>, 3> axes;
  for (int axis = 0; axis < dims; ++axis)
    axes[static_cast<size_t>(axis)] = axis_taps(coordinates[dims - 1 - axis], form.space[static_cast<size_t>(axis)],
                                                form.method, form.padding, form.corners);
  GridTaps<Real> taps;  // only the first `count` of each list are set
  taps.count = form.taps();
  for (int tap = 0; tap < taps.count; ++tap) {
    int64_t index = 0;
    Real weight = 1, slopes[3] = {1, 1, 1};
    int rest = tap, scale = taps.count;
    for (int axis = 0; axis < dims; ++axis) {
      const AxisTaps<Real>& own = axes[static_cast<size_t>(axis)];
      scale /= own.count;
      const int each = rest / scale;
      rest %= scale;
      index = index < 0 || own.index[each] < 0 ? -1 : index * form.space[static_cast<size_t>(axis)] + own.index[each];
      weight *= own.weights[each];
      for (int by = 0; kSlopes && by < dims; ++by)
        slopes[by] *= by == dims - 1 - axis ? own.slopes[each] : own.weights[each];
    }
    taps.index[tap] = index;
    taps.weights[tap] = weight;
    for (int by = 0; kSlopes && by < dims; ++by) taps.slopes[by][tap] = slopes[by];
  }
  return taps;
}

}  // namespace ramet::ops
