#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/transform/step_graph.h"

namespace ramet::model {

/// A data input that a model declares: the tensor that a source of samples must give, and the values that it may have.
struct InputSpec {
  std::string name;
  TensorType type;  ///< of one micro-batch
  /// Meaning of each dimension: "batch" (samples), "positions" (of a sequence), "" (features), or a name of the
  /// model's.
  std::vector<std::string> axes{};
  /// Least and greatest value that a fed element may have, for integers that index; no limits when absent.
  std::optional<double> low{}, high{};
};

/// A number that a model reports: the sum of the output `numerator` over micro-batches, divided by the sum of the
/// output `denominator`. Both are scalar outputs of the graph. A metric whose denominator is 0 over all micro-batches
/// is not defined: its value is NaN, which is shown as "not defined" and does not end the step.
struct Metric {
  enum class How {
    kMean,    ///< mean of the numerator over micro-batches; there is no denominator
    kSum,     ///< sum of the numerator over micro-batches; there is no denominator
    kRatio,   ///< sum of numerators over sum of denominators
    kExp,     ///< e to the power of the metric named `numerator`, which stands before this one
    kAverage  ///< mean of the metrics named in `parts`, as far as they are defined; there are no outputs of its own
  };
  std::string name, numerator, denominator{};
  How how = How::kRatio;
  /// Whether the numerator is a mean over `denominator` items of its micro-batch, and so counts `denominator` times.
  bool numerator_is_mean = false;
  /// Metrics whose sum this one is in each micro-batch. Where means count by their items, it is the sum of these
  /// metrics, each by its own items.
  std::vector<std::string> parts{};
  double most_items = 0;       ///< the most that the denominator is in one micro-batch; 0: not known
  bool held_out_only = false;  ///< shown for evaluations, not for steps
};

/// The mean `name` of a loss over `count` items, and the share "correct" of "count" as an accuracy.
Metric mean_metric(std::string name, std::string count);
Metric share_metric(std::string name, std::string correct, std::string count);

/// A graph of a model beside its loss: its predictions, a change of its patterns, or any other use of the weights.
/// `when` says when it runs.
struct NamedGraph {
  std::string name;
  Graph graph;
  When when = When::on_request();
};

/// The units that a sample consists of, for speeds.
struct Units {
  std::string name = "samples";  ///< "tokens"
  int64_t per_sample = 1;        ///< with padding
  std::string mask{};            ///< input that is 0 where there is padding; "": there is none
};

/// A model as the compiler reads it: the forward graph with its loss, and its weights.
/// `forward` has data inputs (the names of text/batches.h), the scalar input "counter" i64[2] = {step, micro-batch
/// index} when it draws random numbers, one f32 state input a weight, and the outputs "loss" (f32[]) and any metrics
/// (f32[]).
struct Model {
  std::string name;
  Graph forward{"forward"};            ///< with dropout
  Graph evaluate{"evaluate"};          ///< the same without dropout; outputs may hold more (predictions)
  std::vector<NamedGraph> programs{};  ///< further graphs on the same weights, in the order in which they run
  std::vector<StateTensor> weights;    ///< kind kWeight, in canonical order (of the weights' hash)
  /// Constants, patterns, deferred, chained and kept states. `forward` has a state output for each deferred state, the
  /// micro-batch's value, and for each chained state, the value that the next micro-batch reads (StateKind).
  std::vector<StateTensor> states{};
  /// Of weights that start with unit variance: the deviation that the model would give them.
  std::map<std::string, double> deviations;
  TensorAxes axes = default_tensor_axes();  ///< over what layouts cut the logical axes of weights
  std::vector<InputSpec> inputs;            ///< data inputs, in the order of the graph
  std::vector<Metric> metrics;              ///< in the order in which they are shown; "loss" first
  std::vector<std::string> passes;          ///< that were applied to it (train/model_passes.h)
  bool packed_rows = false;         ///< whether a row of the batch may hold several samples, and padding anywhere
  std::vector<std::string> guards;  ///< scalar outputs that end the step when they are not finite
  /// Number of units of a logical axis that no layout can cut, where it is not the extent of the weights' dimension:
  /// {"heads", 12}.
  std::map<std::string, int64_t> units_of_axes;
  double flops_per_token = 0;  ///< forward and backward, matrix products only
  int64_t tokens_per_micro_batch = 0;

  /// Says how much the denominator of a metric is at most in one micro-batch.
  void limit_items(const std::string& metric, int64_t most) {
    for (Metric& each : metrics)
      if (each.name == metric) each.most_items = static_cast<double>(most);
  }

  /// What files of other programs hold of the model: its weights and, behind them, its running statistics.
  std::vector<StateTensor> published() const;

  /// Elements of all weights, without padding.
  int64_t parameters() const {
    int64_t sum = 0;
    for (const StateTensor& weight : weights) sum += weight.unpadded().elements();
    return sum;
  }

  /// Hash of everything that decides the model's results: its graphs without the names of nodes and scopes, its
  /// weights, inputs and metrics. A checkpoint keeps it, so that no other model can continue from that checkpoint.
  Hash identity() const;
};

/// The model with another seed of all random numbers that its graph of training and its programs draw.
Model with_seed(Model model, int64_t seed);

/// Throws Error when a graph of the model reads or writes a state that the model does not declare, or of another type,
/// or when two states have one name.
void check_states(const Model& model);

/// The inputs of a model: declared ones, and others that its graphs read (these have no axes and limits). Throws Error
/// when a declared input differs from the graph's, or when a metric or a guard is no scalar output.
std::vector<InputSpec> checked_inputs(const Model& model);

}  // namespace ramet::model
