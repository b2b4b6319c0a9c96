#include "ramet/kernel/cuda/element_place.h"

#include <algorithm>
#include <vector>

#include "ramet/base/error.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::ElementPlace;

/// A dimension of what cuts leave; neighbours that are whole are one.
struct PlacedDim {
  int64_t extent = 1, stride = 1;
  std::vector<Position::Run> runs;
  bool whole = true;
};

/// Dimensions of the part, the last one whole; a part that no cut leaves a dimension whole of has one of extent 1.
std::vector<PlacedDim> placed_dims(const Position& position) {
  std::vector<PlacedDim> dims;
  const std::vector<int64_t> strides = position.logical().strides();
  for (int axis = 0; axis < position.local().rank(); ++axis) {
    const std::vector<Position::Run>& runs = position.along(axis);
    PlacedDim dim{position.local()[axis], strides[static_cast<size_t>(axis)], runs, false};
    dim.whole = dim.extent == position.logical()[axis] && runs.size() == 1;
    if (dim.whole && !dims.empty() && dims.back().whole) {
      dims.back().extent *= dim.extent;
      dims.back().stride = dim.stride;
      dims.back().runs = {{0, 0, dims.back().extent}};
    } else {
      dims.push_back(std::move(dim));
    }
  }
  if (dims.empty() || !dims.back().whole) dims.push_back({1, 1, {{0, 0, 1}}, true});
  return dims;
}

}  // namespace

bool keeps_blocks(const Position& position) {
  constexpr int64_t kBlock = 8;
  if (position.logical_elements() % kBlock != 0) return false;
  if (position.whole()) return true;
  if (position.flat() && position.flat_first() % kBlock != 0) return false;
  const std::vector<PlacedDim> dims = placed_dims(position);
  const int64_t tail = dims.back().extent;
  if (dims.size() == 1 || tail % kBlock == 0) return true;
  const PlacedDim& last = dims[dims.size() - 2];
  return last.extent * tail % kBlock == 0 && last.stride == tail &&
         std::all_of(last.runs.begin(), last.runs.end(), [tail](const Position::Run& run) {
           return run.local * tail % kBlock == 0 && run.logical * tail % kBlock == 0 && run.length * tail % kBlock == 0;
         });
}

std::string refuse_place(const Position& position) {
  const std::vector<PlacedDim> dims = placed_dims(position);
  size_t runs = 0;
  for (size_t i = 0; i + 1 < dims.size(); ++i) runs += dims[i].runs.size();
  // Another part may have a few more than the first.
  const bool fits = dims.size() <= ElementPlace::kDims + 1 && runs <= ElementPlace::kRuns / 2;
  return fits ? "" : "its elements are cut into more runs than a launch says";
}

ElementPlace place_of(const Position& position) {
  ElementPlace place{};
  const std::vector<PlacedDim> dims = placed_dims(position);
  place.first = position.flat_first();
  place.elements = position.local().elements();
  place.tail = ramet_device::divider_of(dims.back().extent);
  place.dims = static_cast<int>(dims.size()) - 1;
  int run = 0;
  for (int dim = 0; dim < place.dims; ++dim) {
    const PlacedDim& from = dims[static_cast<size_t>(dim)];
    place.extents[dim] = ramet_device::divider_of(from.extent);
    place.strides[dim] = from.stride;
    for (const Position::Run& each : from.runs) {
      if (run == ElementPlace::kRuns) internal_error("place_of", "more runs than its first part has");
      place.local[run] = each.local;
      place.logical[run] = each.logical;
      ++run;
    }
    place.first_run[dim + 1] = run;
  }
  return place;
}

}  // namespace ramet::kernel::cuda
