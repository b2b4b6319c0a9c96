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
  /// Positions from this one on in its row of the last dimension.
  int64_t left() const { return box.dims[2].count - at[2]; }
  /// Goes on by so many positions, at most `left()`.
  void skip(int64_t positions) {
    at[2] += positions;
    if (at[2] < box.dims[2].count) return;
    at[2] = 0;
    for (size_t d = 2; d-- > 0;) {
      if (++at[d] < box.dims[d].count) return;
      at[d] = 0;
    }
    ++sample;
  }
};

/// Where `count` positions of a row read, the first one at `first`, each `step` behind the one before it; no `row`:
/// beyond the borders.
void find_row(const char* row, int64_t first, int64_t step, int64_t width, int64_t pixel_bytes, const char* zeros,
              int64_t count, const char** out) {
  const int64_t from = first < 0 ? (-first + step - 1) / step : 0,
                to = first < width ? (width - 1 - first) / step + 1 : 0;
  const int64_t begin = row ? std::min(from, count) : count, end = std::clamp(to, begin, count);
  std::fill(out, out + begin, zeros);
  for (int64_t i = begin; i < end; ++i) out[i] = row + (first + i * step) * pixel_bytes;
  std::fill(out + end, out + count, zeros);
}

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
  const auto& [dz, dy, dx] = box.dims;
  for (int64_t i = begin; i < end;) {
    const int64_t count = std::min(end - i, walk.left());
    const char** to = out + (i - begin);
    for (const TapRead& z : dz.taps) {
      const int64_t at_z = walk.at[0] * dz.read_step + z.offset;
      for (const TapRead& y : dy.taps) {
        const int64_t at_y = walk.at[1] * dy.read_step + y.offset;
        const bool inside = at_z >= 0 && at_z < depth && at_y >= 0 && at_y < height;
        const char* row =
            inside ? view.data + ((walk.sample * depth + at_z) * height + at_y) * width * view.pixel_bytes : nullptr;
        for (const TapRead& x : dx.taps) {
          find_row(row, walk.at[2] * dx.read_step + x.offset, dx.read_step, width, view.pixel_bytes, zeros, count, to);
          to += stride;
        }
      }
    }
    walk.skip(count);
    i += count;
  }
}

void find_results(const PositionBox& box, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end,
                  int64_t* out) {
  Walk walk(box, begin);
  const auto place = [&](size_t d) { return box.dims[d].first + walk.at[d] * box.dims[d].step; };
  while (begin < end) {
    const int64_t count = std::min(end - begin, walk.left());
    const int64_t first = ((walk.sample * extents[0] + place(0)) * extents[1] + place(1)) * extents[2] + place(2);
    for (int64_t i = 0; i < count; ++i) *out++ = first + i * box.dims[2].step;
    walk.skip(count);
    begin += count;
  }
}

}  // namespace ramet::kernel
