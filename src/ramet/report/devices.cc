#include "ramet/report/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "ramet/base/file.h"
#include "ramet/ops/collective.h"

namespace ramet::report {
namespace {

using Kind = ProgramStep::Kind;

/// What one member sends in a collective of `parts` members, as halving and doubling do.
int64_t sent_bytes(const CollectiveForm& form) {
  const int64_t whole = std::max(form.input.bytes(), form.output.bytes()),
                share = whole / form.parts * (form.parts - 1);
  return form.exchange == Exchange::kAllReduce ? 2 * share : share;
}

class TrafficCounter {
 public:
  explicit TrafficCounter(const Executable& exe) : exe_(exe), of_call_(exe.calls.size()) {
    for (size_t i = 0; i < exe.calls.size(); ++i) {
      const NodeSignature& node = exe.calls[i].node;
      if (node.op->exchange == Exchange::kNone) continue;
      const CollectiveForm form = collective_form(node);
      if (form.parts == 1) continue;
      const std::string axis(name_of(static_cast<MeshAxis>(form.axis)));
      of_call_[i] = {fmt::format("{} {}:{}", node.op->name, axis, form.parts), sent_bytes(form)};
    }
  }

  std::map<std::string, DeviceReport::Traffic> run() {
    for (const ProgramStep& step : exe_.train().steps) {
      switch (step.kind) {
        case Kind::kRun: count_segment(exe_.segments[static_cast<size_t>(step.subject)]); break;
        case Kind::kSend: count_transfer("send", step); break;
        case Kind::kReceive: count_transfer("receive", step); break;
        case Kind::kLoad: count_transfer("load", step); break;
        case Kind::kStore: count_transfer("store", step); break;
        default: break;
      }
    }
    return std::move(traffic_);
  }

 private:
  void count_segment(const Segment& segment) {
    for (const Instruction& instruction : segment.instructions)
      if (instruction.call >= 0 && !of_call_[static_cast<size_t>(instruction.call)].first.empty()) {
        const auto& [name, bytes] = of_call_[static_cast<size_t>(instruction.call)];
        count(name, bytes);
      }
  }
  void count_transfer(const std::string& name, const ProgramStep& step) {
    count(name, exe_.transfers[static_cast<size_t>(step.subject)].type.bytes());
  }
  void count(const std::string& name, int64_t bytes) {
    ++traffic_[name].count;
    traffic_[name].bytes += bytes;
  }

  const Executable& exe_;
  std::vector<std::pair<std::string, int64_t>> of_call_;
  std::map<std::string, DeviceReport::Traffic> traffic_;
};

constexpr const char* kNotCut = "not cut";

/// The logical axes of a weight that tensor shards cut.
std::string cut_axes(const StatePlace& place) {
  std::string text;
  for (const Cut& cut : place.sharding.cuts) {
    const auto dim = static_cast<size_t>(cut.dim);
    if (dim < place.tensor.axes.size()) text += (text.empty() ? "" : " and ") + place.tensor.axes[dim].name;
  }
  return text.empty() ? kNotCut : text;
}

DeviceReport report_of(const Executable& exe) {
  DeviceReport report;
  report.stage = exe.stage;
  report.planned_bytes = exe.planned_bytes();
  report.streaming_bytes = exe.streaming_bytes;
  report.at_peak = exe.live_at(exe.peak_instant);
  report.peak = exe.at(exe.peak_instant);
  report.between = report.planned_bytes - std::accumulate(report.at_peak.begin(), report.at_peak.end(), int64_t{0});
  for (const Buffer& buffer : exe.streaming)
    report.streaming[static_cast<size_t>(buffer.kind)] += buffer.stride() * buffer.slots;
  for (const StatePlace& place : exe.states)
    if (place.tensor.kind == StateKind::kWeight && !place.tensor.low_half)
      report.weights[cut_axes(place)] += place.sharding.local().bytes();
  std::set<int32_t> supersteps;
  for (const ProgramStep& step : exe.train().steps) supersteps.insert(step.superstep);
  report.supersteps = static_cast<int64_t>(supersteps.size());
  report.traffic = TrafficCounter(exe).run();
  return report;
}

/// A row of a table: its name and a cell a stage. Left out when all cells are empty.
void add_row(std::string& text, const std::string& name, const std::vector<std::string>& cells, bool always = false) {
  if (!always && std::all_of(cells.begin(), cells.end(), [](const std::string& cell) { return cell.empty(); })) return;
  text += fmt::format("  {:<24}", name);
  for (const std::string& cell : cells) text += fmt::format(" {:>14}", cell);
  text += "\n";
}

template <typename Get>
std::vector<std::string> cells_of(const DevicesReport& report, const Get& get) {
  std::vector<std::string> cells;
  for (const DeviceReport& stage : report.stages) {
    const int64_t bytes = get(stage);
    cells.push_back(bytes > 0 ? format_size(bytes) : "");
  }
  return cells;
}

void add_memory(std::string& text, const DevicesReport& report) {
  // Few models have other states than weights and moments.
  const auto add_class = [&](size_t k, const std::vector<std::string>& cells) {
    const auto kind = static_cast<BufferClass>(k);
    const bool empty = std::all_of(cells.begin(), cells.end(), [](const std::string& cell) { return cell.empty(); });
    if (kind != BufferClass::kStates || !empty) add_row(text, std::string(name_of(kind)), cells);
  };
  text += "device memory\n";
  for (size_t k = 0; k < kBufferClassCount; ++k)
    add_class(k, cells_of(report, [k](const DeviceReport& stage) { return stage.at_peak[k]; }));
  add_row(text, "(not used at the peak)", cells_of(report, [](const DeviceReport& stage) { return stage.between; }));
  add_row(text, "planned", cells_of(report, [](const DeviceReport& stage) { return stage.planned_bytes; }));
  if (std::none_of(report.stages.begin(), report.stages.end(),
                   [](const DeviceReport& stage) { return stage.streaming_bytes > 0; }))
    return;
  text += "streaming memory\n";
  for (size_t k = 0; k < kBufferClassCount; ++k)
    add_class(k, cells_of(report, [k](const DeviceReport& stage) { return stage.streaming[k]; }));
  add_row(text, "planned", cells_of(report, [](const DeviceReport& stage) { return stage.streaming_bytes; }));
}

/// How tensor shards share the weights.
void add_shards(std::string& text, const DevicesReport& report) {
  std::set<std::string> axes;
  for (const DeviceReport& stage : report.stages)
    for (const auto& [name, bytes] : stage.weights) axes.insert(name);
  if (axes.size() == axes.count(kNotCut)) return;
  text += "weights, by what tensor shards cut\n";
  for (const std::string& name : axes)
    add_row(text, name, cells_of(report, [&](const DeviceReport& stage) {
              const auto found = stage.weights.find(name);
              return found == stage.weights.end() ? int64_t{0} : found->second;
            }));
}

void add_traffic(std::string& text, const DevicesReport& report) {
  std::set<std::string> kinds;
  for (const DeviceReport& stage : report.stages)
    for (const auto& [kind, traffic] : stage.traffic) kinds.insert(kind);
  text += "traffic of a step, of one device\n";
  for (const std::string& kind : kinds)
    add_row(text, kind, cells_of(report, [&](const DeviceReport& stage) {
              const auto found = stage.traffic.find(kind);
              return found == stage.traffic.end() ? int64_t{0} : found->second.bytes;
            }));
  if (kinds.empty()) text += "  none\n";
}

void add_time(std::string& text, const DevicesReport& report) {
  const auto row = [&](const char* name, double (*get)(const StageTime&)) {
    std::vector<std::string> cells;
    bool any = false;
    for (const StageTime& stage : report.time->stages) {
      any = any || get(stage) > 0;
      cells.push_back(fmt::format("{:.1f}%", 100 * get(stage) / report.time->seconds));
    }
    if (any) add_row(text, name, cells);
  };
  text += "time of a step\n";
  row("passes", [](const StageTime& stage) { return stage.work.micro; });
  row("update", [](const StageTime& stage) { return stage.work.update; });
  row("derived", [](const StageTime& stage) { return stage.work.derive; });
  row("lanes", [](const StageTime& stage) { return stage.work.lanes; });
  row("collectives", [](const StageTime& stage) { return stage.exchanging; });
  row("streaming memory", [](const StageTime& stage) { return stage.streaming; });
  row("other devices", [](const StageTime& stage) { return stage.waiting; });
  text += fmt::format("\ntime: about {} a step", fmt::format("{:.3g} s", report.time->seconds));
  if (report.stages.size() > 1)
    text += fmt::format("; bubble: {:.1f}% of it, stages wait for each other", 100 * report.time->bubble);
  text += "\n";
}

}  // namespace

DevicesReport devices_report(std::span<const Executable> stages, const std::string& layout, double bubble) {
  DevicesReport report{.layout = layout,
                       .activations = stages[0].activations,
                       .given_up = {},
                       .bubble = bubble,
                       .time = {},
                       .stages = {},
                       .stage_of = {}};
  for (const Executable& exe : stages) {
    report.stages.push_back(report_of(exe));
    if (!exe.given_up.empty() && report.given_up.find(exe.given_up) == std::string::npos)
      report.given_up += (report.given_up.empty() ? "" : "; ") + exe.given_up;
  }
  const Mesh& mesh = stages[0].mesh;
  for (int device = 0; device < mesh.devices(); ++device) report.stage_of.push_back(mesh.position(device).stage);
  return report;
}

std::string text_of(const DevicesReport& report) {
  const size_t alike = report.stage_of.size() / report.stages.size();
  std::string text =
      fmt::format("layout {}: {} devices, {} of each stage alike\n\n", report.layout, report.stage_of.size(), alike);
  if (!report.activations.empty()) text += "activations, chosen to fit: " + report.activations + "\n\n";
  if (!report.given_up.empty()) text += "given up to fit: " + report.given_up + "\n\n";
  std::vector<std::string> names, supersteps;
  for (const DeviceReport& stage : report.stages) {
    names.push_back(fmt::format("stage {}", stage.stage));
    supersteps.push_back(std::to_string(stage.supersteps));
  }
  add_row(text, "", names);
  add_memory(text, report);
  add_shards(text, report);
  add_traffic(text, report);
  add_row(text, "supersteps", supersteps);
  text += "most bytes are live at\n";
  for (const DeviceReport& stage : report.stages) text += fmt::format("  stage {}: {}\n", stage.stage, stage.peak);
  if (report.time)
    add_time(text, report);
  else if (report.stages.size() > 1)
    text += fmt::format("\nbubble: {:.1f}% of the step, stages wait for each other\n", 100 * report.bubble);
  return text;
}

std::string json_of(const DevicesReport& report) {
  nlohmann::json devices = nlohmann::json::array();
  for (size_t device = 0; device < report.stage_of.size(); ++device) {
    const DeviceReport& stage = report.stages[static_cast<size_t>(report.stage_of[device])];
    nlohmann::json parts, streaming, traffic = nlohmann::json::object();
    for (size_t k = 0; k < kBufferClassCount; ++k) {
      const std::string name(name_of(static_cast<BufferClass>(k)));
      parts[name] = stage.at_peak[k];
      streaming[name] = stage.streaming[k];
    }
    parts["unused"] = stage.between;
    for (const auto& [kind, each] : stage.traffic) traffic[kind] = {{"count", each.count}, {"bytes", each.bytes}};
    devices.push_back({{"device", device},
                       {"stage", stage.stage},
                       {"planned_bytes", stage.planned_bytes},
                       {"streaming_bytes", stage.streaming_bytes},
                       {"parts", parts},
                       {"streaming_parts", streaming},
                       {"peak", stage.peak},
                       {"supersteps", stage.supersteps},
                       {"traffic", traffic}});
  }
  return devices.dump();
}

std::string memory_svg(std::span<const Executable> stages) {
  if (stages.size() == 1) return memory_svg(stages[0]);
  std::string inner;
  double width = 0, height = 0;
  for (const Executable& exe : stages) {
    std::string picture = memory_svg(exe);
    double w = 0, h = 0;
    const std::string view = "viewBox=\"0 0 ";
    if (std::sscanf(picture.c_str() + picture.find(view) + view.size(), "%lf %lf", &w, &h) != 2) continue;
    inner += fmt::format("<text x=\"4\" y=\"{:.0f}\" font-weight=\"bold\">stage {}</text>\n", height + 16, exe.stage);
    picture.insert(4, fmt::format(" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"", height + 22, w, h));
    inner += picture;
    width = std::max(width, w);
    height += h + 30;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n",
             width, height) +
         inner + "</svg>\n";
}

}  // namespace ramet::report
