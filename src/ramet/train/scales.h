#pragma once

#include <string>
#include <vector>

#include "ramet/train/train_options.h"
#include "ramet/train/workload.h"

namespace ramet::train {

/// How large the elements of a tensor are before the first step.
struct TensorScale {
  enum class Kind { kWeight, kActivation, kGradient, kWeightGradient } kind = Kind::kActivation;
  std::string name;  ///< of the weight, or node that makes it and its op
  TensorType type;
  double deviation = 0;  ///< standard deviation, the mean taken off; of gradients, root of the mean square
  double most = 0;       ///< largest absolute value
};
/// "weight", "activation", "gradient", "weight gradient"
std::string_view name_of(TensorScale::Kind kind);

/// Runs the workload's first micro-batch once, forward and backward, with its initial weights, and looks at every
/// floating tensor of more than one element that one op hands to another. Not counted are what only a factor or a sum
/// of gradients reads (parts of one scaled op), and statistics of rows. For measuring: it keeps every tensor.
std::vector<TensorScale> measure_scales(const Workload& workload, const TrainOptions& options);

}  // namespace ramet::train
