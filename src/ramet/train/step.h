#pragma once

#include "ramet/layout/layout.h"
#include "ramet/model/model.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

/// The whole training step of a model, before it knows of devices:
/// - micro: forward and backward in the precision asked for with its chunks; adds each gradient to its accumulator, and
///   with `loss_mean` = "step" the items of each part of the loss to theirs;
/// - update: the global norm of the gradients (result "grad_norm"; exact sums of squares, ops/exact_sum.h),
///   clipping, and the optimizer on each weight that is not frozen;
/// - the programs "evaluate", the model's own, and those of Model::programs, in the same precision, on request.
/// Guards are the model's, or its loss, and "grad_norm".
/// With an automatic loss scale micro takes the scalar "loss_scale", the update "inverse_loss_scale", and gives the
/// results that train/loss_scale.h goes by. Other scalar inputs of the update: "learning_rate" and those that the
/// optimizer's entry names (train/optimizers/optimizer.h), and of each group these with ".GROUP" behind
/// (train/step_scalars.h gives all). States beside weights: "accumulator.W", for each further region of the model
/// (transform/layers.h) that reads a tied W "accumulator.W@1", "accumulator.W@2" (the update adds them in that order),
/// for each further part of the loss with "@PART" behind, "accumulator.items.PART", and "optimizer.NAME.W" for the
/// states NAME that the optimizer keeps of W, with the weight's logical axes. The gradient is the mean over the step's
/// micro-batches, or over its items. One that is not finite changes nothing. Throws Error for groups and for a loss
/// that do not fit the model.
StepGraph make_training_step(const Model& model, const TrainOptions& options);

/// The names of the programs that a model's step has: "evaluate", where the model has such a graph, and its own.
std::vector<std::string> program_names(const Model& model);

/// A step that trains nothing: some programs of the model, on request, in the same precision and with the same bits as
/// in a training step, and those of the states that they read or write. Throws Error naming a program that the model
/// lacks.
StepGraph make_prediction_step(const Model& model, const TrainOptions& options,
                               const std::vector<std::string>& programs);

/// The options with the lanes and chunks of a step on this layout: the options' own or, with `bits` = "fast", the
/// fewest that the layout can split, one lane a replica and one chunk a tensor shard.
TrainOptions with_order_of_sums(TrainOptions options, const Layout& layout);

}  // namespace ramet::train
