#pragma once

#include <vector>

#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"

namespace ramet::sim {

/// Seconds of the instructions of one device's program, without waiting.
class WorkTimes {
 public:
  WorkTimes(const Executable& executable, const Machine& machine);
  double seconds(const Instruction& instruction) const;
  /// The same where it rests on a measured call, else 0.
  double measured_seconds(const Instruction& instruction) const;
  /// Of zeroing or combining accumulators; 0 for all other steps.
  double seconds_of_lanes(const ProgramStep& step) const;
  /// Seconds of an instruction's matrix products at the device's peak rate.
  double seconds_at_peak(const Instruction& instruction) const;

 private:
  const Executable* exe_;
  double bandwidth_ = 1, overhead_ = 0;
  std::vector<double> seconds_, at_peak_;  // by call
  std::vector<bool> measured_;
};

}  // namespace ramet::sim
