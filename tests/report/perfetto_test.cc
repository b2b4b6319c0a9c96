#include "ramet/report/perfetto.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <variant>

#include "ramet/report/simulation.h"

namespace ramet::tests {
namespace {

/// A decoder of its own: a message as its fields in order.
struct Field {
  int number = 0;
  std::variant<uint64_t, double, std::string> value;
};
class Message {
 public:
  explicit Message(std::string_view data) {
    while (!data.empty()) {
      const uint64_t tag = varint(data);
      Field field{.number = static_cast<int>(tag >> 3), .value = {}};
      switch (tag & 7) {
        case 0: field.value = varint(data); break;
        case 1: {
          if (data.size() < 8) throw std::runtime_error("a double is cut");
          double value = 0;
          std::memcpy(&value, data.data(), 8);
          field.value = value;
          data.remove_prefix(8);
          break;
        }
        case 2: {
          const uint64_t size = varint(data);
          if (size > data.size()) throw std::runtime_error("bytes are cut");
          field.value = std::string(data.substr(0, size));
          data.remove_prefix(size);
          break;
        }
        default: throw std::runtime_error("unknown wire type");
      }
      fields_.push_back(std::move(field));
    }
  }
  bool has(int number) const { return find(number) != nullptr; }
  uint64_t number(int number) const { return std::get<uint64_t>(get(number)); }
  double real(int number) const { return std::get<double>(get(number)); }
  const std::string& text(int number) const { return std::get<std::string>(get(number)); }
  Message message(int number) const { return Message(text(number)); }
  std::vector<Message> messages(int number) const {
    std::vector<Message> found;
    for (const Field& field : fields_)
      if (field.number == number) found.emplace_back(std::get<std::string>(field.value));
    return found;
  }

 private:
  static uint64_t varint(std::string_view& data) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (data.empty() || shift > 63) throw std::runtime_error("a varint is cut");
      const auto byte = static_cast<unsigned char>(data[0]);
      data.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  const Field* find(int number) const {
    for (const Field& field : fields_)
      if (field.number == number) return &field;
    return nullptr;
  }
  const std::variant<uint64_t, double, std::string>& get(int number) const {
    const Field* field = find(number);
    if (!field) throw std::runtime_error("no field " + std::to_string(number));
    return field->value;
  }
  std::vector<Field> fields_;
};

Simulation two_devices() {
  Simulation simulation;
  simulation.seconds = 2;
  simulation.devices = 3;
  simulation.labels = {"layer0/attention", "sum", "load 'weights'", "forward 0, micro-batch 1"};
  DeviceTimeline first{.stage = 0, .devices = {0, 1}, .work = {}, .runs = {}, .messages = {}, .streams = {}};
  first.runs = {{0, 1.5, Activity::kCompute, 3}};
  first.work = {{0, 1, Activity::kCompute, 0}, {1, 1.5, Activity::kExchange, 1}, {1.5, 2, Activity::kWait, 1}};
  // Two that overlap, and one that fits behind the first.
  first.streams = {
      {0, 1, Activity::kStreaming, 2}, {0.5, 2, Activity::kStreaming, 2}, {1, 1.25, Activity::kStreaming, 2}};
  DeviceTimeline second{.stage = 1, .devices = {2}, .work = {}, .runs = {}, .messages = {}, .streams = {}};
  second.work = {{0, 2, Activity::kWait, 1}};
  simulation.timelines = {first, second};
  ChannelTraffic links{.name = "links", .links = 2, .bandwidth = 1e9, .bytes = 5e8, .busiest = 5e8, .rates = {}};
  links.rates = {{1, 1e9}, {1.5, 0}};
  simulation.channels = {links};
  return simulation;
}

/// What is on each track, as "begin-end name (category)" in nanoseconds, by the track's name.
std::map<std::string, std::vector<std::string>> decoded(const std::string& bytes) {
  std::map<uint64_t, std::string> names, categories, tracks;
  std::map<uint64_t, uint64_t> open;
  std::map<uint64_t, std::string> open_name;
  std::map<std::string, std::vector<std::string>> result;
  bool first = true;
  for (const Message& packet : Message(bytes).messages(1)) {
    EXPECT_EQ(packet.number(10), 1u) << "all of one sequence";
    EXPECT_EQ(packet.number(13), first ? 3u : 2u);
    first = false;
    if (packet.has(12)) {
      for (const Message& name : packet.message(12).messages(2)) names[name.number(1)] = name.text(2);
      for (const Message& name : packet.message(12).messages(1)) categories[name.number(1)] = name.text(2);
    }
    if (packet.has(60)) {
      const Message track = packet.message(60);
      std::string name = track.text(2);
      if (track.has(3)) {
        EXPECT_EQ(track.message(3).text(6), name);
      }
      if (track.has(5)) name = tracks.at(track.number(5)) + "/" + name;
      EXPECT_TRUE(tracks.emplace(track.number(1), name).second) << "tracks have numbers of their own";
      if (track.has(8)) {
        EXPECT_EQ(track.message(8).text(6), "B/s");
      }
    }
    if (!packet.has(11)) continue;
    const Message event = packet.message(11);
    const uint64_t at = packet.number(8), track = event.number(11);
    const std::string& on = tracks.at(track);
    switch (event.number(9)) {
      case 1:
        EXPECT_EQ(open.count(track), 0u) << "spans of a track do not overlap";
        open[track] = at;
        open_name[track] = names.at(event.number(10)) + " (" + categories.at(event.number(3)) + ")";
        break;
      case 2:
        result[on].push_back(std::to_string(open.at(track)) + "-" + std::to_string(at) + " " + open_name[track]);
        open.erase(track);
        break;
      case 4:
        result[on].push_back(std::to_string(at) + " " + std::to_string(static_cast<int64_t>(event.real(44))));
        break;
      default: ADD_FAILURE() << "an event of type " << event.number(9);
    }
  }
  EXPECT_TRUE(open.empty());
  return result;
}

TEST(Perfetto, ATraceReadsBackAsTheTimelines) {
  const auto tracks = decoded(perfetto_trace(two_devices()));
  const std::string first = "stage 0, each of devices 0, 1", second = "stage 1, device 2";
  const std::map<std::string, std::vector<std::string>> expected = {
      {first + "/runs", {"0-1500000000 forward 0, micro-batch 1 (compute)"}},
      {first + "/work",
       {"0-1000000000 layer0/attention (compute)", "1000000000-1500000000 sum (exchange)",
        "1500000000-2000000000 sum (wait)"}},
      {first + "/streaming memory 1",
       {"0-1000000000 load 'weights' (streaming)", "1000000000-1250000000 load 'weights' (streaming)"}},
      {first + "/streaming memory 2", {"500000000-2000000000 load 'weights' (streaming)"}},
      {second + "/work", {"0-2000000000 sum (wait)"}},
      {"links", {"1000000000 1000000000", "1500000000 0"}}};
  EXPECT_EQ(tracks, expected);
}

TEST(Perfetto, DevicesAreNamedInRuns) {
  EXPECT_EQ(devices_text({3}), "3");
  EXPECT_EQ(devices_text({0, 1, 4, 5, 6}), "0, 1, 4 to 6");
  EXPECT_EQ(devices_text({0, 2, 4, 6, 8}), "0, 2, 4, 6, ... (5 in all)");
}

TEST(Timeline, APictureHasEverySpanThatCanBeSeen) {
  const std::string svg = timeline_svg(two_devices(), "a <model> on a machine");
  EXPECT_NE(svg.find("a &lt;model&gt; on a machine"), std::string::npos);
  EXPECT_NE(svg.find("stage 0 (2 devices)"), std::string::npos);
  EXPECT_NE(svg.find("<title>layer0/attention\nforward 0, micro-batch 1\ncompute, 0 s to 1 s</title>"),
            std::string::npos);
  EXPECT_NE(svg.find("<title>sum\nforward 0, micro-batch 1\nexchange, 1 s to 1.5 s</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>sum\nwait, 1.5 s to 2 s</title>"), std::string::npos);
  EXPECT_NE(svg.find("<polygon"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Timeline, ThousandsOfShortSpansAreFewRectangles) {
  Simulation simulation = two_devices();
  auto& work = simulation.timelines[0].work;
  work.clear();
  for (int i = 0; i < 100'000; ++i) work.push_back({i * 2e-5, i * 2e-5 + 1e-5, Activity::kCompute, 0});
  const std::string svg = timeline_svg(simulation, "many");
  EXPECT_LT(svg.size(), 500'000u);
  EXPECT_NE(svg.find("many short ones"), std::string::npos);
}

TEST(SimulationReport, TablesAndJson) {
  Simulation simulation = two_devices();
  simulation.devices = 2;
  simulation.bubble = 0.25;
  simulation.stages.resize(2);
  simulation.stages[0].work.seconds = 1;
  simulation.stages[0].exchanging = 0.5;
  simulation.stages[0].waiting = 0.5;
  simulation.stages[1].waiting = 2;
  std::vector<Executable> stages(2);
  const std::string text = text_of(simulation, stages);
  EXPECT_NE(text.find("stage  devices  compute  exchange  streaming    wait  memory"), std::string::npos) << text;
  EXPECT_NE(text.find("0            1    50.0%     25.0%       0.0%   25.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("links"), std::string::npos);
  EXPECT_NE(text.find("12.5%"), std::string::npos) << "5e8 bytes over two links of 1e9 in two seconds: " << text;
  const std::string json = json_of(simulation, stages);
  EXPECT_NE(json.find("\"step_seconds\":2.0,\"bubble\":0.25"), std::string::npos) << json;
  EXPECT_NE(json.find("\"use\":0.125,\"busiest_use\":0.25"), std::string::npos) << json;
}

}  // namespace
}  // namespace ramet::tests
