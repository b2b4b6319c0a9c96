#include "ramet/ops/pooling.h"

#include <cmath>
#include <functional>
#include <vector>

#include "ramet/kernel/reference/reference.h"

// The oracle of pooling: window by window, tap by tap, in double.

namespace ramet::kernel {
namespace {

using Index = std::vector<int64_t>;

/// An element of the input under a window: its position in the channel and the number of its tap.
struct Place {
  int64_t position, tap;
};

Shape space_of(const PoolForm& form, bool pooled) {
  Index dims;
  for (const PoolAxis& axis : form.axes) dims.push_back(pooled ? axis.output : axis.input);
  return Shape(dims);
}

/// Element of a tensor of the form's layout.
int64_t offset(const PoolForm& form, int64_t sample, int64_t channel, int64_t position, int64_t space) {
  return form.channels_last ? (sample * space + position) * form.channels + channel
                            : (sample * form.channels + channel) * space + position;
}

/// All elements under the window of an output, in order of taps.
std::vector<Place> places_of(const PoolForm& form, const Index& output) {
  std::vector<Place> places{{0, 0}};
  for (size_t dim = 0; dim < form.axes.size(); ++dim) {
    const PoolAxis& axis = form.axes[dim];
    const int64_t first = axis.start(output[dim]);
    std::vector<Place> more;
    for (const Place& place : places)
      for (int64_t tap = 0; tap < axis.taps_of(output[dim]); ++tap) {
        const int64_t at = first + tap * axis.dilation;
        if (at >= 0 && at < axis.input) more.push_back({place.position * axis.input + at, place.tap * axis.taps + tap});
      }
    places = std::move(more);
  }
  return places;
}

/// Number of taps that an average divides by: those on elements, or all that are not beyond the padding.
double divisor_of(const PoolForm& form, const Index& output) {
  if (form.divisor != 0) return static_cast<double>(form.divisor);
  double product = 1;
  for (size_t dim = 0; dim < form.axes.size(); ++dim) {
    const PoolAxis& axis = form.axes[dim];
    int64_t count = 0;
    for (int64_t tap = 0; tap < axis.taps_of(output[dim]); ++tap) {
      const int64_t at = axis.start(output[dim]) + tap * axis.dilation;
      const bool inside = at >= 0 && at < axis.input;
      count += inside || (form.count_padding && at < axis.input + axis.high);
    }
    product *= static_cast<double>(count);
  }
  return product;
}

/// Calls `visit(sample, channel, output index, output position)`.
void for_each_window(const PoolForm& form, const std::function<void(int64_t, int64_t, const Index&, int64_t)>& visit) {
  for (int64_t sample = 0; sample < form.samples; ++sample)
    for (int64_t channel = 0; channel < form.channels; ++channel) {
      int64_t position = 0;
      for_each_index(space_of(form, true), [&](const Index& output) { visit(sample, channel, output, position++); });
    }
}

void run_max_pool(const ReferenceOperands& operands) {
  const PoolForm form = pool_form(operands.node());
  for_each_window(form, [&](int64_t sample, int64_t channel, const Index& output, int64_t position) {
    const std::vector<Place> places = places_of(form, output);
    double most = -INFINITY;
    Place best = places.at(0);
    for (const Place& place : places) {
      const double value = operands.get(0, offset(form, sample, channel, place.position, form.input_space()));
      if (!(value > most) && !std::isnan(value)) continue;
      most = value;
      best = place;
    }
    const int64_t at = offset(form, sample, channel, position, form.output_space());
    operands.set(0, at, most);
    operands.set_int(1, at, form.flat ? best.position : best.tap);
  });
}

void run_average_pool(const ReferenceOperands& operands) {
  const PoolForm form = pool_form(operands.node());
  for_each_window(form, [&](int64_t sample, int64_t channel, const Index& output, int64_t position) {
    double sum = 0;
    for (const Place& place : places_of(form, output))
      sum += operands.get(0, offset(form, sample, channel, place.position, form.input_space()));
    operands.set(0, offset(form, sample, channel, position, form.output_space()), sum / divisor_of(form, output));
  });
}

/// Adds `part(place, element of dy)` of each window to the elements under it.
void spread(const ReferenceOperands& operands, const PoolForm& form,
            const std::function<double(const Index& output, const Place& place, int64_t at)>& part) {
  std::vector<double> sums(static_cast<size_t>(operands.output_type(0).elements()), 0.0);
  for_each_window(form, [&](int64_t sample, int64_t channel, const Index& output, int64_t position) {
    const int64_t at = offset(form, sample, channel, position, form.output_space());
    for (const Place& place : places_of(form, output))
      sums[static_cast<size_t>(offset(form, sample, channel, place.position, form.input_space()))] +=
          part(output, place, at);
  });
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

void run_max_pool_grad(const ReferenceOperands& operands) {
  const PoolForm form = pool_form(operands.node());
  spread(operands, form, [&](const Index&, const Place& place, int64_t at) {
    return operands.get_int(1, at) == (form.flat ? place.position : place.tap) ? operands.get(0, at) : 0.0;
  });
}

void run_average_pool_grad(const ReferenceOperands& operands) {
  const PoolForm form = pool_form(operands.node());
  spread(operands, form,
         [&](const Index& output, const Place&, int64_t at) { return operands.get(0, at) / divisor_of(form, output); });
}

}  // namespace

void add_reference_pooling(Backend& backend) {
  add_reference(backend, "max_pool", run_max_pool);
  add_reference(backend, "max_pool_grad", run_max_pool_grad);
  add_reference(backend, "average_pool", run_average_pool);
  add_reference(backend, "average_pool_grad", run_average_pool_grad);
}

}  // namespace ramet::kernel
