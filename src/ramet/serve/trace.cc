#include "ramet/serve/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/proto.h"
#include "ramet/report/perfetto.h"

namespace ramet::serve {
namespace {

using nlohmann::json;

constexpr uint64_t kSequence = 1, kCleared = 1, kNeeded = 2;
constexpr uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
constexpr size_t kMostSpans = 4'000'000;

[[noreturn]] void refuse(const std::string& what) { throw Error({.what = what, .where = "program.json, times.json"}); }

const json& member(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end())
    refuse(std::string("the files of the program have no '") + key + "'");
  return *found;
}
const json& list(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_array()) refuse(std::string("'") + key + "' is no list");
  return value;
}
int64_t whole(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_number_integer()) refuse(std::string("'") + key + "' is no whole number");
  return value.get<int64_t>();
}
std::string text(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_string()) refuse(std::string("'") + key + "' is no text");
  return value.get<std::string>();
}

/// Writes tracks and spans; times are seconds from the beginning of the step.
class TraceWriter {
 public:
  uint64_t process(const std::string& name) {
    ProtoMessage process, track;
    const uint64_t uuid = ++tracks_;
    process.number(1, uuid).bytes(6, name);
    track.number(1, uuid).bytes(2, name).message(3, process);
    describe(track);
    return uuid;
  }
  uint64_t track(const std::string& name, uint64_t parent) {
    ProtoMessage track;
    track.number(1, ++tracks_).bytes(2, name).number(5, parent);
    describe(track);
    return tracks_;
  }
  void span(uint64_t track, const std::string& name, const std::string& category, double begin, double end) {
    if (++spans_ > kMostSpans) refuse("the step has too many instructions for a trace");
    event(track, kBegin, begin, &name, &category);
    event(track, kEnd, end, nullptr, nullptr);
  }
  void mark(uint64_t track, const std::string& name, const std::string& category, double at) {
    event(track, kInstant, at, &name, &category);
  }
  const std::string& data() const { return trace_.data(); }

 private:
  void describe(const ProtoMessage& track) {
    ProtoMessage packet;
    packet.message(60, track);
    add(packet);
  }
  void event(uint64_t track, uint64_t type, double at, const std::string* name, const std::string* category) {
    ProtoMessage event, packet;
    event.number(9, type).number(11, track);
    if (category) event.bytes(22, *category);
    if (name) event.bytes(23, *name);
    packet.number(8, static_cast<uint64_t>(std::llround(std::max(0.0, at) * 1e9))).message(11, event);
    add(packet);
  }
  void add(ProtoMessage& packet) {
    packet.number(10, kSequence).number(13, first_ ? kCleared | kNeeded : kNeeded);
    first_ = false;
    trace_.message(1, packet);
  }

  ProtoMessage trace_;
  uint64_t tracks_ = 0;
  size_t spans_ = 0;
  bool first_ = true;
};

/// Mean seconds of a call by segment, op and kernel.
using CallTimes = std::map<std::tuple<std::string, std::string, std::string>, double>;

CallTimes call_times(const json& device) {
  CallTimes means;
  for (const auto& kernel : list(device, "kernels")) {
    const auto calls = static_cast<double>(whole(kernel, "calls"));
    const json& seconds = member(kernel, "seconds");
    if (calls > 0 && seconds.is_number())
      means[{text(kernel, "segment"), text(kernel, "op"), text(kernel, "kernel")}] = seconds.get<double>() / calls;
  }
  return means;
}

struct TracedDevice {
  const json* stage = nullptr;
  const json* steps = nullptr;  ///< of the program "train"
  CallTimes times;
  uint64_t runs = 0, work = 0, marks = 0;
  size_t at = 0;  ///< of `steps`
  double clock = 0;
};

const json& stage_of(const json& program, int64_t number) {
  for (const auto& stage : list(program, "stages"))
    if (whole(stage, "stage") == number) return stage;
  refuse("a device is of a stage that the program does not have");
}

/// Plays one step of a device's program.
void play(TraceWriter& writer, TracedDevice& device, const json& step) {
  if (text(step, "kind") != "run") {
    writer.mark(device.marks, text(step, "text"), text(step, "kind"), device.clock);
    return;
  }
  const json& segments = list(*device.stage, "segments");
  const int64_t subject = whole(step, "subject");
  if (subject < 0 || subject >= static_cast<int64_t>(segments.size())) refuse("a step runs no segment of the program");
  const json& segment = segments[static_cast<size_t>(subject)];
  const std::string name = text(segment, "name");
  const double begin = device.clock;
  for (const auto& instruction : list(segment, "instructions")) {
    const std::string op = text(instruction, "op");
    const auto found = device.times.find({name, op, text(instruction, "kernel")});
    const double seconds = found == device.times.end() ? 0 : found->second;
    writer.span(device.work, text(instruction, "name") + " " + op, op, device.clock, device.clock + seconds);
    device.clock += seconds;
  }
  writer.span(device.runs, text(step, "text"), text(segment, "kind"), begin, device.clock);
}

json parse(std::string_view source, const char* name) {
  json value = json::parse(source, nullptr, false);
  if (!value.is_object() || !value.contains("version") || value["version"] != 1)
    throw Error({.what = "the file is damaged, or of another version", .where = name});
  return value;
}

}  // namespace

std::string step_trace(std::string_view program_text, std::string_view times_text) {
  const json program = parse(program_text, "program.json"), times = parse(times_text, "times.json");
  if (list(times, "devices").empty())
    throw Error({.what = "the run has no times of kernels", .remedy = "`ramet train --profile` measures them"});
  TraceWriter writer;
  std::vector<TracedDevice> devices;
  for (const auto& entry : list(times, "devices")) {
    TracedDevice device;
    const int64_t stage = whole(entry, "stage");
    device.stage = &stage_of(program, stage);
    device.steps = &list(member(*device.stage, "programs"), "train");
    device.times = call_times(entry);
    const uint64_t process =
        writer.process("stage " + std::to_string(stage) + ", device " + std::to_string(whole(entry, "device")));
    device.runs = writer.track("runs", process);
    device.work = writer.track("work", process);
    device.marks = writer.track("messages and waits", process);
    devices.push_back(std::move(device));
  }
  // Supersteps in their order; each begins when every device has ended the one before.
  for (;;) {
    int64_t superstep = INT64_MAX;
    for (const auto& device : devices)
      if (device.at < device.steps->size())
        superstep = std::min(superstep, whole((*device.steps)[device.at], "superstep"));
    if (superstep == INT64_MAX) return writer.data();
    double end = 0;
    for (auto& device : devices) {
      // A list may name an earlier superstep again: what stands next belongs to this one, too.
      while (device.at < device.steps->size() && whole((*device.steps)[device.at], "superstep") <= superstep)
        play(writer, device, (*device.steps)[device.at++]);
      end = std::max(end, device.clock);
    }
    for (auto& device : devices) device.clock = end;
  }
}

}  // namespace ramet::serve
