#pragma once

#include "ramet/train.h"

namespace ramet::v0 {

struct PlanOptions {
  /// Name or file of a machine (docs/machines.md); "": this machine.
  std::string machine{};
  bool time = true;  ///< predict the time of a step; for this machine, that measures its kernels
};

/// The memory and the time that training will take, before it runs.
struct Plan : MemoryPlan {
  double step_seconds = 0;  ///< predicted; 0: PlanOptions::time is false
};

/// Compiles a step without running it. Throws Error when the layout does not fit the model, the machine or its memory.
RAMET_API Plan plan(const Model& model, const TrainOptions& options, const PlanOptions& how = {});

}  // namespace ramet::v0
