#include "ramet/track/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ramet/base/file.h"
#include "ramet/base/proto.h"
#include "ramet/track/event_file_writer.h"
#include "ramet/track/tf_record.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::vector<FileEvent> events_of(std::string_view file, int64_t skipped = 0) {
  std::vector<FileEvent> events;
  EXPECT_EQ(read_tf_records(file, [&](std::string_view payload) { events.push_back(parse_event(payload)); }), skipped);
  return events;
}

// The bytes were made by a program of its own, bit by bit: the CRC-32C of "123456789" is 0xE3069283.
TEST(TfRecord, BytesAreThoseOfTheFormat) {
  EXPECT_EQ(tf_record("123456789"), from_hex("090000000000000037f97139313233343536373839e5b08ac7"));
}

TEST(TfRecord, DamageCostsNoMoreThanARecord) {
  const std::string one = tf_record("one"), two = tf_record("two, which is longer"), three = tf_record("");
  const auto read = [](const std::string& file) {
    std::vector<std::string> payloads;
    const int64_t skipped = read_tf_records(file, [&](std::string_view payload) { payloads.emplace_back(payload); });
    return std::pair(payloads, skipped);
  };
  EXPECT_THAT(read(one + two + three), Pair(ElementsAre("one", "two, which is longer", ""), 0));
  EXPECT_THAT(read("junk" + one + "junk" + two), Pair(ElementsAre("one", "two, which is longer"), 8));
  for (size_t at = 0; at < two.size(); ++at) {
    std::string damaged = two;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    EXPECT_THAT(read(one + damaged + three), Pair(ElementsAre("one", ""), static_cast<int64_t>(two.size()))) << at;
  }
  for (size_t size = 1; size < two.size(); ++size)
    EXPECT_THAT(read(one + two.substr(0, size)), Pair(ElementsAre("one"), static_cast<int64_t>(size))) << size;
  EXPECT_TRUE(begins_with_tf_record(one + "junk"));
  EXPECT_FALSE(begins_with_tf_record("junk" + one));
  EXPECT_FALSE(begins_with_tf_record(""));
}

TEST(EventFile, BytesAreThoseOfTheFormat) {
  EXPECT_EQ(event_file::version(1.5),
            from_hex("1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"));
  const std::vector<LoggedNumber> values = {{"loss", 0.5}};
  EXPECT_EQ(event_file::scalars(2.0, 7, values),
            from_hex("1a00000000000000129bd82d09000000000000004010072a0d0a0b0a046c6f7373150000003fc33fc24a"));
}

TEST(EventFile, ReadsBackWhatItWrites) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<LoggedNumber> values = {{"a", 1.5}, {"b/c", std::nan("")}, {"d", -infinity}};
  const Histogram histogram{.edges = {-1, 0, 2}, .counts = {3, 4}};
  const std::vector<FileEvent> events =
      events_of(event_file::version(10) + event_file::scalars(11.25, -3, values) +
                event_file::text(12, 4, "note", "**bold**") + event_file::image(13, 5, "picture", "\x89PNG...", 2, 3) +
                event_file::histogram(14, 6, "weights", histogram) + event_file::restart(15, 4));
  ASSERT_EQ(events.size(), 6u);
  for (const FileEvent& event : events) EXPECT_FALSE(event.damaged);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].time, 11.25);
  EXPECT_EQ(events[1].step, -3);
  ASSERT_EQ(events[1].values.size(), 3u);
  EXPECT_EQ(events[1].values[0].kind, EventValue::Kind::kScalar);
  EXPECT_EQ(events[1].values[0].scalar, 1.5);
  EXPECT_EQ(events[1].values[1].tag, "b/c");
  EXPECT_TRUE(std::isnan(events[1].values[1].scalar));
  EXPECT_EQ(events[1].values[2].scalar, -infinity);
  EXPECT_EQ(events[2].values[0].kind, EventValue::Kind::kText);
  EXPECT_THAT(events[2].values[0].parts, ElementsAre("**bold**"));
  EXPECT_EQ(events[3].values[0].kind, EventValue::Kind::kImage);
  EXPECT_THAT(events[3].values[0].parts, ElementsAre("\x89PNG..."));
  EXPECT_EQ(events[4].values[0].kind, EventValue::Kind::kHistogram);
  EXPECT_EQ(events[4].values[0].histogram.edges, histogram.edges);
  EXPECT_EQ(events[4].values[0].histogram.counts, histogram.counts);
  EXPECT_TRUE(events[5].restart);
  EXPECT_EQ(events[5].step, 4);
}

TEST(EventFile, ASessionKeepsTheConfiguration) {
  const std::vector<ConfigValue> config = {
      {"lr", "0.001"}, {"steps", "5"}, {"on", "true"}, {"name", "\"x\""}, {"list", "[1,2]"}};
  const auto begun = events_of(event_file::begin_session(100, config)),
             ended = events_of(event_file::end_session(200, false));
  ASSERT_EQ(begun.at(0).values.size(), 1u);
  ASSERT_EQ(begun[0].values[0].kind, EventValue::Kind::kSession);
  const EventSession session = parse_session(begun[0].values[0].session),
                     end = parse_session(ended.at(0).values.at(0).session);
  EXPECT_EQ(session.started, 100);
  EXPECT_THAT(session.config, ElementsAre(Pair("lr", "0.001"), Pair("steps", "5.0"), Pair("on", "true"),
                                          Pair("name", "\"x\""), Pair("list", "\"[1,2]\"")));
  EXPECT_EQ(end.status, 2);
  EXPECT_EQ(end.ended, 200);
}

/// An event with one value of these bytes.
EventValue value_of(const ProtoMessage& value) {
  ProtoMessage summary, event;
  summary.message(1, value);
  event.message(5, summary);
  return parse_event(event.data()).values.at(0);
}

TEST(EventFile, ScalarsOfEveryTypeOfTensor) {
  const auto tensor = [](int type, int field, const ProtoMessage& number) {
    ProtoMessage message, value;
    message.number(1, static_cast<uint64_t>(type));
    value.bytes(1, "x").bytes(8, message.data() + number.data());
    (void)field;
    return value_of(value).scalar;
  };
  EXPECT_EQ(tensor(1, 5, ProtoMessage().single(5, 0.5f)), 0.5);                         // float_val
  EXPECT_EQ(tensor(1, 5, ProtoMessage().bytes(5, std::string("\0\0\0\x3f", 4))), 0.5);  // the same, packed
  EXPECT_EQ(tensor(2, 6, ProtoMessage().real(6, 0.1)), 0.1);
  EXPECT_EQ(tensor(3, 7, ProtoMessage().number(7, static_cast<uint64_t>(-4))), -4);
  EXPECT_EQ(tensor(9, 10, ProtoMessage().bytes(10, "\x96\x01")), 150);
  EXPECT_EQ(tensor(10, 11, ProtoMessage().number(11, 1)), 1);
  EXPECT_EQ(tensor(19, 13, ProtoMessage().number(13, 0x3800)), 0.5);                    // half
  EXPECT_EQ(tensor(14, 13, ProtoMessage().number(13, 0x3f00)), 0.5);                    // bfloat16
  EXPECT_EQ(tensor(1, 4, ProtoMessage().bytes(4, std::string("\0\0\0\x3f", 4))), 0.5);  // tensor_content
  EXPECT_EQ(tensor(9, 4, ProtoMessage().bytes(4, std::string("\5\0\0\0\0\0\0\0", 8))), 5);
  EXPECT_EQ(tensor(5, 4, ProtoMessage().bytes(4, std::string("\xff\xff", 2))), -1);
  ProtoMessage two, value;
  two.number(1, 1).single(5, 1).single(5, 2);
  value.bytes(1, "x").message(8, two);
  EXPECT_EQ(value_of(value).kind, EventValue::Kind::kOther) << "two numbers are no scalar";
}

TEST(EventFile, HistogramsOfPyTorch) {
  ProtoMessage histogram, value;
  histogram.real(1, -2).real(2, 3).real(3, 5);
  for (const double limit : {-1.0, 0.0, std::numeric_limits<double>::max()}) histogram.real(6, limit);
  for (const double count : {1.0, 1.0, 3.0}) histogram.real(7, count);
  value.bytes(1, "h").message(5, histogram);
  const EventValue read = value_of(value);
  ASSERT_EQ(read.kind, EventValue::Kind::kHistogram);
  EXPECT_THAT(read.histogram.edges, ElementsAre(-2, -1, 0, 3));
  EXPECT_THAT(read.histogram.counts, ElementsAre(1, 1, 3));
}

TEST(EventFile, HistogramsAsJson) {
  const Histogram histogram{.edges = {0, 0.5}, .counts = {7}};
  EXPECT_EQ(json_of(histogram), "{\"counts\":[7.0],\"edges\":[0.0,0.5]}");
  EXPECT_EQ(parse_histogram(json_of(histogram))->counts, histogram.counts);
  for (const char* text : {"", "[]", "{}", "{\"edges\":[0],\"counts\":[1]}", "{\"edges\":[0,\"a\"],\"counts\":[1]}"})
    EXPECT_FALSE(parse_histogram(text)) << text;
  EXPECT_FALSE(parse_histogram(std::string(100000, '[')));
}

TEST(EventFileWriter, GrowsAsTheRunGoesOn) {
  const TemporaryFolder folder;
  EventFileWriter first(folder / "events"), second(folder / "events");
  EXPECT_NE(first.path(), second.path());
  EXPECT_NE(first.path().filename().string().find("events.out.tfevents."), std::string::npos);
  for (int step = 1; step <= 3; ++step) {
    const std::vector<LoggedNumber> values = {{"loss", 1.0 / step}};
    first.scalars(step, values);
  }
  EXPECT_TRUE(first.flush());
  EXPECT_EQ(first.dropped(), 0);
  const std::vector<FileEvent> events = events_of(read_file(first.path()));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[3].step, 3);
  EXPECT_EQ(events[3].values.at(0).scalar, static_cast<double>(1.0f / 3));
  EXPECT_GT(events[3].time, 1.7e9);
}

}  // namespace
}  // namespace ramet::tests
