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
  std::vector<double> segment_seconds(exe.segments.size(), 0), segment_known(exe.segments.size(), 0);
  for (size_t id = 0; id < exe.segments.size(); ++id)
    for (const Instruction& instruction : exe.segments[id].instructions) {
      if (instruction.task < 0) {
        segment_seconds[id] += 2 * static_cast<double>(exe.buffers[static_cast<size_t>(instruction.inputs[0])].bytes) / bandwidth + machine.overhead;
        continue;
      }
      const auto task = static_cast<size_t>(instruction.task);
      segment_seconds[id] += seconds[task];
      if (measured[task]) segment_known[id] += seconds[task];
    }
  const auto sum_bytes = [&](int32_t segment) {
    double bytes = 0;
    for (int32_t state : exe.segments[static_cast<size_t>(segment)].accumulators)
      bytes += static_cast<double>(exe.states[static_cast<size_t>(state)].tensor.type.bytes());
    return bytes;
  };
  for (const ProgramStep& step : exe.train) {
    switch (step.kind) {
      case ProgramStep::Kind::kRun: {
        const auto id = static_cast<size_t>(step.subject);
        const PieceKind kind = exe.segments[id].kind;
        (kind == PieceKind::kUpdate ? time.update : kind == PieceKind::kPrepare ? time.derive : time.micro) += segment_seconds[id];
        known += segment_known[id];
        break;
      }
      case ProgramStep::Kind::kZero: time.lanes += sum_bytes(step.subject) / bandwidth; break;
      case ProgramStep::Kind::kCombine: time.lanes += 3 * sum_bytes(step.subject) / bandwidth; break;  // two reads and a write
      default: break;
    }
  }
  time.seconds = time.micro + time.update + time.derive + time.lanes;
  time.measured_share = time.seconds > 0 ? known / time.seconds : 0;
  return time;
}

}  // namespace ramet
