#pragma once

#include "ramet/layout/layout.h"
#include "ramet/model/model.h"
#include "ramet/train/recipe.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

/// The whole training step of a model under a complete recipe, before it knows of devices:
/// - micro: forward and backward in the recipe's precision with its chunks; adds each gradient to its accumulator;
/// - update: the global norm of the gradients (result "grad_norm"; exact sums of squares, ops/exact_sum.h),
///   clipping, and the optimizer on each weight;
/// - evaluate: the model's own, in the same precision.
/// With an automatic loss scale micro takes the scalar "loss_scale", the update "inverse_loss_scale", and gives the
/// results that train/loss_scale.h goes by. Other scalar inputs of the update: "learning_rate", and for adam, adamw and lamb "correction1" and "correction2" (1 -
/// beta^t). States beside weights: "accumulator.W", for each further top-level scope that reads a tied W
/// "accumulator.W@SCOPE" (the update adds them in order of scopes), and "optimizer.m.W", "optimizer.v.W",
/// "optimizer.momentum.W" or, of rows and columns, "optimizer.row.W" and "optimizer.column.W" of each weight W, with
/// the weight's logical axes. Adafactor takes the scalar "second_decay". The gradient is the mean over the step's
/// micro-batches. One that is not finite changes nothing.
StepGraph make_training_step(const Model& model, const Recipe& recipe);

/// The graph with sums over the batch in order (transform/chunk.h), where `train.sums` says so.
Graph with_sums(const Graph& graph, const Recipe& recipe);

/// The recipe with the lanes and chunks that a step on this layout is made of: its own, or with `train.bits = "fast"`
/// the fewest that the layout can split, one lane a replica and one chunk a tensor shard.
Recipe with_order_of_sums(Recipe recipe, const Layout& layout);

}  // namespace ramet::train
