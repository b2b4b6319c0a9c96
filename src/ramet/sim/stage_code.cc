#include "ramet/sim/stage_code.h"

#include "ramet/sim/moves.h"
#include "ramet/sim/work_time.h"

namespace ramet::sim {

int32_t Labels::number(std::string_view text) {
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<int32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

std::string_view layer_of(std::string_view instruction) {
  const size_t first = instruction.find('/');
  if (first == std::string_view::npos) return instruction;
  const size_t second = instruction.find('/', first + 1);
  return instruction.substr(0, second);
}

StageCode::StageCode(const Executable& exe, const Machine& machine, const Moves& moves, size_t stage, Labels& labels) {
  const WorkTimes work(exe, machine);
  for (const program::Segment& from : exe.segments) {
    Segment segment;
    for (const Instruction& instruction : from.instructions) {
      const int what = instruction.call < 0 ? -1 : moves.what_of_call(stage, instruction.call);
      const int32_t label = labels.number(instruction.name.empty() ? "(copy)" : layer_of(instruction.name));
      if (what >= 0) {
        segment.items.push_back({.what = what, .label = label});
        continue;
      }
      const double seconds = work.seconds(instruction);
      segment.known += work.measured_seconds(instruction);
      segment.at_peak += work.seconds_at_peak(instruction);
      if (segment.items.empty() || segment.items.back().what >= 0)
        segment.items.push_back({.first_part = static_cast<int32_t>(segment.parts.size())});
      Item& item = segment.items.back();
      item.seconds += seconds;
      if (item.parts == 0 || segment.parts.back().label != label) {
        segment.parts.push_back({label, 0});
        ++item.parts;
      }
      segment.parts.back().seconds += seconds;
    }
    segments.push_back(std::move(segment));
  }
  for (const ProgramStep& step : exe.train().steps) lanes.push_back(work.seconds_of_lanes(step));
  for (const Transfer& transfer : exe.transfers) transfer_labels.push_back(labels.number(transfer.name));
}

}  // namespace ramet::sim
