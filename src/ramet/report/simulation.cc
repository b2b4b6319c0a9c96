#include "ramet/report/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/file.h"

namespace ramet::report {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string rate_text(double bytes) {
  return bytes < 9e18 ? format_size(static_cast<int64_t>(bytes)) + "/s" : "unlimited";
}

/// Aligned columns: the first to the left, the others to the right.
void add_table(std::string& text, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    text += line + "\n";
  }
}

/// Share of the step in which links of a channel carry something, on average and the busiest.
double use_of(const Simulation& simulation, const ChannelTraffic& channel) {
  const double most = simulation.seconds * channel.bandwidth * static_cast<double>(channel.links);
  return most > 0 ? channel.bytes / most : 0;
}
double busiest_use(const Simulation& simulation, const ChannelTraffic& channel) {
  const double most = simulation.seconds * channel.bandwidth;
  return most > 0 ? channel.busiest / most : 0;
}

}  // namespace

std::string text_of(const Simulation& simulation, std::span<const Executable> stages) {
  std::string text;
  const double step = simulation.seconds;
  const bool streams =
      std::any_of(stages.begin(), stages.end(), [](const Executable& exe) { return exe.streaming_bytes > 0; });
  std::vector<std::vector<std::string>> rows = {{"stage", "devices", "compute", "exchange", "streaming", "wait"}};
  rows[0].push_back("memory");
  if (streams) rows[0].push_back("streaming memory");
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageTime& time = simulation.stages[s];
    rows.push_back({std::to_string(s), std::to_string(simulation.devices / static_cast<int>(stages.size())),
                    percent(time.work.seconds / step), percent(time.exchanging / step), percent(time.streaming / step),
                    percent(time.waiting / step), format_size(stages[s].planned_bytes())});
    if (streams) rows.back().push_back(format_size(stages[s].streaming_bytes));
  }
  add_table(text, rows);
  rows = {{"links and memories", "number", "each", "bytes a step", "use", "of the busiest"}};
  for (const ChannelTraffic& channel : simulation.channels)
    if (channel.bytes > 0)
      rows.push_back({channel.name, std::to_string(channel.links), rate_text(channel.bandwidth),
                      format_size(static_cast<int64_t>(channel.bytes)), percent(use_of(simulation, channel)),
                      percent(busiest_use(simulation, channel))});
  if (rows.size() > 1) {
    text += "\n";
    add_table(text, rows);
  }
  return text;
}

std::string json_of(const Simulation& simulation, std::span<const Executable> stages) {
  nlohmann::ordered_json json = {{"step_seconds", simulation.seconds},        {"bubble", simulation.bubble},
                                 {"share_of_peak", simulation.share_of_peak}, {"devices", simulation.devices},
                                 {"simulated", simulation.timelines.size()},  {"events", simulation.events}};
  json["stages"] = nlohmann::ordered_json::array();
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageTime& time = simulation.stages[s];
    json["stages"].push_back({{"stage", s},
                              {"devices", simulation.devices / static_cast<int>(stages.size())},
                              {"compute", time.work.seconds},
                              {"exchange", time.exchanging},
                              {"streaming", time.streaming},
                              {"wait", time.waiting},
                              {"planned_bytes", stages[s].planned_bytes()},
                              {"streaming_bytes", stages[s].streaming_bytes}});
  }
  json["links"] = nlohmann::ordered_json::array();
  for (const ChannelTraffic& channel : simulation.channels)
    json["links"].push_back({{"name", channel.name},
                             {"links", channel.links},
                             {"bandwidth", channel.bandwidth},
                             {"bytes", channel.bytes},
                             {"busiest", channel.busiest},
                             {"use", use_of(simulation, channel)},
                             {"busiest_use", busiest_use(simulation, channel)}});
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ramet::report
