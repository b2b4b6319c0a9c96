#include "ramet/report/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/plan/cost_model.h"

namespace ramet::report {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Columns: the first and those from `texts` on to the left, the others to the right.
std::string table(const Rows& rows, size_t texts) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      line += (c == 0 ? "" : "  ") + (c == 0 || c >= texts ? fmt::format("{:<{}}", row[c], widths[c])
                                                           : fmt::format("{:>{}}", row[c], widths[c]));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string rate_text(double rate) { return rate < 100 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate); }

std::string long_time(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 7200) return fmt::format("{:.3g} min", seconds / 60);
  return seconds < 172800 ? fmt::format("{:.3g} h", seconds / 3600) : fmt::format("{:.3g} days", seconds / 86400);
}

std::string energy_text(double joule) {
  const double kwh = joule / 3.6e6;
  return kwh < 1000 ? fmt::format("{:.3g} kWh", kwh) : fmt::format("{:.3g} MWh", kwh / 1000);
}

std::string layout_text(const SearchReport& report, const Candidate& candidate) {
  std::string text = print_layout(candidate.layout);
  if (report.space->batches.size() == 1) return text;
  return text + " micro_batch=" + std::to_string(report.space->batch_of(candidate).micro_batch);
}

bool in_front(const SearchResult& result, size_t index) {
  return std::find(result.front.begin(), result.front.end(), index) != result.front.end();
}

std::string head(const SearchReport& report) {
  const SearchResult& result = *report.result;
  std::string text = fmt::format("{} on {} ({} x {}{}): {:.4g} million parameters, {} samples a step\n", report.name,
                                 report.machine->name, report.space->devices,
                                 report.machine->processors > 0 ? "core" : report.machine->device.name,
                                 report.device_memory > 0 ? ", " + format_size(report.device_memory) + " each" : "",
                                 static_cast<double>(report.parameters) / 1e6, report.samples);
  text += fmt::format(
      "{} layouts considered, {} of them too large by their states alone; {} compiled and simulated, {} "
      "of which fit\n",
      result.considered, result.too_large, result.fitting.size() + result.refused.size(), result.fitting.size());
  if (result.stopped)
    text += "stopped: the best so far\n";
  else if (const double margin = bound_margin(*report.machine); result.proven && margin < 1)
    text += fmt::format("bounds rule out the rest, by a margin: {:.2g} of the time at the measured peak\n", margin);
  else if (result.proven)
    text += "no other layout can be faster: bounds rule out the rest\n";
  else
    text += "the rest was estimated to be slower (--candidates compiles more of them)\n";
  return text;
}

std::string layouts_table(const SearchReport& report) {
  const SearchResult& result = *report.result;
  Rows body;
  for (size_t i = 0; i < result.fitting.size(); ++i) {
    const Evaluated& each = result.fitting[i];
    const Outcome& outcome = each.outcome;
    body.push_back({fmt::format("{}{} {}", i == 0 ? "*" : " ", in_front(result, i) ? "+" : " ",
                                layout_text(report, each.candidate)),
                    std::to_string(each.candidate.layout.devices()), seconds_text(outcome.seconds),
                    rate_text(static_cast<double>(report.samples) / outcome.seconds),
                    rate_text(static_cast<double>(report.tokens) / outcome.seconds), format_size(outcome.bytes),
                    outcome.streaming_bytes > 0 ? format_size(outcome.streaming_bytes) : "-",
                    fmt::format("{:.1f}%", 100 * outcome.bubble), outcome.limit, outcome.fullest});
  }
  body.insert(body.begin(), {"   layout", "devices", "step", "samples/s", report.units + "/s", "memory", "streaming",
                             "bubble", "limit", "most memory"});
  return table(body, 8);
}

std::string cost_text(const SearchReport& report) {
  if (report.to_samples == 0) return "";
  const Evaluated& best = report.result->fitting.front();
  const double seconds =
      best.outcome.seconds / static_cast<double>(report.samples) * static_cast<double>(report.to_samples);
  std::string text = fmt::format("{} samples take {}", report.to_samples, long_time(seconds));
  if (report.machine->watts > 0)
    text += fmt::format(" and {} at {} W a device",
                        energy_text(seconds * report.machine->watts * best.candidate.layout.devices()),
                        report.machine->watts);
  else
    text += "; the machine's file gives no watts, so no energy";
  return text + "\n";
}

std::string neighbours_text(const SearchReport& report) {
  Rows rows;
  for (const Neighbour& neighbour : report.result->neighbours)
    if (neighbour.refused || report.explain)
      rows.push_back({"  " + neighbour.change, neighbour.refused ? "refused" : "slower", neighbour.why});
  if (rows.empty()) return "";
  return std::string(report.explain ? "\nbeside the best:\n" : "\nrefused beside the best:\n") + table(rows, 1);
}

nlohmann::ordered_json json_layout(const SearchReport& report, const Candidate& candidate) {
  return {{"layout", print_layout(candidate.layout)},
          {"micro_batch", report.space->batch_of(candidate).micro_batch},
          {"devices", candidate.layout.devices()}};
}

}  // namespace

std::string text_of(const SearchReport& report) {
  std::string text = head(report) + "\n" + layouts_table(report);
  text += "\n* the fastest; + no other is both faster and smaller; memory of the fullest device\n";
  text += "use it with: " + report.command + "\n" + cost_text(report) + neighbours_text(report);
  if (report.explain && !report.result->refused.empty()) {
    text += "\ncompiled and refused:\n";
    Rows rows;
    for (const Evaluated& each : report.result->refused)
      rows.push_back({"  " + layout_text(report, each.candidate), each.outcome.refused});
    text += table(rows, 1);
  }
  return text;
}

std::string json_of(const SearchReport& report) {
  const SearchResult& result = *report.result;
  nlohmann::ordered_json json = {{"name", report.name},
                                 {"machine", report.machine->name},
                                 {"devices", report.space->devices},
                                 {"device_memory", report.device_memory},
                                 {"parameters", report.parameters},
                                 {"samples_per_step", report.samples},
                                 {"considered", result.considered},
                                 {"too_large", result.too_large},
                                 {"evaluated", result.fitting.size() + result.refused.size()},
                                 {"proven", result.proven},
                                 {"bound_margin", bound_margin(*report.machine)},
                                 {"stopped", result.stopped},
                                 {"command", report.command}};
  json["layouts"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < result.fitting.size(); ++i) {
    const Evaluated& each = result.fitting[i];
    const Outcome& outcome = each.outcome;
    auto entry = json_layout(report, each.candidate);
    entry["step_seconds"] = outcome.seconds;
    entry["samples_per_second"] = static_cast<double>(report.samples) / outcome.seconds;
    entry[report.units + "_per_second"] = static_cast<double>(report.tokens) / outcome.seconds;
    entry["memory_bytes"] = outcome.bytes;
    entry["streaming_bytes"] = outcome.streaming_bytes;
    entry["stage_bytes"] = outcome.stage_bytes;
    entry["bubble"] = outcome.bubble;
    entry["limit"] = outcome.limit;
    entry["fullest"] = outcome.fullest;
    entry["front"] = in_front(result, i);
    entry["estimated_seconds"] = each.estimate.seconds;
    entry["estimated_bytes"] = static_cast<int64_t>(each.estimate.bytes);
    entry["bound_seconds"] = each.bound.seconds;
    entry["bound_bytes"] = static_cast<int64_t>(each.bound.bytes);
    if (report.to_samples > 0) {
      const double seconds =
          outcome.seconds / static_cast<double>(report.samples) * static_cast<double>(report.to_samples);
      entry["total_seconds"] = seconds;
      if (report.machine->watts > 0)
        entry["total_joule"] = seconds * report.machine->watts * each.candidate.layout.devices();
    }
    json["layouts"].push_back(std::move(entry));
  }
  json["refused"] = nlohmann::ordered_json::array();
  for (const Evaluated& each : result.refused) {
    auto entry = json_layout(report, each.candidate);
    entry["needed_bytes"] = each.outcome.bytes;
    entry["why"] = each.outcome.refused;
    json["refused"].push_back(std::move(entry));
  }
  json["neighbours"] = nlohmann::ordered_json::array();
  for (const Neighbour& neighbour : result.neighbours) {
    auto entry = json_layout(report, neighbour.candidate);
    entry["change"] = neighbour.change;
    entry["refused"] = neighbour.refused;
    entry["why"] = neighbour.why;
    json["neighbours"].push_back(std::move(entry));
  }
  return json.dump();
}

void refuse_machine(const SearchReport& report) {
  const SearchResult& result = *report.result;
  if (result.stopped)
    throw Error({.what = "stopped before a layout was found that fits",
                 .where = report.name + " on " + report.machine->name,
                 .found = fmt::format("{} layouts considered, {} compiled", result.considered, result.refused.size())},
                ErrorKind::kFailure);
  if (result.considered == 0)
    throw Error({.what = "no layout fits the model and the recipe's lanes and chunks",
                 .where = report.name + " on " + report.machine->name,
                 .remedy = "Leave more keys open beside auto; `ramet plan --layout ...` says what is wrong with one"});
  const bool streams = report.space->streaming;
  throw Error(
      {.what = "the machine is too small for every layout of this recipe",
       .where = report.name + " on " + report.machine->name,
       .found = fmt::format("{} devices of {}; of {} layouts {} are too large by their states alone, {} were compiled",
                            report.space->devices, format_size(report.device_memory), result.considered,
                            result.too_large, result.refused.size()),
       .expected = fmt::format("{}{} on each device, which \"{}\" needs", result.smallest_is_exact ? "" : "at least ",
                               format_size(result.smallest_bytes), layout_text(report, result.smallest)),
       .remedy = std::string("Give devices more memory, or take more of them") +
                 (streams ? "" : ", or a machine with streaming memory") +
                 "; a smaller train.micro_batch, or more train.chunks and lanes, which let more devices share the "
                 "model, make it smaller too (they decide bits)"});
}

}  // namespace ramet::report
