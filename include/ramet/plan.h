#pragma once

#include "ramet/train.h"

namespace ramet::v0 {

struct PlanOptions {
  /// A machine's name or file (docs/machines.md); "": the one at hand.
  std::string machine{};
  bool time = true;  ///< predict the time of a step; of the machine at hand this measures its kernels
};

/// What training will take, before it runs.
struct Plan {
  std::vector<int64_t> device_bytes;  ///< of one device of each pipeline stage
  int64_t streaming_bytes = 0;        ///< of all devices, in host memory or files
  double step_seconds = 0;            ///< predicted; 0: not asked for
  std::string text;                   ///< all of it, as a person reads it
};

/// Compiles a step, and runs nothing. Throws Error when the layout does not fit.
RAMET_API Plan plan(const Model& model, const TrainOptions& options, const PlanOptions& how = {});

}  // namespace ramet::v0
