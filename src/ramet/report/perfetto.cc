#include "ramet/report/perfetto.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/proto.h"

namespace ramet::report {
namespace {

constexpr uint64_t kSequence = 1, kCleared = 1, kNeeded = 2;
constexpr uint64_t kBegin = 1, kEnd = 2, kCounter = 4;

uint64_t nanoseconds(double seconds) { return static_cast<uint64_t>(std::llround(std::max(0.0, seconds) * 1e9)); }

class Trace {
 public:
  explicit Trace(const Simulation& simulation) : simulation_(simulation) {}

  std::string run() {
    intern();
    for (size_t c = 0; c < simulation_.timelines.size(); ++c) add_device(simulation_.timelines[c], c);
    for (const ChannelTraffic& channel : simulation_.channels) add_channel(channel);
    return trace_.data();
  }

 private:
  void add(ProtoMessage& packet, bool first = false) {
    packet.number(10, kSequence).number(13, first ? kCleared | kNeeded : kNeeded);
    trace_.message(1, packet);
  }

  /// Names of all spans, once.
  void intern() {
    ProtoMessage names;
    for (int a = 0; a < kActivities; ++a) {
      ProtoMessage category;
      category.number(1, static_cast<uint64_t>(a) + 1).bytes(2, name_of(static_cast<Activity>(a)));
      names.message(1, category);
    }
    for (size_t i = 0; i < simulation_.labels.size(); ++i) {
      ProtoMessage name;
      name.number(1, i + 1).bytes(2, simulation_.labels[i]);
      names.message(2, name);
    }
    ProtoMessage packet;
    packet.message(12, names);
    add(packet, true);
  }

  uint64_t add_track(const std::string& name, uint64_t parent) {
    const uint64_t uuid = ++tracks_;
    ProtoMessage track, packet;
    track.number(1, uuid).bytes(2, name);
    if (parent != 0) track.number(5, parent);
    packet.message(60, track);
    add(packet);
    return uuid;
  }

  void add_device(const DeviceTimeline& device, size_t number) {
    const std::string name = "stage " + std::to_string(device.stage) +
                             (device.devices.size() == 1 ? ", device " : ", each of devices ") +
                             devices_text(device.devices);
    const uint64_t uuid = ++tracks_;
    ProtoMessage process, track, packet;
    process.number(1, number + 1).bytes(6, name);
    track.number(1, uuid).bytes(2, name).message(3, process);
    packet.message(60, track);
    add(packet);
    add_spans(device.runs, "runs", uuid);
    add_spans(device.work, "work", uuid);
    add_lanes(device.messages, "messages", uuid);
    add_lanes(device.streams, "streaming memory", uuid);
  }

  void add_spans(const std::vector<Span>& spans, const std::string& name, uint64_t parent) {
    if (spans.empty()) return;
    const uint64_t track = add_track(name, parent);
    for (const Span& span : spans) add_span(span, track);
  }

  /// Spans that overlap go to tracks of their own, as few as are needed.
  void add_lanes(std::vector<Span> spans, const std::string& name, uint64_t parent) {
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<std::vector<Span>> lanes;
    for (const Span& span : spans) {
      const auto free = std::find_if(lanes.begin(), lanes.end(),
                                     [&](const std::vector<Span>& lane) { return lane.back().end <= span.begin; });
      if (free == lanes.end())
        lanes.push_back({span});
      else
        free->push_back(span);
    }
    for (size_t i = 0; i < lanes.size(); ++i)
      add_spans(lanes[i], lanes.size() == 1 ? name : name + " " + std::to_string(i + 1), parent);
  }

  void add_span(const Span& span, uint64_t track) {
    ProtoMessage begin, end, opens, closes;
    begin.number(9, kBegin).number(11, track).number(10, static_cast<uint64_t>(span.label) + 1);
    begin.number(3, static_cast<uint64_t>(span.activity) + 1);
    opens.number(8, nanoseconds(span.begin)).message(11, begin);
    add(opens);
    end.number(9, kEnd).number(11, track);
    closes.number(8, nanoseconds(span.end)).message(11, end);
    add(closes);
  }

  void add_channel(const ChannelTraffic& channel) {
    if (channel.rates.empty()) return;
    const uint64_t uuid = ++tracks_;
    ProtoMessage counter, track, packet;
    counter.bytes(6, "B/s");
    track.number(1, uuid).bytes(2, channel.name).message(8, counter);
    packet.message(60, track);
    add(packet);
    for (const ChannelTraffic::Rate& rate : channel.rates) {
      ProtoMessage event, at;
      event.number(9, kCounter).number(11, uuid).real(44, rate.rate);
      at.number(8, nanoseconds(rate.at)).message(11, event);
      add(at);
    }
  }

  const Simulation& simulation_;
  ProtoMessage trace_;
  uint64_t tracks_ = 0;
};

}  // namespace

std::string perfetto_trace(const Simulation& simulation) { return Trace(simulation).run(); }

std::string devices_text(const std::vector<int32_t>& devices) {
  constexpr size_t kRuns = 4;
  std::string text;
  size_t runs = 0;
  for (size_t i = 0; i < devices.size();) {
    size_t end = i + 1;
    while (end < devices.size() && devices[end] == devices[end - 1] + 1) ++end;
    if (++runs > kRuns) return text + ", ... (" + std::to_string(devices.size()) + " in all)";
    text += (text.empty() ? "" : ", ") + std::to_string(devices[i]);
    if (end > i + 1) text += (end == i + 2 ? ", " : " to ") + std::to_string(devices[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace ramet::report
