#include "ramet/sim/step_time.h"

#include <algorithm>

namespace ramet {

StepTime predict_step(const Executable& exe, const Machine& machine) {
  std::vector<double> seconds;
  std::vector<bool> measured;
  for (const Task& task : exe.tasks) {
    seconds.push_back(task_seconds(machine, task.node, task.kernel, task.cost));
    measured.push_back(machine.tasks.count(task_key(task.node, task.kernel)) != 0);
  }
  StepTime time;
  double known = 0;
  const double bandwidth = std::max(machine.bandwidth, 1.0);
  const auto segment_seconds = [&](SegmentId id, double runs) {
    double total = 0;
    for (const Instruction& instruction : exe.segment(id).instructions) {
      if (instruction.task < 0) {
        total += 2 * static_cast<double>(exe.buffers[static_cast<size_t>(instruction.inputs[0])].bytes) / bandwidth + machine.overhead;
        continue;
      }
      const auto task = static_cast<size_t>(instruction.task);
      total += seconds[task];
      if (measured[task]) known += seconds[task] * runs;
    }
    return total * runs;
  };
  time.micro = segment_seconds(SegmentId::kMicro, static_cast<double>(exe.micro_batches()));
  time.update = segment_seconds(SegmentId::kUpdate, 1);
  time.derive = segment_seconds(SegmentId::kDerive, 1);
  double accumulated = 0;
  for (const StatePlace& state : exe.states)
    if (state.tensor.kind == StateKind::kAccumulator) accumulated += static_cast<double>(state.tensor.type.bytes());
  // A lane is zeroed once; every lane but one is added to another: two reads and a write.
  const auto lanes = static_cast<double>(exe.lanes);
  time.lanes = accumulated * (lanes + 3 * (lanes - 1)) / bandwidth;
  time.seconds = time.micro + time.update + time.derive + time.lanes;
  time.measured_share = time.seconds > 0 ? known / time.seconds : 0;
  return time;
}

}  // namespace ramet
