#pragma once

#include <string>
#include <vector>

#include "ramet/model/blocks.h"

namespace ramet::model {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running statistic = (1 - momentum) running statistic + momentum that of the micro-batch
  bool affine = true;     ///< weights "NAME.weight" and "NAME.bias"
  /// Running statistics, deferred states "NAME.running_mean" and "NAME.running_var", which evaluations apply. Without,
  /// evaluations normalise with the statistics of their own micro-batch.
  bool running = true;
  bool channels_last = false;
  LogicalAxis axis = kNoAxis;  ///< meaning of the channels
};

/// Batch norm of x [N, C], [N, C, space...] or, channels last, [N, space..., C], with PyTorch's names and meanings: the
/// running variance takes the unbiased estimate. `states` is the list of the model's states when the graph under
/// construction is the one of training; null for a graph of evaluation. Statistics are those of the micro-batch; the
/// update folds those of a step's micro-batches into the running ones in order.
Tensor batch_norm_layer(ModelBuilder& of, std::vector<StateTensor>* states, Tensor x, const std::string& name,
                        const BatchNormOptions& options = {});

}  // namespace ramet::model
