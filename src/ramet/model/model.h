#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet {

/// A model as the compiler gets it: the forward graph with its loss, and what its weights are.
/// `forward` has data inputs (the names of data/batches.h), the scalar input "counter" i64[2] = {step, micro-batch
/// index} when it draws random numbers, one f32 state input a weight, and the outputs "loss" (f32[]) and any metrics
/// (f32[]).
struct Model {
  std::string name;
  Graph forward{"forward"};          ///< with dropout
  Graph evaluate{"evaluate"};        ///< the same without dropout; outputs may hold more (predictions)
  std::vector<StateTensor> weights;  ///< kind kWeight, in canonical order (of the weights' hash)
  /// Of weights that start with unit variance: the deviation that the model would give them.
  std::map<std::string, double> deviations;
  double flops_per_token = 0;        ///< forward and backward, matrix products only
  int64_t tokens_per_micro_batch = 0;

  /// Elements of all weights, without padding.
  int64_t parameters() const {
    int64_t sum = 0;
    for (const StateTensor& weight : weights) sum += weight.unpadded().elements();
    return sum;
  }
};

}  // namespace ramet
