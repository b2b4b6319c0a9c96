#include <algorithm>
#include <numeric>

#include "ramet/base/error_types.h"
#include "ramet/sparse.h"

namespace ramet::v0 {
namespace {

std::string times(int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); }

/// `what` has as many entries as expected.
void require_count(const std::string& what, size_t found, int64_t expected) {
  if (static_cast<int64_t>(found) != expected)
    throw ShapeError({.what = what + " of a sparse matrix do not fit its other parts",
                      .found = std::to_string(found),
                      .expected = std::to_string(expected)});
}

/// An entry of a list of places.
void require_place(const std::string& what, size_t entry, int64_t found, int64_t bound) {
  if (found < 0 || found >= bound)
    throw FormatError({.what = "a place outside of a sparse matrix",
                       .where = what + " of entry " + std::to_string(entry),
                       .found = std::to_string(found),
                       .expected = bound == 0 ? "no entry" : "0 to " + std::to_string(bound - 1)});
}

/// The numbers of blocks of which the lines' and the others' places are given.
std::vector<int64_t> numbers_of(const std::vector<int64_t>& row, const std::vector<int64_t>& column, int64_t down,
                                int64_t across) {
  require_count("rows and columns", column.size(), static_cast<int64_t>(row.size()));
  std::vector<int64_t> numbers(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    require_place("row", i, row[i], down);
    require_place("column", i, column[i], across);
    numbers[i] = row[i] * across + column[i];
  }
  return numbers;
}

/// The line of each entry of a compressed format.
std::vector<int64_t> lines_of(const std::vector<int64_t>& first, int64_t lines, size_t entries) {
  require_count("starts of lines", first.size(), lines + 1);
  std::vector<int64_t> line(entries);
  for (int64_t i = 0; i < lines; ++i) {
    const int64_t begin = first[static_cast<size_t>(i)], end = first[static_cast<size_t>(i) + 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(entries) || (i == 0 && begin != 0))
      throw FormatError({.what = "the starts of lines of a sparse matrix must ascend from 0",
                         .where = "line " + std::to_string(i),
                         .found = std::to_string(begin) + " to " + std::to_string(end),
                         .expected = "at most " + std::to_string(entries)});
    std::fill(line.begin() + begin, line.begin() + end, i);
  }
  require_count("entries", entries, first.back());
  return line;
}

/// Starts of `lines` lines of entries that are sorted by line.
std::vector<int64_t> starts_of(const std::vector<int64_t>& line, int64_t lines) {
  std::vector<int64_t> first(static_cast<size_t>(lines) + 1, 0);
  for (const int64_t each : line) ++first[static_cast<size_t>(each) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

}  // namespace

SparseMatrix::SparseMatrix(int64_t rows, int64_t columns, BlockSize block)
    : rows_(rows), columns_(columns), block_(block) {
  if (rows < 0 || columns < 0 || block.rows < 1 || block.columns < 1 || rows % block.rows != 0 ||
      columns % block.columns != 0)
    throw ShapeError({.what = "the blocks of a sparse matrix must divide it",
                      .found = "blocks of " + times(block.rows, block.columns) + " in " + times(rows, columns)});
}

SparseMatrix SparseMatrix::sorted(int64_t rows, int64_t columns, BlockSize block, std::vector<int64_t> numbers,
                                  std::span<const float> values) {
  SparseMatrix made(rows, columns, block);
  const int64_t size = made.block_elements();
  require_count("values", values.size(), static_cast<int64_t>(numbers.size()) * size);
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  for (const size_t entry : order) {
    if (!made.numbers_.empty() && made.numbers_.back() == numbers[entry])
      throw FormatError({.what = "a place of a sparse matrix is stored twice",
                         .where = "entry " + std::to_string(entry),
                         .found = "row " + std::to_string(numbers[entry] / made.blocks_across()) + ", column " +
                                  std::to_string(numbers[entry] % made.blocks_across()),
                         .remedy = "Add up the entries of one place first"});
    made.numbers_.push_back(numbers[entry]);
    const auto from = values.begin() + static_cast<int64_t>(entry) * size;
    made.values_.insert(made.values_.end(), from, from + size);
  }
  return made;
}

SparseMatrix SparseMatrix::from_dense(int64_t rows, int64_t columns, std::span<const float> numbers, BlockSize block) {
  SparseMatrix made(rows, columns, block);
  require_count("numbers", numbers.size(), rows * columns);
  std::vector<float> values(static_cast<size_t>(made.block_elements()));
  for (int64_t top = 0; top < rows; top += block.rows)
    for (int64_t left = 0; left < columns; left += block.columns) {
      bool any = false;
      for (int64_t i = 0; i < made.block_elements(); ++i) {
        const int64_t at = (top + i / block.columns) * columns + left + i % block.columns;
        values[static_cast<size_t>(i)] = numbers[static_cast<size_t>(at)];
        any = any || values[static_cast<size_t>(i)] != 0;
      }
      if (!any) continue;
      made.numbers_.push_back(top / block.rows * made.blocks_across() + left / block.columns);
      made.values_.insert(made.values_.end(), values.begin(), values.end());
    }
  return made;
}

SparseMatrix SparseMatrix::from(const CooMatrix& m) {
  return sorted(m.rows, m.columns, {}, numbers_of(m.row, m.column, m.rows, m.columns), m.values);
}

SparseMatrix SparseMatrix::from(const CsrMatrix& m) {
  return sorted(m.rows, m.columns, {},
                numbers_of(lines_of(m.first, m.rows, m.column.size()), m.column, m.rows, m.columns), m.values);
}

SparseMatrix SparseMatrix::from(const CscMatrix& m) {
  return sorted(m.rows, m.columns, {}, numbers_of(m.row, lines_of(m.first, m.columns, m.row.size()), m.rows, m.columns),
                m.values);
}

SparseMatrix SparseMatrix::from(const BsrMatrix& m) {
  const SparseMatrix grid(m.rows, m.columns, m.block);
  const int64_t down = m.rows / m.block.rows;
  return sorted(m.rows, m.columns, m.block,
                numbers_of(lines_of(m.first, down, m.column.size()), m.column, down, grid.blocks_across()), m.values);
}

SparseMatrix SparseMatrix::from(const SparseTriplets& m) {
  const SparseMatrix grid(m.rows, m.columns, m.block);
  return sorted(m.rows, m.columns, m.block, numbers_of(m.row, m.column, m.rows / m.block.rows, grid.blocks_across()),
                m.values);
}

SparseMatrix SparseMatrix::from(const SparseCells& m) {
  if (m.cells_down < 1 || m.cells_across < 1 || m.slots < 0)
    throw ShapeError(
        {.what = "a sparse matrix has no cells",
         .found = times(m.cells_down, m.cells_across) + " cells of " + std::to_string(m.slots) + " blocks"});
  const SparseMatrix cell(m.cell_rows, m.cell_columns, m.block);
  const int64_t across = cell.blocks_across(), down = m.cell_rows / m.block.rows;
  require_count("numbers of blocks", m.index.size(), m.cells_down * m.cells_across * m.slots);
  const int64_t size = cell.block_elements();
  require_count("values", m.values.size(), static_cast<int64_t>(m.index.size()) * size);
  std::vector<int64_t> numbers;
  std::vector<float> values;
  for (size_t i = 0; i < m.index.size(); ++i) {
    if (m.index[i] == -1) continue;  // an unused slot
    require_place("number", i, m.index[i], down * across);
    const int64_t at = static_cast<int64_t>(i) / m.slots, r = at / m.cells_across, c = at % m.cells_across;
    numbers.push_back((r * down + m.index[i] / across) * (m.cells_across * across) + c * across + m.index[i] % across);
    const auto from = m.values.begin() + static_cast<int64_t>(i) * size;
    values.insert(values.end(), from, from + size);
  }
  return sorted(m.cells_down * m.cell_rows, m.cells_across * m.cell_columns, m.block, std::move(numbers), values);
}

double SparseMatrix::density() const {
  const int64_t elements = rows_ * columns_;
  return elements == 0 ? 0 : static_cast<double>(values_.size()) / static_cast<double>(elements);
}

std::vector<float> SparseMatrix::dense() const {
  std::vector<float> numbers(static_cast<size_t>(rows_ * columns_), 0.0f);
  for (size_t b = 0; b < numbers_.size(); ++b)
    for (int64_t i = 0; i < block_elements(); ++i) {
      const int64_t row = numbers_[b] / blocks_across() * block_.rows + i / block_.columns;
      const int64_t column = numbers_[b] % blocks_across() * block_.columns + i % block_.columns;
      numbers[static_cast<size_t>(row * columns_ + column)] =
          values_[b * static_cast<size_t>(block_elements()) + static_cast<size_t>(i)];
    }
  return numbers;
}

CooMatrix SparseMatrix::coo() const {
  const SparseMatrix elements = block_ == BlockSize{} ? *this : with_block({});
  CooMatrix m{.rows = rows_, .columns = columns_, .row = {}, .column = {}, .values = elements.values_};
  for (const int64_t number : elements.numbers_) {
    m.row.push_back(number / columns_);
    m.column.push_back(number % columns_);
  }
  return m;
}

CsrMatrix SparseMatrix::csr() const {
  CooMatrix m = coo();
  return {rows_, columns_, starts_of(m.row, rows_), std::move(m.column), std::move(m.values)};
}

CscMatrix SparseMatrix::csc() const {
  const CooMatrix m = coo();
  std::vector<size_t> order(m.column.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return m.column[a] < m.column[b]; });
  CscMatrix made{.rows = rows_, .columns = columns_, .first = starts_of(m.column, columns_), .row = {}, .values = {}};
  for (const size_t entry : order) {
    made.row.push_back(m.row[entry]);
    made.values.push_back(m.values[entry]);
  }
  return made;
}

BsrMatrix SparseMatrix::bsr() const {
  SparseTriplets m = triplets();
  return {rows_, columns_, block_, starts_of(m.row, rows_ / block_.rows), std::move(m.column), std::move(m.values)};
}

SparseTriplets SparseMatrix::triplets() const {
  SparseTriplets m{.rows = rows_, .columns = columns_, .block = block_, .row = {}, .column = {}, .values = values_};
  for (const int64_t number : numbers_) {
    m.row.push_back(number / blocks_across());
    m.column.push_back(number % blocks_across());
  }
  return m;
}

SparseCells SparseMatrix::cells(int64_t cells_down, int64_t cells_across) const {
  if (cells_down < 1 || cells_across < 1 || rows_ / block_.rows % cells_down != 0 ||
      blocks_across() % cells_across != 0)
    throw ShapeError({.what = "cells of a sparse matrix must have equally many whole blocks",
                      .found = times(cells_down, cells_across) + " cells of " +
                               times(rows_ / block_.rows, blocks_across()) + " blocks"});
  SparseCells m{.cells_down = cells_down,
                .cells_across = cells_across,
                .cell_rows = rows_ / cells_down,
                .cell_columns = columns_ / cells_across,
                .block = block_,
                .slots = stored_blocks() / (cells_down * cells_across),
                .index = {},
                .values = {}};
  const int64_t down = m.cell_rows / block_.rows, across = m.cell_columns / block_.columns;
  std::vector<std::vector<size_t>> stored(static_cast<size_t>(cells_down * cells_across));
  for (size_t b = 0; b < numbers_.size(); ++b) {
    const int64_t r = numbers_[b] / blocks_across() / down, c = numbers_[b] % blocks_across() / across;
    stored[static_cast<size_t>(r * cells_across + c)].push_back(b);
  }
  for (size_t cell = 0; cell < stored.size(); ++cell) {
    if (static_cast<int64_t>(stored[cell].size()) != m.slots)
      throw ShapeError({.what = "the cells of a sparse matrix must store equally many blocks",
                        .where = "cell " + std::to_string(cell),
                        .found = std::to_string(stored[cell].size()) + " blocks",
                        .expected = std::to_string(stored_blocks()) + " blocks in " + std::to_string(stored.size()) +
                                    " cells: " + std::to_string(m.slots) + " each"});
    for (const size_t b : stored[cell]) {
      const int64_t row = numbers_[b] / blocks_across() % down, column = numbers_[b] % blocks_across() % across;
      m.index.push_back(static_cast<int32_t>(row * across + column));
      const auto from = values_.begin() + static_cast<int64_t>(b) * block_elements();
      m.values.insert(m.values.end(), from, from + block_elements());
    }
  }
  return m;
}

SparseMatrix SparseMatrix::with_block(BlockSize block) const {
  SparseMatrix made(rows_, columns_, block);
  // The stored elements by their place in the new blocks.
  std::vector<std::pair<int64_t, float>> places;
  for (size_t b = 0; b < numbers_.size(); ++b)
    for (int64_t i = 0; i < block_elements(); ++i) {
      const int64_t row = numbers_[b] / blocks_across() * block_.rows + i / block_.columns;
      const int64_t column = numbers_[b] % blocks_across() * block_.columns + i % block_.columns;
      const int64_t number = row / block.rows * made.blocks_across() + column / block.columns;
      places.emplace_back(number * made.block_elements() + row % block.rows * block.columns + column % block.columns,
                          values_[b * static_cast<size_t>(block_elements()) + static_cast<size_t>(i)]);
    }
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [place, value] : places) {
    const int64_t number = place / made.block_elements();
    if (made.numbers_.empty() || made.numbers_.back() != number) {
      made.numbers_.push_back(number);
      made.values_.resize(made.values_.size() + static_cast<size_t>(made.block_elements()), 0.0f);
    }
    const auto first = static_cast<int64_t>(made.values_.size()) - made.block_elements();
    made.values_[static_cast<size_t>(first + place % made.block_elements())] = value;
  }
  return made;
}

}  // namespace ramet::v0
