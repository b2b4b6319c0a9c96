#pragma once

#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"

namespace ramet::sim {

/// Where the time of a step is expected to go.
struct StepTime {
  double seconds = 0;
  double micro = 0, update = 0, derive = 0;  ///< of the whole step; a joined update is in `micro`
  double lanes = 0;                          ///< zeroing and combining accumulators
  double measured_share = 0;                 ///< share of `seconds` that rests on measured calls, not on rates

  /// The part to which a piece's work belongs.
  double& part_of(PieceKind kind);
  /// Adds up `seconds`, of which `known` rest on measured calls.
  void finish(double known);
};

/// Time of one training step of an executable on a machine: the sum over its instructions, as often as they run.
StepTime predict_step(const Executable& executable, const Machine& machine);
inline double predict_step_seconds(const Executable& executable, const Machine& machine) {
  return predict_step(executable, machine).seconds;
}

}  // namespace ramet::sim
