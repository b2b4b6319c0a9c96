#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ramet/layout/schedule_table.h"
#include "ramet/program/executable.h"

namespace ramet::report {

/// The figures of a layout's schedule.
struct LayoutReport {
  std::string layout;  ///< canonical text
  int devices = 1;
  int64_t micro_batches = 0;  ///< of each replica
  ScheduleTable table;
  PassTimes times;  ///< in forward passes of an average stage
  ScheduleOutcome outcome;
  std::vector<ScheduleChoice> choices;  ///< the layout's own schedule first
};

/// Times are estimated from the model's sizes (estimated_times).
LayoutReport layout_report(const Layout& layout, const LayoutFacts& facts);
/// The same for compiled programs, one a stage: order and times are theirs.
LayoutReport layout_report(const Layout& layout, const LayoutFacts& facts, std::span<const Executable> stages);
/// As a page: the table over time (cut at about 150 letters a line), its bubble, and what other schedules would give.
std::string text_of(const LayoutReport& report);
/// As one JSON object: layout, devices, micro_batches, schedule, bubble, makespan, in_flight [by part], stages
/// [[cells]], choices [{schedule, bubble, makespan, in_flight}].
std::string json_of(const LayoutReport& report);

}  // namespace ramet::report
