// ONNX's matrix products.
#include <algorithm>
#include <cctype>

#include "ramet/base/error_types.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// numpy's matmul: vectors are rows on the left and columns on the right, whose dimension goes again.
Tensor matrix_product(Tensor a, Tensor b) {
  const DType dtype = a.dtype();
  if (a.shape().rank() == 0 || b.shape().rank() == 0)
    throw ShapeError({.what = "an operand of a product has no dimensions"});
  // Sums of integers are exact in f64 up to 2^53.
  if (!is_floating(dtype)) a = cast(a, DType::kF64), b = cast(b, DType::kF64);
  const bool row = a.shape().rank() == 1, column = b.shape().rank() == 1;
  if (row) a = reshape(a, {1, a.dim(0)});
  if (column) b = reshape(b, {b.dim(0), 1});
  Tensor made = ops::matmul(a, b);
  std::vector<int64_t> dims = made.shape().dims();
  if (column) dims.pop_back();
  if (row) dims.erase(dims.end() - (column ? 1 : 2));
  if (row || column) made = reshape(made, Shape(dims));
  return in_type(made, dtype);
}

Values matmul(const OnnxCall& at) { return {matrix_product(at.input(0), at.input(1))}; }

Values gemm(const OnnxCall& at) {
  Tensor a = at.input(0), b = at.input(1);
  if (a.shape().rank() != 2 || b.shape().rank() != 2) at.refuse("the operands of Gemm must be matrices");
  const double alpha = at.number("alpha", 1), beta = at.number("beta", 1);
  const bool transpose_a = at.flag("transA"), transpose_b = at.flag("transB");
  const Tensor c = at.input_if(2);
  const DType dtype = a.dtype();
  if (!is_floating(dtype)) a = cast(a, DType::kF64), b = cast(b, DType::kF64);
  const int64_t columns = b.dim(transpose_b ? 0 : 1);
  if (c.valid() && alpha == 1 && beta == 1 && !transpose_a && is_floating(dtype) && c.shape() == Shape{columns})
    return {linear(a, b, c, transpose_b)};
  Tensor made = ops::matmul(a, b, transpose_a, transpose_b);
  if (alpha != 1) made = scale(made, alpha);
  if (c.valid()) {
    Tensor added = in_type(c, made.dtype());
    if (beta != 1) added = scale(added, beta);
    made = add(made, added);
  }
  return {in_type(made, dtype)};
}

Values einsum(const OnnxCall& at) {
  std::string equation = at.text("equation");
  std::erase_if(equation, [](unsigned char c) { return std::isspace(c); });
  std::vector<Tensor> operands = at.all_inputs();
  if (operands.empty()) at.refuse("no inputs");
  const DType dtype = operands[0].dtype();
  if (!is_floating(dtype))
    for (Tensor& each : operands) each = cast(each, DType::kF64);
  // Ellipses become letters that the equation does not have.
  const size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow), right = arrow == std::string::npos ? "" : equation.substr(arrow + 2);
  std::string unused;
  for (char c = 'A'; c <= 'Z'; ++c)
    if (equation.find(c) == std::string::npos) unused += c;
  std::vector<std::string> terms(1);
  for (const char c : left)
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  if (terms.size() != operands.size()) at.refuse("the equation names another number of operands");
  size_t most = 0;
  std::vector<size_t> hidden(terms.size(), 0);
  for (size_t i = 0; i < terms.size(); ++i)
    if (terms[i].find("...") != std::string::npos) {
      const int64_t rest = operands[i].shape().rank() - std::ssize(terms[i]) + 3;
      if (rest < 0 || rest > std::ssize(unused)) at.refuse("an operand has too few dimensions for the equation");
      hidden[i] = static_cast<size_t>(rest), most = std::max(most, hidden[i]);
    }
  const std::string letters = unused.substr(0, most);
  for (size_t i = 0; i < terms.size(); ++i)
    if (const size_t dots = terms[i].find("..."); dots != std::string::npos)
      terms[i].replace(dots, 3, letters.substr(most - hidden[i]));
  if (arrow == std::string::npos) {
    right = letters;
    std::string once;
    for (char c = 'A'; c <= 'z'; ++c)
      if (std::isalpha(static_cast<unsigned char>(c)) && letters.find(c) == std::string::npos &&
          std::count(left.begin(), left.end(), c) == 1)
        once += c;
    right += once;
  } else if (const size_t dots = right.find("..."); dots != std::string::npos) {
    right.replace(dots, 3, letters);
  }
  std::string whole;
  for (const std::string& term : terms) whole += (whole.empty() ? "" : ",") + term;
  return {in_type(ops::einsum(whole + "->" + right, operands), dtype)};
}

/// An integer operand without its zero point, in f64, in which sums are exact. Zero points of rows stand on `axis`.
Tensor without_zero(Tensor a, Tensor zero, int axis) {
  a = cast(a, DType::kF64);
  if (!zero.valid()) return a;
  zero = cast(zero, DType::kF64);
  if (zero.shape().rank() == 1 && zero.dim(0) > 1) {
    std::vector<int64_t> dims(static_cast<size_t>(a.shape().rank()), 1);
    dims[static_cast<size_t>(normalize_axis(axis, a.shape().rank(), "a zero point"))] = zero.dim(0);
    zero = reshape(zero, Shape(dims));
  } else if (zero.shape().elements() == 1) {
    zero = reshape(zero, {});
  }
  return subtract(a, zero);
}

Values matmul_integer(const OnnxCall& at) {
  const Tensor a = without_zero(at.input(0), at.input_if(2), -2), b = without_zero(at.input(1), at.input_if(3), -1);
  return {cast(matrix_product(a, b), DType::kI32)};
}

/// Determinants by Gauss's elimination with the largest pivot of each column, element-wise over all matrices.
Values det(const OnnxCall& at) {
  Tensor a = at.input(0);
  const int rank = a.shape().rank();
  if (rank < 2 || a.dim(-1) != a.dim(-2)) at.refuse("Det needs square matrices");
  const int64_t n = a.dim(-1), count = n == 0 ? 1 : a.shape().elements() / (n * n);
  if (n > 64) at.refuse("Det of matrices beyond 64 x 64 is not supported");
  const DType dtype = a.dtype();
  const Shape outer(std::vector<int64_t>(a.shape().dims().begin(), a.shape().dims().end() - 2));
  a = reshape(at_least_f32(a), {count, n, n});
  Tensor made = at.full(a.dtype(), {count, 1, 1}, 1);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t m = n - k;
    // Row `pivot` comes first: swapping it with row 0 changes the sign unless it is row 0.
    const Tensor column = slice(a, {0, 0, 0}, {count, m, 1});
    const Tensor pivot = argmax(reshape(map_unary("abs", column), {count, m}), 1);
    const Tensor is_pivot = reshape(one_hot(pivot, m, a.dtype()), {count, m, 1});
    const Tensor zero = at.full(a.dtype(), {}, 0);
    const Tensor chosen = less(zero, is_pivot);
    const Tensor row = reduce_sum(select(chosen, a, zero), {1}, true);
    const Tensor first = slice(a, {0, 0, 0}, {count, 1, m});
    a = select(chosen, broadcast_to(first, {count, m, m}), a);
    const Tensor swapped = less(at.full(DType::kI32, {}, 0), reshape(pivot, {count, 1, 1}));
    const Tensor head = slice(row, {0, 0, 0}, {count, 1, 1});
    made = multiply(made, select(swapped, negate(head), head));
    if (m == 1) break;
    const Tensor rest = slice(a, {0, 1, 0}, {count, m, m});
    const Tensor safe = select(equal(head, zero), at.full(a.dtype(), {}, 1), head);
    const Tensor factor = divide(slice(rest, {0, 0, 0}, {count, m - 1, 1}), safe);
    a = slice(subtract(rest, multiply(factor, row)), {0, 0, 1}, {count, m - 1, m});
  }
  return {in_type(reshape(made, outer), dtype)};
}

constexpr OnnxEntry kEntries[] = {
    {"Det", det}, {"Einsum", einsum}, {"Gemm", gemm}, {"MatMul", matmul}, {"MatMulInteger", matmul_integer},
};

}  // namespace

std::span<const OnnxEntry> onnx_product_operators() { return kEntries; }

}  // namespace ramet::front
