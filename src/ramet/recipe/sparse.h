#pragma once

#include "ramet/model/model.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// Throws Error for keys of sparse weights that do not fit the others.
void check_sparse(const Recipe& recipe);

/// The model of a complete recipe with the sparse weights that the recipe asks for. With `begins` they begin as
/// model.init_from says; otherwise a checkpoint is about to say it.
Model with_sparse_weights(const Recipe& complete, Model model, bool begins);

/// A further graph of the recipe's model, likewise; `model` is what `with_sparse_weights` gave.
Graph with_sparse_weights(const Model& model, const Graph& graph);

}  // namespace ramet::recipe
