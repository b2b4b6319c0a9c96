#include <algorithm>
#include <cstdio>

#include "ramet/runtime/engine_state.h"

namespace ramet::runtime {
namespace {

std::vector<ProfileRow> rows_of(const EngineState& engine, bool by_node) {
  std::map<std::array<std::string, 4>, ProfileRow> rows;
  for (size_t id = 0; id < engine.exe_.segments.size(); ++id) {
    const Segment& segment = engine.exe_.segments[id];
    const int64_t runs = engine.runs_[id];
    if (runs == 0) continue;
    for (size_t i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& instruction = segment.instructions[i];
      const Call* call = instruction.call < 0 ? nullptr : &engine.exe_.calls[static_cast<size_t>(instruction.call)];
      ProfileRow row{segment.name,
                     call ? call->node.op->name : "copy",
                     call ? call->kernel : "memcpy",
                     by_node ? instruction.name : "",
                     runs,
                     engine.seconds_[id][i],
                     0,
                     0};
      if (call && by_node && !call->node.outputs.empty()) row.node += " -> " + call->node.outputs[0].text();
      if (call) {
        row.flops = call->cost.flops * static_cast<double>(runs);
        row.bytes = static_cast<double>(call->cost.bytes_read + call->cost.bytes_written) * static_cast<double>(runs);
      }
      const auto [place, fresh] = rows.try_emplace({row.segment, row.op, row.kernel, row.node}, row);
      if (fresh) continue;
      place->second.calls += row.calls;
      place->second.seconds += row.seconds;
      place->second.flops += row.flops;
      place->second.bytes += row.bytes;
    }
  }
  std::vector<ProfileRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return sorted;
}

}  // namespace

std::vector<ProfileRow> Engine::profile_by_kernel() const { return rows_of(*state_, false); }
std::vector<ProfileRow> Engine::profile_by_node() const { return rows_of(*state_, true); }
std::vector<ProfileRow> DeviceEngine::profile_by_kernel() const { return rows_of(*state_, false); }
std::vector<ProfileRow> DeviceEngine::profile_by_node() const { return rows_of(*state_, true); }

MeasuredTimes DeviceEngine::measured_times() const {
  MeasuredTimes times{.instructions = state_->seconds_, .last_step = state_->spans_};
  for (size_t id = 0; id < times.instructions.size(); ++id)
    for (double& seconds : times.instructions[id])
      seconds /= static_cast<double>(std::max<int64_t>(1, state_->runs_[id]));
  return times;
}

std::string profile_text(std::span<const ProfileRow> rows, int64_t steps, size_t most) {
  double total = 0;
  for (const ProfileRow& row : rows) total += row.seconds;
  char line[512];
  std::snprintf(line, sizeof line, "%10s %6s %8s %9s %8s  %-9s %-18s %s\n", "ms/step", "share", "calls", "GF/s", "GB/s",
                "segment", "op", "kernel");
  std::string text = line;
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const ProfileRow& row = rows[i];
    const double seconds = std::max(row.seconds, 1e-12);
    std::snprintf(line, sizeof line, "%10.3f %5.1f%% %8lld %9.1f %8.1f  %-9s %-18s %s %s\n",
                  row.seconds * 1e3 / static_cast<double>(std::max<int64_t>(1, steps)),
                  100 * row.seconds / std::max(total, 1e-12), static_cast<long long>(row.calls),
                  row.flops / seconds * 1e-9, row.bytes / seconds * 1e-9, row.segment.c_str(), row.op.c_str(),
                  row.kernel.c_str(), row.node.c_str());
    text += line;
  }
  std::snprintf(line, sizeof line, "%10.3f 100.0%% in all kernels\n",
                total * 1e3 / static_cast<double>(std::max<int64_t>(1, steps)));
  return text + line;
}

}  // namespace ramet::runtime
