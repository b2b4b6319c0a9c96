#include "ramet/report/layout.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ramet/layout/device_graphs.h"
#include "ramet/layout/pipeline_parts.h"

namespace ramet::report {
namespace {

constexpr int64_t kColumns = 36;

std::string name_of(const ScheduleChoice& choice) {
  const std::string name(name_of(choice.schedule));
  return choice.interleave > 1 ? name + ":" + std::to_string(choice.interleave) : name;
}

template <typename... Values>
std::string line(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// Whether splitting the backward pass is worth it.
std::string zero_bubble_text(const LayoutReport& report) {
  const auto zero = std::find_if(report.choices.begin(), report.choices.end(),
                                 [](const auto& choice) { return choice.schedule == PipelineSchedule::kZeroBubble; });
  if (zero == report.choices.end()) return "";
  double best = 1e300;
  for (const auto& choice : report.choices)
    if (choice.schedule != PipelineSchedule::kZeroBubble) best = std::min(best, choice.makespan);
  const double gain = 100 * (1 - zero->makespan / best);
  if (gain < 1) return "zero-bubble does not pay here: it takes as long as the best of the others, and keeps more\n";
  return line(
      "zero-bubble pays here: %.1f%% less time than the best of the others, less what two backward passes cost more "
      "than one\n",
      gain);
}

}  // namespace

namespace {

/// What the programs do, in their order.
ScheduleTable table_of(std::span<const Executable> stages, const Layout& layout) {
  ScheduleTable table{.kind = layout.schedule,
                      .micro_batches = stages[0].micro_batches(),
                      .split_backward = false,
                      .stage_of = {},
                      .entries = {}};
  for (int part = 0; part < layout.model_parts(); ++part) table.stage_of.push_back(layout.stage_of(part));
  for (const Executable& exe : stages) {
    auto& entries = table.entries.emplace_back();
    for (const ProgramStep& step : exe.train().steps) {
      if (step.kind != ProgramStep::Kind::kRun) continue;
      const Segment& segment = exe.segments[static_cast<size_t>(step.subject)];
      const std::optional<Pass> pass = pass_of(segment.kind);
      if (!pass || step.micro < 0) continue;
      entries.push_back({*pass, segment.part, step.micro});
      table.split_backward = table.split_backward || *pass == Pass::kWeightGradient;
    }
  }
  return table;
}

/// Of the programs' passes by their work; a whole stage's forward pass takes 1 on average.
PassTimes times_of(std::span<const Executable> stages, int parts) {
  PassTimes times;
  times.of_part.resize(static_cast<size_t>(parts));
  double forward = 0;
  for (const Executable& exe : stages)
    for (const Segment& segment : exe.segments) {
      const std::optional<Pass> pass = pass_of(segment.kind);
      if (!pass) continue;
      double work = 0;
      for (const Instruction& instruction : segment.instructions)
        if (instruction.call >= 0) work += work_of(exe.calls[static_cast<size_t>(instruction.call)].cost);
      times.of_part[static_cast<size_t>(segment.part)][static_cast<size_t>(*pass)] += work;
      if (*pass == Pass::kForward) forward += work;
    }
  const double unit = std::max(forward, 1.0) / static_cast<double>(stages.size());
  for (auto& passes : times.of_part)
    for (double& time : passes) time = std::max(time / unit, 1e-3);
  return times;
}

}  // namespace

LayoutReport layout_report(const Layout& layout, const LayoutFacts& facts, std::span<const Executable> stages) {
  LayoutReport report = layout_report(layout, facts);
  ScheduleTable table = table_of(stages, layout);
  for (size_t s = 0; s < table.entries.size(); ++s)
    if (table.entries[s].size() != report.table.entries[s].size()) return report;  // one program for all passes
  report.times = times_of(stages, table.parts());
  report.table = std::move(table);
  report.outcome = outcome_of(report.table, report.times);
  return report;
}

LayoutReport layout_report(const Layout& layout, const LayoutFacts& facts) {
  LayoutReport report;
  report.layout = print_layout(layout);
  report.devices = layout.devices();
  report.micro_batches = std::max<int64_t>(1, facts.micro_batches / layout.r);
  report.times = estimated_times(layout, facts, layout.schedule == PipelineSchedule::kZeroBubble);
  report.table = make_schedule(layout, report.micro_batches, &report.times);
  report.outcome = outcome_of(report.table, report.times);
  report.choices = compare_schedules(layout, facts, report.micro_batches);
  return report;
}

std::string text_of(const LayoutReport& report) {
  std::string text =
      "layout " + report.layout +
      line(": %d device%s, %lld micro-batch%s a replica\n\n", report.devices, report.devices == 1 ? "" : "s",
           static_cast<long long>(report.micro_batches), report.micro_batches == 1 ? "" : "es");
  text += text_of(report.table, report.times, kColumns);
  text += line("\n%-16s %7s %9s  %s\n", "schedule", "bubble", "step", "in flight");
  for (const auto& choice : report.choices)
    text +=
        line("%-16s %6.1f%% %9.2f  %lld\n", ((&choice == &report.choices[0] ? "* " : "  ") + name_of(choice)).c_str(),
             100 * choice.bubble, choice.makespan, static_cast<long long>(choice.in_flight));
  text +=
      "were all stages alike; a step in forward passes of a stage; in flight: micro-batches of activations that the "
      "fullest stage keeps\n";
  return text + zero_bubble_text(report);
}

std::string json_of(const LayoutReport& report) {
  nlohmann::ordered_json json;
  json["layout"] = report.layout;
  json["devices"] = report.devices;
  json["micro_batches"] = report.micro_batches;
  json["schedule"] = name_of(report.choices.at(0));
  json["bubble"] = report.outcome.bubble;
  json["makespan"] = report.outcome.makespan;
  json["in_flight"] = report.outcome.in_flight;
  json["stages"] = nlohmann::ordered_json::array();
  for (const auto& entries : report.table.entries) {
    auto cells = nlohmann::ordered_json::array();
    for (const auto& entry : entries) {
      std::string cell = letter_of(entry.pass) + std::to_string(entry.micro);
      if (report.table.parts() > report.table.stages()) cell += "/" + std::to_string(entry.part);
      cells.push_back(std::move(cell));
    }
    json["stages"].push_back(std::move(cells));
  }
  json["choices"] = nlohmann::ordered_json::array();
  for (const auto& choice : report.choices)
    json["choices"].push_back({{"schedule", name_of(choice)},
                               {"bubble", choice.bubble},
                               {"makespan", choice.makespan},
                               {"in_flight", choice.in_flight}});
  return json.dump();
}

}  // namespace ramet::report
