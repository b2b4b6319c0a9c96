#include "ramet/report/memory.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/ops/parts.h"

namespace ramet::report {
namespace {

int64_t padded(const Buffer& buffer) { return buffer.stride() * buffer.slots; }

/// For each class, the most bytes live at one instant in one of the memories.
std::array<int64_t, kBufferClassCount> most_of(const std::vector<Buffer>& buffers, int32_t instants) {
  std::array<std::vector<int64_t>, kBufferClassCount> change;
  for (auto& each : change) each.assign(static_cast<size_t>(instants) + 1, 0);
  for (const Buffer& buffer : buffers) {
    auto& each = change[static_cast<size_t>(buffer.kind)];
    each[static_cast<size_t>(buffer.first)] += padded(buffer);
    each[static_cast<size_t>(buffer.last) + 1] -= padded(buffer);
  }
  std::array<int64_t, kBufferClassCount> most{};
  for (size_t kind = 0; kind < change.size(); ++kind) {
    int64_t live = 0;
    for (int64_t delta : change[kind]) most[kind] = std::max(most[kind], live += delta);
  }
  return most;
}

double gap_of(const MemoryReport& report) {
  if (report.bound_bytes == 0) return 0;
  return static_cast<double>(report.planned_bytes - report.bound_bytes) / static_cast<double>(report.bound_bytes);
}

}  // namespace

MemoryReport memory_report(const Executable& exe, size_t largest) {
  MemoryReport report;
  report.planned_bytes = exe.planned_bytes();
  report.bound_bytes = exe.bound_bytes;
  report.placement = exe.placement;
  report.peak = exe.at(exe.peak_instant);
  report.at_peak = exe.live_at(exe.peak_instant);
  report.most = most_of(exe.buffers, exe.instants);
  report.streaming_bytes = exe.streaming_bytes;
  report.streaming = most_of(exe.streaming, exe.instants);
  std::vector<const Buffer*> alive;
  for (const Buffer& buffer : exe.buffers)
    if (buffer.first <= exe.peak_instant && exe.peak_instant <= buffer.last) alive.push_back(&buffer);
  std::stable_sort(alive.begin(), alive.end(),
                   [](const Buffer* a, const Buffer* b) { return a->total() > b->total(); });
  if (alive.size() > largest) alive.resize(largest);
  for (const Buffer* buffer : alive) {
    const Instruction* maker = exe.instruction_at(buffer->first);
    report.largest.push_back({buffer->name, buffer->kind, buffer->total(), exe.at(buffer->first), exe.at(buffer->last),
                              maker ? maker->origin : ""});
  }
  for (const StatePlace& place : exe.states) {
    const StateTensor& state = place.tensor;
    const bool of_parts =
        std::any_of(state.axes.begin(), state.axes.end(), [](const LogicalAxis& axis) { return !axis.name.empty(); });
    if (state.kind == StateKind::kConstant && of_parts && is_index(state.type.dtype) && state.init.data)
      report.tables.push_back({state.name, state.init.data->type(), padding_of(state.init.data->tensor())});
  }
  return report;
}

std::string text_of(const MemoryReport& report) {
  char line[512];
  std::snprintf(line, sizeof line,
                "device memory  %s (%lld bytes), %.2f%% above the bound of this schedule; placed by %s\n",
                format_size(report.planned_bytes).c_str(), static_cast<long long>(report.planned_bytes),
                100 * gap_of(report), report.placement.c_str());
  std::string text = line;
  text += "most is live at  " + report.peak + "\n\n";
  const bool streams = report.streaming_bytes > 0;
  if (streams) {
    text.pop_back();
    std::snprintf(line, sizeof line, "streaming memory  %s (%lld bytes)\n\n",
                  format_size(report.streaming_bytes).c_str(), static_cast<long long>(report.streaming_bytes));
    text += line;
  }
  std::snprintf(line, sizeof line, "%-12s %12s %7s %12s%s\n", "class", "at the peak", "share", "at most",
                streams ? "    streaming" : "");
  text += line;
  for (int kind = 0; kind < kBufferClassCount; ++kind) {
    const auto k = static_cast<size_t>(kind);
    if (report.most[k] == 0 && report.streaming[k] == 0) continue;
    std::snprintf(
        line, sizeof line, "%-12s %12s %6.1f%% %12s", std::string(name_of(static_cast<BufferClass>(kind))).c_str(),
        format_size(report.at_peak[k]).c_str(),
        100.0 * static_cast<double>(report.at_peak[k]) / static_cast<double>(std::max<int64_t>(1, report.bound_bytes)),
        format_size(report.most[k]).c_str());
    text += line;
    std::snprintf(line, sizeof line, " %12s", format_size(report.streaming[k]).c_str());
    text += (streams ? line : "") + std::string("\n");
  }
  text += "\nlargest buffers at the peak\n";
  for (const auto& large : report.largest) {
    std::snprintf(line, sizeof line, "%12s  %-11s ", format_size(large.bytes).c_str(),
                  std::string(name_of(large.kind)).c_str());
    text += line + large.name + (large.origin.empty() ? "" : " of " + large.origin) + "\n";
  }
  if (!report.tables.empty()) text += "\ntables of parts, padded to the longest\n";
  for (const auto& table : report.tables) {
    std::snprintf(line, sizeof line, "%11.1f%%  ", 100 * table.padding);
    text += std::string(line) + "of " + table.name + " " + table.type.text() + " is padding\n";
  }
  return text;
}

std::string text_of(const HostBytes& host, int devices) {
  char line[256];
  std::snprintf(
      line, sizeof line, "host  %s (%lld bytes) a process of %d device%s: batches %s, tables %s, results %s\n",
      format_size(host.total()).c_str(), static_cast<long long>(host.total()), devices, devices == 1 ? "" : "s",
      format_size(host.batches).c_str(), format_size(host.tables).c_str(), format_size(host.results).c_str());
  return line;
}

std::string json_of(const HostBytes& host, int devices) {
  return nlohmann::ordered_json{{"bytes", host.total()},
                                {"batches", host.batches},
                                {"tables", host.tables},
                                {"results", host.results},
                                {"devices", devices}}
      .dump();
}

std::string json_of(const MemoryReport& report) {
  nlohmann::ordered_json json;
  json["planned_bytes"] = report.planned_bytes;
  json["bound_bytes"] = report.bound_bytes;
  json["gap"] = gap_of(report);
  json["placement"] = report.placement;
  json["peak"] = report.peak;
  json["streaming_bytes"] = report.streaming_bytes;
  for (int kind = 0; kind < kBufferClassCount; ++kind)
    json["classes"][std::string(name_of(static_cast<BufferClass>(kind)))] = {
        {"at_peak", report.at_peak[static_cast<size_t>(kind)]},
        {"most", report.most[static_cast<size_t>(kind)]},
        {"streaming", report.streaming[static_cast<size_t>(kind)]}};
  json["largest"] = nlohmann::ordered_json::array();
  for (const auto& large : report.largest)
    json["largest"].push_back({{"name", large.name},
                               {"class", std::string(name_of(large.kind))},
                               {"bytes", large.bytes},
                               {"from", large.from},
                               {"to", large.to},
                               {"origin", large.origin}});
  json["tables"] = nlohmann::ordered_json::array();
  for (const auto& table : report.tables)
    json["tables"].push_back({{"name", table.name}, {"type", table.type.text()}, {"padding", table.padding}});
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ramet::report
