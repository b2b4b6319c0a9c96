#pragma once

#include "ramet/model/model.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// Throws Error for keys of sparse weights that do not fit the others.
void check_sparse(const Recipe& recipe);

/// Writes into the recipe what its distribution "global" finds in the weights that `model`, still dense, begins with:
/// they may be gone when a run goes on.
void settle_densities(Recipe& complete, const Model& model);

/// The model of a complete recipe with the sparse weights that the recipe asks for. With `begins` they begin as
/// model.init_from says; otherwise a checkpoint is about to say it.
Model with_sparse_weights(const Recipe& complete, Model model, bool begins);

/// A further graph of the recipe's model, likewise; `model` is what `with_sparse_weights` gave.
Graph with_sparse_weights(const Model& model, const Graph& graph);

}  // namespace ramet::recipe
