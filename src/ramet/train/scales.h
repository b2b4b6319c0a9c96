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

/// Runs the workload's first micro-batch once, forward and backward, with its initial weights, and measures every
/// floating tensor of more than one element that one op makes and another reads. Tensors that only a scaling factor or
/// a sum of gradients reads are not counted (they are parts of one scaled op), nor are statistics of rows. For
/// measurements only: it keeps every tensor in memory.
std::vector<TensorScale> measure_scales(const Workload& workload, const TrainOptions& options);

}  // namespace ramet::train
