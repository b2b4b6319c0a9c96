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
           "(rows + columns) / (rows x columns), global: by one threshold for the blocks of all weights that the model "
           "begins with (model.init_from, or the model's file); with score = \"fisher\" by Fisher scores of the "
           "blocks, where "
           "model.init_from is a run whose optimizer kept means of squared gradients",
       .field = RAMET_FIELD(sparse.distribution),
       .choices = {"uniform", "erk", "global"}},
      {.name = "sparse.densities",
       .doc = "densities of single weights in place of that: names or patterns, each with = and a number, with spaces "
              "between them; where several match, the last counts",
       .field = RAMET_FIELD(sparse.densities),
       .otherwise = "none; those that the distribution global found"},
      {.name = "sparse.pattern",
       .doc =
           "which blocks are stored; random: drawn by train.seed, magnitude: those with the greatest sums of absolute "
           "values of the weights that model.init_from or the model's file gives",
       .field = RAMET_FIELD(sparse.pattern),
       .choices = {"random", "magnitude"}},
      {.name = "sparse.every",
       .doc = "steps from one change of the patterns to the next; 0: patterns never change",
       .field = RAMET_FIELD(sparse.every),
       .low = 0,
       .high = kManySteps,
       .quiet = true},
      {.name = "sparse.prune_ratio",
       .doc = "share of its stored blocks that each cell loses in a change: those with the least scores; others take "
              "their places",
       .field = RAMET_FIELD(sparse.prune_ratio),
       .low = 0,
       .high = 1,
       .quiet = true},
      {.name = "sparse.prune_schedule",
       .doc = "how the prune ratio falls to 0 by the end of sparse.until: cosine, linear; constant: it does not fall",
       .field = RAMET_FIELD(sparse.prune_schedule),
       .choices = {"cosine", "linear", "constant"},
       .quiet = true},
      {.name = "sparse.until",
       .doc = "share of all steps after which nothing is pruned any more",
       .field = RAMET_FIELD(sparse.until),
       .low = 0,
       .high = 1,
       .quiet = true},
      {.name = "sparse.score",
       .doc = "of a block, by which it is pruned: l1, l2 (sums of absolute values, of squares), max; also the norm of "
              "gradients for regrow = \"gradient\". fisher: sums of squares, each times the optimizer's mean of "
              "squared gradients",
       .field = RAMET_FIELD(sparse.score),
       .choices = {"l1", "l2", "max", "fisher"},
       .quiet = true},
      {.name = "sparse.regrow",
       .doc = "which blocks take the places of pruned ones, from 0; random (SET), gradient (RigL): those with the "
              "greatest gradients in the step's first micro-batch, by the weights after the update",
       .field = RAMET_FIELD(sparse.regrow),
       .choices = {"random", "gradient"},
       .quiet = true},
      {.name = "sparse.regrow_pruned",
       .doc = "whether random blocks may be such as were just pruned, which then go on as they were",
       .field = RAMET_FIELD(sparse.regrow_pruned),
       .quiet = true},
      {.name = "sparse.age",
       .doc = "by which number of steps Adam corrects the moments of a block; own: those since it was new, shared: "
              "all, auto: own where the optimizer has such corrections (adam, adamw)",
       .field = RAMET_FIELD(sparse.age),
       .choices = {"auto", "own", "shared"},
       .quiet = true},
      {.name = "sparse.first_density",
       .doc = "density at the beginning, which becomes sparse.density by a cubic curve between sparse.ramp_from and "
              "sparse.ramp_until; memory is that of the greater one",
       .field = RAMET_FIELD(sparse.first_density),
       .low = 1e-6,
       .high = 1,
       .otherwise = "sparse.density",
       .quiet = true},
      {.name = "sparse.ramp_from",
       .doc = "share of all steps after which the density begins to change",
       .field = RAMET_FIELD(sparse.ramp_from),
       .low = 0,
       .high = 1,
       .quiet = true},
      {.name = "sparse.ramp_until",
       .doc = "share of all steps after which it is sparse.density",
       .field = RAMET_FIELD(sparse.ramp_until),
       .low = 0,
       .high = 1,
       .quiet = true},
  };
}

}  // namespace ramet::recipe
