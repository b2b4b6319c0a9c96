#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ramet/base/host_tensor.h"
#include "ramet/front/index_support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/rules.h"

// Fourier transforms, as products with constant matrices. A complex tensor is one of f32 whose last dimension holds
// real and imaginary part.

namespace ramet::front {
namespace {

using Tensors = std::vector<Tensor>;
using Dims = std::vector<int64_t>;

constexpr int64_t kLongest = 4096;  ///< of a transformed dimension: its matrices have the square of this

/// A complex tensor in two; the imaginary part may be invalid, for 0.
struct Complex {
  Tensor real, imaginary{};
};

Complex complex_operand(const Translation& at, std::string_view name) {
  const Tensor a = at.tensor(name);
  if (at.complex(name)) return {select_index(a, -1, 0), select_index(a, -1, 1)};
  return {is_floating(a.dtype()) && a.dtype() != DType::kF64 ? a : cast(a, DType::kF32)};
}

Tensor joined(const Complex& a) {
  const Tensor imaginary = a.imaginary.valid() ? a.imaginary : zeros(*a.real.builder, a.real.type());
  return stack({a.real, imaginary}, -1);
}

/// factor(k, n) * cos or sin of 2 pi k n / period: [rows, columns].
Tensor wave_matrix(const Translation& at, int64_t rows, int64_t columns, int64_t period, bool sine,
                   double (*factor)(int64_t k, int64_t period)) {
  HostTensor matrix({DType::kF32, Shape{rows, columns}});
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t n = 0; n < columns; ++n) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % period) / static_cast<double>(period);
      matrix.set(k * columns + n, factor(k, period) * (sine ? std::sin(angle) : std::cos(angle)));
    }
  return ops::constant(at.build(), TensorData(std::move(matrix)));
}

double one(int64_t /*k*/, int64_t /*period*/) { return 1; }
/// How often frequency k of the half that is kept of a real signal stands in the whole.
double occurrences(int64_t k, int64_t period) { return k == 0 || 2 * k == period ? 1 : 2; }

/// The product of the vectors along `axis` with a matrix.
Tensor along_axis(Tensor a, int64_t axis, Tensor matrix) {
  if (a.shape().rank() == 1) return reshape(matmul(reshape(a, {1, a.dim(0)}), matrix), {matrix.dim(1)});
  const int64_t last = a.shape().rank() - 1;
  return move_axis(matmul(move_axis(a, axis, last), matrix), last, axis);
}

/// The first `extent` elements along an axis, zeros behind where there are fewer.
Complex held(const Complex& a, int64_t axis, int64_t extent) {
  const auto hold = [&](Tensor x) {
    if (!x.valid()) return x;
    const int64_t own = x.dim(static_cast<int>(axis));
    if (own >= extent) return slice_axis(x, axis, 0, extent);
    Dims low(static_cast<size_t>(x.shape().rank()), 0), high = low;
    high[static_cast<size_t>(axis)] = extent - own;
    return pad(x, low, high);
  };
  return {hold(a.real), hold(a.imaginary)};
}

void require_length(const Translation& at, int64_t extent) {
  if (extent > kLongest)
    at.refuse("a dimension of " + std::to_string(extent) + " elements is transformed, by a product with a matrix",
              "Transform dimensions of at most " + std::to_string(kLongest) + " elements");
}

/// One dimension: the first `kept` frequencies of sum over n of a[n] exp(-+ 2 pi i k n / N).
Complex transformed(const Translation& at, const Complex& a, int64_t axis, bool forward, int64_t kept) {
  const int64_t extent = a.real.dim(static_cast<int>(axis));
  require_length(at, extent);
  const Tensor cosine = wave_matrix(at, extent, kept, extent, false, one);
  const Tensor sine = wave_matrix(at, extent, kept, extent, true, one);
  const Tensor rr = along_axis(a.real, axis, cosine), rs = along_axis(a.real, axis, sine);
  if (!a.imaginary.valid()) return {rr, forward ? negate(rs) : rs};
  const Tensor ir = along_axis(a.imaginary, axis, cosine), is = along_axis(a.imaginary, axis, sine);
  return forward ? Complex{add(rr, is), subtract(ir, rs)} : Complex{subtract(rr, is), add(ir, rs)};
}

/// One dimension: the real signal of `extent` elements whose first frequencies `a` holds.
Tensor real_signal(const Translation& at, const Complex& a, int64_t axis, int64_t extent, bool forward) {
  require_length(at, extent);
  const int64_t half = extent / 2 + 1;
  const Complex used = held(a, axis, half);
  const Tensor real = along_axis(used.real, axis, wave_matrix(at, half, extent, extent, false, occurrences));
  if (!used.imaginary.valid()) return real;
  const Tensor turned = along_axis(used.imaginary, axis, wave_matrix(at, half, extent, extent, true, occurrences));
  return forward ? add(real, turned) : subtract(real, turned);
}

Complex scaled(const Complex& a, double factor) {
  if (factor == 1) return a;
  return {scale(a.real, factor), a.imaginary.valid() ? scale(a.imaginary, factor) : a.imaginary};
}

/// The factor of a transform of `elements`, by the argument "norm" of torch.fft.
double norm_factor(const Translation& at, bool forward, double elements) {
  const std::string norm = at.text("norm", "backward");
  if (norm == "ortho") return 1 / std::sqrt(elements);
  return (norm == "forward") == forward ? 1 / elements : 1;
}

/// Dimensions to transform and their extents (-1: as they are), of the functions of torch.fft.
struct Transform {
  Dims axes, extents;
};
Transform transform_of(const Translation& at, int rank, const Dims& absent) {
  Transform found;
  if (at.call().op.find("fftn") == std::string::npos && at.call().op.find("fft2") == std::string::npos) {
    found.axes = {axis_of(at, "dim", rank, -1)};
    found.extents = {at.integer("n", -1)};
    return found;
  }
  found.extents = at.integers("s");
  Dims axes = at.integers("dim", absent);
  if (axes.empty()) {
    axes.resize(found.extents.empty() ? static_cast<size_t>(rank) : found.extents.size());
    std::iota(axes.begin(), axes.end(), rank - static_cast<int64_t>(axes.size()));
  }
  for (int64_t axis : axes) found.axes.push_back(normalize_axis(axis, rank, "argument 'dim'"));
  found.extents.resize(axes.size(), -1);
  return found;
}

enum class Form : uint8_t { kComplex, kRealInput, kRealOutput };

template <Form form, bool forward>
Tensors translate_fft(const Translation& at) {
  Complex a = complex_operand(at, "self");
  const bool two = at.call().op.find("fft2") != std::string::npos;
  const Transform t = transform_of(at, a.real.shape().rank(), two ? Dims{-2, -1} : Dims{});
  double elements = 1;
  const size_t last = t.axes.size() - 1;
  const auto extent_of = [&](size_t i) {
    if (t.extents[i] != -1) return t.extents[i];
    const int64_t own = a.real.dim(static_cast<int>(t.axes[i]));
    return form == Form::kRealOutput && i == last ? 2 * (own - 1) : own;
  };
  const auto transform = [&](size_t i, int64_t kept) {
    const int64_t extent = extent_of(i);
    elements *= static_cast<double>(extent);
    a = transformed(at, held(a, t.axes[i], extent), t.axes[i], forward, kept == 0 ? extent : kept);
  };
  if (form == Form::kRealInput) transform(last, extent_of(last) / 2 + 1);
  for (size_t i = 0; i < t.axes.size(); ++i)
    if (form == Form::kComplex || i != last) transform(i, 0);
  if (form == Form::kRealOutput) {
    const int64_t extent = extent_of(last);
    elements *= static_cast<double>(extent);
    a = {real_signal(at, a, t.axes[last], extent, forward)};
    return {scaled(a, norm_factor(at, forward, elements)).real};
  }
  return {joined(scaled(a, norm_factor(at, forward, elements)))};
}

/// aten._fft_r2c, _fft_c2c, _fft_c2r, into which other functions of torch.fft are split.
template <Form form>
Tensors translate_plain_fft(const Translation& at) {
  Complex a = complex_operand(at, "self");
  const bool forward = form == Form::kRealInput || (form == Form::kComplex && at.flag("forward"));
  const Dims axes = axes_of(at, "dim", a.real.shape().rank());
  const int64_t extent = form == Form::kRealOutput ? at.integer("last_dim_size") : 0;
  double elements = static_cast<double>(std::max<int64_t>(extent, 1));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t n = form == Form::kRealInput ? axes.size() - 1 - i : i;  // the last dimension first
    if (form == Form::kRealOutput && n + 1 == axes.size()) continue;
    const int64_t own = a.real.dim(static_cast<int>(axes[n]));
    elements *= static_cast<double>(own);
    const bool half = form == Form::kRealInput && i == 0 && at.flag("onesided");
    a = transformed(at, a, axes[n], forward, half ? own / 2 + 1 : own);
  }
  if (form == Form::kRealOutput) a = {real_signal(at, a, axes.back(), extent, false)};
  const int64_t normalization = at.integer("normalization");
  a = scaled(a, normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(elements) : 1 / elements);
  return {form == Form::kRealOutput ? a.real : joined(a)};
}

Tensors translate_same(const Translation& at) { return {at.tensor("self")}; }
Tensors translate_real(const Translation& at) { return {complex_operand(at, "self").real}; }
Tensors translate_imaginary(const Translation& at) {
  const Complex a = complex_operand(at, "self");
  if (!a.imaginary.valid()) at.refuse("the imaginary part of a tensor that is not complex");
  return {a.imaginary};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.fft_fft", translate_fft<Form::kComplex, true>, true},
    {"aten.fft_fft2", translate_fft<Form::kComplex, true>, true},
    {"aten.fft_fftn", translate_fft<Form::kComplex, true>, true},
    {"aten.fft_ifft", translate_fft<Form::kComplex, false>, true},
    {"aten.fft_ifft2", translate_fft<Form::kComplex, false>, true},
    {"aten.fft_ifftn", translate_fft<Form::kComplex, false>, true},
    {"aten.fft_rfft", translate_fft<Form::kRealInput, true>, true},
    {"aten.fft_rfft2", translate_fft<Form::kRealInput, true>, true},
    {"aten.fft_rfftn", translate_fft<Form::kRealInput, true>, true},
    {"aten.fft_irfft", translate_fft<Form::kRealOutput, false>, true},
    {"aten.fft_irfft2", translate_fft<Form::kRealOutput, false>, true},
    {"aten.fft_irfftn", translate_fft<Form::kRealOutput, false>, true},
    {"aten._fft_r2c", translate_plain_fft<Form::kRealInput>, true},
    {"aten._fft_c2c", translate_plain_fft<Form::kComplex>, true},
    {"aten._fft_c2r", translate_plain_fft<Form::kRealOutput>, true},
    {"aten.view_as_real", translate_same, true},
    {"aten.view_as_complex", translate_same, true},
    {"aten.real", translate_real, true},
    {"aten.imag", translate_imaginary, true},
};

}  // namespace

std::span<const OperatorEntry> spectral_operators() { return kOperators; }

}  // namespace ramet::front
