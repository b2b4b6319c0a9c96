#include "ramet/api/contents.h"

#include <algorithm>
#include <cmath>

#include "ramet/api/graphs.h"
#include "ramet/base/error_types.h"
#include "ramet/model/sparsify.h"
#include "ramet/sparse.h"

namespace ramet::v0 {

Tensor sparse_linear_layer(Builder& builder, Operand a, const std::string& name, int64_t out,
                           const SparseLayerOptions& options) {
  const int64_t in = a.dim(-1);
  const BlockSize block = options.block;
  const auto refuse = [&](const std::string& what, const std::string& found, const std::string& expected) {
    throw ShapeError(
        {.what = what, .where = "'" + name + "' at " + ir::origin_of(a.place()), .found = found, .expected = expected});
  };
  const auto divides = [](int64_t extent, int64_t cells, int64_t side) {
    return cells >= 1 && side >= 1 && extent >= 1 && extent % cells == 0 && extent / cells % side == 0;
  };
  if (!divides(out, options.cells_down, block.rows) || !divides(in, options.cells_across, block.columns))
    refuse("cells and blocks must divide a sparse weight",
           std::to_string(options.cells_down) + "x" + std::to_string(options.cells_across) + " cells, blocks of " +
               std::to_string(block.rows) + "x" + std::to_string(block.columns),
           "divisors of " + std::to_string(out) + "x" + std::to_string(in));
  if (!(options.density > 0 && options.density <= 1))
    refuse("a density must be above 0 and at most 1", std::to_string(options.density), "0.1, for example");
  const int64_t cell_rows = out / options.cells_down, cell_columns = in / options.cells_across;
  const int64_t blocks = cell_rows / block.rows * (cell_columns / block.columns);
  const int64_t slots = std::max<int64_t>(1, std::llround(options.density * static_cast<double>(blocks)));

  const Shape index_shape{options.cells_down, options.cells_across, slots};
  const Shape values_shape{options.cells_down, options.cells_across, slots, block.rows, block.columns};
  const std::vector<WeightAxis> axes{options.rows, options.columns, "", "", ""};
  const Tensor values = builder.weight(name + ".values", values_shape, options.init, {.axes = axes}, a.place());
  Tensor index;
  if (auto* model = dynamic_cast<ModelBuilder*>(&builder)) {
    const std::vector<int32_t> pattern = model::random_pattern(
        {options.cells_down, options.cells_across, cell_rows, cell_columns, block.rows, block.columns, slots},
        options.seed, name + ".index");
    index = model->state(name + ".index", {DType::kI32, index_shape}, StateRole::kConstant, Init::numbers(pattern),
                         {.axes = {options.rows, options.columns, ""}}, a.place());
  } else {
    index = builder.state(name + ".index", a.place());
  }
  Tensor y =
      sparse_matmul(a, Operand(values, a.place()), Operand(index, a.place()), cell_rows, cell_columns, false, true);
  if (!options.bias) return y;
  const Tensor bias = builder.weight(name + ".bias", {out}, Init::zeros(), {.axes = {options.rows}}, a.place());
  return add(Operand(y, a.place()), Operand(bias, a.place()));
}

Model sparsify(const Model& model, const SparsifyOptions& options) {
  const Evolve& evolve = options.evolve;
  auto contents = std::make_shared<Model::Contents>(model.contents());
  contents->engine = model::sparsify(std::move(contents->engine), {.weights = options.weights,
                                                                   .density = options.density,
                                                                   .block_rows = options.block.rows,
                                                                   .block_columns = options.block.columns,
                                                                   .cells = options.cells,
                                                                   .cells_t2 = options.cells_t2,
                                                                   .distribution = options.distribution,
                                                                   .densities = options.densities,
                                                                   .pattern = options.pattern,
                                                                   .seed = options.seed,
                                                                   .first_density = options.first_density,
                                                                   .evolve = {.every = evolve.every,
                                                                              .steps = evolve.steps,
                                                                              .prune_ratio = evolve.prune_ratio,
                                                                              .schedule = evolve.prune_schedule,
                                                                              .until = evolve.until,
                                                                              .score = evolve.score,
                                                                              .regrow = evolve.regrow,
                                                                              .regrow_pruned = evolve.regrow_pruned,
                                                                              .age = evolve.age,
                                                                              .ramp_from = evolve.ramp_from,
                                                                              .ramp_until = evolve.ramp_until}});
  if (evolve.every > 0) contents->evolve_steps = evolve.steps;
  return Model(std::move(contents));
}

}  // namespace ramet::v0
