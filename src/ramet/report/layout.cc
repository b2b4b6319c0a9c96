#include "ramet/report/layout.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace ramet {
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

LayoutReport layout_report(const Layout& layout, const LayoutFacts& facts) {
  LayoutReport report;
  report.layout = print_layout(layout);
  report.devices = layout.devices();
  report.micro_batches = std::max<int64_t>(1, facts.micro_batches / layout.r);
  report.times = estimated_times(layout, facts, layout.schedule == PipelineSchedule::kZeroBubble);
  report.table = make_schedule(layout, report.micro_batches, &report.times);
  report.outcome = simulate(report.table, report.times);
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
  text += "a step in forward passes of a stage; in flight: micro-batches of activations that the fullest stage keeps\n";
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
      if (report.table.chunks() > report.table.stages()) cell += "/" + std::to_string(entry.chunk);
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

}  // namespace ramet
