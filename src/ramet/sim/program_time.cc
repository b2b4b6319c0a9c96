#include "ramet/sim/program_time.h"

#include "ramet/sim/work_time.h"

namespace ramet::sim {

double mean_seconds_after_steps(const Executable& exe, const Machine& machine) {
  const WorkTimes work(exe, machine);
  double mean = 0;
  for (size_t id = program::kFirstProgram; id < exe.programs.size(); ++id) {
    const program::Program& program = exe.programs[id];
    if (!exe.runs_in_step(static_cast<int32_t>(id))) continue;
    double seconds = 0;
    for (const ProgramStep& step : program.steps)
      if (step.kind == ProgramStep::Kind::kRun)
        for (const Instruction& instruction : exe.segments[static_cast<size_t>(step.subject)].instructions)
          seconds += work.seconds(instruction);
    mean += seconds / static_cast<double>(program.when.every);
  }
  return mean;
}

}  // namespace ramet::sim
