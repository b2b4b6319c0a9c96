// ONNX's Fourier transforms, as products with constant matrices.
#include <cmath>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

constexpr int64_t kMostPoints = 4096;

/// cos and sin of 2 pi i k / points for results i and operands k, [operands, results].
struct Turns {
  Tensor cosine, sine;
};
Turns turns_of(const OnnxCall& at, int64_t points, int64_t operands, int64_t results,
               const std::vector<double>& weights) {
  std::vector<double> cosine, sine;
  for (int64_t k = 0; k < operands; ++k)
    for (int64_t i = 0; i < results; ++i) {
      const double turn = 2 * M_PI * static_cast<double>(i * k % points) / static_cast<double>(points);
      // Quarter turns are exact.
      const bool quarter = 4 * (i * k % points) % points == 0;
      const double weight = weights[static_cast<size_t>(k)];
      cosine.push_back(weight * (quarter ? std::round(std::cos(turn)) : std::cos(turn)));
      sine.push_back(weight * (quarter ? std::round(std::sin(turn)) : std::sin(turn)));
    }
  return {at.constant(DType::kF64, {operands, results}, cosine), at.constant(DType::kF64, {operands, results}, sine)};
}

/// A complex tensor [..., points] of f64; without an imaginary part it is real.
struct Complex {
  Tensor real, imaginary;
};

/// The first `size` elements of the last dimension, with zeros where there are fewer.
Tensor resized(Tensor a, int64_t size) {
  if (!a.valid() || a.dim(-1) == size) return a;
  if (a.dim(-1) > size) return slice_axis(a, -1, 0, size);
  std::vector<int64_t> low(static_cast<size_t>(a.shape().rank()), 0), high = low;
  high.back() = size - a.dim(-1);
  return pad(a, low, high);
}

/// Over the last dimension. `sign`: of the exponent.
Complex transform(const OnnxCall& at, Complex a, int64_t points, int64_t results, double sign, double factor) {
  if (points < 1 || points > kMostPoints)
    at.refuse("transforms of 1 to " + std::to_string(kMostPoints) + " points are supported");
  a.real = resized(a.real, points), a.imaginary = resized(a.imaginary, points);
  const Turns turns = turns_of(at, points, points, results, std::vector<double>(static_cast<size_t>(points), factor));
  Complex made{matmul(a.real, turns.cosine), scale(matmul(a.real, turns.sine), sign)};
  if (a.imaginary.valid()) {
    made.real = subtract(made.real, scale(matmul(a.imaginary, turns.sine), sign));
    made.imaginary = add(made.imaginary, matmul(a.imaginary, turns.cosine));
  }
  return made;
}

/// [..., 1 or 2] with `axis` last, in f64.
Complex complex_of(const OnnxCall& at, Tensor a, int axis) {
  if (a.shape().rank() < 2 || a.dim(-1) < 1 || a.dim(-1) > 2)
    at.refuse("the last dimension of a signal must hold one or two numbers");
  a = cast(a, DType::kF64);
  const auto part = [&](int64_t index) { return move_axis(select_index(a, -1, index), axis, -1); };
  return {part(0), a.dim(-1) == 2 ? part(1) : Tensor()};
}

Values dft(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int rank = a.shape().rank();
  const int64_t given = at.version() < 20 ? at.integer("axis", 1)
                        : at.has(2)       ? at.known_integer(2, "the axis of DFT")
                                          : -2;
  const int axis = normalize_axis(given, rank, "DFT");
  if (axis == rank - 1) at.refuse("the last dimension of a signal holds the parts of its numbers");
  const bool inverse = at.flag("inverse"), one_sided = at.flag("onesided");
  const int64_t extent = a.dim(axis);
  int64_t points = inverse && one_sided ? 2 * (extent - 1) : extent;
  if (at.has(1)) points = at.known_integer(1, "the length of DFT");
  Complex signal = complex_of(at, a, axis);
  const auto behind = [&](Tensor b) { return in_type(move_axis(b, -1, axis), a.dtype()); };
  if (inverse && one_sided) {
    // The other half are the conjugates; the result is real.
    const int64_t half = points / 2 + 1;
    signal.real = resized(signal.real, half), signal.imaginary = resized(signal.imaginary, half);
    std::vector<double> weights(static_cast<size_t>(half), 2.0 / static_cast<double>(points));
    weights[0] /= 2;
    if (points % 2 == 0) weights.back() /= 2;
    const Turns turns = turns_of(at, points, half, points, weights);
    Tensor made = matmul(signal.real, turns.cosine);
    if (signal.imaginary.valid()) made = subtract(made, matmul(signal.imaginary, turns.sine));
    const Tensor real = behind(made);
    std::vector<int64_t> dims = real.shape().dims();
    dims.push_back(1);
    return {reshape(real, Shape(dims))};
  }
  const Complex made = transform(at, signal, points, one_sided ? points / 2 + 1 : points, inverse ? 1 : -1,
                                 inverse ? 1.0 / static_cast<double>(points) : 1);
  return {stack({behind(made.real), behind(made.imaginary)}, rank - 1)};
}

Values stft(const OnnxCall& at) {
  Tensor a = at.input(0);
  if (a.shape().rank() == 2) a = reshape(a, {a.dim(0), a.dim(1), 1});
  if (a.shape().rank() != 3) at.refuse("a signal must have samples, steps and numbers");
  const int64_t step = at.known_integer(1, "the step of STFT");
  const Tensor window = at.input_if(2);
  if (window.valid() && window.shape().rank() != 1) at.refuse("the window is no vector");
  int64_t points = window.valid() ? window.dim(0) : a.dim(1);
  if (at.has(3)) points = at.known_integer(3, "the length of a frame");
  if (step < 1 || points < 1 || points > a.dim(1)) at.refuse("frames do not fit the signal");
  const Complex signal = complex_of(at, a, 1);
  const auto framed = [&](Tensor b) {  // [samples, frames, points]
    if (!b.valid()) return b;
    const Tensor frames = unfold(b, 1, points, step);
    return window.valid() ? multiply(frames, cast(window, DType::kF64)) : frames;
  };
  const bool one_sided = at.flag("onesided", true);
  const Complex made = transform(at, {framed(signal.real), framed(signal.imaginary)}, points,
                                 one_sided ? points / 2 + 1 : points, -1, 1);
  return {in_type(stack({made.real, made.imaginary}, 3), a.dtype())};
}

/// Triangles on the mel scale, as a constant.
Values mel_weights(const OnnxCall& at) {
  const int64_t bins = at.known_integer(0, "the number of mel bins"), points = at.known_integer(1, "the DFT's length"),
                rate = at.known_integer(2, "the sample rate");
  const double low = at.known_number(3, "the lower edge"), high = at.known_number(4, "the upper edge");
  if (bins < 1 || points < 1 || rate < 1 || bins * points > (1 << 24)) at.refuse("the sizes are out of range");
  const int64_t spectrum = points / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  std::vector<int64_t> edges;
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    edges.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(points + 1) * hertz / static_cast<double>(rate))));
  }
  const DType dtype = at.dtype("output_datatype", DType::kF32);
  HostTensor made({dtype, {spectrum, bins}});
  const auto set = [&](int64_t row, int64_t bin, double value) {
    if (row >= 0 && row < spectrum) made.set(row * bins + bin, value);
  };
  for (int64_t bin = 0; bin < bins; ++bin) {
    const int64_t lower = edges[static_cast<size_t>(bin)], centre = edges[static_cast<size_t>(bin + 1)],
                  upper = edges[static_cast<size_t>(bin + 2)];
    if (centre == lower)
      set(centre, bin, 1);
    else
      for (int64_t i = lower; i <= centre; ++i)
        set(i, bin, static_cast<double>(i - lower) / static_cast<double>(centre - lower));
    for (int64_t i = centre; i < upper; ++i)
      set(i, bin, static_cast<double>(upper - i) / static_cast<double>(upper - centre));
  }
  return {at.constant(std::move(made))};
}

constexpr OnnxEntry kEntries[] = {{"DFT", dft}, {"MelWeightMatrix", mel_weights}, {"STFT", stft}};

}  // namespace

std::span<const OnnxEntry> onnx_spectral_operators() { return kEntries; }

}  // namespace ramet::front
