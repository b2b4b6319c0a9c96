#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/convolution.h"
#include "ramet/ops/epilogue.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel {
namespace {

/// The operands of a node in the words of the forward convolution, and where their elements are.
class Places {
 public:
  explicit Places(const ConvolutionForm& form) : form_(form) {}

  int64_t input(int64_t sample, int64_t channel, int64_t position) const {
    return place(sample, channel, position, form_.channels, form_.input_positions());
  }
  int64_t output(int64_t sample, int64_t filter, int64_t position) const {
    return place(sample, filter, position, form_.filters, form_.output_positions());
  }
  int64_t filter(int64_t filter, int64_t group_channel, int64_t tap) const {
    return (filter * form_.group_channels() + group_channel) * form_.taps() + tap;
  }

  /// The position of the input that an output's position reads through a tap, or -1 where that is padding.
  int64_t read(int64_t output_position, int64_t tap) const {
    int64_t position = 0, scale = 1;
    for (size_t d = 3; d-- > 0;) {
      const ConvolutionSpace& space = form_.space[d];
      const int64_t at = output_position % space.output * space.stride + tap % space.taps * space.dilation - space.low;
      if (at < 0 || at >= space.input) return -1;
      position += at * scale;
      scale *= space.input;
      output_position /= space.output;
      tap /= space.taps;
    }
    return position;
  }

 private:
  int64_t place(int64_t sample, int64_t channel, int64_t position, int64_t channels, int64_t positions) const {
    return form_.channels_last ? (sample * positions + position) * channels + channel
                               : (sample * channels + channel) * positions + position;
  }
  const ConvolutionForm& form_;
};

std::vector<double> read_all(const ReferenceOperands& operands, int input) {
  std::vector<double> values(static_cast<size_t>(operands.input_type(input).elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = operands.get(input, static_cast<int64_t>(i));
  return values;
}

double at(const std::vector<double>& values, int64_t index) { return values[static_cast<size_t>(index)]; }

/// Chunk sums meet in f32: that is where other devices' sums would come in, and what a bias is added to. In f64
/// (kernel/interpret.h, interpret_in_double) nothing is rounded.
double combined(const std::vector<double>& sums, DType result) {
  const auto of = [&]<typename T>(T) {
    return tree_combine<T>(
        0, static_cast<int64_t>(sums.size()), [&](int64_t chunk) { return static_cast<T>(at(sums, chunk)); },
        [](T a, T b) { return a + b; });
  };
  return result == DType::kF64 ? of(double()) : static_cast<double>(of(float()));
}

void run_forward(const ReferenceOperands& operands) {
  const ConvolutionForm form = convolution_form(operands.node());
  const Places places(form);
  const std::vector<double> input = read_all(operands, 0), filter = read_all(operands, 1);
  const int64_t channels = form.group_channels(), run = channels / form.chunks;
  std::vector<double> sums(static_cast<size_t>(form.chunks));
  for (int64_t n = 0; n < form.samples; ++n)
    for (int64_t o = 0; o < form.filters; ++o)
      for (int64_t y = 0; y < form.output_positions(); ++y) {
        const int64_t first = o / form.group_filters() * channels;
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t tap = 0; tap < form.taps(); ++tap) {
          const int64_t x = places.read(y, tap);
          for (int64_t c = 0; x >= 0 && c < channels; ++c)
            sums[static_cast<size_t>(c / run)] +=
                at(input, places.input(n, first + c, x)) * at(filter, places.filter(o, c, tap));
        }
        operands.set(0, places.output(n, o, y),
                     combined(sums, form.result.dtype) + (form.has_bias ? operands.get(2, o) : 0));
      }
}

void run_transposed(const ReferenceOperands& operands) {
  const ConvolutionForm form = convolution_form(operands.node());
  const Places places(form);
  const std::vector<double> output = read_all(operands, 0), filter = read_all(operands, 1);
  const int64_t filters = form.group_filters(), channels = form.group_channels(), run = filters / form.chunks;
  const size_t chunks = static_cast<size_t>(form.chunks);
  std::vector<std::vector<double>> sums(static_cast<size_t>(form.result.elements()), std::vector<double>(chunks));
  for (int64_t n = 0; n < form.samples; ++n)
    for (int64_t y = 0; y < form.output_positions(); ++y)
      for (int64_t tap = 0; tap < form.taps(); ++tap) {
        const int64_t x = places.read(y, tap);
        for (int64_t o = 0; x >= 0 && o < form.filters; ++o)
          for (int64_t c = 0; c < channels; ++c)
            sums[static_cast<size_t>(places.input(n, o / filters * channels + c, x))]
                [static_cast<size_t>(o % filters / run)] +=
                at(output, places.output(n, o, y)) * at(filter, places.filter(o, c, tap));
      }
  for (int64_t n = 0; n < form.samples; ++n)
    for (int64_t c = 0; c < form.channels; ++c)
      for (int64_t x = 0; x < form.input_positions(); ++x) {
        const int64_t to = places.input(n, c, x);
        operands.set(
            0, to,
            combined(sums[static_cast<size_t>(to)], form.result.dtype) + (form.has_bias ? operands.get(2, c) : 0));
      }
}

void run_filter_gradient(const ReferenceOperands& operands) {
  const ConvolutionForm form = convolution_form(operands.node());
  const Places places(form);
  const std::vector<double> input = read_all(operands, 0), output = read_all(operands, 1);
  const int64_t channels = form.group_channels();
  for (int64_t o = 0; o < form.filters; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < form.taps(); ++tap) {
        const int64_t channel = o / form.group_filters() * channels + c, to = places.filter(o, c, tap);
        double sum = 0;
        for (int64_t n = 0; n < form.samples; ++n)
          for (int64_t y = 0; y < form.output_positions(); ++y)
            if (const int64_t x = places.read(y, tap); x >= 0)
              sum += at(input, places.input(n, channel, x)) * at(output, places.output(n, o, y));
        // Rounded before it is added, as a node `add` behind this one would find it.
        operands.set(0, to, static_cast<float>(sum) + (form.accumulate ? operands.get(2, to) : 0));
      }
}

/// The result in memory of its own, then the epilogue as a node `map`.
std::function<void(const ReferenceOperands&)> with_epilogue(void (*run)(const ReferenceOperands&)) {
  return [run](const ReferenceOperands& operands) {
    const NodeSignature& node = operands.node();
    if (!has_epilogue(node)) return run(operands);
    const NodeSignature bare = without_epilogue(node), map = epilogue_map(node);
    std::vector<const void*> inputs;
    for (int i = 0; i < operands.inputs(); ++i) inputs.push_back(operands.input_bytes(i));
    HostTensor between(bare.outputs[0]);
    void* const result = between.data.data();
    ThreadTeam caller(1);
    const KernelContext first{{inputs.data(), bare.inputs.size()}, {&result, 1}, nullptr, caller};
    run({bare, first});
    inputs.erase(inputs.begin(), inputs.begin() + std::ssize(bare.inputs));
    inputs.insert(inputs.begin(), result);
    void* const output = operands.output_bytes(0);
    reference_backend().make(map, 1)->run({inputs, {&output, 1}, nullptr, caller});
  };
}

}  // namespace

void add_reference_convolution(Backend& backend) {
  add_reference(backend, "convolution", with_epilogue(run_forward));
  add_reference(backend, "convolution_transposed", with_epilogue(run_transposed));
  add_reference(backend, "convolution_filter_grad", run_filter_gradient);
}

}  // namespace ramet::kernel
