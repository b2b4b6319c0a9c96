#include <algorithm>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/grid_sample.h"
#include "ramet/ops/patches.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/resize.h"

namespace ramet::kernel {
namespace {

/// One dimension of a [outer, extent, inner] mapped.
std::vector<double> mapped(const std::vector<double>& a, int64_t outer, int64_t extent, int64_t inner,
                           const TapTable& table) {
  std::vector<double> result(static_cast<size_t>(outer * table.outputs() * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < table.outputs(); ++i)
      for (int64_t t = table.starts[static_cast<size_t>(i)]; t < table.starts[static_cast<size_t>(i) + 1]; ++t) {
        const double weight = table.weights[static_cast<size_t>(t)];
        const int64_t from = (o * extent + table.taps[static_cast<size_t>(t)]) * inner;
        for (int64_t e = 0; e < inner; ++e)
          result[static_cast<size_t>((o * table.outputs() + i) * inner + e)] +=
              weight * a[static_cast<size_t>(from + e)];
      }
  return result;
}

void resample(const ReferenceOperands& operands) {
  const SpaceForm form = resample_form(operands.node());
  const std::vector<TapTable> tables = resample_tables(operands.node());
  std::vector<double> values(static_cast<size_t>(operands.input_type(0).elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = operands.get(0, static_cast<int64_t>(i));
  for (size_t axis = 0; axis < tables.size(); ++axis) {
    int64_t outer = form.outer, inner = form.inner;
    for (size_t before = 0; before < axis; ++before) outer *= form.to[before];
    for (size_t behind = axis + 1; behind < tables.size(); ++behind) inner *= form.from[behind];
    values = mapped(values, outer, form.from[axis], inner, tables[axis]);
  }
  for (size_t i = 0; i < values.size(); ++i) operands.set(0, static_cast<int64_t>(i), values[i]);
}

/// Element `place` of space of channel `c` of sample `n`, in an activation whose space has `extent` elements.
int64_t activation_index(bool channels_last, int64_t channels, int64_t extent, int64_t n, int64_t c, int64_t place) {
  return channels_last ? (n * extent + place) * channels + c : (n * channels + c) * extent + place;
}

/// Calls `visit(n, place, taps)` for each position of the grid in input `grid`.
template <typename Visit>
void for_each_position(const ReferenceOperands& operands, const GridForm& form, int grid, const Visit& visit) {
  const auto dims = static_cast<int64_t>(form.space.size());
  for (int64_t n = 0; n < form.samples; ++n)
    for (int64_t place = 0; place < form.places(); ++place) {
      double coordinates[3] = {};
      for (int64_t d = 0; d < dims; ++d) coordinates[d] = operands.get(grid, (n * form.places() + place) * dims + d);
      visit(n, place, grid_taps(form, coordinates));
    }
}

void grid_sample(const ReferenceOperands& operands) {
  const GridForm form = grid_sample_form(operands.node());
  for_each_position(operands, form, 1, [&](int64_t n, int64_t place, const GridTaps<double>& taps) {
    for (int64_t c = 0; c < form.channels; ++c) {
      double sum = 0;
      for (int t = 0; t < taps.count; ++t)
        if (taps.index[t] >= 0)
          sum += taps.weights[t] * operands.get(0, activation_index(form.channels_last, form.channels, form.pixels(), n,
                                                                    c, taps.index[t]));
      operands.set(0, activation_index(form.channels_last, form.channels, form.places(), n, c, place), sum);
    }
  });
}

void grid_sample_grad(const ReferenceOperands& operands) {
  const GridForm form = grid_sample_grad_form(operands.node());
  std::vector<double> sums(static_cast<size_t>(operands.output_type(0).elements()));
  for_each_position(operands, form, 1, [&](int64_t n, int64_t place, const GridTaps<double>& taps) {
    for (int64_t c = 0; c < form.channels; ++c) {
      const double dy =
          operands.get(0, activation_index(form.channels_last, form.channels, form.places(), n, c, place));
      for (int t = 0; t < taps.count; ++t)
        if (taps.index[t] >= 0)
          sums[static_cast<size_t>(activation_index(form.channels_last, form.channels, form.pixels(), n, c,
                                                    taps.index[t]))] += taps.weights[t] * dy;
    }
  });
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

void grid_position_grad(const ReferenceOperands& operands) {
  const GridForm form = grid_position_grad_form(operands.node());
  const auto dims = static_cast<int64_t>(form.space.size());
  const int64_t chunks = operands.attributes().get_int_or("chunks", 1), run = form.channels / chunks;
  for_each_position(operands, form, 2, [&](int64_t n, int64_t place, const GridTaps<double>& taps) {
    for (int64_t d = 0; d < dims; ++d) {
      const auto chunk = [&](int64_t index) {
        double sum = 0;
        for (int64_t c = index * run; c < (index + 1) * run; ++c)
          for (int t = 0; t < taps.count; ++t)
            if (taps.index[t] >= 0)
              sum += taps.slopes[d][t] *
                     operands.get(0, activation_index(form.channels_last, form.channels, form.places(), n, c, place)) *
                     operands.get(
                         1, activation_index(form.channels_last, form.channels, form.pixels(), n, c, taps.index[t]));
        return sum;
      };
      const double sum = tree_combine<double>(0, chunks, chunk, [](double a, double b) { return a + b; });
      operands.set(0, (n * form.places() + place) * dims + d, sum);
    }
  });
}

/// Calls `visit(column, pixel)` for each element of the columns, with the element of the image, or -1 in the padding.
template <typename Visit>
void for_each_patch_element(const PatchForm& form, const Visit& visit) {
  const int64_t rows = form.channels * form.taps_each();
  for (int64_t n = 0; n < form.samples; ++n)
    for (int64_t c = 0; c < form.channels; ++c)
      for (int64_t tap = 0; tap < form.taps_each(); ++tap)
        for (int64_t patch = 0; patch < form.patches(); ++patch) {
          const int64_t place = form.pixel(patch, tap), row = c * form.taps_each() + tap;
          visit(activation_index(form.channels_last, rows, form.patches(), n, row, patch),
                place < 0 ? -1 : activation_index(form.channels_last, form.channels, form.pixels(), n, c, place));
        }
}

void im2col(const ReferenceOperands& operands) {
  for_each_patch_element(patch_form(operands.node(), true), [&](int64_t column, int64_t pixel) {
    if (is_integer(operands.input_type(0).dtype))
      operands.set_int(0, column, pixel < 0 ? 0 : operands.get_int(0, pixel));
    else
      operands.set(0, column, pixel < 0 ? 0 : operands.get(0, pixel));
  });
}

void col2im(const ReferenceOperands& operands) {
  std::vector<double> sums(static_cast<size_t>(operands.output_type(0).elements()));
  for_each_patch_element(patch_form(operands.node(), false), [&](int64_t column, int64_t pixel) {
    if (pixel >= 0) sums[static_cast<size_t>(pixel)] += operands.get(0, column);
  });
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

}  // namespace

void add_reference_resize(Backend& backend) {
  add_reference(backend, "resample", resample);
  add_reference(backend, "grid_sample", grid_sample);
  add_reference(backend, "grid_sample_grad", grid_sample_grad);
  add_reference(backend, "grid_position_grad", grid_position_grad);
  add_reference(backend, "im2col", im2col);
  add_reference(backend, "col2im", col2im);
}

}  // namespace ramet::kernel
