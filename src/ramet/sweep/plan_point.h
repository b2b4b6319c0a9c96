#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ramet/recipe/recipe.h"

namespace ramet::sweep {

/// What a run of one point will take, by the compiler that will compile it.
struct PointPlan {
  std::string refusal;        ///< why the point cannot be tried; "": it can
  int64_t planned_bytes = 0;  ///< of all devices of the process
  int64_t host_bytes = 0;     ///< data and results beside them
  int64_t process_bytes = 0;  ///< both, and what a process has without them
  int64_t device_memory = 0;  ///< limit that the program was compiled for; 0: none
  int64_t steps = 0;          ///< of the complete recipe
  double compile_seconds = 0;
  double step_seconds = 0;  ///< predicted; 0: not asked for
};

/// Memory that a point may take.
struct PointLimits {
  int64_t memory = 0;  ///< of all runs of the sweep together
  int64_t share =
      0;  ///< an equal share of it: a program that can be made smaller (train.recompute = "auto") is made to fit
  int threads = 1;    ///< of the run
  bool time = false;  ///< whether to predict the seconds of a step, which measures this machine
};

/// Compiles a point without running it. Nothing that a recipe can be is an exception: what cannot be prepared, compiled
/// or held is a refusal.
PointPlan plan_point(const Recipe& recipe, const PointLimits& limits);

}  // namespace ramet::sweep
