#include "ramet/sim/step_time.h"

#include "ramet/sim/work_time.h"

namespace ramet::sim {
namespace {

double peak_seconds(const Machine& machine, const NodeSignature& node) {
  if (!node.op->products) return 0;
  double seconds = 0;
  for (const MatrixProduct& product : node.op->products(node))
    if (const double peak = machine.device.peak(product.operands); peak > 0)
      seconds += 2.0 * static_cast<double>(product.batch) * static_cast<double>(product.m) *
                 static_cast<double>(product.k) * static_cast<double>(product.n) / peak;
  return seconds;
}

}  // namespace

WorkTimes::WorkTimes(const Executable& exe, const Machine& machine)
    : exe_(&exe), bandwidth_(machine.bandwidth()), overhead_(machine.device.overhead) {
  for (const Call& call : exe.calls) {
    seconds_.push_back(call_seconds(machine, call.node, call.kernel, call.cost));
    measured_.push_back(!machine.measured_calls.empty() &&
                        machine.measured_calls.count(timing_key(call.node, call.kernel)) != 0);
    at_peak_.push_back(peak_seconds(machine, call.node));
  }
}

double WorkTimes::seconds(const Instruction& instruction) const {
  if (instruction.call >= 0) return seconds_[static_cast<size_t>(instruction.call)];
  const Buffer& copied = exe_->buffers[static_cast<size_t>(instruction.inputs[0])];
  return 2 * static_cast<double>(copied.bytes) / bandwidth_ + overhead_;
}

double WorkTimes::measured_seconds(const Instruction& instruction) const {
  return instruction.call >= 0 && measured_[static_cast<size_t>(instruction.call)] ? seconds(instruction) : 0;
}

double WorkTimes::seconds_at_peak(const Instruction& instruction) const {
  return instruction.call >= 0 ? at_peak_[static_cast<size_t>(instruction.call)] : 0;
}

double WorkTimes::seconds_of_lanes(const ProgramStep& step) const {
  const bool zeros = step.kind == ProgramStep::Kind::kZero;
  if (!zeros && step.kind != ProgramStep::Kind::kCombine) return 0;
  double bytes = 0;
  for (const int32_t state : exe_->segments[static_cast<size_t>(step.subject)].accumulators)
    bytes += static_cast<double>(exe_->states[static_cast<size_t>(state)].tensor.type.bytes());
  return (zeros ? 1 : 3) * bytes / bandwidth_;  // combining: two reads and a write
}

double& StepTime::part_of(PieceKind kind) {
  return kind == PieceKind::kUpdate ? update : kind == PieceKind::kPrepare ? derive : micro;
}

StepTime predict_step(const Executable& exe, const Machine& machine) {
  const WorkTimes work(exe, machine);
  std::vector<double> seconds(exe.segments.size(), 0), measured(exe.segments.size(), 0);
  for (size_t id = 0; id < exe.segments.size(); ++id)
    for (const Instruction& instruction : exe.segments[id].instructions) {
      seconds[id] += work.seconds(instruction);
      measured[id] += work.measured_seconds(instruction);
    }
  StepTime time;
  double known = 0;
  for (const ProgramStep& step : exe.train().steps) {
    time.lanes += work.seconds_of_lanes(step);
    if (step.kind != ProgramStep::Kind::kRun) continue;
    const auto id = static_cast<size_t>(step.subject);
    time.part_of(exe.segments[id].kind) += seconds[id];
    known += measured[id];
  }
  time.finish(known);
  return time;
}

void StepTime::finish(double known) {
  seconds = micro + update + derive + lanes;
  measured_share = seconds > 0 ? known / seconds : 0;
}

}  // namespace ramet::sim
