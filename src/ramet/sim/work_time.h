#pragma once

#include <vector>

#include "ramet/sim/step_time.h"

namespace ramet {

/// What the steps of one device's program take while it has all that they need.
class WorkTimes {
 public:
  WorkTimes(const Executable& executable, const Machine& machine);
  /// Seconds that a step computes (0 for transfers), which it adds to `time` where they belong.
  double add(const ProgramStep& step, StepTime& time);
  /// `time` with its sums.
  StepTime finish(StepTime time) const;

 private:
  const Executable* exe_;
  double bandwidth_ = 1, known_ = 0;
  std::vector<double> segment_seconds_, segment_known_;  // what of them rests on measured tasks
};

}  // namespace ramet
