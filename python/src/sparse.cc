#include "ramet/sparse.h"

#include "arrays.h"
#include "builder.h"

namespace ramet_python {
namespace {

using ramet::BlockSize;
using ramet::SparseMatrix;
using Pair = std::pair<int64_t, int64_t>;

BlockSize block_of(const Pair& block) { return {block.first, block.second}; }

/// A density for each pattern, in the order of the dictionary.
using Densities = nb::typed<nb::dict, nb::str, nb::float_>;
std::vector<std::pair<std::string, double>> densities_of(const Densities& densities) {
  std::vector<std::pair<std::string, double>> pairs;
  for (const auto& [pattern, density] : densities)
    pairs.emplace_back(nb::cast<std::string>(pattern), nb::cast<double>(density));
  return pairs;
}

/// An array of f32, row-major; whole numbers and other floats are refused.
std::vector<float> floats_of(const ArrayArgument& array) {
  const ramet::ArrayView& view = array.view();
  if (view.dtype() != ramet::DType::kF32)
    throw ramet::ShapeError(
        {.what = "values of a sparse matrix are f32", .found = std::string(ramet::name_of(view.dtype()))});
  const auto* first = reinterpret_cast<const float*>(view.data());
  return {first, first + view.elements()};
}

std::vector<int64_t> integers_of(const ArrayArgument& array) {
  const ramet::ArrayView& view = array.view();
  if (view.dtype() == ramet::DType::kI64) {
    const auto* first = reinterpret_cast<const int64_t*>(view.data());
    return {first, first + view.elements()};
  }
  if (view.dtype() != ramet::DType::kI32)
    throw ramet::ShapeError(
        {.what = "places in a sparse matrix are i32 or i64", .found = std::string(ramet::name_of(view.dtype()))});
  const auto* first = reinterpret_cast<const int32_t*>(view.data());
  return {first, first + view.elements()};
}

std::vector<float> values_argument(nb::handle array) { return floats_of(ArrayArgument(array, ramet::DType::kF32)); }
std::vector<int64_t> places_argument(nb::handle array) { return integers_of(ArrayArgument(array, ramet::DType::kI64)); }

void bind_readers(nb::class_<SparseMatrix>& matrix) {
  matrix
      .def_static(
          "from_dense",
          [](nb::object array, Pair block) {
            const ArrayArgument numbers(array, ramet::DType::kF32);
            if (numbers.shape.rank() != 2)
              throw ramet::ShapeError({.what = "a matrix has two dimensions", .found = numbers.shape.text()});
            return SparseMatrix::from_dense(numbers.shape[0], numbers.shape[1], floats_of(numbers), block_of(block));
          },
          "array"_a, "block"_a = Pair{1, 1}, "The blocks that have an element other than 0.")
      .def_static(
          "from_coo",
          [](nb::object row, nb::object column, nb::object values, Pair shape, Pair block) {
            return SparseMatrix::from(ramet::SparseTriplets{shape.first, shape.second, block_of(block),
                                                            places_argument(row), places_argument(column),
                                                            values_argument(values)});
          },
          "row"_a, "column"_a, "values"_a, "shape"_a, "block"_a = Pair{1, 1},
          "Entries in any order; with `block`, row and column count blocks, and each block has values of its own.")
      .def_static(
          "from_csr",
          [](nb::object first, nb::object column, nb::object values, Pair shape, Pair block) {
            return SparseMatrix::from(ramet::BsrMatrix{shape.first, shape.second, block_of(block),
                                                       places_argument(first), places_argument(column),
                                                       values_argument(values)});
          },
          "first"_a, "column"_a, "values"_a, "shape"_a, "block"_a = Pair{1, 1},
          "crow_indices, col_indices and values of torch.sparse_csr_tensor, or of torch.sparse_bsr_tensor with "
          "`block`.")
      .def_static(
          "from_csc",
          [](nb::object first, nb::object row, nb::object values, Pair shape) {
            return SparseMatrix::from(ramet::CscMatrix{shape.first, shape.second, places_argument(first),
                                                       places_argument(row), values_argument(values)});
          },
          "first"_a, "row"_a, "values"_a, "shape"_a)
      .def_static(
          "from_cells",
          [](nb::object values, nb::object index, Pair cell) {
            const ArrayArgument numbers(values, ramet::DType::kF32), places(index, ramet::DType::kI32);
            const ramet::Shape &shape = numbers.shape, &slots = places.shape;
            if (shape.rank() != 5 || slots.rank() != 3)
              throw ramet::ShapeError({.what = "values have five dimensions and the index three",
                                       .found = shape.text() + " and " + slots.text()});
            std::vector<int32_t> at;
            for (const int64_t place : integers_of(places)) {
              if (place < -1 || place > INT32_MAX)  // -1: an unused slot
                throw ramet::FormatError(
                    {.what = "a place outside of a sparse matrix", .found = std::to_string(place)});
              at.push_back(static_cast<int32_t>(place));
            }
            return SparseMatrix::from(ramet::SparseCells{.cells_down = slots[0],
                                                         .cells_across = slots[1],
                                                         .cell_rows = cell.first,
                                                         .cell_columns = cell.second,
                                                         .block = {shape[3], shape[4]},
                                                         .slots = slots[2],
                                                         .index = std::move(at),
                                                         .values = floats_of(numbers)});
          },
          "values"_a, "index"_a, "cell"_a,
          "Operands of sparse_matmul; `cell` is (rows, columns) of a cell. Slots whose index is -1 are unused.");
}

void bind_writers(nb::class_<SparseMatrix>& matrix) {
  const auto blocks_shape = [](const SparseMatrix& m) {
    return ramet::Shape{m.stored_blocks(), m.block().rows, m.block().columns};
  };
  matrix.def("dense", [](const SparseMatrix& m) { return array_of(m.dense(), {m.rows(), m.columns()}); })
      .def(
          "coo",
          [](const SparseMatrix& m) {
            const ramet::CooMatrix made = m.coo();
            return nb::make_tuple(array_of(made.row), array_of(made.column), array_of(made.values));
          },
          "(row, column, values) of all elements of the stored blocks.")
      .def(
          "csr",
          [](const SparseMatrix& m) {
            const ramet::CsrMatrix made = m.csr();
            return nb::make_tuple(array_of(made.first), array_of(made.column), array_of(made.values));
          },
          "(crow_indices, col_indices, values), as torch.sparse_csr_tensor takes them.")
      .def(
          "csc",
          [](const SparseMatrix& m) {
            const ramet::CscMatrix made = m.csc();
            return nb::make_tuple(array_of(made.first), array_of(made.row), array_of(made.values));
          },
          "(ccol_indices, row_indices, values), as torch.sparse_csc_tensor takes them.")
      .def(
          "bsr",
          [blocks_shape](const SparseMatrix& m) {
            const ramet::BsrMatrix made = m.bsr();
            return nb::make_tuple(array_of(made.first), array_of(made.column), array_of(made.values, blocks_shape(m)));
          },
          "(crow_indices, col_indices, values), as torch.sparse_bsr_tensor takes them.")
      .def(
          "triplets",
          [blocks_shape](const SparseMatrix& m) {
            const ramet::SparseTriplets made = m.triplets();
            return nb::make_tuple(array_of(made.row), array_of(made.column), array_of(made.values, blocks_shape(m)));
          },
          "(row, column, values) of the stored blocks.")
      .def(
          "cells",
          [](const SparseMatrix& m, int64_t down, int64_t across) {
            const ramet::SparseCells made = m.cells(down, across);
            return nb::make_tuple(
                array_of(made.values, {down, across, made.slots, made.block.rows, made.block.columns}),
                array_of(made.index, {down, across, made.slots}));
          },
          "down"_a = 1, "across"_a = 1, "(values, index) for sparse_matmul. All cells must store equally many blocks.");
}

}  // namespace

void bind_sparse(nb::module_& m) {
  nb::class_<SparseMatrix> matrix(m, "SparseMatrix", "A block-sparse matrix, f32. Immutable.");
  bind_readers(matrix);
  bind_writers(matrix);
  matrix
      .def(
          "with_block", [](const SparseMatrix& self, Pair block) { return self.with_block(block_of(block)); },
          "block"_a)
      .def_prop_ro("shape", [](const SparseMatrix& self) { return Pair{self.rows(), self.columns()}; })
      .def_prop_ro("block", [](const SparseMatrix& self) { return Pair{self.block().rows, self.block().columns}; })
      .def_prop_ro("stored_blocks", &SparseMatrix::stored_blocks)
      .def_prop_ro("density", &SparseMatrix::density)
      .def("__eq__", [](const SparseMatrix& a, const SparseMatrix& b) { return a == b; })
      .def("__repr__", [](const SparseMatrix& self) {
        return "SparseMatrix(" + std::to_string(self.rows()) + "x" + std::to_string(self.columns()) + ", " +
               std::to_string(self.stored_blocks()) + " blocks of " + std::to_string(self.block().rows) + "x" +
               std::to_string(self.block().columns) + ")";
      });
  m.def(
      "sparse_linear_layer",
      [](PyBuilder& builder, const OperandArgument& a, const std::string& name, int64_t out, double density, Pair block,
         Pair cells, uint64_t seed, const std::optional<ramet::Init>& init, bool bias, const AxisArgument& rows,
         const AxisArgument& columns) {
        return ramet::sparse_linear_layer(builder.get(), a.tensor, name, out,
                                          {.density = density,
                                           .block = block_of(block),
                                           .cells_down = cells.first,
                                           .cells_across = cells.second,
                                           .seed = seed,
                                           .init = init.value_or(ramet::Init::normal(0.02)),
                                           .bias = bias,
                                           .rows = axis_of(rows),
                                           .columns = axis_of(columns)});
      },
      nb::call_guard<AtCaller>(), "builder"_a, "a"_a, "name"_a, "out"_a, nb::kw_only(), "density"_a = 0.1,
      "block"_a = Pair{1, 1}, "cells"_a = Pair{1, 1}, "seed"_a = 0, "init"_a = nb::none(), "bias"_a = true,
      "rows"_a = "", "columns"_a = "",
      "A linear layer whose weight [out, in] is block-sparse with a fixed random pattern: the weight NAME.values and "
      "the "
      "constant NAME.index. `init` is that of the stored values: normal with a deviation of 0.02 unless given.");
  m.def(
      "sparsify",
      [](const ramet::Model& model, const std::vector<std::string>& weights, double density, Pair block, int64_t cells,
         int64_t cells_t2, const std::string& distribution, const Densities& densities, const std::string& pattern,
         uint64_t seed, std::optional<double> first_density, int64_t every, int64_t steps, double prune_ratio,
         const std::string& prune_schedule, double until, const std::string& score, const std::string& regrow,
         bool regrow_pruned, const std::string& age, double ramp_from, double ramp_until) {
        auto own = densities_of(densities);
        const nb::gil_scoped_release release;
        return ramet::sparsify(model, {.weights = weights,
                                       .density = density,
                                       .block = block_of(block),
                                       .cells = cells,
                                       .cells_t2 = cells_t2,
                                       .distribution = distribution,
                                       .densities = std::move(own),
                                       .pattern = pattern,
                                       .seed = seed,
                                       .first_density = first_density,
                                       .evolve = {.every = every,
                                                  .steps = steps,
                                                  .prune_ratio = prune_ratio,
                                                  .prune_schedule = prune_schedule,
                                                  .until = until,
                                                  .score = score,
                                                  .regrow = regrow,
                                                  .regrow_pruned = regrow_pruned,
                                                  .age = age,
                                                  .ramp_from = ramp_from,
                                                  .ramp_until = ramp_until}});
      },
      "model"_a, "weights"_a, nb::kw_only(), "density"_a = 0.1, "block"_a = Pair{1, 1}, "cells"_a = 1, "cells_t2"_a = 1,
      "distribution"_a = "uniform", "densities"_a = nb::dict(), "pattern"_a = "random", "seed"_a = 0,
      "first_density"_a = nb::none(), "every"_a = 0, "steps"_a = 1000, "prune_ratio"_a = 0.5,
      "prune_schedule"_a = "cosine", "until"_a = 1.0, "score"_a = "l1", "regrow"_a = "random",
      "regrow_pruned"_a = false, "age"_a = "auto", "ramp_from"_a = 0.25, "ramp_until"_a = 0.75,
      "The model with block-sparse weights in place of those whose names match `weights` (patterns; those of "
      "'!PATTERN' "
      "stay dense). Each becomes the weight NAME.values and the pattern NAME.index. `densities` gives weights whose "
      "names match a pattern a density of their own; the last pattern that matches counts. With `every`, patterns "
      "change after every so many steps of a training with that many `steps` (docs/sparse.md).");
}

}  // namespace ramet_python
