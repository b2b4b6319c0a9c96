#include <cmath>
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
  const int64_t used = cell * grid.slots + ops::used_slots(grid, index + cell * grid.slots);
  for (int64_t slot = cell * grid.slots; slot < used; ++slot) {
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
  ops::check_sparse_index(operands.node(), grid, index, form.groups.patterns());
  // The cells along the sum meet in f32, as the parts of a dense product do.
  const int64_t parts = form.transpose ? grid.cells_down : grid.cells_across;
  std::vector<double> sums(static_cast<size_t>(parts * form.out()));
  for (int64_t token = 0; token < form.groups.count * form.tokens; ++token) {
    const int64_t group = token / form.tokens, first = group * grid.stored_elements();
    const int32_t* mine = index + (form.groups.own_index ? group * grid.cells() * grid.slots : 0);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t cell = 0; cell < grid.cells(); ++cell) {
      const int64_t part = form.transpose ? cell / grid.cells_across : cell % grid.cells_across;
      for_each_stored(grid, cell, mine, [&](int64_t row, int64_t column, int64_t element) {
        const int64_t from = form.transpose ? row : column, to = form.transpose ? column : row;
        sums[static_cast<size_t>(part * form.out() + to)] +=
            operands.get(0, form.x.element(token, from)) * operands.get(1, first + element);
      });
    }
    for (int64_t to = 0; to < form.out(); ++to) {
      const auto sum = [&](int64_t part) { return sums[static_cast<size_t>(part * form.out() + to)]; };
      const double value = form.output.dtype == DType::kF64
                               ? tree_combine<double>(0, parts, sum, [](double x, double y) { return x + y; })
                               : tree_combine<float>(
                                     0, parts, [&](int64_t part) { return static_cast<float>(sum(part)); },
                                     [](float x, float y) { return x + y; });
      operands.set(0, form.y.element(token, to), value);
    }
  }
}

/// Calls `visit(group, row, column, element)` for the stored elements of several matrices; `element` counts on.
template <typename Visit>
void for_each_of_groups(const ReferenceOperands& operands, int input, const SparseGrid& grid,
                        const ops::SparseGroups& groups, const Visit& visit) {
  const auto* index = static_cast<const int32_t*>(operands.input_bytes(input));
  ops::check_sparse_index(operands.node(), grid, index, groups.patterns());
  for (int64_t group = 0; group < groups.count; ++group) {
    const int32_t* mine = index + (groups.own_index ? group * grid.cells() * grid.slots : 0);
    for (int64_t cell = 0; cell < grid.cells(); ++cell)
      for_each_stored(grid, cell, mine, [&](int64_t row, int64_t column, int64_t element) {
        visit(group, row, column, group * grid.stored_elements() + element);
      });
  }
}

/// Unused slots hold 0.
void clear(const ReferenceOperands& operands) {
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, 0.0);
}

void sparse_outer(const ReferenceOperands& operands) {
  clear(operands);
  const ops::SparseOuterForm form = ops::sparse_outer_form(operands.node());
  const auto visit = [&](int64_t group, int64_t row, int64_t column, int64_t element) {
    double sum = 0;
    for (int64_t token = group * form.tokens; token < (group + 1) * form.tokens; ++token)
      sum += operands.get(0, form.a.element(token, row)) * operands.get(1, form.b.element(token, column));
    operands.set(0, element, sum);
  };
  for_each_of_groups(operands, 2, form.grid, form.groups, visit);
}

bool kept(ops::SparseKeep keep, int64_t row, int64_t column) {
  return keep == ops::SparseKeep::kAll || (keep == ops::SparseKeep::kLower ? column <= row : column >= row);
}

void sparse_softmax(const ReferenceOperands& operands) {
  const ops::SparseSoftmaxForm form = ops::sparse_softmax_form(operands.node());
  clear(operands);
  const auto rows = static_cast<size_t>(form.groups.count * form.grid.rows());
  std::vector<double> most(rows, -INFINITY), sums(rows);
  const auto each = [&](const auto& visit) {
    for_each_of_groups(operands, 1, form.grid, form.groups,
                       [&](int64_t group, int64_t row, int64_t column, int64_t element) {
                         const auto at = static_cast<size_t>(group * form.grid.rows() + row);
                         visit(at, element, kept(form.keep, row, column), operands.get(0, element));
                       });
  };
  each([&](size_t row, int64_t, bool keeps, double value) {
    if (keeps && (value > most[row] || std::isnan(value))) most[row] = value;
  });
  each([&](size_t row, int64_t, bool keeps, double value) {
    if (keeps) sums[row] += std::exp(value - most[row]);
  });
  each([&](size_t row, int64_t element, bool keeps, double value) {
    operands.set(0, element, keeps ? std::exp(value - most[row]) / sums[row] : 0.0);
  });
}

void sparse_softmax_grad(const ReferenceOperands& operands) {
  const ops::SparseSoftmaxForm form = ops::sparse_softmax_form(operands.node());
  clear(operands);
  std::vector<double> sums(static_cast<size_t>(form.groups.count * form.grid.rows()));
  const auto each = [&](const auto& visit) {
    for_each_of_groups(
        operands, 2, form.grid, form.groups, [&](int64_t group, int64_t row, int64_t column, int64_t element) {
          visit(sums[static_cast<size_t>(group * form.grid.rows() + row)], element, kept(form.keep, row, column));
        });
  };
  each([&](double& sum, int64_t element, bool keeps) {
    if (keeps) sum += operands.get(0, element) * operands.get(1, element);
  });
  each([&](const double& sum, int64_t element, bool keeps) {
    operands.set(0, element, keeps ? operands.get(0, element) * (operands.get(1, element) - sum) : 0.0);
  });
}

/// The row of this part of a table that the i-th number means; -1: another part has the row.
int64_t row_here(const ReferenceOperands& operands, const SparseGrid& grid, int64_t i) {
  const NodeSignature& node = operands.node();
  return ops::sparse_row_here(node, Position(node), grid, i, operands.get_int(0, i));
}

void sparse_gather(const ReferenceOperands& operands) {
  const ops::SparseRowsForm form = ops::sparse_rows_form(operands.node());
  const int64_t width = form.grid.columns();
  for (int64_t i = 0; i < form.numbers * width; ++i) operands.set(0, i, 0.0);
  for (int64_t i = 0; i < form.numbers; ++i) {
    const int64_t here = row_here(operands, form.grid, i);
    if (here < 0)
      for (int64_t column = 0; column < width; ++column) operands.set(0, i * width + column, -0.0);
    for_each_of_groups(operands, 2, form.grid, {}, [&](int64_t, int64_t row, int64_t column, int64_t element) {
      if (row == here) operands.set(0, i * width + column, operands.get(1, element));
    });
  }
}

void sparse_scatter_add(const ReferenceOperands& operands) {
  const ops::SparseRowsForm form = ops::sparse_rows_form(operands.node());
  clear(operands);
  std::vector<int64_t> here;
  for (int64_t i = 0; i < form.numbers; ++i) here.push_back(row_here(operands, form.grid, i));
  for_each_of_groups(operands, 2, form.grid, {}, [&](int64_t, int64_t row, int64_t column, int64_t element) {
    double sum = 0;
    for (int64_t i = 0; i < form.numbers; ++i)
      if (here[static_cast<size_t>(i)] == row) sum += operands.get(1, i * form.grid.columns() + column);
    operands.set(0, element, sum);
  });
}

}  // namespace

void add_reference_sparse(Backend& backend) {
  add_reference(backend, "sparse_matmul", sparse_matmul);
  add_reference(backend, "sparse_outer", sparse_outer);
  add_reference(backend, "sparse_softmax", sparse_softmax);
  add_reference(backend, "sparse_softmax_grad", sparse_softmax_grad);
  add_reference(backend, "sparse_gather", sparse_gather);
  add_reference(backend, "sparse_scatter_add", sparse_scatter_add);
}

}  // namespace ramet::kernel
