#include "ramet/train/run_files.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "ramet/base/version.h"
#include "ramet/sim/shared_processors.h"

namespace ramet::train {
namespace {

using json = nlohmann::ordered_json;

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

json header() { return {{"version", kRunFilesVersion}, {"ramet", version()}}; }

/// Devices that run a stage's executable.
json devices_of(const Mesh& mesh, int stage) {
  json devices = json::array();
  for (int device = 0; device < mesh.devices(); ++device)
    if (mesh.position(device).stage == stage) devices.push_back(device);
  return devices;
}

/// Most bytes of each class that are live at one time.
std::array<int64_t, kBufferClassCount> most_live(const Executable& exe) {
  std::array<std::map<int32_t, int64_t>, kBufferClassCount> change;
  for (const Buffer& buffer : exe.buffers) {
    auto& of_class = change[static_cast<size_t>(buffer.kind)];
    of_class[buffer.first] += buffer.total(), of_class[buffer.last + 1] -= buffer.total();
  }
  std::array<int64_t, kBufferClassCount> most{};
  for (size_t kind = 0; kind < change.size(); ++kind) {
    int64_t live = 0;
    for (const auto& [instant, bytes] : change[kind]) most[kind] = std::max(most[kind], live += bytes);
  }
  return most;
}

json classes_of(const Executable& exe) {
  const auto at_peak = exe.live_at(exe.peak_instant), most = most_live(exe);
  json classes = json::object();
  for (int kind = 0; kind < kBufferClassCount; ++kind)
    classes[std::string(name_of(static_cast<BufferClass>(kind)))] = {{"at_peak", at_peak[static_cast<size_t>(kind)]},
                                                                     {"most", most[static_cast<size_t>(kind)]}};
  return classes;
}

json buffer_json(const Buffer& buffer, int64_t id) {
  return {{"id", id},
          {"name", buffer.name},
          {"class", name_of(buffer.kind)},
          {"offset", buffer.offset},
          {"bytes", buffer.bytes},
          {"slots", buffer.slots},
          {"stride", buffer.stride()},
          {"first", buffer.first},
          {"last", buffer.last}};
}

json steps_json(const Executable& exe, const std::vector<ProgramStep>& program) {
  static constexpr const char* kKinds[ProgramStep::kKinds] = {"run",     "zero", "combine", "send",
                                                              "receive", "load", "store",   "wait"};
  json steps = json::array();
  for (const ProgramStep& step : program)
    steps.push_back({{"kind", kKinds[static_cast<size_t>(step.kind)]},
                     {"subject", step.subject},
                     {"micro", step.micro},
                     {"superstep", step.superstep},
                     {"text", exe.text_of(step)}});
  return steps;
}

/// A row of one kernel in one segment, which the profile and the prediction share.
using RowName = std::tuple<std::string, std::string, std::string>;

/// What one kernel in one segment does in a training step.
struct KernelWork {
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;  ///< the seconds as expected
};

std::map<RowName, KernelWork> predicted_rows(const Executable& exe, const Machine& machine) {
  std::vector<int64_t> runs(exe.segments.size(), 0);
  for (const ProgramStep& step : exe.train().steps)
    if (step.kind == ProgramStep::Kind::kRun) ++runs[static_cast<size_t>(step.subject)];
  std::map<RowName, KernelWork> rows;
  for (size_t s = 0; s < exe.segments.size(); ++s)
    for (const Instruction& instruction : exe.segments[s].instructions) {
      if (instruction.call < 0) continue;
      const Call& call = exe.calls[static_cast<size_t>(instruction.call)];
      KernelWork& row = rows[{exe.segments[s].name, std::string(call.node.op->name), call.kernel}];
      const auto times = static_cast<double>(runs[s]);
      row.calls += runs[s];
      row.seconds += times * call_seconds(machine, call.node, call.kernel, call.cost);
      row.flops += times * call.cost.flops;
      row.bytes += times * static_cast<double>(call.cost.bytes_read + call.cost.bytes_written);
    }
  return rows;
}

/// To the nanosecond: what clocks tell.
double in_nanoseconds(double seconds) { return std::round(seconds * 1e9) / 1e9; }

/// Mean seconds by segment and instruction.
json instructions_json(const MeasuredTimes& measured) {
  json segments = json::array();
  for (const auto& segment : measured.instructions) {
    json seconds = json::array();
    for (double each : segment) seconds.push_back(in_nanoseconds(each));
    segments.push_back(std::move(seconds));
  }
  return segments;
}

/// [step, begin, end] each, in seconds from `begin` on.
json last_step_json(const MeasuredTimes& measured, double begin) {
  json spans = json::array();
  for (const StepSpan& span : measured.last_step)
    spans.push_back({span.step, in_nanoseconds(span.begin - begin), in_nanoseconds(span.end - begin)});
  return spans;
}

/// When the first of this process's devices began the last profiled step.
double begin_of_last_step(const Cluster& cluster) {
  double begin = std::numeric_limits<double>::infinity();
  for (const int device : cluster.local_devices())
    for (const StepSpan& span : cluster.measured_times(device).last_step) begin = std::min(begin, span.begin);
  return begin;
}

}  // namespace

int64_t RunPrograms::planned_bytes() const {
  int64_t bytes = 0;
  for (const Executable& exe : stages)
    bytes += static_cast<int64_t>(devices_of(mesh(), exe.stage).size()) *
             (exe.planned_bytes() + (layout.streams_to_files() ? 0 : exe.streaming_bytes));
  return bytes;
}

RunPrograms programs_of(const Training& training) {
  return {training.cluster().stages(), training.layout(), training.compiled().seconds};
}

std::string plan_json(const RunPrograms& programs) {
  json plan = header();
  plan["layout"] = print_layout(programs.layout);
  plan["planned_bytes"] = programs.planned_bytes();
  plan["compile_seconds"] = programs.compile_seconds;
  plan["kernel_class"] = programs.stages[0].kernel_class;
  plan["stages"] = json::array();
  for (const Executable& exe : programs.stages)
    plan["stages"].push_back({{"stage", exe.stage},
                              {"devices", devices_of(programs.mesh(), exe.stage)},
                              {"threads", exe.threads},
                              {"planned_bytes", exe.planned_bytes()},
                              {"bound_bytes", exe.bound_bytes},
                              {"streaming_bytes", exe.streaming_bytes},
                              {"peak", exe.at(exe.peak_instant)},
                              {"peak_instant", exe.peak_instant},
                              {"placement", exe.placement},
                              {"classes", classes_of(exe)}});
  return text_of(plan);
}

std::string liveness_json(const RunPrograms& programs) {
  json liveness = header();
  liveness["stages"] = json::array();
  for (const Executable& exe : programs.stages) {
    json buffers = json::array(), streaming = json::array(), segments = json::array();
    for (size_t id = 0; id < exe.buffers.size(); ++id)
      buffers.push_back(buffer_json(exe.buffers[id], static_cast<int64_t>(id)));
    for (size_t id = 0; id < exe.streaming.size(); ++id)
      streaming.push_back(buffer_json(exe.streaming[id], static_cast<int64_t>(id)));
    for (const Segment& segment : exe.segments)
      segments.push_back({{"name", segment.name}, {"first", segment.first}, {"last", segment.last}});
    liveness["stages"].push_back({{"stage", exe.stage},
                                  {"instants", exe.instants},
                                  {"arena_bytes", exe.arena_bytes},
                                  {"segments", std::move(segments)},
                                  {"buffers", std::move(buffers)},
                                  {"streaming", std::move(streaming)}});
  }
  return text_of(liveness);
}

std::string program_json(const RunPrograms& programs) {
  json program = header();
  program["stages"] = json::array();
  for (const Executable& exe : programs.stages) {
    json segments = json::array();
    for (const Segment& segment : exe.segments) {
      json instructions = json::array();
      for (const Instruction& instruction : segment.instructions) {
        const Call* call = instruction.call < 0 ? nullptr : &exe.calls[static_cast<size_t>(instruction.call)];
        instructions.push_back({{"name", instruction.name},
                                {"op", call ? std::string(call->node.op->name) : "copy"},
                                {"kernel", call ? call->kernel : ""},
                                {"inputs", instruction.inputs},
                                {"outputs", instruction.outputs}});
      }
      segments.push_back({{"name", segment.name},
                          {"kind", name_of(segment.kind)},
                          {"part", segment.part},
                          {"region", segment.region},
                          {"first", segment.first},
                          {"last", segment.last},
                          {"instructions", std::move(instructions)}});
    }
    json programs = json::object();
    for (const Program& each : exe.programs) programs[each.name] = steps_json(exe, each.steps);
    program["stages"].push_back({{"stage", exe.stage},
                                 {"lanes", exe.lanes},
                                 {"micro_batches_per_lane", exe.micro_batches_per_lane},
                                 {"segments", std::move(segments)},
                                 {"programs", std::move(programs)}});
  }
  return text_of(program);
}

std::string times_json(const Training& training, int64_t steps, double step_seconds,
                       const std::optional<Machine>& machine) {
  const Cluster& cluster = training.cluster();
  json times = header();
  times["steps"] = steps;
  times["step_seconds"] = step_seconds;
  times["predicted_step_seconds"] = nullptr;
  if (machine)
    times["predicted_step_seconds"] =
        simulate_sharing(cluster.stages(), *machine, {.streams_to_files = training.layout().streams_to_files()})
            .seconds;
  times["devices"] = json::array();
  if (!training.profiled()) return text_of(times);
  const double begin = begin_of_last_step(cluster);
  for (const int device : cluster.local_devices()) {
    const Executable& exe = cluster.stages()[static_cast<size_t>(cluster.mesh().position(device).stage)];
    const auto predicted = machine ? predicted_rows(exe, *machine) : std::map<RowName, KernelWork>{};
    json kernels = json::array();
    for (const ProfileRow& row : cluster.profile_by_kernel(device)) {
      const auto expected = predicted.find({row.segment, row.op, row.kernel});
      kernels.push_back(
          {{"segment", row.segment},
           {"op", row.op},
           {"kernel", row.kernel},
           {"calls", row.calls},
           {"seconds", row.seconds},
           {"predicted_seconds",
            expected == predicted.end() ? json(nullptr) : json(expected->second.seconds * static_cast<double>(steps))},
           {"flops", row.flops},
           {"bytes", row.bytes}});
    }
    const MeasuredTimes measured = cluster.measured_times(device);
    times["devices"].push_back({{"device", device},
                                {"stage", exe.stage},
                                {"kernels", std::move(kernels)},
                                {"instructions", instructions_json(measured)},
                                {"last_step", last_step_json(measured, begin)}});
  }
  return text_of(times);
}

std::string predicted_times_json(const RunPrograms& programs, double step_seconds, const Machine& machine) {
  json times = header();
  times["steps"] = 1;
  times["step_seconds"] = nullptr;
  times["predicted_step_seconds"] = step_seconds;
  times["devices"] = json::array();
  for (const Executable& exe : programs.stages) {
    json kernels = json::array();
    for (const auto& [name, work] : predicted_rows(exe, machine))
      kernels.push_back({{"segment", std::get<0>(name)},
                         {"op", std::get<1>(name)},
                         {"kernel", std::get<2>(name)},
                         {"calls", work.calls},
                         {"seconds", nullptr},
                         {"predicted_seconds", work.seconds},
                         {"flops", work.flops},
                         {"bytes", work.bytes}});
    for (const auto& device : devices_of(programs.mesh(), exe.stage))
      times["devices"].push_back({{"device", device}, {"stage", exe.stage}, {"kernels", kernels}});
  }
  return text_of(times);
}

}  // namespace ramet::train
