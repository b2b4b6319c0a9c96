#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/sparse.h"

namespace ramet::kernel {
namespace {

/// Calls `visit(row, column, element)` for the stored elements of one cell, as places in the logical matrix and in
/// `values`.
template <typename Visit>
void for_each_stored(const SparseGrid& grid, int64_t cell, const int32_t* index, const Visit& visit) {
  const int64_t top = cell / grid.cells_across * grid.cell_rows, left = cell % grid.cells_across * grid.cell_columns;
  for (int64_t slot = cell * grid.slots; slot < (cell + 1) * grid.slots; ++slot) {
    const int64_t row = top + index[slot] / grid.blocks_across() * grid.block_rows;
    const int64_t column = left + index[slot] % grid.blocks_across() * grid.block_columns;
    for (int64_t i = 0; i < grid.block_rows; ++i)
      for (int64_t j = 0; j < grid.block_columns; ++j)
        visit(row + i, column + j, (slot * grid.block_rows + i) * grid.block_columns + j);
  }
}

void sparse_matmul(const ReferenceOperands& operands) {
  const ops::SparseMatmulForm form = ops::sparse_matmul_form(operands.node());
  const SparseGrid& grid = form.grid;
  const auto* index = static_cast<const int32_t*>(operands.input_bytes(2));
  ops::check_sparse_index(operands.node(), grid, index);
  // The cells along the sum meet in f32, as the parts of a dense product do.
  const int64_t parts = form.transpose ? grid.cells_down : grid.cells_across;
  std::vector<double> sums(static_cast<size_t>(parts * form.out()));
  for (int64_t token = 0; token < form.tokens; ++token) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t cell = 0; cell < grid.cells(); ++cell) {
      const int64_t part = form.transpose ? cell / grid.cells_across : cell % grid.cells_across;
      for_each_stored(grid, cell, index, [&](int64_t row, int64_t column, int64_t element) {
        const int64_t from = form.transpose ? row : column, to = form.transpose ? column : row;
        sums[static_cast<size_t>(part * form.out() + to)] +=
            operands.get(0, token * form.in() + from) * operands.get(1, element);
      });
    }
    for (int64_t to = 0; to < form.out(); ++to) {
      const auto sum = [&](int64_t part) { return sums[static_cast<size_t>(part * form.out() + to)]; };
      const double value = form.output.dtype == DType::kF64
                               ? tree_combine<double>(0, parts, sum, [](double x, double y) { return x + y; })
                               : tree_combine<float>(
                                     0, parts, [&](int64_t part) { return static_cast<float>(sum(part)); },
                                     [](float x, float y) { return x + y; });
      operands.set(0, token * form.out() + to, value);
    }
  }
}

void sparse_outer(const ReferenceOperands& operands) {
  const ops::SparseOuterForm form = ops::sparse_outer_form(operands.node());
  const auto* index = static_cast<const int32_t*>(operands.input_bytes(2));
  ops::check_sparse_index(operands.node(), form.grid, index);
  for (int64_t cell = 0; cell < form.grid.cells(); ++cell)
    for_each_stored(form.grid, cell, index, [&](int64_t row, int64_t column, int64_t element) {
      double sum = 0;
      for (int64_t token = 0; token < form.tokens; ++token)
        sum += operands.get(0, token * form.grid.rows() + row) * operands.get(1, token * form.grid.columns() + column);
      operands.set(0, element, sum);
    });
}

}  // namespace

void add_reference_sparse(Backend& backend) {
  add_reference(backend, "sparse_matmul", sparse_matmul);
  add_reference(backend, "sparse_outer", sparse_outer);
}

}  // namespace ramet::kernel
