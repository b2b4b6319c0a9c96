#include "ramet/kernel/cpu/convolution_plan.h"

#include <algorithm>
#include <cstring>

namespace ramet::kernel {
namespace {

/// The coordinates of position `index` of a box, and the next ones.
struct Walk {
  const PositionBox& box;
  int64_t sample;
  std::array<int64_t, 3> at;

  Walk(const PositionBox& of, int64_t index) : box(of) {
    for (size_t d = 3; d-- > 0;) {
      at[d] = index % box.dims[d].count;
      index /= box.dims[d].count;
    }
    sample = index;
  }
  void next() {
    for (size_t d = 3; d-- > 0;) {
      if (++at[d] < box.dims[d].count) return;
      at[d] = 0;
    }
    ++sample;
  }
};

}  // namespace

std::vector<PositionClass> position_classes(const ConvolutionSpace& space, bool transposed) {
  std::vector<PositionClass> classes;
  if (!transposed) {
    PositionClass all{.first = 0, .step = 1, .count = space.output, .read_step = space.stride, .taps = {}};
    for (int64_t tap = 0; tap < space.taps; ++tap) all.taps.push_back({tap, tap * space.dilation - space.low});
    classes.push_back(std::move(all));
    return classes;
  }
  for (int64_t first = 0; first < std::min(space.stride, space.input); ++first) {
    PositionClass each{.first = first,
                       .step = space.stride,
                       .count = (space.input - first + space.stride - 1) / space.stride,
                       .read_step = 1,
                       .taps = {}};
    for (int64_t tap = space.taps; tap-- > 0;) {
      const int64_t from = first + space.low - tap * space.dilation;
      if (from % space.stride == 0) each.taps.push_back({tap, from / space.stride});
    }
    classes.push_back(std::move(each));
  }
  return classes;
}

std::vector<PositionBox> position_boxes(const ConvolutionForm& form) {
  std::array<std::vector<PositionClass>, 3> classes;
  for (size_t d = 0; d < 3; ++d)
    classes[d] = position_classes(form.space[d], form.kind == ConvolutionForm::Kind::kTransposed);
  std::vector<PositionBox> boxes;
  for (const PositionClass& z : classes[0])
    for (const PositionClass& y : classes[1])
      for (const PositionClass& x : classes[2]) boxes.push_back({{z, y, x}});
  return boxes;
}

void find_reads(const PositionBox& box, const PixelView& view, const char* zeros, int64_t begin, int64_t end,
                int64_t stride, const char** out) {
  Walk walk(box, begin);
  const auto& [depth, height, width] = view.extents;
  for (int64_t i = begin; i < end; ++i, ++out, walk.next()) {
    const char** to = out;
    const int64_t from_x = walk.at[2] * box.dims[2].read_step;
    for (const TapRead& z : box.dims[0].taps) {
      const int64_t at_z = walk.at[0] * box.dims[0].read_step + z.offset;
      for (const TapRead& y : box.dims[1].taps) {
        const int64_t at_y = walk.at[1] * box.dims[1].read_step + y.offset;
        const bool inside = at_z >= 0 && at_z < depth && at_y >= 0 && at_y < height;
        const char* row = view.data + ((walk.sample * depth + at_z) * height + at_y) * width * view.pixel_bytes;
        for (const TapRead& x : box.dims[2].taps) {
          const int64_t at_x = from_x + x.offset;
          *to = inside && at_x >= 0 && at_x < width ? row + at_x * view.pixel_bytes : zeros;
          to += stride;
        }
      }
    }
  }
}

void find_results(const PositionBox& box, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end,
                  int64_t* out) {
  Walk walk(box, begin);
  const auto place = [&](size_t d) { return box.dims[d].first + walk.at[d] * box.dims[d].step; };
  for (int64_t i = begin; i < end; ++i, ++out, walk.next())
    *out = ((walk.sample * extents[0] + place(0)) * extents[1] + place(1)) * extents[2] + place(2);
}

}  // namespace ramet::kernel
