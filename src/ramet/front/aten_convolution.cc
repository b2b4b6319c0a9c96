#include <algorithm>

#include "ramet/front/aten_network.h"
#include "ramet/ops/build_convolution.h"

// Convolutions and transposed convolutions of one to three dimensions of space.

namespace ramet::front {
namespace {

/// How many dimensions of space the filter has.
size_t space_of(const Translation& at) {
  const int rank = at.tensor("weight").shape().rank();
  if (rank < 3 || rank > 5) at.refuse("a filter of " + std::to_string(rank) + " dimensions");
  return static_cast<size_t>(rank - 2);
}

/// The zeros of "same" are so many that the extent stays; the odd one stands behind.
void pad_by_word(const Translation& at, const Shape& filter, ConvolutionOptions& options) {
  const std::string word = at.text("padding", "valid");
  if (word != "same" && word != "valid") at.refuse("unknown padding '" + word + "'");
  const size_t space = options.dilations.size();
  options.low.assign(space, 0), options.high.assign(space, 0);
  for (size_t i = 0; word == "same" && i < space; ++i) {
    const int64_t zeros = options.dilations[i] * (filter[static_cast<int>(i) + 2] - 1);
    options.low[i] = zeros / 2, options.high[i] = zeros - zeros / 2;
  }
}

ConvolutionOptions options_of(const Translation& at, size_t space) {
  ConvolutionOptions options;
  options.strides = spread(at, "stride", space, std::vector<int64_t>(space, 1));
  options.dilations = spread(at, "dilation", space, std::vector<int64_t>(space, 1));
  options.groups = at.integer("groups", 1);
  if (at.call().overload == "padding") {
    pad_by_word(at, at.tensor("weight").shape(), options);
  } else {
    options.low = options.high = spread(at, "padding", space, std::vector<int64_t>(space, 0));
  }
  return options;
}

/// Elements that the padding behind cuts away come back with `output_padding`: less of both is the same.
Tensor transposed_of(const Translation& at, Tensor input, Tensor filter, ConvolutionOptions options) {
  std::vector<int64_t> more = spread(at, "output_padding", options.strides.size());
  for (size_t i = 0; i < more.size(); ++i) {
    const int64_t both = std::min(more[i], options.high[i]);
    more[i] -= both, options.high[i] -= both;
  }
  return convolution_transposed(input, filter, at.tensor_if("bias"), options, more);
}

std::vector<Tensor> convolve(const Translation& at, bool transposed) {
  const size_t space = space_of(at);
  const Tensor input = with_samples(at.tensor("input"), static_cast<int>(space) + 2), filter = at.tensor("weight");
  const ConvolutionOptions options = options_of(at, space);
  const Tensor made = transposed ? transposed_of(at, input, filter, options)
                                 : convolution(input, filter, at.tensor_if("bias"), options);
  return {in_shape_of_result(at, made)};
}

std::vector<Tensor> forward(const Translation& at) { return convolve(at, false); }
std::vector<Tensor> transposed(const Translation& at) { return convolve(at, true); }
std::vector<Tensor> general(const Translation& at) { return convolve(at, at.flag("transposed")); }

constexpr OperatorEntry kOperators[] = {
    {"aten.conv1d", forward},
    {"aten.conv2d", forward},
    {"aten.conv3d", forward},
    {"aten.conv_transpose1d", transposed},
    {"aten.conv_transpose2d", transposed},
    {"aten.conv_transpose3d", transposed},
    {"aten.convolution", general},
    {"aten._convolution", general},
};

}  // namespace

std::span<const OperatorEntry> convolution_operators() { return kOperators; }

}  // namespace ramet::front
