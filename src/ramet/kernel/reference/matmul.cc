#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/matmul.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel {
namespace {

std::vector<double> read_all(const ReferenceOperands& operands, int input) {
  std::vector<double> values(static_cast<size_t>(operands.input_type(input).elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = operands.get(input, static_cast<int64_t>(i));
  return values;
}

/// One matrix of a stack, with its transposition.
struct MatrixView {
  const double* data;
  int64_t row_stride, column_stride;
  double operator()(int64_t row, int64_t column) const { return data[row * row_stride + column * column_stride]; }
};

MatrixView view(const std::vector<double>& values, int64_t index, int64_t rows, int64_t columns, bool transposed) {
  const double* data = values.data() + index * rows * columns;
  return transposed ? MatrixView{data, 1, rows} : MatrixView{data, columns, 1};
}

double dot(const MatmulForm& form, const MatrixView& a, const MatrixView& b, int64_t row, int64_t column) {
  const int64_t run = form.run();
  const auto chunk = [&](int64_t index) {
    double sum = 0;
    for (int64_t block = 0; block < form.chunk_blocks; ++block)
      for (int64_t i = 0; i < run; ++i) {
        const int64_t k = (block * form.chunks + index) * run + i;
        sum += a(row, k) * b(k, column);
      }
    return sum;
  };
  if (form.output.dtype == DType::kF64)
    return tree_combine<double>(0, form.chunks, chunk, [](double x, double y) { return x + y; });
  // Chunk sums meet in f32: that is where other devices' sums would come in, and what a bias is added to.
  return tree_combine<float>(
      0, form.chunks, [&](int64_t index) { return static_cast<float>(chunk(index)); },
      [](float x, float y) { return x + y; });
}

void run_matmul(const ReferenceOperands& operands) {
  const MatmulForm form = matmul_form(operands.node());
  const std::vector<double> a = read_all(operands, 0), b = read_all(operands, 1);
  for (int64_t product = 0; product < form.batch; ++product) {
    const size_t p = static_cast<size_t>(product);
    const MatrixView left = view(a, form.a_index[p], form.m, form.k, form.transpose_a);
    const MatrixView right = view(b, form.b_index[p], form.k, form.n, form.transpose_b);
    for (int64_t row = 0; row < form.m; ++row)
      for (int64_t column = 0; column < form.n; ++column) {
        const int64_t at = (product * form.m + row) * form.n + column;
        double value = dot(form, left, right, row, column);
        if (form.has_bias) value += operands.get(2, column);
        if (form.accumulate) value += operands.get(2, at);
        operands.set(0, at, value);
      }
  }
}

}  // namespace

void add_reference_matmul(Backend& backend) {
  // Blocked operands are other backends' own bytes; the reference reads none, and so has no "block".
  const auto refuse = [](const NodeSignature& node) {
    return node.attributes.has("b_blocked") ? std::string("reads no blocked operand") : std::string();
  };
  add_reference(backend, "matmul", run_matmul, refuse);
  add_reference(backend, "linear", run_matmul, refuse);
}

}  // namespace ramet::kernel
