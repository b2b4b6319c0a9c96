#include "ramet/ops/map_space.h"

#include <algorithm>

namespace ramet::ops {
namespace {

/// Strides of a tensor in the dimensions of the space, 0 where it is broadcast.
std::vector<int64_t> strides_in(const Shape& space, const Shape& shape) {
  const std::vector<int64_t> own = shape.strides();
  std::vector<int64_t> strides;
  for (int axis = 0; axis < space.rank(); ++axis) {
    const int at = axis - (space.rank() - shape.rank());
    strides.push_back(at < 0 || shape.dim(at) == 1 ? 0 : own[static_cast<size_t>(at)]);
  }
  return strides;
}

}  // namespace

MapSpace::MapSpace(const MapProgram& program, const Shape& space, std::span<const TensorType> types)
    : elements(space.elements()) {
  for (const MapProgram::Output& output : program.outputs) {
    sums_rows |= output.reduce == MapProgram::Reduce::kSumRows;
    sums_last |= output.reduce == MapProgram::Reduce::kSumLast;
  }
  const bool keep_last = sums_rows || sums_last;
  const std::vector<bool> counters = program.counters();
  std::vector<std::vector<int64_t>> strides(types.size());
  inputs.resize(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    inputs[i].counter = counters[i];
    if (!counters[i]) strides[i] = strides_in(space, types[i].shape);
  }
  for (int axis = 0; axis < space.rank(); ++axis) {
    const int64_t extent = space.dim(axis);
    const auto at = static_cast<size_t>(axis);
    const bool kept = axis == space.rank() - 1 && keep_last;
    if (extent == 1 && !kept) continue;
    bool merges = !extents.empty() && !kept;
    for (size_t i = 0; i < inputs.size() && merges; ++i)
      merges = counters[i] || inputs[i].strides.back() == strides[i][at] * extent;
    if (merges)
      extents.back() *= extent;
    else
      extents.push_back(extent);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (counters[i]) continue;
      if (!merges) inputs[i].strides.push_back(0);
      inputs[i].strides.back() = strides[i][at];
    }
  }
  if (extents.empty()) {
    extents.push_back(1);
    for (Input& input : inputs)
      if (!input.counter) input.strides.push_back(0);
  }
  columns = extents.back();
  rows = columns ? elements / columns : 0;
  if (!columns && sums_last) {
    rows = 1;
    for (size_t axis = 0; axis + 1 < extents.size(); ++axis) rows *= extents[axis];
  }
  const std::vector<int64_t> dense = Shape(extents).strides();
  for (Input& input : inputs) {
    if (input.counter) continue;
    input.full = elements > 0 && (elements == 1 || input.strides == dense);
    input.uniform = elements != 1 &&
                    std::all_of(input.strides.begin(), input.strides.end(), [](int64_t stride) { return stride == 0; });
  }
}

}  // namespace ramet::ops
