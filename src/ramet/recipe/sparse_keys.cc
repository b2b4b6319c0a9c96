#include "ramet/recipe/keys.h"

namespace ramet::recipe {

std::vector<RecipeKey> sparse_keys() {
  return {
      {.name = "sparse.weights",
       .doc =
           "weights that are block-sparse (docs/sparse.md): names or patterns, with spaces between them; * stands for "
           "any text, ? for one character, and what matches a pattern that begins with ! stays dense",
       .field = RAMET_FIELD(sparse.weights),
       .otherwise = "none: all weights are dense"},
      {.name = "sparse.density",
       .doc = "share of the blocks of sparse weights that is stored",
       .field = RAMET_FIELD(sparse.density),
       .low = 1e-6,
       .high = 1},
      {.name = "sparse.block",
       .doc = "rows, and columns, of a block; 1: elements one by one",
       .field = RAMET_FIELD(sparse.block),
       .low = 1,
       .high = 1024},
      {.name = "sparse.cells",
       .doc =
           "cells along each dimension of a weight that layouts cut for t=2, or over the first number of t=2x1. Each "
           "cell stores as many blocks; shards hold whole cells",
       .field = RAMET_FIELD(sparse.cells),
       .low = 1,
       .high = 65536},
      {.name = "sparse.cells_t2",
       .doc = "the same, over the second number of t=1x2",
       .field = RAMET_FIELD(sparse.cells_t2),
       .low = 1,
       .high = 65536},
      {.name = "sparse.distribution",
       .doc =
           "how the density is dealt to the weights; uniform: all have it, erk (Erdos-Renyi kernel): in proportion to "
           "(rows + columns) / (rows x columns)",
       .field = RAMET_FIELD(sparse.distribution),
       .choices = {"uniform", "erk"}},
      {.name = "sparse.pattern",
       .doc =
           "which blocks are stored; random: drawn by train.seed, magnitude: those with the greatest sums of absolute "
           "values of the weights that model.init_from or the model's file gives",
       .field = RAMET_FIELD(sparse.pattern),
       .choices = {"random", "magnitude"}},
  };
}

}  // namespace ramet::recipe
