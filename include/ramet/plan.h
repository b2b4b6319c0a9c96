#pragma once

#include "ramet/train.h"

namespace ramet::v0 {

struct PlanOptions {
  /// Name or file of a machine (docs/machines.md); "": this machine.
  std::string machine{};
  bool time = true;  ///< predict the time of a step; for this machine, that measures its kernels
};

/// The memory and the time that training will take, before it runs.
struct Plan {
  std::vector<int64_t> device_bytes;  ///< of one device of each pipeline stage
  int64_t streaming_bytes = 0;        ///< of all devices together, in host memory or files
  double step_seconds = 0;            ///< predicted; 0: PlanOptions::time is false
  std::string text;                   ///< the plan for people
};

/// Compiles a step without running it. Throws Error when the layout does not fit the model, the machine or its memory.
RAMET_API Plan plan(const Model& model, const TrainOptions& options, const PlanOptions& how = {});

}  // namespace ramet::v0
