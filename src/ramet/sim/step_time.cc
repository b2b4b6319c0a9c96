#include "ramet/sim/step_time.h"

#include <algorithm>

#include "ramet/sim/work_time.h"

namespace ramet {

WorkTimes::WorkTimes(const Executable& exe, const Machine& machine)
    : exe_(&exe),
      bandwidth_(machine.bandwidth()),
      segment_seconds_(exe.segments.size(), 0),
      segment_known_(exe.segments.size(), 0) {
  std::vector<double> seconds;
  std::vector<bool> measured;
  for (const Task& task : exe.tasks) {
    seconds.push_back(task_seconds(machine, task.node, task.kernel, task.cost));
    measured.push_back(machine.tasks.count(task_key(task.node, task.kernel)) != 0);
  }
  for (size_t id = 0; id < exe.segments.size(); ++id)
    for (const Instruction& instruction : exe.segments[id].instructions) {
      if (instruction.task < 0) {
        const Buffer& copied = exe.buffers[static_cast<size_t>(instruction.inputs[0])];
        segment_seconds_[id] += 2 * static_cast<double>(copied.bytes) / bandwidth_ + machine.device.overhead;
        continue;
      }
      const auto task = static_cast<size_t>(instruction.task);
      segment_seconds_[id] += seconds[task];
      if (measured[task]) segment_known_[id] += seconds[task];
    }
}

double WorkTimes::add(const ProgramStep& step, StepTime& time) {
  if (step.subject < 0) return 0;
  const auto id = static_cast<size_t>(step.subject);
  const auto sum_bytes = [&] {
    double bytes = 0;
    for (int32_t state : exe_->segments[id].accumulators)
      bytes += static_cast<double>(exe_->states[static_cast<size_t>(state)].tensor.type.bytes());
    return bytes;
  };
  double seconds = 0;
  switch (step.kind) {
    case ProgramStep::Kind::kRun: {
      seconds = segment_seconds_[id];
      known_ += segment_known_[id];
      const PieceKind kind = exe_->segments[id].kind;
      (kind == PieceKind::kUpdate ? time.update : kind == PieceKind::kPrepare ? time.derive : time.micro) += seconds;
      return seconds;
    }
    case ProgramStep::Kind::kZero: seconds = sum_bytes() / bandwidth_; break;
    case ProgramStep::Kind::kCombine: seconds = 3 * sum_bytes() / bandwidth_; break;  // two reads and a write
    default: break;
  }
  time.lanes += seconds;
  return seconds;
}

StepTime WorkTimes::finish(StepTime time) const {
  time.seconds = time.micro + time.update + time.derive + time.lanes;
  time.measured_share = time.seconds > 0 ? known_ / time.seconds : 0;
  return time;
}

StepTime predict_step(const Executable& exe, const Machine& machine) {
  WorkTimes work(exe, machine);
  StepTime time;
  for (const ProgramStep& step : exe.train) work.add(step, time);
  return work.finish(time);
}

}  // namespace ramet
