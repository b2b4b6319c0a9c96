#include "ramet/ops/channel_norm.h"

#include <algorithm>
#include <vector>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

/// Calls `visit(element, sum)` for each element of the tensor in order, with the sum that it belongs to; `channel`: the
/// number of its channel among those of its vector.
template <typename Visit>
void for_each_element(const ChannelForm& form, const Visit& visit) {
  int64_t element = 0;
  const auto at = [&](int64_t sample, int64_t channel) {
    const int64_t sum = channel / std::max<int64_t>(1, form.channels / std::max<int64_t>(1, form.sums()));
    visit(element++, (form.each_sample ? sample * form.sums() : 0) + sum, sample, channel);
  };
  for (int64_t sample = 0; sample < form.samples; ++sample)
    if (form.channels_last) {
      for (int64_t place = 0; place < form.space; ++place)
        for (int64_t channel = 0; channel < form.channels; ++channel) at(sample, channel);
    } else {
      for (int64_t channel = 0; channel < form.channels; ++channel)
        for (int64_t place = 0; place < form.space; ++place) at(sample, channel);
    }
}

void run_moments(const ReferenceOperands& operands) {
  const ChannelForm form = channel_form(operands.node());
  const auto used = [&](int64_t sample) {
    return form.used ? std::clamp<int64_t>(static_cast<int64_t>(operands.get(1, sample)), 0, form.space) : form.space;
  };
  const auto is_used = [&](int64_t element, int64_t sample) {
    return !form.used || element / form.channels % form.space < used(sample);
  };
  const auto count = [&](int64_t sample) {
    return static_cast<double>(form.used ? used(sample) * (form.channels / form.sums()) : form.count());
  };
  std::vector<double> mean(static_cast<size_t>(operands.output_type(0).elements())), variance(mean.size());
  for_each_element(form, [&](int64_t element, int64_t sum, int64_t sample, int64_t) {
    if (is_used(element, sample)) mean[static_cast<size_t>(sum)] += operands.get(0, element) / count(sample);
  });
  for_each_element(form, [&](int64_t element, int64_t sum, int64_t sample, int64_t) {
    const double off = operands.get(0, element) - mean[static_cast<size_t>(sum)];
    if (is_used(element, sample)) variance[static_cast<size_t>(sum)] += off * off / count(sample);
  });
  for (size_t i = 0; i < mean.size(); ++i) {
    operands.set(0, static_cast<int64_t>(i), mean[i]);
    operands.set(1, static_cast<int64_t>(i), variance[i]);
  }
}

void run_sums(const ReferenceOperands& operands) {
  const ChannelForm form = channel_form(operands.node());
  const bool own_means = operands.input_type(2).shape[0] != 1;
  std::vector<double> sums(static_cast<size_t>(operands.output_type(0).elements())), products(sums.size());
  for_each_element(form, [&](int64_t element, int64_t sum, int64_t sample, int64_t channel) {
    const double mean = operands.get(2, (own_means ? sample * form.channels : 0) + channel);
    sums[static_cast<size_t>(sum)] += operands.get(0, element);
    products[static_cast<size_t>(sum)] += operands.get(0, element) * (operands.get(1, element) - mean);
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    operands.set(0, static_cast<int64_t>(i), sums[i]);
    operands.set(1, static_cast<int64_t>(i), products[i]);
  }
}

}  // namespace

void add_reference_channel_norm(Backend& backend) {
  add_reference(backend, "channel_moments", run_moments);
  add_reference(backend, "channel_sums", run_sums);
}

}  // namespace ramet::kernel
