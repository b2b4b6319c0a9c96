#include "ramet/serve/trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
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

struct TracedDevice {
  const json* stage = nullptr;
  const json* steps = nullptr;         ///< of the program "train"
  const json* instructions = nullptr;  ///< mean seconds by segment and instruction
  const json* spans = nullptr;         ///< [step, begin, end] of the last step that was measured
  uint64_t runs = 0, work = 0, messages = 0;
};

const json& stage_of(const json& program, int64_t number) {
  for (const auto& stage : list(program, "stages"))
    if (whole(stage, "stage") == number) return stage;
  refuse("a device is of a stage that the program does not have");
}

const json& entry(const json& items, int64_t number, const char* what) {
  if (!items.is_array() || number < 0 || number >= static_cast<int64_t>(items.size()))
    refuse(std::string("a measured step names ") + what + " that the program does not have");
  return items[static_cast<size_t>(number)];
}

double seconds_of(const json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) refuse("a time is no number");
  return value.get<double>();
}

/// Instructions of one run of a segment: their mean seconds, stretched to the time that this run took.
void write_instructions(TraceWriter& writer, const TracedDevice& device, int64_t subject, double begin, double end) {
  const json& instructions = list(entry(list(*device.stage, "segments"), subject, "a segment"), "instructions");
  const json& means = entry(*device.instructions, subject, "a segment");
  if (!means.is_array() || means.size() != instructions.size()) refuse("times and instructions differ in number");
  double sum = 0;
  for (const auto& mean : means) sum += seconds_of(mean);
  double at = begin;
  for (size_t i = 0; i < means.size(); ++i) {
    const double next = at + (sum > 0 ? (end - begin) * seconds_of(means[i]) / sum : 0);
    const std::string op = text(instructions[i], "op");
    writer.span(device.work, text(instructions[i], "name") + " " + op, op, at, next);
    at = next;
  }
}

void write_step(TraceWriter& writer, const TracedDevice& device, const json& measured) {
  if (!measured.is_array() || measured.size() != 3 || !measured[0].is_number_integer())
    refuse("a measured step is not [step, begin, end]");
  const json& step = entry(*device.steps, measured[0].get<int64_t>(), "a step");
  const double begin = seconds_of(measured[1]), end = seconds_of(measured[2]);
  const std::string kind = text(step, "kind");
  if (kind == "wait") {
    writer.span(device.messages, text(step, "text"), kind, begin, end);
  } else if (kind != "run") {
    writer.mark(device.messages, text(step, "text"), kind, begin);
  } else {
    const int64_t subject = whole(step, "subject");
    const json& segment = entry(list(*device.stage, "segments"), subject, "a segment");
    writer.span(device.runs, text(step, "text"), text(segment, "kind"), begin, end);
    write_instructions(writer, device, subject, begin, end);
  }
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
  for (const auto& entry : list(times, "devices")) {
    TracedDevice device;
    const int64_t stage = whole(entry, "stage");
    device.stage = &stage_of(program, stage);
    device.steps = &list(member(*device.stage, "programs"), "train");
    device.instructions = &list(entry, "instructions");
    device.spans = &list(entry, "last_step");
    const uint64_t process =
        writer.process("stage " + std::to_string(stage) + ", device " + std::to_string(whole(entry, "device")));
    device.runs = writer.track("runs", process);
    device.work = writer.track("work", process);
    device.messages = writer.track("messages and waits", process);
    for (const auto& span : *device.spans) write_step(writer, device, span);
  }
  return writer.data();
}

}  // namespace ramet::serve
