#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet::model {

/// A data input that a model declares: what a source of samples must give, and what it may give.
struct InputSpec {
  std::string name;
  TensorType type;  ///< of one micro-batch
  /// Meaning of each dimension: "batch" (samples), "positions" (of a sequence), "" (features), or a name of the model's.
  std::vector<std::string> axes{};
  /// Least and greatest value that a fed element may have, for integers that index; no limits when absent.
  std::optional<double> low{}, high{};
};

/// A number that a model reports: the sum of the output `numerator` over micro-batches, divided by the sum of the output
/// `denominator`. Both are scalar outputs of the graph.
struct Metric {
  enum class How {
    kMean,  ///< mean of the numerator over micro-batches; there is no denominator
    kSum,   ///< sum of the numerator over micro-batches; there is no denominator
    kRatio  ///< sum of numerators over sum of denominators
  };
  std::string name, numerator, denominator{};
  How how = How::kRatio;
  /// Whether the numerator is a mean over `denominator` items of its micro-batch, and so counts `denominator` times.
  bool numerator_is_mean = false;
};

/// A model as the compiler gets it: the forward graph with its loss, and what its weights are.
/// `forward` has data inputs (the names of text/batches.h), the scalar input "counter" i64[2] = {step, micro-batch
/// index} when it draws random numbers, one f32 state input a weight, and the outputs "loss" (f32[]) and any metrics
/// (f32[]).
struct Model {
  std::string name;
  Graph forward{"forward"};          ///< with dropout
  Graph evaluate{"evaluate"};        ///< the same without dropout; outputs may hold more (predictions)
  std::vector<StateTensor> weights;  ///< kind kWeight, in canonical order (of the weights' hash)
  /// Of weights that start with unit variance: the deviation that the model would give them.
  std::map<std::string, double> deviations;
  std::vector<InputSpec> inputs;    ///< data inputs, in the order of the graph
  std::vector<Metric> metrics;      ///< in the order in which they are shown; "loss" first
  std::vector<std::string> guards;  ///< scalar outputs that end the step when they are not finite
  double flops_per_token = 0;        ///< forward and backward, matrix products only
  int64_t tokens_per_micro_batch = 0;

  /// Elements of all weights, without padding.
  int64_t parameters() const {
    int64_t sum = 0;
    for (const StateTensor& weight : weights) sum += weight.unpadded().elements();
    return sum;
  }
};

}  // namespace ramet::model
